"""Layers that command the whole action range, a~ = mid_A + half_A tanh(u), and clip the command to F_t.

They differ in what the critic sees and in the penalty. ``log_det`` is that of a~, before the clip.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer
from slewrl.limits.box import FeasibleBox


def penalise_distance(layer: ActionLayer, latent: Tensor, command: Tensor, box: FeasibleBox) -> Tensor:
    """The Euclidean distance from the command to F_t (...), in action units, not squared."""
    hinge = torch.relu(command - box.high) + torch.relu(box.low - command)
    return torch.linalg.vector_norm(hinge, dim=-1)


@dataclass(frozen=True)
class Post(ActionLayer):
    """Post(QP): clip after the policy; the critic judges the command a~ and does not see the limit."""

    squash = staticmethod(squash.tanh)
    placement = place.action_range

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """Project onto F_t, which for a box is a clip, with no gradient beyond it."""
        return box.clamp(command)

    def judge(self, command: Tensor, executed: Tensor) -> Tensor:
        """Return the command before the clip."""
        return command


@dataclass(frozen=True)
class BoxPre(Post):
    """BoxPre+: as Post, with a penalty on the distance to F_t (weight 1 as in Kasaura et al.; the paper has .005)."""

    penalty_weight: float = 1.0
    penalise = penalise_distance


@dataclass(frozen=True)
class BoxPro(Post):
    """The usual hand-written clip, exact: the critic judges and the replay stores the clipped action.

    ``penalty_weight`` > 0 adds the distance to F_t to the actor loss.
    """

    penalise = penalise_distance

    def judge(self, command: Tensor, executed: Tensor) -> Tensor:
        """Return the clipped action."""
        return executed


@dataclass(frozen=True)
class NoLimit(Post):
    """No rate limit, only the action range: a reference for every limited method."""

    hard: ClassVar[bool] = False

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """Clip the command to the action range."""
        return torch.clamp(command, box.working.low, box.working.high)

    def random(self, box: FeasibleBox, generator: torch.Generator | None = None) -> Tensor:
        """Draw an action uniformly from the action range."""
        uniform = torch.rand(box.prev.shape, generator=generator, dtype=box.prev.dtype, device=box.prev.device)
        return torch.lerp(box.working.low, box.working.high, uniform).clamp(box.working.low, box.working.high)
