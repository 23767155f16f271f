"""Placements: a normalised increment v in [-1, 1]^d to a command in action units.

The second half of every action layer. Each placement is two functions of (v, box): `command` (..., d), and
`log_scale` (...), the log |det d command / dv| that turns a density of v into a density of actions; and
`reference`, what log_scale is away from the bounds, which shifts SAC's target entropy into action units.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from slewrl.limits import RateLimits
from slewrl.limits.box import FeasibleBox

RADIUS_FLOOR = 1e-2
"""In action units a radius counts as at least this share of delta, so a density stays finite on a bound."""


class Placement(NamedTuple):
    """Where v = -1, 0 and +1 go in the box, and how volume changes on the way."""

    command: Callable[[Tensor, FeasibleBox], Tensor]
    log_scale: Callable[[Tensor, FeasibleBox], Tensor]
    reference: Callable[[RateLimits], float]
    exploration_noise: float = 1.0
    """Standard deviation that suits a latent which is an increment: those add up to a random walk."""


def _log(length: Tensor) -> Tensor:
    """log, finite also for the zero width of a joint held still."""
    return length.clamp_min(torch.finfo(length.dtype).tiny).log()


# ---------------------------------------------------------------- hold: v = 0 stays at prev


def _hold(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = prev + R_eff(v) v (Eq. ddsrad_vec): each side of prev stretches to its own edge."""
    return box.prev + box.radius(v) * v


def _hold_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """sum log R_eff (Eq. logdet), R floored: it is 0 where prev sits on a bound."""
    rate = torch.where(v >= 0, box.working.up, box.working.down)
    floor = RADIUS_FLOOR * torch.minimum(rate, box.working.high - box.working.low)
    return _log(torch.maximum(box.radius(v), floor)).sum(-1)


# ---------------------------------------------------------------- interval: v = 0 goes to the middle of F_t


def _interval(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = mid + half v on [low, high], written so that v = -1 and 1 land on the edges exactly."""
    return torch.lerp(box.low, box.high, 0.5 + 0.5 * v)


def _interval_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    return _log(0.5 * (box.high - box.low)).expand_as(v).sum(-1)


# ---------------------------------------------------------------- hyperbolic: smooth, v = 0 stays near prev


def _hyperbolic_radii(v: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor, Tensor]:
    """R-, R+ from the anchor h to the edges, and D = (R- - R+) v + R+ + R-."""
    eighth = (box.high - box.low) / 8
    # Anchored at prev itself the map would be stuck on a bound; an eighth of the box in, it is not.
    anchor = torch.clamp(box.prev, box.low + eighth, box.high - eighth)
    down, up = anchor - box.low, box.high - anchor
    # D is at least the smaller of 2 R- and 2 R+; the floor keeps a box of a few floats' width from dividing by 0.
    floor = torch.finfo(v.dtype).eps * (up + down) + torch.finfo(v.dtype).tiny
    return down, up, torch.maximum((down - up) * v + (up + down), floor)


def _hyperbolic(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = h + 2 R- R+ v / D: -1, 0, 1 go to low, the anchor h, high, with no kink at 0.

    Measured from the nearer edge, where it reads high - R+ (R+ + R-) (1 - v) / D, so that the edges are exact.
    """
    down, up, denominator = _hyperbolic_radii(v, box)
    scale = (up + down) / denominator
    return torch.where(v >= 0, box.high - up * scale * (1 - v), box.low + down * scale * (1 + v))


def _hyperbolic_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """sum log(2 R- R+ (R+ + R-)) - 2 log D."""
    down, up, denominator = _hyperbolic_radii(v, box)
    return (_log(2 * down) + _log(up) + _log(up + down) - 2 * torch.log(denominator)).sum(-1)


# ---------------------------------------------------------------- action range: v ignores prev


def half_range(box: FeasibleBox) -> Tensor:
    """Half the width of the whole action range, shape (d,)."""
    return 0.5 * (box.working.high - box.working.low)


def _action_range(v: Tensor, box: FeasibleBox) -> Tensor:
    """a~ = mid_A + half_A v: the ordinary command over the whole action range."""
    return 0.5 * (box.working.low + box.working.high) + half_range(box) * v


def _half_range_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    return _log(half_range(box)).expand_as(v).sum(-1)


# ---------------------------------------------------------------- balls around prev


def min_delta(box: FeasibleBox) -> Tensor:
    """The tightest rate limit over joints and directions, shape (..., 1)."""
    return torch.minimum(box.working.up, box.working.down).amin(-1, keepdim=True)


def _min_delta_ball(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = prev + min delta * v (Eq. srad with R = min delta)."""
    return box.prev + min_delta(box) * v


def _min_delta_log_scale(v: Tensor, box: FeasibleBox) -> Tensor:
    """d log min delta."""
    return _log(min_delta(box)).expand_as(v).sum(-1)


def _half_range_ball(v: Tensor, box: FeasibleBox) -> Tensor:
    """a = prev + half_A v: a ball as wide as the action range, meant to be clipped to F_t afterwards."""
    return box.prev + half_range(box) * v


# ---------------------------------------------------------------- log_scale away from the bounds


def _mean_rate(limits: RateLimits) -> float:
    """sum log delta (the mean of up and down where they differ), averaged over a batch of limits."""
    rate = np.minimum(0.5 * (limits.up + limits.down), 0.5 * (limits.high - limits.low))
    return float(np.log(rate).sum(-1).mean())


def _half_range_reference(limits: RateLimits) -> float:
    return float(np.log(0.5 * (limits.high - limits.low)).sum())


def _min_rate(limits: RateLimits) -> float:
    return float(limits.dim * np.log(limits.delta.min(-1)).mean())


hold = Placement(_hold, _hold_log_scale, _mean_rate)
interval = Placement(_interval, _interval_log_scale, _mean_rate)
hyperbolic = Placement(_hyperbolic, _hyperbolic_log_scale, _mean_rate)
# The latent is a command, and TD3's own noise suits it.
action_range = Placement(_action_range, _half_range_log_scale, _half_range_reference, exploration_noise=0.1)
min_delta_ball = Placement(_min_delta_ball, _min_delta_log_scale, _min_rate)
half_range_ball = Placement(_half_range_ball, _half_range_log_scale, _half_range_reference)
