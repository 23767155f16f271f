"""A running normaliser of observations, which leaves the history of actions alone."""

import torch
from torch import Tensor, nn


class Normalizer(nn.Module):
    """(x - mean) / (std + epsilon) by entry, over everything ``update`` was shown; until then the identity.

    The last ``kept`` entries, the previous action and what else F_t depends on, pass through bit for bit.

    Args:
        size: n, entries of an observation.
        kept: how many of the last entries are not normalised.
        epsilon: bounds the scale of an entry that hardly varies; in the entry's units.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, size: int, kept: int, epsilon: float = 1e-2) -> None:
        super().__init__()
        self.moving, self.epsilon = size - kept, epsilon
        # In float64, since a run shows it billions of rows.
        self.register_buffer("mean", torch.zeros(self.moving, dtype=torch.float64))
        self.register_buffer("variance", torch.zeros(self.moving, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def part(self, first: int) -> "Normalizer":
        """A copy for observations without their ``first`` entries, only to apply."""
        size = self.shift.shape[0] - first
        smaller = Normalizer(size, size - max(self.moving - first, 0), self.epsilon)
        smaller.shift.copy_(self.shift[first:])
        smaller.scale.copy_(self.scale[first:])
        return smaller

    @torch.no_grad()
    def update(self, seen: Tensor) -> None:
        """Update mean and variance with observations (B, n)."""
        moving = seen[:, : self.moving]
        mean = moving.mean(0)
        variance = (moving - mean).square_().mean(0)  # a fifth of var_mean's time
        self.count += seen.shape[0]
        share, away = seen.shape[0] / self.count, mean - self.mean
        # The variance of two groups together: the mean of their variances plus the variance of their means.
        self.variance += share * (variance - self.variance) + share * (1 - share) * away.square()
        self.mean += share * away
        self.shift[: self.moving] = self.mean
        self.scale[: self.moving] = 1 / (self.variance.sqrt() + self.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last m entries of observations, (..., m); all of them where m is n."""
        first = self.shift.shape[0] - x.shape[-1]
        return (x - self.shift[first:]).mul_(self.scale[first:])
