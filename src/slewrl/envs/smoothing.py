"""What people do against shaking, as Gymnasium wrappers: filters of commands, delta actions, a price on the change.

    env = FilterCommands(gym.make("HalfCheetah-v5"), "ema", cutoff=3.0)  # no limit
    env = FilterCommands(RateLimit(gym.make("HalfCheetah-v5"), "tight", mode="absolute"), "ema", cutoff=3.0)
    env = FilterCommands(RateLimit(gym.make("HalfCheetah-v5"), "tight"), "ema", cutoff=3.0)  # of latents
    env = ActionRatePenalty(gym.make("HalfCheetah-v5"), 0.01)

None of them keeps a limit by itself. With a ``RateLimit`` in mode "absolute" inside, whatever the filter makes of a
command is clipped to F_t, exactly, and the filter goes on from the command that was applied. With one in mode "latent"
inside, the filter is of latents, in DD-SRad of the share of the limit to use, and the layer keeps the limit.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from slewrl.calm.filters import Butterworth, CommandFilter, DeltaCommand, ExponentialAverage
from slewrl.envs.augment import Augment, books_of, check_action_space, reset_needed
from slewrl.envs.state import Remembers
from slewrl.limits import RateLimits
from slewrl.registry import Registry

Kind = Literal["ema", "butterworth", "delta"]
APPLIED = "applied_action"
"""The entry of ``info`` with the command that the environment got, of a ``RateLimit``."""


class FilterCommands(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs, Remembers):
    """Filters commands; ``info["applied_action"]`` is what the environment got.

    Args:
        env: an environment with a bounded Box action of d entries and a flat observation. Of a ``RateLimit`` in mode
            "absolute" inside, the filter goes on from the applied commands; of one in mode "latent" it filters latents.
        kind: "ema", the exponential moving average; "butterworth", of second order; "delta", whose actions in [-1, 1]
            are changes.
        cutoff: Hz, of "ema" and "butterworth".
        scale: of "delta", the largest change per step, a number or one per joint.
        dt: seconds per step; default: the environment's.
        observed: whether the filter's memory is part of the observation, without which a policy cannot know it: before
            the previous action of a ``RateLimit``, which stays last. An average's is that action already.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        kind: Kind,
        cutoff: float | None = None,
        scale: Any = None,
        dt: float | None = None,
        observed: bool = True,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, kind=kind, cutoff=cutoff, scale=scale, dt=dt, observed=observed)
        gym.Wrapper.__init__(self, env)
        space: Any = env.action_space
        check_action_space(str(env), space)
        self.books = books_of(env)
        self.latent = getattr(self.books, "mode", "absolute") == "latent"
        self.low, self.high, self.dtype = space.low, space.high, space.dtype
        self.filter = _filter(env, kind, cutoff, scale, dt)
        if kind == "delta":
            self.action_space = Box(-1.0, 1.0, space.shape, space.dtype)
        known = self.books is not None and self.filter.memories == 1 and not self.latent  # it is the previous action
        self.observed = observed and not known
        self._end = -self.books.limits.appended if self.books else None
        if self.observed:
            self.observation_space = self._space(env.observation_space, len(space.low))

    @property
    def memory(self) -> NDArray[Any]:
        """That of the filter."""
        return self.filter.memory

    @memory.setter
    def memory(self, memory: NDArray[Any]) -> None:
        self.filter.memory = np.array(memory)

    def _space(self, space: Any, joints: int) -> Box:
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise ValueError(f"observation space is {space}, expected a flat Box, or observed=False")
        free = np.full(self.filter.memories * joints, np.inf)
        low, high = self._joined(space.low, -free), self._joined(space.high, free)
        return Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype.type)

    def _joined(self, observation: NDArray[Any], memory: NDArray[Any]) -> NDArray[Any]:
        end = len(observation) if self._end is None else self._end
        return np.concatenate([observation[:end], memory.astype(observation.dtype), observation[end:]])

    def _seen(self, observation: Any) -> Any:
        return self._joined(observation, self.memory.ravel()) if self.observed else observation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, the filter at rest: at the reset action of a ``RateLimit`` or of ``info``, or at 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        first = np.clip(np.zeros_like(self.low), self.low, self.high)
        known = self.books.reset_action if self.books else info.get("reset_action", first)
        self.filter.reset(first if self.latent else known)
        return self._seen(observation), info

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment with the filtered command."""
        if not hasattr(self.filter, "memory"):
            raise reset_needed(str(self))
        asked = np.asarray(action, self.dtype)
        command = np.clip(self.filter.propose(asked), self.low, self.high).astype(self.dtype)
        observation, reward, terminated, truncated, info = self.env.step(command)
        info = {APPLIED: command, **info}
        self.filter.applied(asked, command if self.latent else info[APPLIED])
        return self._seen(observation), reward, terminated, truncated, info


def _filter(env: gym.Env[Any, Any], kind: str, cutoff: float | None, scale: Any, dt: float | None) -> CommandFilter:
    if kind not in get_args(Kind):
        raise ValueError(f"filter is {kind!r}, expected one of {', '.join(get_args(Kind))}")
    if kind == "delta":
        if scale is None or cutoff is not None:
            raise ValueError("filter 'delta' takes a scale, the largest change per step, and no cutoff")
        return DeltaCommand(scale)
    dt = dt or getattr(env.unwrapped, "dt", None)
    if cutoff is None or scale is not None:
        raise ValueError(f"filter {kind!r} takes a cutoff, in Hz, and no scale")
    if dt is None:
        raise ValueError(f"{env} has no dt: give the seconds per step")
    return Butterworth(cutoff, dt) if kind == "butterworth" else ExponentialAverage.of_cutoff(cutoff, dt)


class ActionRatePenalty(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs, Remembers):
    """Takes ``weight`` |a_t - a_{t-1}|^2 off the reward: ``action_rate_l2`` as IsaacLab and others have it.

    a_t is the command that the environment got, in its units, and before the first step that of the reset: of an
    ``Augment`` or ``RateLimit`` inside, ``info["reset_action"]``, or 0. Exploration is charged for, too.
    ``info["action_rate_l2"]`` is |a_t - a_{t-1}|^2.
    """

    def __init__(self, env: gym.Env[Any, Any], weight: float) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, weight=weight)
        gym.Wrapper.__init__(self, env)
        if not 0 <= weight < np.inf:
            raise ValueError(f"weight is {weight}, expected a finite number >= 0")
        self.weight, self.books = weight, books_of(env)
        self.memory = np.zeros(env.action_space.shape or ())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        known = info.get("reset_action", np.zeros(self.memory.shape))
        self.memory = np.array(self.books.reset_action if self.books else known, np.float64)
        return observation, info

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and charge for the change of the action."""
        taken = np.array(action, np.float64)  # a copy: an environment may scale what it is handed in place
        observation, reward, terminated, truncated, info = self.env.step(action)
        taken = np.array(info.get(APPLIED, taken), np.float64)
        rate = float(np.square(taken - self.memory).sum())
        self.memory = taken
        price: Any = reward - self.weight * rate  # type: ignore[operator]
        return observation, price, terminated, truncated, {**info, "action_rate_l2": rate}


