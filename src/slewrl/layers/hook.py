"""TrainingHook: how a layer takes part in a training run besides mapping latents to actions."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

AddRow = Callable[..., None]
"""``Replay.add(environment, observation, action, reward, next_observation, terminated, ended)``."""


class TrainingHook:
    """The callbacks of a training run for its layer. These do nothing; a layer may name a subclass as its ``hook``."""

    extra_rows: ClassVar[int] = 0
    """The largest number of rows per step and environment that ``chosen`` adds to the replay buffer."""
    ours_alone: ClassVar[str] = ""
    """Why the layer cannot be trained by another framework's algorithm; empty if it can."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def check(self, layer: str, agent: str) -> None:
        """Refuse an agent that cannot train the layer; both are given by name."""

    def chosen(self, observations: NDArray[np.float32], add: AddRow) -> None:
        """Called between choosing actions for observations (N, n) and executing them; may ``add`` replay rows."""

    def counts(self) -> dict[str, int]:
        """The counts since the last call of ``columns``; a checkpoint keeps them."""
        return {}

    def restore(self, counts: dict[str, int]) -> None:
        """Continue from the counts of a checkpoint."""

    def columns(self) -> dict[str, float]:
        """The columns of train.csv made from the counts, which start again at 0."""
        return {}


class CountingHook(TrainingHook):
    """The hook of a layer that counts while it maps, and has ``counts`` and ``columns`` itself."""

    def counts(self) -> dict[str, int]:
        """A copy of the layer's counts."""
        return {**self.layer.counts()}

    def restore(self, counts: dict[str, int]) -> None:
        """Replace the layer's counts."""
        self.layer.counts().clear()
        self.layer.counts().update(counts)

    def columns(self) -> dict[str, float]:
        """The layer's columns."""
        return self.layer.columns()
