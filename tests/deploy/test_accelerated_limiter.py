"""RateLimiter under acceleration limits: it brakes for its target, and what it refuses it refuses by name."""

import copy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter
from slewrl.limits import viability

NAN, INF = float("nan"), float("inf")
SPEEDS, ACCELERATIONS = [2.175] * 4 + [2.61] * 3, [15, 7.5, 10, 12.5, 15, 20, 20]


def franka(**changes):
    given = {"low": -0.8, "high": 0.6, "dt": 0.02, "acceleration": ACCELERATIONS}
    return RateLimits([0.02 * x for x in SPEEDS], **given | changes)


SKEW = RateLimits(
    up=[0.05, 0.3, 0.02], down=[0.2, 0.1, 0.4], low=[-1, 0.5, -2], high=[1, 1.5, -1], acceleration=0.03,
    deceleration=[0.01, 0.08, 0.03],
)  # fmt: skip


def begun(limits=None, pose=None, velocity=None):
    limits = limits or franka()
    limiter = RateLimiter(limits)
    limiter.start((limits.low + limits.high) / 2 if pose is None else pose, velocity)
    return limiter


def broken(path, limits):
    """Joint steps outside the limits, decided exactly; the path begins at rest."""
    path = np.asarray(path)
    return int(limits.outside(path[1:], path[:-1], np.vstack([path[:1], path[:-2]])).sum())


def wishes(rng, limiter, steps):
    """Targets that stay for a while, that move, an ulp beside the command, far outside, and none at all."""
    d, target = len(limiter.names), limiter.prev
    for _ in range(steps):
        if rng.random() < 0.05:
            target = rng.uniform(1.2 * limiter.low, 1.2 * limiter.high)
        wild = rng.choice([NAN, INF, -INF, 1e308, -1e308, 5e-324, 0.0], d)
        near = np.nextafter(limiter.prev, rng.choice([-INF, INF], d))
        target = target + rng.normal(0, 1e-3, d)
        kind = rng.integers(0, 8, d)
        yield np.where(kind == 0, wild, np.where(kind == 1, near, target))


@pytest.mark.parametrize("stop_at_target", [True, False])
@pytest.mark.parametrize("limits", [franka(), SKEW], ids=["franka", "skew"])
def test_zero_violations_fed_back(limits, stop_at_target):
    limiter, rng = begun(limits), np.random.default_rng(1)
    limiter.motion.stop_at_target = stop_at_target
    path = [limiter.prev]
    for k, wanted in enumerate(wishes(rng, limiter, 4_000)):
        if k % 200 < 100 and not stop_at_target:  # the actions of a policy, most of them plainly inside
            change = rng.uniform(-0.2, 0.2, limits.dim) * limits.acceleration
            path.append(limiter.step(limiter.prev + limiter.velocity + change))
        path.append(limiter.step(wanted))
    assert broken(path, limits) == 0
    assert limiter.nans > 100


def test_steps_to_a_target_are_not_forgotten_by_those_of_a_policy():
    limits = franka()
    limiter = begun(limits)
    path = [limiter.prev]
    for stop_at_target, wanted, steps in ((False, 0.0, 2), (True, 0.55, 30), (False, INF, 60)):
        limiter.motion.stop_at_target = stop_at_target
        path += [limiter.step(np.full(7, wanted)) for _ in range(steps)]
    assert broken(path, limits) == 0


def test_a_held_target_is_reached_and_not_overshot():
    limiter, target = begun(), np.linspace(-0.7, 0.5, 7)
    path = np.array([limiter.step(target) for _ in range(200)])
    side = np.sign(target - path[0])
    assert (side * (path - target) <= limiter.motion.full.unit).all()
    np.testing.assert_allclose(path[-1], target, rtol=0, atol=1e-6)
    assert not limiter.velocity.any()


