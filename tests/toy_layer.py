"""A layer someone else might write: one file, no change to slewrl. Moves a tenth of the way to the edge u points at."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slewrl import ActionLayer
from slewrl.layers import place


def tenth(u: Tensor) -> tuple[Tensor, Tensor]:
    v = 0.1 * torch.tanh(u)
    return v, torch.log(0.1 * (1 - torch.tanh(u) ** 2)).sum(-1)


@dataclass(frozen=True)
class Toy(ActionLayer):
    """a = prev + R_eff tanh(u) / 10."""

    squash = staticmethod(tenth)
    placement = place.hold


@dataclass(frozen=True)
class Unsummed(Toy):
    """A common mistake: a log_det per joint."""

    @staticmethod
    def squash(u: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(u), torch.log(1 - torch.tanh(u) ** 2)
