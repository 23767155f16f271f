"""Agent: what a training run, an export and an evaluation ask of whatever learns.

To add one: a file with a config dataclass and a subclass of ``OffPolicy`` (it learns from a replay) or of ``Agent`` (it
keeps its own steps, as `ppo.py` does), and a line in `agents/__init__.py`; or no line, and ``--agent module:Class``.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.agents.replay import Batch, Replay
from slewrl.layers.base import ActionLayer, Decision
from slewrl.limits import RateLimits

Floats = NDArray[np.float32]
Sample = Callable[[], Batch]
"""Draws a batch from the replay."""


class Layout(Protocol):
    """What an agent may ask of a task's layout."""

    @property
    def size(self) -> int:
        """n, the entries of an augmented observation."""

    @property
    def privileged(self) -> int:
        """How many of the first entries of an observation only critics may see."""

    @property
    def mirror(self) -> Any:
        """The task's left-right symmetry as indices and signs, or None."""


class Agent(Protocol):
    """A policy that learns. What is not abstract here has the usual answer."""

    Config: ClassVar[Any]
    """The dataclass of its hyperparameters, whose fields are what ``--set agent.NAME=VALUE`` may set."""
    on_policy: ClassVar[bool]
    """Whether it learns only from steps of its present policy: then there is no warm-up with random actions."""
    averages: ClassVar[bool] = False
    """Whether it evaluates and exports an average of its actor's weights."""
    measures_entropy: ClassVar[bool] = False
    """Whether it reads the layer's ``density``, and with it the units of an entropy."""
    networks: ClassVar[tuple[str, ...]]
    """Entries of ``state_dict`` that are networks, or what they cannot do without: what another run may begin with."""
    columns: tuple[str, ...]
    """What train.csv has of the last update; docs/metrics.md."""
    layer: ActionLayer
    """From latent to action."""
    privileged: int = 0
    """How many of the first entries of an observation its actor does not see."""

    def __init__(
        self, config: Any, limits: RateLimits, layer: ActionLayer, observation_size: int, seed: int
    ) -> None: ...

    @classmethod
    def make(cls, config: Any, limits: RateLimits, layer: ActionLayer, layout: Layout, seed: int) -> Self:
        """A new one for a task, of whose layout most ask the size alone."""
        return cls(config, limits, layer, layout.size, seed)

    @property
    @abstractmethod
    def replays(self) -> bool:
        """Whether it learns from a replay."""

    @abstractmethod
    def act(self, observation: Tensor, explore: bool = True, averaged: bool = True) -> Decision:
        """An action for each augmented observation (N, n).

        Args:
            observation: what is seen.
            explore: as the policy draws it, or as it is evaluated and exported.
            averaged: without exploration, by the averaged weights, if it ``averages``, or by the last.
        """

    @abstractmethod
    def latent_module(self) -> nn.Module:
        """The latent (N, d) of an action without exploration, of what the actor sees (N, m), as a module for export.

        m is n without the privileged entries.
        """

    @abstractmethod
    def record(
        self, reward: Floats, following: Floats, terminated: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> bool:
        """Take note of what came of the last actions: (N,), (N, n), (N,), (N,); returns whether to ``improve`` now."""

    @abstractmethod
    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """Learn from one step of every environment, or from a whole rollout; returns ``columns`` if it is to ``log``.

        Args:
            sample: a batch of the replay; asked only where the agent ``replays``.
            environments: how many step together.
            log: whether the numbers will be read.
        """

    def sample(self, replay: Replay, size: int, rng: np.random.Generator) -> Batch:
        """A batch to learn from; here: single steps."""
        return replay.sample(size, rng)

    def steps_before_learning(self, environments: int) -> int:
        """Steps of all environments that it collects itself before its first update; here: none."""
        return 0

    def abandon(self) -> None:
        """The episodes under way will not go on; here: nothing depends on them."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything the next update depends on, as tensors, numbers, lists and dicts."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where ``state_dict`` was taken."""

    def load_weights(self, state: dict[str, Any]) -> None:
        """Take the ``networks`` of an agent of the same kind and size, by its ``state_dict``, and nothing else."""
        if missing := [name for name in self.networks if name not in state]:
            raise ValueError(f"there is no {missing[0]!r}: it is of another version")
        self.load_state_dict({**self.state_dict(), **{name: state[name] for name in self.networks}})


class OffPolicy(Agent, Protocol):
    """An agent that learns from batches of a replay, after every step of the environments."""

    on_policy: ClassVar[bool] = False
    replays: bool = True
    columns: tuple[str, ...] = ("critic_loss", "q", "entropy", "temperature")

    @abstractmethod
    def updates_per_step(self, environments: int) -> int:
        """Updates after one step of every environment."""

    @abstractmethod
    def update(self, batch: Batch, log: bool = False) -> dict[str, float]:
        """One update by a batch, which it may write over; returns what to ``log``."""

    def record(
        self, reward: Floats, following: Floats, terminated: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> bool:
        """The replay takes note of everything, so an update is always due."""
        return True

    def improve(self, sample: Sample, environments: int = 1, log: bool = True) -> dict[str, float]:
        """As many updates as it makes of one step; returns what to log of the last."""
        logged: dict[str, float] = {}
        for _ in range(self.updates_per_step(environments)):
            logged = self.update(sample(), log)
        return logged