@pytest.mark.parametrize("way", ["nan", "hold", "rate 0"])
def test_to_hold_is_to_brake_and_then_to_hold(way):
    limits, limiter = franka(), begun()
    path = [limiter.prev, *(limiter.step(np.full(7, INF)) for _ in range(8))]
    fast = limiter.velocity
    assert (fast > limits.deceleration).all()
    if way == "hold":
        limiter.hold()
    if way == "rate 0":
        limiter.derate(dict.fromkeys(limits.names, 0.0))
    wanted = np.full(7, NAN if way == "nan" else INF)
    path.append(limiter.step(wanted))
    slower = viability.brake(np.rint(fast / limits.grid.unit), limits.grid.deceleration) * limits.grid.unit
    np.testing.assert_array_equal(limiter.velocity, slower)
    path += [limiter.step(wanted) for _ in range(20)]
    assert not limiter.velocity.any() and np.array_equal(path[-1], path[-2])
    assert broken(path, limits) == 0


def test_a_restart_with_its_velocity_goes_on_as_if_nothing_had_happened():
    one, rng = begun(), np.random.default_rng(5)
    for k, wanted in enumerate(wishes(rng, one, 400)):
        if k % 50 == 0:
            two = begun(pose=one.prev, velocity=one.velocity)
        assert np.array_equal(one.step(wanted), two.step(wanted))


def test_lower_rates_are_approached_and_lower_accelerations_kept():
    limits, limiter = franka(low=-2.8, high=2.8), begun(franka(low=-2.8, high=2.8))
    path = [limiter.prev, *(limiter.step(np.full(7, 2.0)) for _ in range(8))]
    limiter.derate({"joint0": 0.01})
    path += [limiter.step(np.full(7, 2.0)) for _ in range(8)]
    assert broken(path, limits) == 0 and path[-1][0] - path[-2][0] <= 0.01
    limiter.derate(None)
    limiter.derate_acceleration({"joint1": 0.001}, {"joint2": 0.002})
    assert limiter.accelerations[:, 1].tolist() == [0.001, limits.deceleration[1]]
    limiter.start(np.zeros(7))
    before = limiter.velocity
    limiter.step(np.full(7, INF))
    assert limiter.velocity[1] - before[1] <= 0.001 and limiter.velocity[3] - before[3] > 0.001
    limiter.derate_acceleration({"joint1": 0.001})
    assert limiter.accelerations[:, 1].tolist() == [0.001, 0.001]
    limiter.derate_acceleration(None)
    np.testing.assert_array_equal(limiter.accelerations, [limits.acceleration, limits.deceleration])


def test_a_lower_deceleration_waits_until_the_joint_can_stop_by_it():
    limits = franka()
    limiter = begun(limits, pose=limits.low)
    limiter.motion.stop_at_target = False
    path = [limiter.prev, *(limiter.step(np.full(7, INF)) for _ in range(22))]
    limiter.derate_acceleration(dict(zip(limits.names, limits.acceleration / 5, strict=True)))
    path += [limiter.step(np.full(7, INF)) for _ in range(60)]
    assert limiter.waiting > 0 and broken(path, limits) == 0
    assert (limiter.motion.limits.deceleration <= limits.grid.deceleration / 4).all()


