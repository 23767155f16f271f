"""The interval of an acceleration limit, against viability kernels found by search and against rational numbers."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slewrl.limits.viability import (
    fastest,
    grid_unit,
    increments,
    make_grid,
    reachable,
    stopping_distance,
    stops_in_time,
    too_sharp,
)

FRANKA = {"velocity": [2.175] * 4 + [2.61] * 3, "acceleration": [15, 7.5, 10, 12.5, 15, 20, 20]}
"""rad/s and rad/s^2, as the maker publishes them."""


def column(*values):
    return [np.array([float(value)]) for value in values]


def one(up, down, acceleration, deceleration):
    return SimpleNamespace(
        up=float(up), down=float(down), acceleration=float(acceleration), deceleration=float(deceleration)
    )


def allowed(v, limits):
    """Next increments by the definition alone: speeding up by at most A, slowing down by at most D, and the rates."""
    a, d = int(limits.acceleration), int(limits.deceleration)
    most = v + a if v >= 0 else min(v + d, a)
    least = v - a if v <= 0 else max(v - d, -a)
    return range(max(least, -int(limits.down)), min(most, int(limits.up)) + 1)


def kernel(width, limits):
    """States (q, v) from which a joint can stay in [0, width] for ever: dead ends are removed until none is left."""
    alive = set(itertools.product(range(width + 1), range(-int(limits.down), int(limits.up) + 1)))
    while True:
        dead = {(q, v) for q, v in alive if not any((q + w, w) in alive for w in allowed(v, limits))}
        if not dead:
            return alive
        alive -= dead


GRIDS = [
    (width, one(up, down, a, d))
    for width, up, down, a, d in itertools.product((3, 7, 16), (1, 3, 6), (2, 5), (1, 2, 4), (1, 2, 3))
]


@pytest.mark.parametrize(("width", "limits"), GRIDS)
def test_the_interval_is_the_largest_one_that_never_ends_in_a_dead_end(width, limits):
    alive = kernel(width, limits)
    for q, v in alive:
        bottom, top = increments(*column(v, q, width - q), limits)
        found = [w for w in allowed(v, limits) if (q + w, w) in alive]
        assert (min(found), max(found)) == (bottom[0], top[0]), (q, v)


def test_the_fastest_increment_is_the_scan_of_the_table():
    rng = np.random.default_rng(0)
    room = np.floor(2.0 ** rng.uniform(0, 25, 20_000))
    deceleration = np.maximum(np.floor(2.0 ** rng.uniform(0, 22, 20_000)), 1)
    for r, d, found in zip(room, deceleration, fastest(room, deceleration), strict=True):
        n = int((2 * r / d) ** 0.5)
        table = (Fraction(int(r) + int(d) * k * (k + 1) // 2, k + 1) for k in range(max(n - 2, 0), n + 3))
        assert found == min(value.__floor__() for value in table), (r, d)


def test_numpy_and_torch_say_the_same():
    rng = np.random.default_rng(1)
    grid = franka(dt=0.02)
    q = rng.integers(grid.low, grid.high, (500, 7)).astype(np.float64)
    v = rng.integers(-grid.down, grid.up, (500, 7)).astype(np.float64)
    ours = increments(v, q - grid.low, grid.high - q, grid)
    tensors = SimpleNamespace(**{key: torch.tensor(value) for key, value in grid._asdict().items()})
    theirs = increments(torch.tensor(v), torch.tensor(q - grid.low), torch.tensor(grid.high - q), tensors, torch)
    for one_edge, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one_edge, other.numpy())


def franka(dt, low=-2.8, high=2.8):
    rates = np.array(FRANKA["velocity"]) * dt
    acceleration = np.array(FRANKA["acceleration"]) * dt**2
    names = tuple(f"joint{i}" for i in range(7))
    limits = SimpleNamespace(up=rates, down=rates, low=np.full(7, low), high=np.full(7, high), names=names)
    return make_grid(limits, acceleration, acceleration)


@pytest.mark.parametrize("dt", [0.02, 0.001])
def test_bang_bang_never_empties_the_interval_and_never_leaves_the_range(dt):
    rng, grid = np.random.default_rng(2), franka(dt, -0.4, 0.5)
    q, v = np.floor(rng.uniform(grid.low, grid.high, (300, 7))), np.zeros((300, 7))
    side = rng.random((300, 7)) < 0.5
    for _ in range(600):
        side ^= rng.random(side.shape) < 0.02
        bottom, top = increments(v, q - grid.low, grid.high - q, grid)
        assert (bottom <= top).all()
        v = np.where(side, top, bottom)
        q = q + v
        assert ((q >= grid.low) & (q <= grid.high)).all()


def test_limits_that_shrink_while_the_joint_moves_ask_for_full_braking():
    tight = one(up=2, down=2, acceleration=3, deceleration=3)
    assert increments(*column(10, 100, 100), tight) == (7, 7)  # the rate of 2 is approached by D
    assert increments(*column(10, 100, 4), tight) == (7, 7)  # it can no longer stop in time: brake all the same
    assert not stops_in_time(*column(10, 100, 4), 3.0)
    assert stops_in_time(*column(10, 100, 12), 3.0)  # 7 + 4 + 1


def test_the_stopping_distance_of_seven_at_three_is_twelve():
    assert stopping_distance(np.array([7.0, -7.0, 0.0]), 3.0).tolist() == [12, 12, 0]


def test_a_grid_holds_every_command_in_float32():
    for low, high in [(-3.14159, 3.14159), (1000.0, 1001.0), (-1e-3, 2e-3), (0.0, 2.0**-100), (-(2.0**24), 1.0)]:
        unit = grid_unit(low, high)
        assert np.frexp(unit)[0] == 0.5  # a power of two
        assert max(abs(low), abs(high), high - low) / unit <= 2**24 < 2 * max(abs(low), abs(high), high - low) / unit
        ends = np.array([np.ceil(low / unit), np.floor(high / unit)]) * unit
        np.testing.assert_array_equal(ends.astype(np.float32).astype(np.float64), ends)


def test_a_limit_below_the_grid_is_refused_by_name():
    up, low, high = np.array([0.1]), np.array([-3.0]), np.array([3.0])
    limits = SimpleNamespace(up=up, down=up, low=low, high=high, names=("elbow",))
    with pytest.raises(ValueError, match="acceleration of 'elbow' is 1e-07 per step, expected at least 9.5367"):
        make_grid(limits, np.array([1e-7]), up)


def test_the_audit_decides_by_rational_numbers():
    a = d = 0.1
    before, prev = 0.3, 0.1 + 0.3  # velocities of .1 that are a hair more or less than the float .1
    for action in np.nextafter(prev + 0.2, [-1, 0.6, 2]):
        step, velocity = Fraction(action) - Fraction(prev), Fraction(prev) - Fraction(before)
        expected = not step <= velocity + Fraction(a)
        assert too_sharp(*column(action, prev, before, a, d))[0] == expected


@pytest.mark.parametrize(
    ("before", "prev", "action", "a", "d", "broken"),
    [
        (0, 0, 1, 1, 1, False),
        (0, 0, 1.5, 1, 1, True),
        (0, 0, np.nan, 1, 1, True),
        (1, 3, 3, 1, 2, False),  # from 2 to 0 per step: D
        (1, 3, 2.5, 1, 2, True),
        (-1, 0, -1, 1, 5, False),  # from 1 to -1: D is large, but A is what may be had on the other side
        (-1, 0, -1.5, 1, 5, True),
        (0, -1, 0, 1, 5, False),
        (0, -1, 0.5, 1, 5, True),
    ],
)
def test_slowing_down_uses_d_and_speeding_up_a(before, prev, action, a, d, broken):
    assert too_sharp(*column(action, prev, before, a, d))[0] == broken


@pytest.mark.parametrize(("a", "d"), list(itertools.product((1, 2, 4), (1, 3, 5))))
def test_a_pose_off_the_grid_matters_to_a_joint_that_stays_and_then_turns_back(a, d):
    """Every first and second step from poses up to half a unit off the grid, judged from the pose itself.

    Limits as written are a unit above those on the grid. The first step always holds. The second holds unless D < A,
    the joint stayed at its grid point in the first, and it now moves by more than D back across the pose.
    """
    broken = set()
    for e, v1 in itertools.product((-0.5, -0.25, 0.25, 0.5), range(-a, a + 1)):
        pose, first = -e, float(v1)  # the grid point is 0
        assert not too_sharp(*column(first, pose, pose, a + 1, d + 1))
        least, most = reachable(*column(first, a, d))
        for v2 in range(int(least[0]), int(most[0]) + 1):
            assert not too_sharp(*column(first + v2, first, 0, a + 1, d + 1))  # from the grid point
            if too_sharp(*column(first + v2, first, pose, a + 1, d + 1)):
                broken.add((v1, np.sign(v2 * e), abs(v2) > d))
    assert broken == ({(0, -1.0, True)} if d < a else set())
