"""Terms of the actor's loss that make its mean act alike in nearby states: ours (``calm``), CAPS and L2C2.

Each is a weight times (1/B) sum |x(s~_2) - x(s~)|^2 over a batch, where x is what the layer makes of the actor's
*mean*, so that exploration noise is not charged for. They differ in s~_2 and in the units of x:

- ``calm``: s~_2 = (s', a), the next state after the mean's own command a at s~ instead of the one with noise that was
  executed; x = v = (a - a_prev) / delta, the increment in units of the limit. It is the second difference of the
  commands that is charged for: a joint may move as fast as it is allowed to, but has to change its speed slowly.
- ``caps``: s~_2 = s~'; x = a over half the range (Mysore et al. 2021, temporal smoothness).
- ``caps_spatial``: s~_2 = s~ with Gaussian noise on the state (the same, spatial smoothness).
- ``l2c2``: s~_2 = s~ + u (s~' - s~), u uniform in [0, 1] for each entry (Kobayashi 2022, the policy's part).

In the last two, the history of commands in s~, and with it F_t, is left as it is. No pair counts whose s~' is terminal.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slewrl.layers.base import ActionLayer
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action

if TYPE_CHECKING:
    from slewrl.agents.replay import Batch

Mean = Callable[[Tensor], Tensor]
"""Maps observations (B, n) to the actor's mean latents (B, d)."""
STRONGEST = 4.0
"""The weight of ``calm`` = 1, in units of the mean |dQ/dv|. The weight is quadratic in ``calm``."""


class Weights(NamedTuple):
    """The weights of all terms; 0 is off."""

    calm: float = 0.0
    """In [0, 1]."""
    caps: float = 0.0
    caps_spatial: float = 0.0
    caps_noise: float = 0.05
    """Standard deviation of the noise of ``caps_spatial``, in the units of the state."""
    l2c2: float = 0.0


class _Term(NamedTuple):
    block: int
    """Which block of B rows of the observations is compared with the first."""
    weight: float
    per_unit: Tensor
    """1 / the unit of x, (d,)."""
    of_increments: bool
    """Whether x is of a - a_prev, or of a."""


class Smoothness:
    """The terms that are on.

    Args:
        weights: those of all terms.
        limits: rate limits of the d joints.
        layer: maps the mean to an action.
    """

    def __init__(self, weights: Weights, limits: RateLimits, layer: ActionLayer) -> None:
        self.weights, self.limits, self.layer = weights, limits, layer
        increment = torch.from_numpy(1 / np.maximum(limits.up, limits.down)).float()
        half_range = torch.from_numpy(2 / (limits.high - limits.low)).float()
        self.per_limit = increment
        self._terms = [_Term(0, 0.0, increment, True)] if weights.calm else []
        wanted = ((1, weights.caps), (2, weights.caps_spatial), (3, weights.l2c2))
        self._terms += [_Term(block, weight, half_range, False) for block, weight in wanted if weight]
        blocks = sorted({term.block for term in self._terms})
        self._terms = [term._replace(block=1 + blocks.index(term.block)) for term in self._terms]
        self._blocks = blocks

    @property
    def on(self) -> bool:
        """Whether any term is."""
        return bool(self._terms)

    def observations(self, batch: "Batch", mean: Mean, generator: torch.Generator) -> Tensor:
        """The states that are compared, in blocks of B rows: s~, then an s~_2 for each kind of it.

        ``mean`` maps observations (B, n) to the mean latents.
        """
        own = batch.observation.shape[1] - self.limits.appended
        makes = (
            lambda: self._after_mean(batch, mean, own),
            lambda: batch.next_observation,
            lambda: self._noisy(batch, own, generator),
            lambda: self._between(batch, own, generator),
        )
        return torch.cat([batch.observation, *(makes[block]() for block in self._blocks)])

    def _after_mean(self, batch: "Batch", mean: Mean, own: int) -> Tensor:
        before = previous_action(batch.observation, self.limits.dim)
        command = self.layer.execute(mean(batch.observation), self.limits.box_after(batch.observation))
        history = command if self.limits.grid is None else torch.cat([command - before, command], -1)
        return torch.cat([batch.next_observation[:, :own], history], -1)

    def _noisy(self, batch: "Batch", own: int, generator: torch.Generator) -> Tensor:
        found = batch.observation.clone()
        found[:, :own] += self.weights.caps_noise * torch.randn(batch.size, own, generator=generator)
        return found

    def _between(self, batch: "Batch", own: int, generator: torch.Generator) -> Tensor:
        found = batch.observation.clone()
        share = torch.rand(batch.size, own, generator=generator)
        found[:, :own] += share * (batch.next_observation[:, :own] - found[:, :own])
        return found

    def calm_weight(self, to_action: Tensor) -> float:
        """The weight of ``calm`` for dQ/da (B, d): scaled by the mean |dQ/dv|, so that it fits every task."""
        return STRONGEST * self.weights.calm**2 * float((to_action.abs() / self.per_limit).mean())

    def to_mean(self, mean: Tensor, observations: Tensor, terminated: Tensor, calm_weight: float) -> Tensor:
        """The gradient (kB, d) of all terms by the mean latents (kB, d) at ``observations`` (kB, n)."""
        size = terminated.shape[0]
        judged, penalty, vjp_fn = self.layer.vjp(mean, self.limits.box_after(observations))
        moved = judged - previous_action(observations, self.limits.dim)
        to_judged = torch.zeros_like(judged)
        for term in self._terms:
            x = (moved if term.of_increments else judged) * term.per_unit
            rows = slice(term.block * size, (term.block + 1) * size)
            weight = calm_weight if term.of_increments else term.weight
            grad = (2 * weight / size) * (1 - terminated)[:, None] * (x[rows] - x[:size]) * term.per_unit
            to_judged[rows] += grad
            to_judged[:size] -= grad
        return vjp_fn(to_judged, torch.zeros_like(penalty))
