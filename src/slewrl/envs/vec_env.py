"""VecEnv: N environments of a task that step together, as training and evaluation see them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import RateLimits

if TYPE_CHECKING:
    from slewrl.calm.metrics import Effort

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

    @property
    def of_observations(self) -> tuple[NDArray[np.int64], Floats]:
        """Index and sign for observations."""
        return self.observation_index, self.observation_sign

    @property
    def of_actions(self) -> tuple[NDArray[np.int64], Floats]:
        """Index and sign for actions."""
        return self.action_index, self.action_sign


@dataclass(frozen=True)
class Layout:
    """What the n entries of an augmented observation are; the last d are always the previous action."""

    size: int
    """n."""
    privileged: int = 0
    """How many of the first entries only critics may see, since no sensor of the robot measures them."""
    mirror: Mirror | None = None
    """The task's left-right symmetry, if it has one."""
    parts: tuple[tuple[str, int], ...] = ()
    """Name and length of each part that an actor sees, without the previous action; empty if they have no names."""


class StepResult(NamedTuple):
    """One step of N environments."""

    next_obs: Floats
    """(N, n): the observation after the step; where an episode ended its last one, not that of the next reset."""
    reward: Floats
    """(N,)"""
    terminated: NDArray[np.bool_]
    """(N,): the episode ended in a terminal state."""
    ended: NDArray[np.bool_]
    """(N,): terminated or truncated; the environment has begun its next episode."""


@dataclass(frozen=True)
class Episode:
    """An episode that has ended."""

    total: float
    """Sum of its rewards."""
    actions: NDArray[Any]
    """(T + 1, d): the reset action, then the action that the actuators got at each of T steps."""
    measures: dict[str, float] = field(default_factory=dict)
    """What else the task measures, each a mean over the steps or 0 or 1 (docs/metrics.md)."""
    effort: "Effort | None" = None
    """What the actuators did, where the task tells."""


def check_period(task: str, limits: RateLimits, period: float) -> None:
    """Refuse limits for another control period than the task's."""
    if limits.dt is not None and abs(limits.dt - period) > 1e-9:
        raise ValueError(f"{task}: a control step takes {period:g} s, but the limits are per step of {limits.dt:g} s")


class VecEnv(Protocol):
    """N environments of a task, each within an episode."""

    count: int
    """N."""
    limits: RateLimits
    layout: Layout
    observations: Floats
    """(N, n): the current augmented observations. ``step`` replaces the array."""
    episodes: list[Episode]
    """The episodes that ended in the last ``step``, in the order of their environments."""

    @property
    def reset_action(self) -> Floats:
        """(d,): what counts as executed before the first step; that of the first environment, where they differ."""

    @property
    def dt(self) -> float | None:
        """Control period in seconds, if the task has one."""

    def reset(self, seed: int) -> None:
        """Begin a first episode in every environment; all randomness follows from the seed."""

    def step(self, executed: Floats) -> StepResult:
        """Step each environment with its action (N, d), unchanged, and begin a new episode where one ended."""

    def violations(self) -> int:
        """Joint steps outside F_t, counted exactly, in the current episodes."""

    def episode_actions(self) -> list[NDArray[Any]]:
        """The actions executed in each current episode, (T + 1, d), from the reset action on."""

    def get_state(self) -> dict[str, Any] | None:
        """The state for ``set_state`` to continue bit for bit, as numbers and arrays; None if it is not known."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that ``get_state`` took of environments made with the same arguments."""
