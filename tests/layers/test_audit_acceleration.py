"""The audit under acceleration limits: hard layers break nothing, and each kind of violation is counted apart."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.layers import audit

ARM = RateLimits(0.3, -1, 1, names=["a", "b"], acceleration=[0.11, 0.04], deceleration=[0.05, 0.07])
HARD = [name for name in LAYERS if LAYERS[name].hard and name != "budget"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", HARD)
def test_no_violation_under_lower_rates_and_restarts(name, dtype):
    mapping = audit.executed_by(make_layer(name))
    for tally in (
        audit.audit_chain(mapping, ARM, dtype, steps=300, lanes=8),
        audit.audit(mapping, ARM, dtype, 4000),
        audit.audit(mapping, ARM, dtype, 4000, of_step=True),
    ):
        assert tally.cases >= 4000
        assert (tally.violations, tally.rate, tally.bounds, tally.acceleration) == (0, 0, 0, 0)


def shortcut(latent, box):
    """The usual limiter: v + A, the rate, and a speed of at most sqrt(2 D room), the brake of continuous time."""
    a, d = (x.to(latent.dtype) for x in box.grid.exact)
    down, up, low, high = (x.to(latent.dtype) for x in box.exact)
    top = torch.minimum(torch.minimum(box.velocity + a, up), torch.sqrt(2 * d * (high - box.prev).clamp_min(0)))
    bottom = -torch.minimum(torch.minimum(a - box.velocity, down), torch.sqrt(2 * d * (box.prev - low).clamp_min(0)))
    return box.prev + torch.where(latent < 0, bottom, top)


def test_the_usual_shortcut_is_caught():
    tally = audit.audit_chain(shortcut, ARM, torch.float64, steps=300, lanes=8)
    assert tally.acceleration > 20 and tally.bounds > 0


def test_the_rate_alone_is_seen_to_be_too_sharp():
    plain = RateLimits(0.3, -1, 1, names=["a", "b"])

    def rate_only(latent, box):
        return make_layer("ddsrad").execute(latent, plain.box(box.prev, check=False))

    tally = audit.audit_chain(rate_only, ARM, torch.float64, steps=200, lanes=4)
    assert tally.acceleration > 200 and tally.bounds == 0
    alone = audit.audit(rate_only, ARM, torch.float64, 2000)
    assert alone.violations == alone.acceleration > 500 and alone.rate == 0


def test_each_kind_is_counted_apart():
    """By hand: too sharp, too fast and too sharp, beyond the range and too sharp, inside."""
    prev, velocity = torch.tensor([[0.0, 0.0], [1.0, 0.5]]).double(), torch.zeros(2, 2).double()
    box = ARM.box(prev, velocity=velocity)
    tally = audit.judge_box(torch.tensor([[0.2, 0.4], [1.25, 0.5]]).double(), box)
    assert (tally.cases, tally.violations, tally.acceleration, tally.rate, tally.bounds) == (4, 3, 3, 1, 1)
    total = audit.Tally()
    total += tally
    total += tally
    assert (total.violations, total.acceleration, total.rate, total.bounds) == (6, 6, 2, 2)


def test_a_joint_above_a_lower_rate_may_brake_and_nothing_else():
    unit = ARM.grid.unit[0]
    fast = torch.tensor([[round(0.2 / unit) * unit, 0.0]]).double()
    box = ARM.box(torch.zeros(1, 2).double(), velocity=fast, delta=[0.01, 0.01], check=False)
    brake = fast - torch.tensor([[ARM.grid.deceleration[0] * unit, 0.0]])
    assert audit.judge_box(brake, box).violations == 0
    later = audit.judge_box(brake + torch.tensor([[unit, 0.0]]), box)
    assert later.violations == later.rate == 1 and later.acceleration == 0


def test_verdicts_on_acceleration_agree_with_fractions():
    """On actions a few floats from the limit, which no grid put there."""
    rng, seen = np.random.default_rng(0), set()
    before = rng.uniform(-0.5, 0.5, (300, 2))
    prev = before + rng.uniform(-0.3, 0.3, (300, 2)) * (rng.random((300, 2)) < 0.8)
    velocity = prev - before
    edge = np.where(
        velocity >= 0, velocity + ARM.acceleration, np.minimum(velocity + ARM.deceleration, ARM.acceleration)
    )
    action = prev + edge
    for _ in range(3):
        box = ARM.box(ARM.clamp(torch.from_numpy(prev)), velocity=torch.zeros(300, 2).double(), check=False)
        object.__setattr__(box, "prev", torch.from_numpy(prev))
        expected = 0
        for (i, j), now in np.ndenumerate(action):
            a, d = Fraction(float(ARM.acceleration[j])), Fraction(float(ARM.deceleration[j]))
            last, step = Fraction(prev[i, j]) - Fraction(before[i, j]), Fraction(float(now)) - Fraction(prev[i, j])
            expected += not step <= (last + a if last >= 0 else min(last + d, a))
        assert audit.judge_box(torch.from_numpy(action), box, torch.from_numpy(before)).acceleration == expected
        seen.add(expected)
        action = np.nextafter(action, 1)
    assert len(seen) > 1
