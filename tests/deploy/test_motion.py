"""Commands under acceleration limits, step by step: within the limits, never at a dead end, never past a target."""

from types import SimpleNamespace

import numpy as np
import pytest

from slewrl.deploy.motion import Motion
from slewrl.limits import viability
from slewrl.limits.viability import too_sharp

NAMES = tuple(f"joint{i}" for i in range(7))
SPEED, ACCELERATION = np.array([2.175] * 4 + [2.61] * 3), np.array([15, 7.5, 10, 12.5, 15, 20, 20.0])


def grid(limits):
    named = SimpleNamespace(**limits, names=NAMES)
    return viability.make_grid(named, limits["acceleration"], limits["deceleration"])


def franka(dt=0.02, low=-2.8, high=2.8):
    rate, faster = SPEED * dt, ACCELERATION * dt**2
    limits = {"up": rate, "down": rate, "low": np.full(7, low), "high": np.full(7, high)}
    return {**limits, "acceleration": faster, "deceleration": faster}


def audit(path, limits):
    """(violations of the rate, of the acceleration, of the bounds), decided exactly."""
    path = np.asarray(path)
    steps, before = np.diff(path, axis=0), np.vstack([path[:1], path[:-2]])
    rate = (steps > limits["up"]) | (steps < -limits["down"])
    sharp = too_sharp(path[1:], path[:-1], before, limits["acceleration"], limits["deceleration"])
    return int(rate.sum()), int(sharp.sum()), int(((path < limits["low"]) | (path > limits["high"])).sum())


@pytest.mark.parametrize("stop_at_target", [True, False])
@pytest.mark.parametrize("dt", [0.02, 0.001])
def test_no_violation_whatever_is_commanded(dt, stop_at_target):
    limits, rng = franka(dt, -0.5, 0.3), np.random.default_rng(0)
    motion = Motion(grid(limits), NAMES, stop_at_target)
    path, target = [motion.start(rng.uniform(-0.5, 0.3, 7))], np.zeros(7)
    for _ in range(4000):
        if rng.random() < 0.05:
            target = rng.choice([np.nan, np.inf, -np.inf, 1e300, 0.2, -0.4, 0.0], 7)
        path.append(motion.step(target + rng.normal(0, 0.01, 7)))
    assert audit(path, limits) == (0, 0, 0)


@pytest.mark.parametrize("dt", [0.02, 0.001])
def test_a_held_target_is_reached_and_not_overshot(dt):
    motion, target = Motion(grid(franka(dt)), NAMES), np.linspace(-1, 1, 7)
    motion.start(np.zeros(7))
    path = np.array([motion.step(target) for _ in range(int(3 / dt))])
    beyond = np.sign(target) * (path - target)
    assert beyond.max() <= motion.full.unit.max() and np.abs(path[-1] - target).max() <= motion.full.unit.max()
    assert not motion.velocity.any()


def test_to_brake_is_to_come_to_rest_as_fast_as_allowed():
    motion = Motion(grid(franka()), NAMES)
    motion.start(np.zeros(7))
    for _ in range(20):
        motion.step(np.full(7, 2.0))
    before = motion.velocity
    motion.brake()
    np.testing.assert_array_equal(motion.velocity, np.maximum(before - motion.full.deceleration, 0))
    for _ in range(20):
        motion.brake()
    assert not motion.velocity.any()


def test_lower_rates_are_approached_within_the_acceleration():
    limits = franka()
    motion = Motion(grid(limits), NAMES)
    path = [motion.start(np.zeros(7))]
    path += [motion.step(np.full(7, 2.0)) for _ in range(12)]
    motion.set_rates(limits["up"] / 10, limits["down"] / 10)
    path += [motion.step(np.full(7, 2.0)) for _ in range(30)]
    assert audit(path, limits)[1:] == (0, 0)
    assert (np.diff(path[-2:], axis=0) <= limits["up"] / 10).all()


def test_a_lower_deceleration_waits_until_the_joint_can_stop_by_it():
    limits = franka(low=-0.3, high=0.3)
    motion = Motion(grid(limits), NAMES, stop_at_target=False)
    path = [motion.start(np.full(7, -0.3))]
    path += [motion.step(np.full(7, 0.3)) for _ in range(10)]
    motion.set_acceleration(limits["acceleration"] / 4, limits["deceleration"] / 4)
    path += [motion.step(np.full(7, 0.3)) for _ in range(60)]
    assert motion.waiting > 0
    assert audit(path, limits)[1:] == (0, 0)
    assert (motion.limits.deceleration <= motion.full.deceleration / 3).all()


def test_a_start_too_fast_to_stop_is_refused_with_the_distance():
    motion, speed = Motion(grid(franka()), NAMES), np.zeros(7)
    speed[2] = 0.04
    motion.start(np.zeros(7), speed)
    with pytest.raises(ValueError, match=r"velocity of 'joint2' is 0\.04.* per step: braking takes 0\.18.* there is 0"):
        motion.start(np.full(7, 2.8), speed)
