"""Pink noise for exploration (Eberhard et al. 2023): from step to step 1/f, at any one step standard normal.

Increments of white noise add up to a random walk, which crosses a range of 1/s steps in (1/s)^2 of them. A policy's law
at a step stays what it says it is, so updates do not change, and the noise is on the latent, so no limit is left.
"""

import math

import torch
from torch import Tensor

TIMES = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Correlation times, in steps, of the processes whose sum has a 1/f spectrum between them."""


class PinkNoise:
    """A sum of autoregressive processes of the same variance and octaves of correlation times.

    Args:
        generator: of the innovations.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.state = torch.empty(0)
        """(K, N, d), each standard normal; empty before the first draw."""
        self.keep = torch.tensor([math.exp(-1 / time) for time in TIMES]).view(-1, 1, 1)
        self.renew = (1 - self.keep.square()).sqrt()

    def __call__(self, shape: torch.Size) -> Tensor:
        """The next noise (N, d)."""
        drawn = torch.randn((len(TIMES), *shape), generator=self.generator)
        self.state = self.keep * self.state + self.renew * drawn if len(self.state) else drawn
        return self.state.sum(0) / math.sqrt(len(TIMES))
