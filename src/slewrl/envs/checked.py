"""Stepping an untrusted environment: what it raises, and values that are no numbers, are reported with their place."""

import math
import traceback
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray

from slewrl.errors import UserFacingError, shortened


class BrokenEnvironmentError(UserFacingError):
    """The environment raised an error or returned an invalid value; the message says which one, when and what."""


PARTS = {
    "reset": (2, "a pair: observation, info"),
    "step": (5, "five: observation, reward, terminated, truncated, info"),
}
"""What a method of an environment returns: how many values, and which."""


def returned(env: Any, name: str, which: str, *args: Any, **kwargs: Any) -> Any:
    """Call ``which``, "reset" or "step", of an environment called ``name``; refuses what Gymnasium does not allow."""
    count, expected = PARTS[which]
    try:
        parts = getattr(env, which)(*args, **kwargs)
    except (TypeError, ValueError) as error:
        if not _unpacked_by_gymnasium(error):
            raise
        message = f"{name}: {which} returned something else, expected {expected} ({error})"
        raise BrokenEnvironmentError(message) from error
    if not isinstance(parts, tuple) or len(parts) != count:
        what = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else shortened(parts)
        raise BrokenEnvironmentError(f"{name}: {which} returned {what}, expected {expected}")
    if not isinstance(parts[-1], dict):
        raise BrokenEnvironmentError(
            f"{name}: {which} returned an info that is {shortened(parts[-1])}, expected a dict"
        )
    _check_shape(f"{name}: {which} returned an observation", parts[0], env.observation_space)
    return parts


def _unpacked_by_gymnasium(error: Exception) -> bool:
    """Whether a wrapper of Gymnasium's, such as TimeLimit, could not unpack what an environment returned."""
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    return "unpack" in str(error) and "gymnasium" in Path(where).parts


def _check_shape(what: str, observation: Any, space: Any) -> None:
    if isinstance(space, Dict):
        for key, part in space.spaces.items():
            if not isinstance(observation, dict) or key not in observation:
                raise BrokenEnvironmentError(f"{what} without {key!r}, expected {', '.join(space.spaces)}")
            _check_shape(f"{what} {key!r}", observation[key], part)
    elif isinstance(space, Box) and (found := np.shape(observation)) != space.shape:
        is_what = "that is None, expected shape" if observation is None else f"of shape {found}, expected"
        raise BrokenEnvironmentError(f"{what} {is_what} {space.shape}")


def checked_reset(env: gym.Env[Any, Any], where: str, seed: int | None = None) -> NDArray[np.float32]:
    """The first observation of an episode, in float32."""
    try:
        observation, _ = env.reset(seed=seed)
    except Exception as error:
        raise BrokenEnvironmentError(f"{where}, at its reset: {_told(env, error)}") from error
    return _finite(observation, where)


def checked_step(
    env: gym.Env[Any, Any], action: NDArray[Any], where: str
) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
    """One step: the observation in float32, reward, terminated, truncated, info."""
    try:
        observation, given, terminated, truncated, info = env.step(action)
    except Exception as error:
        raise BrokenEnvironmentError(f"{where}: {_told(env, error)}") from error
    return _finite(observation, where), _number(given, where), bool(terminated), bool(truncated), info


def _told(env: gym.Env[Any, Any], error: Exception) -> str:
    """The error in words, without the environment's name."""
    if isinstance(error, BrokenEnvironmentError):
        return str(error).removeprefix(f"{getattr(env, 'name', '')}: ")
    return f"{type(error).__name__}: {error}"


def _number(reward: Any, where: str) -> float:
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BrokenEnvironmentError(f"{where}: the reward is {shortened(reward)}, expected a finite number")
    return number


def _finite(observation: NDArray[Any], where: str) -> NDArray[np.float32]:
    if not np.isfinite(observation).all():
        i = int(np.flatnonzero(~np.isfinite(observation))[0])
        raise BrokenEnvironmentError(f"{where}: observation[{i}] is {observation[i]}, expected a finite number")
    return np.asarray(observation, dtype=np.float32)
