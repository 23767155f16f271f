"""Inverts layers: the latent of an action, for log-probabilities of actions that were stored without it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer
from slewrl.limits.box import FeasibleBox

TINY = torch.finfo(torch.float32).tiny


def invert(layer: ActionLayer, action: Tensor, box: FeasibleBox) -> Tensor:
    """Return the latent (..., d) that ``layer`` maps to ``action`` (..., d), to the precision of the action."""
    unplace, unsquash = UNPLACE.get(layer.placement), UNSQUASH.get(type(layer).squash)
    if unplace is None or unsquash is None:
        raise NotImplementedError(
            f"{type(layer).__name__} has no inverse, so no log_prob of an action it did not just draw: use "
            "rsample_and_log_prob, store the log-probability with the action, or take a layer such as 'ddsrad'"
        )
    edge = 1 - torch.finfo(action.dtype).eps
    return unsquash(unplace(action.double(), box).clamp(-edge, edge)).to(action.dtype)


def _unhold(action: Tensor, box: FeasibleBox) -> Tensor:
    increment = action - box.anchor.double()
    radius = box.radius(increment).double()
    return torch.where(radius > 0, increment / radius.clamp_min(TINY), 0.0)


def uninterval(action: Tensor, box: FeasibleBox) -> Tensor:
    """Return v (..., d) in [-1, 1]^d of an action in F_t: -1 at its lower edge, 1 at its upper edge."""
    low, high = box.low.double(), box.high.double()
    width = high - low
    return torch.where(width > 0, ((action - low) - (high - action)) / width.clamp_min(TINY), 0.0)


def _unhyperbolic(action: Tensor, box: FeasibleBox) -> Tensor:
    """Solve x = 2 R- R+ v / ((R- - R+) v + R+ + R-) for v, with x measured from the anchor."""
    anchor = place.hyperbolic.command(torch.zeros_like(box.prev), box).double()
    down, up, x = anchor - box.low.double(), box.high.double() - anchor, action - anchor
    return x * (up + down) / (2 * up * down - x * (down - up)).clamp_min(TINY)


def _ungauge(v: Tensor) -> Tensor:
    length = v.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny)
    return v * (torch.atanh(length) / length)


def _unspherical(v: Tensor) -> Tensor:
    return v * torch.rsqrt((1 - v) * (1 + v))


UNPLACE: dict[Any, Callable[[Tensor, FeasibleBox], Tensor]] = {
    place.hold: _unhold,
    place.interval: uninterval,
    place.hyperbolic: _unhyperbolic,
}
UNSQUASH: dict[Any, Callable[[Tensor], Tensor]] = {
    squash.spherical: _unspherical,
    squash.tanh: torch.atanh,
    squash.gauge: _ungauge,
}
