"""Stepping an environment one cannot trust: what it raises and what is no number is reported with its place."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from slewrl.errors import UserFacingError


class BrokenEnvironmentError(UserFacingError):
    """The environment raised, or gave a number that is none; the message says which one, when and what."""


def checked_reset(env: gym.Env[Any, Any], where: str, seed: int | None = None) -> NDArray[np.float32]:
    """The first observation of an episode, in float32."""
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise BrokenEnvironmentError(f"{where}, at its reset: {type(error).__name__}: {error}") from error
    return _finite(observation, where)


def checked_step(
    env: gym.Env[Any, Any], action: NDArray[Any], where: str
) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
    """One step: the observation in float32, reward, terminated, truncated, info."""
    try:
        observation, given, terminated, truncated, info = env.step(action)
    except Exception as error:
        raise BrokenEnvironmentError(f"{where}: {type(error).__name__}: {error}") from error
    seen, reward = _finite(observation, where), float(given)
    if not math.isfinite(reward):
        raise BrokenEnvironmentError(f"{where}: the reward is {reward}, expected a finite number")
    return seen, reward, bool(terminated), bool(truncated), info


def _finite(observation: NDArray[Any], where: str) -> NDArray[np.float32]:
    if not np.isfinite(observation).all():
        i = int(np.flatnonzero(~np.isfinite(observation))[0])
        raise BrokenEnvironmentError(f"{where}: observation[{i}] is {observation[i]}, expected a finite number")
    return np.asarray(observation, dtype=np.float32)
