"""Agent: what training, export and evaluation ask of a learning algorithm.

To add one: a file with a config dataclass and a subclass of ``OffPolicy`` (it learns from a replay buffer) or of
``Agent`` (it keeps its own rollout, as `ppo.py` does), and a line in `agents/__init__.py`; or no line, and
``--agent module:Class``.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.layers.base import ActionLayer, Decision
from slewrl.limits import RateLimits

if TYPE_CHECKING:
    from slewrl.agents.replay import Batch, Replay

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Sample = Callable[[], "Batch"]
"""Draws a batch from the replay buffer."""
RECENT = 0.1
"""An average of weights covers at most this share of the updates so far: a short run leaves out its beginning."""


class Layout(Protocol):
    """What an agent may ask of the layout of a task's observations."""

    @property
    def size(self) -> int:
        """n, the entries of an augmented observation."""

    @property
    def privileged(self) -> int:
        """How many of the first entries only critics may see."""

    @property
    def mirror(self) -> Any:
        """The task's left-right symmetry as indices and signs, or None."""


class Agent(Protocol):
    """A policy that learns. What is not abstract here has a usual default."""

    Config: ClassVar[Any]
    """The dataclass of its hyperparameters, whose fields are what ``--set agent.NAME=VALUE`` may set."""
    on_policy: ClassVar[bool]
    """Whether it learns only from steps of its present policy: then there is no warm-up with random actions."""
    averages: ClassVar[bool] = False
    """Whether it evaluates and exports an average of its actor's weights."""
    measures_entropy: ClassVar[bool] = False
    """Whether it uses log-probabilities, so that the layer's ``density`` matters."""
    networks: ClassVar[tuple[str, ...]]
    """Entries of ``state_dict`` that another run may start from (``--from``): networks, and what they depend on."""
    columns: tuple[str, ...]
    """What train.csv logs of the last update; docs/metrics.md."""
    layer: ActionLayer
    """Maps a latent to an action."""
    privileged: int = 0
    """How many of the first entries of an observation the actor does not see."""

    def __init__(
        self, config: Any, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None: ...

    @classmethod
    def make(cls, config: Any, limits: RateLimits, layer: ActionLayer, layout: Layout, seed: int) -> Self:
        """A new agent for a task's observation layout, of which most agents need only the size."""
        return cls(config, limits, layer, layout.size, seed)

    @property
    @abstractmethod
    def replays(self) -> bool:
        """Whether it learns from a replay buffer."""

    @abstractmethod
    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """An action for each augmented observation (N, n).

        Args:
            observation: the augmented observations.
            explore: whether to sample from the policy, or to act as in evaluation and export.
            averaged: without exploration, whether to use the averaged weights, if it ``averages``.
        """

    @abstractmethod
    def latent_module(self) -> nn.Module:
        """From what the actor sees (N, n - privileged) to the latent (N, d) without exploration, for export."""

    @abstractmethod
    def record(self, reward: Floats, next_observation: Floats, terminated: Bools, ended: Bools) -> bool:
        """Record the outcome of the last actions: (N,), (N, n), (N,), (N,); returns whether to ``improve`` now."""

    @abstractmethod
    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """Learn from one step of every environment, or from a whole rollout.

        Args:
            sample: draws a batch from the replay buffer; called only if the agent ``replays``.
            environments: how many environments step together.
            log: whether to return ``columns``.
        """

    def sample(self, replay: "Replay", size: int, rng: np.random.Generator) -> "Batch":
        """A batch to learn from; by default of single steps."""
        return replay.sample(size, rng)

    def steps_before_learning(self, environments: int) -> int:
        """Steps of all environments that it collects itself before its first update; by default none."""
        return 0

    def abandon(self) -> None:
        """Take note that the current episodes will not be continued; by default nothing depends on them."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on, as tensors, numbers, lists and dicts."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly from where ``state_dict`` was taken."""

    def load_weights(self, state: dict[str, Any]) -> None:
        """Take only the ``networks`` from the ``state_dict`` of an agent of the same kind and size."""
        if missing := [name for name in self.networks if name not in state]:
            raise ValueError(f"there is no {missing[0]!r}: it is of another version")
        self.load_state_dict({**self.state_dict(), **{name: state[name] for name in self.networks}})


class OffPolicy(Agent, Protocol):
    """An agent that learns from batches of a replay buffer, after every step of the environments."""

    on_policy: ClassVar[bool] = False
    replays: bool = True
    columns: tuple[str, ...] = ("critic_loss", "q", "entropy", "temperature")

    @abstractmethod
    def updates_per_step(self, environments: int) -> int:
        """Updates after one step of every environment."""

    @abstractmethod
    def update(self, batch: "Batch", log: bool = False) -> dict[str, float]:
        """One update from a batch, which it may overwrite; returns the values to ``log``."""

    def record(self, reward: Floats, next_observation: Floats, terminated: Bools, ended: Bools) -> bool:
        """Nothing to record, since the replay buffer holds it all: an update is always due."""
        return True

    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """Make the updates of one step; returns the values to log of the last one."""
        logged: dict[str, float] = {}
        for _ in range(self.updates_per_step(environments)):
            logged = self.update(sample(), log)
        return logged


def averaging_rate(rate: float, updates: int) -> float:
    """How far the average moves towards the actor after its ``updates``-th update: ``rate``, and more at the start."""
    return max(rate, min(1.0, 1 / (RECENT * updates)))
