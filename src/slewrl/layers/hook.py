"""TrainingHook: the one door by which a layer takes part in a training run besides mapping latents to actions."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

AddRow = Callable[..., None]
"""``Replay.add``: environment, observation, action, reward, next observation, terminated, ended."""


class TrainingHook:
    """What a run does for its layer. This one does nothing; a layer that needs more names a subclass as its ``hook``.

    Args:
        layer: the one of the run.
    """

    extra_rows: ClassVar[int] = 0
    """Most rows per step and environment that ``chosen`` adds to the replay."""
    ours_alone: ClassVar[str] = ""
    """Why the layer cannot be trained by somebody else's algorithm; empty if it can."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def check(self, layer: str, agent: str) -> None:
        """Refuse an agent that cannot train the layer; both by name."""

    def chosen(self, observations: NDArray[np.float32], add: AddRow) -> None:
        """Called when actions have been chosen for (N, n) and before they are executed; may ``add`` rows of its own."""

    def counts(self) -> dict[str, int]:
        """What was counted since ``columns`` was last asked for; a checkpoint keeps it."""
        return {}

    def restore(self, counts: dict[str, int]) -> None:
        """Count on from there."""

    def columns(self) -> dict[str, float]:
        """What train.csv gets of the counts, which begin again at 0."""
        return {}


class CountingHook(TrainingHook):
    """Of a layer that counts while it maps, and has ``counts`` and ``columns`` of its own."""

    def counts(self) -> dict[str, int]:
        """A copy of the layer's own."""
        return {**self.layer.counts()}

    def restore(self, counts: dict[str, int]) -> None:
        """Put these in the place of the layer's own."""
        self.layer.counts().clear()
        self.layer.counts().update(counts)

    def columns(self) -> dict[str, float]:
        """The layer's own."""
        made: dict[str, float] = self.layer.columns()
        return made
