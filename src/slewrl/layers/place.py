"""Placements map a normalised increment v in [-1, 1]^d to a command in action units.

They are the second half of every action layer. A placement has two functions of (v, box): `command` (..., d), and
`log_scale` (...), the log |det d command / dv| that turns a density of v into a density of actions; and `reference`,
the value of log_scale away from the bounds, which shifts SAC's target entropy into action units.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slewrl.limits import RateLimits
from slewrl.limits.box import FeasibleBox
from slewrl.limits.viable_box import ViableBox

RADIUS_FLOOR = 1e-2
"""The smallest radius in action-unit densities, as a share of delta, so that they stay finite on a bound."""


class Placement(NamedTuple):
    """A map from v to a command, with its change of volume."""

    command: Callable[[Tensor, FeasibleBox], Tensor]
    log_scale: Callable[[Tensor, FeasibleBox], Tensor]
    reference: Callable[[RateLimits], float]
    exploration_noise: float = 1.0
    """The default standard deviation of TD3's exploration noise on the latent."""


def _log(length: Tensor) -> Tensor:
    """Return log(length), finite even for the zero width of a joint that is held."""
    return length.clamp_min(torch.finfo(length.dtype).tiny).log()


def _hold(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = h + R_eff(v) v (Eq. ddsrad_vec), h = prev without acceleration: each side stretches to its own edge."""
    return box.anchor + box.radius(v) * v


def _hold_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """sum log R_eff (Eq. logdet), with R floored, since it is 0 where prev is on a bound."""
    rate = torch.where(v >= 0, box.working.up, box.working.down)
    floor = RADIUS_FLOOR * torch.minimum(rate, box.working.high - box.working.low)
    if isinstance(box, ViableBox):
        floor = torch.minimum(floor, _narrowest(box))
    return _log(torch.maximum(box.radius(v), floor)).sum(-1)


def _narrowest(box: ViableBox) -> Tensor:
    """The floor on radii under acceleration limits, where a box may be a single point; shape (d,)."""
    return (RADIUS_FLOOR * box.grid.acceleration * box.grid.unit).to(box.prev.dtype)


def _interval(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = mid + half v on [low, high], arranged so that v = -1 and 1 give the edges exactly."""
    return torch.lerp(box.low, box.high, 0.5 + 0.5 * v)


def _interval_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    half = 0.5 * (box.high - box.low)
    if isinstance(box, ViableBox):
        half = torch.maximum(half, _narrowest(box))
    return _log(half).expand_as(v).sum(-1)


def _hyperbolic_radii(v: Tensor, low: Tensor, high: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor, Tensor]:
    """R-, R+ from the anchor h to the edges ``low`` and ``high``, and D = (R- - R+) v + R+ + R-."""
    eighth = (high - low) / 8
    # Anchored at prev itself, the map would be degenerate on a bound; an eighth of the box away, it is not.
    anchor = torch.clamp(box.anchor, low + eighth, high - eighth)
    down, up = anchor - low, high - anchor
    # D is at least the smaller of 2 R- and 2 R+; the floor keeps a box of a few floats' width from dividing by 0.
    floor = torch.finfo(v.dtype).eps * (up + down) + torch.finfo(v.dtype).tiny
    return down, up, torch.maximum((down - up) * v + (up + down), floor)


def _hyperbolic(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = h + 2 R- R+ v / D maps -1, 0, 1 to low, the anchor h and high, with no kink at 0.

    It is computed from the nearer edge, as high - R+ (R+ + R-) (1 - v) / D, so that the edges are exact.
    """
    down, up, denominator = _hyperbolic_radii(v, box.low, box.high, box)
    scale = (up + down) / denominator
    return torch.where(v >= 0, box.high - up * scale * (1 - v), box.low + down * scale * (1 + v))


def _hyperbolic_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """sum log(2 R- R+ (R+ + R-)) - 2 log D; a box that is too narrow for a density counts as a wider one."""
    low, high = box.low, box.high
    if isinstance(box, ViableBox):
        missing = torch.relu(_narrowest(box) - 0.5 * (high - low))
        low, high = low - missing, high + missing
    down, up, denominator = _hyperbolic_radii(v, low, high, box)
    return (_log(2 * down) + _log(up) + _log(up + down) - 2 * torch.log(denominator)).sum(-1)


def half_range(box: FeasibleBox) -> Tensor:
    """Half the width of the whole action range, shape (d,)."""
    return 0.5 * (box.working.high - box.working.low)


def _action_range(v: Tensor, box: FeasibleBox) -> Tensor:
    """a~ = mid_A + half_A v: the ordinary command over the whole action range."""
    return 0.5 * (box.working.low + box.working.high) + half_range(box) * v


def _half_range_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    return _log(half_range(box)).expand_as(v).sum(-1)


def min_delta(box: FeasibleBox) -> Tensor:
    """The tightest rate limit over joints and directions, shape (..., 1)."""
    return torch.minimum(box.working.up, box.working.down).amin(-1, keepdim=True)


def _min_delta_ball(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = prev + min delta * v (Eq. srad with R = min delta)."""
    return box.anchor + min_delta(box) * v


def _min_delta_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """d log min delta."""
    return _log(min_delta(box)).expand_as(v).sum(-1)


def _half_range_ball(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = prev + half_A v: a ball as wide as the action range, to be clipped to F_t afterwards."""
    return box.anchor + half_range(box) * v


def _mean_rate(limits: RateLimits) -> float:
    """The reference sum log delta (the mean of up and down where they differ), averaged over a batch of limits."""
    rate = np.minimum(0.5 * (limits.up + limits.down), 0.5 * (limits.high - limits.low))
    return float(np.log(rate).sum(-1).mean())


def _half_range_reference(limits: RateLimits) -> float:
    return float(np.log(0.5 * (limits.high - limits.low)).sum())


def _min_rate(limits: RateLimits) -> float:
    return float(limits.dim * np.log(limits.delta.min(-1)).mean())


# v = 0 stays at prev; goes to the middle of F_t; stays near prev, without a kink.
hold = Placement(_hold, _hold_log_scale, _mean_rate)
interval = Placement(_interval, _interval_log_scale, _mean_rate)
hyperbolic = Placement(_hyperbolic, _hyperbolic_log_scale, _mean_rate)
# Here the latent is a command over the range rather than an increment, so TD3's original noise is right.
action_range = Placement(_action_range, _half_range_log_scale, _half_range_reference, exploration_noise=0.1)
min_delta_ball = Placement(_min_delta_ball, _min_delta_log_scale, _min_rate)
half_range_ball = Placement(_half_range_ball, _half_range_log_scale, _half_range_reference)
