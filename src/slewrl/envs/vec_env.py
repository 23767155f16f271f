"""VecEnv: N copies of a task that step together. What training and evaluation see, whatever simulates them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import RateLimits

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Mirror:
    """The left-right mirror image as a signed permutation: ``image = sign * x[..., index]``."""

    observation_index: NDArray[np.int64]
    observation_sign: Floats
    """(n,) each, for augmented observations."""
    action_index: NDArray[np.int64]
    action_sign: Floats
    """(d,) each."""


@dataclass(frozen=True)
class Layout:
    """What the n entries of an augmented observation are; the last d are the previous action, always."""

    size: int
    """n."""
    privileged: int = 0
    """How many of the first entries only critics may see, since no sensor of the robot gives them."""
    mirror: Mirror | None = None
    """The task's left-right symmetry, if it has one."""
    parts: tuple[tuple[str, int], ...] = ()
    """Name and length of each part an actor sees, without the previous action; empty if they have no names."""


class StepResult(NamedTuple):
    """One step of N worlds."""

    next_obs: Floats
    """(N, n): what was seen after the step; where an episode ended its own last observation, not the next reset's."""
    reward: Floats
    """(N,)"""
    terminated: NDArray[np.bool_]
    """(N,): no value follows."""
    ended: NDArray[np.bool_]
    """(N,): terminated or cut off; the world has begun its next episode."""


@dataclass(frozen=True)
class Episode:
    """An episode that is over."""

    total: float
    """Sum of its rewards."""
    actions: NDArray[Any]
    """(T + 1, d): the reset action, then what the actuators were given at each of T steps."""
    measures: dict[str, float] = field(default_factory=dict)
    """What else the task measures, each a mean over the steps or a 0/1 (docs/metrics.md)."""


def check_period(task: str, limits: RateLimits, period: float) -> None:
    """Refuse limits per step of another length than the task's."""
    if limits.dt is not None and abs(limits.dt - period) > 1e-9:
        raise ValueError(f"{task}: a control step takes {period:g} s, but the limits are per step of {limits.dt:g} s")


class VecEnv(Protocol):
    """N copies of a task, each with an episode under way."""

    count: int
    """N."""
    limits: RateLimits
    layout: Layout
    observations: Floats
    """(N, n), augmented: what the next actions are chosen by. ``step`` puts another array in its place."""
    episodes: list[Episode]
    """Those that ended in the last ``step``, in the order of their worlds."""

    @property
    def reset_action(self) -> Floats:
        """(d,): what counts as executed before the first step; of the first world, where they differ."""

    @property
    def dt(self) -> float | None:
        """Control period in seconds, if the task has one."""

    def reset(self, seed: int) -> None:
        """Begin a first episode everywhere; all that is random follows from the seed."""

    def step(self, executed: Floats) -> StepResult:
        """Hand each world its action (N, d), unchanged, and begin a new episode where one ended."""

    def violations(self) -> int:
        """Joint steps outside F_t, counted exactly, in the episodes under way."""

    def episode_actions(self) -> list[NDArray[Any]]:
        """The actions executed in each episode under way, (T + 1, d), the one before the first step included."""

    def get_state(self) -> dict[str, Any] | None:
        """What ``set_state`` needs to go on bit for bit, as numbers and arrays; None if nobody knows."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that ``get_state`` took of worlds made with the same arguments."""
