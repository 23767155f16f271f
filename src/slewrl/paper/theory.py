"""The paper's theorem about volumes as a function; tests/theory.py has the others (docs/theory.md lists them all)."""

import math

import numpy as np

from slewrl.limits import RateLimits


def volume_ratio(limits: RateLimits) -> float:
    """Eq. (volume_ratio): volume of F_t over that of the ball of radius min delta, away from the bounds.

    2^d Gamma(d/2 + 1) / pi^{d/2} * prod delta_i / (min delta)^d, with 2 delta_i = up_i + down_i.
    """
    if limits.up.ndim > 1 or limits.down.ndim > 1:
        raise ValueError(f"limits of shape {limits.delta.shape} vary by sample; the ratio is that of one set")
    d = limits.dim
    log_box = float(np.log(limits.up + limits.down).sum())
    log_ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1) + d * math.log(limits.delta.min())
    return math.exp(log_box - log_ball)
