"""Values as distributions over fixed atoms (C51; Bellemare, Dabney and Munos 2017)."""

import torch
from torch import Tensor


def project(mass: Tensor, low: float, high: float, shift: Tensor, scale: Tensor) -> Tensor:
    """The law of shift + scale Z, put back onto the atoms of Z.

    Each atom moves, is clipped to [low, high], and shares its mass between its two neighbours there: in proportion to
    their nearness, which keeps the mean wherever nothing was clipped.

    Args:
        mass: of the atoms, which are evenly spaced from low to high; (..., B, K), sums to 1.
        low: the first atom.
        high: the last atom.
        shift: (B,), in the units of the atoms.
        scale: (B,), >= 0.
    """
    last = mass.shape[-1] - 1
    atoms = torch.arange(last + 1, dtype=shift.dtype, device=shift.device)
    # In steps between atoms: atom k stands at k, and shift + scale Z at `start` + scale k.
    start = (shift + (scale - 1) * low) * (last / (high - low))
    place = torch.addcmul(start[:, None], scale[:, None], atoms).clamp_(0, last)
    below = place.long().clamp_(max=last - 1)
    to_upper = mass * (place - below)
    moved = torch.zeros_like(mass).scatter_add_(-1, below.expand(mass.shape), mass - to_upper)
    return moved.scatter_add_(-1, (below + 1).expand(mass.shape), to_upper)
