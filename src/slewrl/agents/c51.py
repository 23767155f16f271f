"""Values as distributions over fixed atoms (C51; Bellemare, Dabney and Munos 2017)."""

import torch
from torch import Tensor


def project(mass: Tensor, low: float, high: float, shift: Tensor, scale: Tensor) -> Tensor:
    """The distribution of shift + scale Z, projected onto the atoms of Z.

    ``mass`` (..., B, K) are the probabilities of K atoms, evenly spaced from low to high; shift and scale are (B,).
    Each atom is moved, clipped to [low, high], and its mass split between the two neighbours, the nearer one getting
    more: this keeps the mean wherever nothing was clipped.
    """
    last = mass.shape[-1] - 1
    atoms = torch.arange(last + 1, dtype=shift.dtype, device=shift.device)
    # In units of the distance between atoms: atom k is at k, and is moved to start + scale k.
    start = (shift + (scale - 1) * low) * (last / (high - low))
    place = torch.addcmul(start[:, None], scale[:, None], atoms).clamp_(0, last)
    below = place.long().clamp_(max=last - 1)
    to_upper = mass * (place - below)
    moved = torch.zeros_like(mass).scatter_add_(-1, below.expand(mass.shape), mass - to_upper)
    return moved.scatter_add_(-1, (below + 1).expand(mass.shape), to_upper)
