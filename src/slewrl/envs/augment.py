"""The augmented state s~ = (s, a_prev): a rate-limited problem is Markov only with the last executed action in it."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from slewrl.limits import RateLimits
from slewrl.metrics import RateUse, rate_use


class Augment(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Appends the previous executed action to the observation and keeps the chain of actions for the audit.

    The last d entries of the observation are the very array last handed to ``env.step`` (after a reset: the reset
    action), unnormalised. The wrapper never changes an action: it is there to be judged. When an episode ends,
    ``info["rate_use"]`` holds its utilisation and its exact number of violations.

    Args:
        env: with a flat observation and a bounded Box action of d entries.
        limits: of d joints, in the environment's action units.
        reset_action: what counts as executed before the first step, (d,); default 0, or the nearest in range.
    """

    def __init__(self, env: gym.Env[Any, Any], limits: RateLimits, reset_action: NDArray[Any] | None = None) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, limits=limits, reset_action=reset_action)
        gym.Wrapper.__init__(self, env)
        check_spaces(env, limits)
        self.limits = limits
        self.dtype: Any = env.action_space.dtype
        self.reset_action = start_action(limits, reset_action, self.dtype)
        spaces: tuple[Any, Any] = (env.observation_space, env.action_space)
        low, high = (np.concatenate([getattr(s, k) for s in spaces]).astype(self.dtype) for k in ("low", "high"))
        self.observation_space = Box(low, high, dtype=self.dtype)  # type: ignore[arg-type]
        self.chain: list[NDArray[Any]] = [self.reset_action]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the reset action as the previous one."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.chain = [self.reset_action]
        return self._augmented(observation), info

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Hand the action on unchanged, and remember it."""
        executed = np.array(action, dtype=self.dtype)  # a copy: the caller may reuse its buffer
        observation, reward, terminated, truncated, info = self.env.step(executed)
        self.chain.append(executed)
        if terminated or truncated:
            info = {**info, "rate_use": self.rate_use()}
        return self._augmented(observation), reward, terminated, truncated, info

    def rate_use(self) -> RateUse:
        """Utilisation and violations of the episode so far."""
        return rate_use(np.stack(self.chain), self.limits)

    def _augmented(self, observation: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([observation, self.chain[-1]], dtype=self.dtype, casting="same_kind")


def check_spaces(env: gym.Env[Any, Any], limits: RateLimits) -> None:
    """Refuse an environment the limits do not fit, saying why."""
    action: Any = env.action_space
    if not isinstance(action, Box) or len(action.shape) != 1:
        raise ValueError(f"{_name(env)}: action space is {action}, expected a flat Box (rate limits need numbers)")
    if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        raise ValueError(f"{_name(env)}: action space {action} is unbounded, expected finite bounds")
    if action.shape[0] != limits.dim:
        raise ValueError(f"{_name(env)}: {action.shape[0]} actions, but limits for {limits.dim}: {limits.names}")
    observation: Any = env.observation_space
    if not isinstance(observation, Box) or len(observation.shape) != 1:
        raise ValueError(f"{_name(env)}: observation space is {observation}, expected a flat Box (wrap it first)")
    # The space's bounds are float32 images of the model's; an ulp beyond the limits' range is no mismatch.
    slack = 1e-6 * (limits.high - limits.low)
    for i, name in enumerate(limits.names):
        if limits.low[i] < action.low[i] - slack[i] or limits.high[i] > action.high[i] + slack[i]:
            raise ValueError(
                f"{_name(env)}: limits let {name!r} range over [{limits.low[i]}, {limits.high[i]}], beyond the action "
                f"space's [{action.low[i]}, {action.high[i]}]"
            )


def start_action(limits: RateLimits, wanted: NDArray[Any] | None, dtype: Any) -> NDArray[Any]:
    """The reset action in the environment's dtype: ``wanted``, or 0 moved into the range."""
    import torch

    pose = np.zeros(limits.dim) if wanted is None else np.asarray(wanted, dtype=np.float64)
    if pose.shape != (limits.dim,):
        raise ValueError(f"reset_action has shape {pose.shape}, expected ({limits.dim},)")
    if wanted is not None and not ((pose >= limits.low) & (pose <= limits.high)).all():
        raise ValueError(f"reset_action {pose} lies outside the range [{limits.low}, {limits.high}]")
    start: NDArray[Any] = limits.clamp(torch.from_numpy(pose.astype(dtype))).numpy()
    return start


def _name(env: gym.Env[Any, Any]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