# ---------------------------------------------------------------------- as options of a run


@dataclass(frozen=True)
class Smoothing:
    """Options of Gymnasium tasks: what stands between the policy and the actuators, and what shaking costs."""

    filter: str = ""
    """"ema" or "butterworth": the policy's commands (--layer none) are filtered, then clipped to F_t."""
    cutoff: float = 3.0
    """Hz, of the filter."""
    observed: bool = True
    """Whether the policy sees the filter's memory; an average's is the previous action, which it sees anyway."""
    action_rate_l2: float = 0.0
    """Weight of |a_t - a_{t-1}|^2, taken off the reward in training; evaluations have the task's own reward."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.filter not in ("", "ema", "butterworth"):
            raise ValueError(f"task.filter is {self.filter!r}, expected 'ema' or 'butterworth'")
        for name, low in (("cutoff", 1e-9), ("action_rate_l2", 0.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < np.inf:
                raise ValueError(f"task.{name} is {value!r}, expected a finite number {'>= 0' if not low else '> 0'}")
        if not isinstance(self.observed, bool):
            raise ValueError(f"task.observed is {self.observed!r}, expected true or false")

    def limited(self, env: gym.Env[Any, Any], limits: RateLimits, training: bool = True) -> gym.Env[Any, Any]:
        """The environment with the history of commands, the filter, and in training the price."""
        made = self._filtered(env, limits) if self.filter else Augment(env, limits)
        return ActionRatePenalty(made, self.action_rate_l2) if training and self.action_rate_l2 else made

    def _filtered(self, env: gym.Env[Any, Any], limits: RateLimits) -> gym.Env[Any, Any]:
        """The environment behind the filter and the limit."""
        behind = Registry("wrapper", {"limit": "slewrl.integrations.gymnasium:RateLimit"})["limit"]
        kind: Any = self.filter
        return FilterCommands(
            behind(env, limits, mode="absolute"), kind, self.cutoff, dt=limits.dt, observed=self.observed
        )


OPTIONS = tuple(field.name for field in fields(Smoothing))