def test_from_outside_the_range_it_only_comes_back():
    limits = franka()
    limiter = begun(limits, pose=limits.high + 0.3)
    path = [limiter.prev, *(limiter.step(np.full(7, INF)) for _ in range(5))]
    assert all(np.array_equal(path[0], x) or (x <= path[0]).all() for x in path)
    path += [limiter.step(np.full(7, 0.1)) for _ in range(200)]
    assert (np.diff(path, axis=0) <= 0).all() and (path[-1] <= limits.high).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: begun().step(np.zeros(7), 0.02), "step got dt 0.02, but the limits have an acceleration"),
        (lambda: RateLimiter(franka(), budget=2), "budget is given, but the limits have an acceleration"),
        (lambda: RateLimiter(franka(), longest=2), "longest is 2.0, expected 1"),
        (
            lambda: begun(pose=np.full(7, 0.6), velocity=np.full(7, 0.03)),
            r"velocity of 'joint0' is 0\.03\d* per step: braking takes 0\.0\d+ more, and there is 0 left",
        ),
        (lambda: begun(velocity=np.full(7, 0.05)), "velocity of 'joint0' is 0.05.*within its rate"),
        (lambda: begun(velocity=np.full(7, NAN)), "velocity of 'joint0' is nan, expected a finite number"),
        (lambda: begun(velocity=np.zeros(3)), r"velocity has shape \(3,\), expected \(7,\)"),
        (lambda: begun(pose=np.full(7, 1e12)), r"pose of 'joint0' is 1000000000000\.0, expected at most"),
        (lambda: begun(RateLimits(0.1, -1, 1), velocity=[0.1]), "velocity is given, but these limits have no accel"),
        (lambda: begun(RateLimits(0.1, -1, 1)).velocity, "no velocity: these limits have no acceleration"),
        (lambda: begun().derate_acceleration({"joint1": 0.0}), "acceleration of 'joint1' is 0.0, expected a number >="),
        (lambda: begun().derate_acceleration({"hip": 0.1}), "unknown joint 'hip'"),
        (lambda: begun().derate_acceleration(0.1), "accelerations are 0.1, expected {joint: per step squared}"),
        (lambda: begun(RateLimits(0.1, -1, 1)).derate_acceleration(None), "is for limits with an acceleration"),
        (lambda: one(acceleration=[NAN]), "acceleration of 'hip' is nan, expected a positive number"),
        (lambda: one(acceleration=[0.1], deceleration=[0.0]), "deceleration of 'hip' is 0.0, expected a positive"),
        (lambda: one(deceleration=[0.1]), "a deceleration without an acceleration"),
        (lambda: one(acceleration=[0.1, 0.1]), r"acceleration has shape \(2,\), expected \(1,\)"),
        (lambda: one(acceleration=[1e-9]), "acceleration of 'hip' is 1e-09 per step, expected at least"),
    ],
)
def test_refused(call, message):
    with pytest.raises((ValueError, KeyError, AttributeError), match=message):
        call()


def one(**changes):
    return RateLimiter(SimpleNamespace(up=[0.1], down=[0.1], low=[-1.0], high=[1.0], names=("hip",), **changes))


def test_any_object_with_an_acceleration_will_do():
    ours, theirs = one(acceleration=[0.02]), RateLimiter(RateLimits(0.1, -1, 1, names=["hip"], acceleration=0.02))
    for limiter in (ours, theirs):
        limiter.start([0.0])
    assert all(np.array_equal(ours.step([0.7]), theirs.step([0.7])) for _ in range(30))


def test_a_number_above_a_limit_is_the_limit():
    """Of rates and accelerations alike: derating never widens anything."""
    limits, limiter = franka(), begun()
    limiter.derate({"joint0": 9.0})
    limiter.derate_acceleration({"joint0": 9.0})
    np.testing.assert_array_equal(limiter.rates, [limits.up, limits.down])
    np.testing.assert_array_equal(limiter.accelerations, [limits.acceleration, limits.deceleration])
    assert all(np.array_equal(*pair) for pair in zip(limiter.motion.limits, limits.grid, strict=True))


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_or_a_preset_will_do(tmp_path, kind):
    limits = franka()
    limits.to_yaml(tmp_path / "limits.yaml")
    limiter = RateLimiter(kind(tmp_path / "limits.yaml"))
    assert limiter.dt == 0.02 and all(np.array_equal(*p) for p in zip(limiter.motion.full, limits.grid, strict=True))
    assert RateLimiter("HalfCheetah-v5:tight_acceleration").motion is not None
    with pytest.raises(FileNotFoundError, match="nowhere.yaml"):
        RateLimiter(kind("nowhere.yaml"))
    with pytest.raises(ValueError, match="limits are 0.1, which have no 'names', expected RateLimits"):
        RateLimiter(0.1)


def test_a_copy_goes_on_alone():
    limiter = begun()
    for _ in range(5):
        limiter.step(np.full(7, 0.5))
    limiter.derate_acceleration({"joint0": 0.001})
    twin = copy.deepcopy(limiter)
    expected = [twin.step(np.full(7, 0.5)) for _ in range(9)]
    assert np.array_equal([limiter.step(np.full(7, 0.5)) for _ in range(9)], expected)
