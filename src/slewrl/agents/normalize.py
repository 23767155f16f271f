"""A running normaliser of observations, which leaves the previous action alone."""

import torch
from torch import Tensor, nn


class Normalizer(nn.Module):
    """(x - mean) / (std + epsilon) by entry, over everything ``update`` was shown; until then the identity.

    The last ``kept`` entries pass through bit for bit: they are the previous action, which the layer needs as it was
    handed to the actuators.

    Args:
        size: n, entries of an observation.
        kept: how many of the last ones are never touched.
        epsilon: keeps an entry that hardly moves from being blown up; in the entry's units.
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

    @torch.no_grad()
    def update(self, seen: Tensor) -> None:
        """Count the observations (B, n) in."""
        moving = seen[:, : self.moving]
        mean = moving.mean(0)
        variance = (moving - mean).square_().mean(0)  # a fifth of var_mean's time
        self.count += seen.shape[0]
        share, away = seen.shape[0] / self.count, mean - self.mean
        # Of two groups taken together: the mean of their variances, and the variance of their means.
        self.variance += share * (variance - self.variance) + share * (1 - share) * away.square()
        self.mean += share * away
        self.shift[: self.moving] = self.mean
        self.scale[: self.moving] = 1 / (self.variance.sqrt() + self.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised, (..., m): the last m entries of observations, if there are not all n."""
        first = self.shift.shape[0] - x.shape[-1]
        return (x - self.shift[first:]).mul_(self.scale[first:])
