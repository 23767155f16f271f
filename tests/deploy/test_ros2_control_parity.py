"""RateLimiter beside the rule of ros2_control's joint limiter (compute_position_limits, no acceleration limit).

Their rule: the command clamped to [prev - vmax * dt, prev + vmax * dt] within the position bounds, in double, where
prev is the command before. It is written down here from that sentence. A million joint-steps for each period.
"""

from fractions import Fraction

import numpy as np
import pytest

from slewrl.deploy.limiter import RateLimiter
from slewrl.limits import boxmath
from slewrl.limits.parse import read_limits

JOINTS, STEPS = 1_000, 1_000


def ros2_control(command, prev, vmax, dt, low, high):
    """Their rule. A NaN command comes out as it went in, as with std::clamp."""
    return np.clip(command, np.maximum(prev - vmax * dt, low), np.minimum(prev + vmax * dt, high))


def limiter_for(vmax, dt, low, high, their_product=False):
    """delta = vmax * dt in exact arithmetic, rounded down once; or rounded as theirs is."""
    delta = vmax * dt if their_product else [Fraction(v) * Fraction(dt) for v in vmax.tolist()]
    return RateLimiter(read_limits(delta, low, high, None, None, None), dt)


def commands(rng, low, high):
    """What is asked for at one step: mostly beyond the rate, some within, some infinite, some NaN."""
    wanted = rng.uniform(1.5 * low, 1.5 * high)
    odd = rng.random(JOINTS)
    wanted[odd < 0.02] = np.nan
    wanted[(odd > 0.02) & (odd < 0.04)] = np.inf
    wanted[(odd > 0.04) & (odd < 0.06)] = -np.inf
    return wanted


# Given the same delta, the two rules differ by the rounding of one sum: an ulp. Where theirs has first rounded vmax*dt
# (as dt = .02 makes it, and a power of two does not) and ours is given the exact product, by another.
@pytest.mark.parametrize(
    ("dt", "their_product", "most_ulps"), [(2.0**-6, False, 1), (0.02, True, 1), (0.005, True, 1), (0.02, False, 2)]
)
def test_a_million_joint_steps(dt, their_product, most_ulps):
    rng = np.random.default_rng(7)
    vmax = 10 ** rng.uniform(-1, 1.5, JOINTS)
    low, high = -rng.uniform(0.1, 4, JOINTS), rng.uniform(0.1, 4, JOINTS)
    limiter = limiter_for(vmax, dt, low, high, their_product)
    limiter.start(rng.uniform(low, high))
    held = ours_outside = theirs_outside = theirs_nan = differ = 0
    for _ in range(STEPS):
        prev, wanted = limiter.prev, commands(rng, low, high)
        ours, theirs = limiter.step(wanted), ros2_control(wanted, prev, vmax, dt, low, high)
        box = (prev, limiter.down, limiter.up, low, high)
        ours_outside += int(boxmath.outside(ours, *box).sum())
        defined = ~np.isnan(wanted)
        theirs_outside += int((boxmath.outside(theirs, *box) & defined).sum())
        theirs_nan += int(np.isnan(theirs).sum())
        held += int((ours == prev)[~defined].sum())
        # An ulp of the largest number in the sum: where prev and the step cancel, the result has finer ones.
        ulp = np.spacing(np.maximum(np.maximum(abs(prev), limiter.up), abs(ours)))
        apart = (abs(ours - theirs) / ulp)[defined]
        assert apart.max() <= most_ulps
        differ += int((apart > 0).sum())
    assert ours_outside == 0
    assert theirs_outside > 10_000  # of a million: the sum rounds outward and nobody steps back
    assert differ >= theirs_outside
    assert held == limiter.nans == theirs_nan > 10_000  # where theirs hands NaN to the motor, ours holds
    print(f"dt {dt}: theirs outside {theirs_outside:,}, {differ:,} differ, NaN passed on {theirs_nan:,}")


def test_the_rule_where_no_rounding_is_involved():
    """Binary fractions: the same numbers, by hand."""
    limiter = limiter_for(np.array([8.0, 8.0, 8.0, 8.0]), 2.0**-5, np.full(4, -1.0), np.full(4, 1.0))
    limiter.start([0.0, 0.0, 0.875, 0.0])
    wanted = np.array([0.125, 3.0, 3.0, -np.inf])
    theirs = ros2_control(wanted, limiter.prev, 8.0, 2.0**-5, -1.0, 1.0)
    assert limiter.step(wanted).tolist() == theirs.tolist() == [0.125, 0.25, 1.0, -0.25]
