"""``benchmarks/limiters.py``: the rules of others by hand-computed steps, ours without a violation, and its audit."""

from pathlib import Path

import numpy as np
import pytest

from slewrl import RateLimits


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import limiters

    return limiters


def one_joint(bench, contender):
    """A joint in [-1, 1] with a rate of 0.5 and an acceleration of 0.125 per step, at rest at 0."""
    limits = RateLimits(0.5, -1, 1, acceleration=0.125)
    limiter = bench.CONTENDERS[contender](bench.Task(limits, 1, 1.0))
    limiter.start(np.zeros((1, 1)))
    return limiter


@pytest.mark.parametrize(
    ("contender", "targets", "expected"),
    [
        ("ros2_control, rate only", [9, 9, 9, -9], [0.5, 1, 1, 0.5]),
        ("ros2_control, with acceleration", [9, 9, -9, -9], [0.125, 0.375, 0, -0.5]),  # it turns around at once
        ("ros2_control, saturation, v at the end", [9, 9, -9], [0.0625, 0.25, 0.4375]),
        ("ros2_control, saturation, v by differences", [9, 9, -9], [0.0625, 0.1875, 0.25]),
        ("continuous brake √(2 A room)", [9, 9, 9], [0.125, 0.375, 0.75]),
        ("rate, acceleration, position clip", [9, 9, 9, 9], [0.125, 0.375, 0.75, 1]),
    ],
)
def test_the_rules_of_others_by_hand(bench, contender, targets, expected):
    limiter = one_joint(bench, contender)
    found = [float(limiter.step(np.array([[float(target)]]))[0, 0]) for target in targets]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("contender", ["slewrl", "slewrl, no braking for the target"])
def test_ours_breaks_nothing(bench, contender):
    for name in (bench.SLOW, "H1, 50 Hz"):
        limits, rng = bench.robots()[name], np.random.default_rng(0)
        job = bench.task(name, limits, 8)
        targets = bench.adversarial(job, 60, rng)
        found = bench.audit(bench.run(bench.CONTENDERS[contender](job), bench.poses(job, rng), targets), limits)
        assert not found.exact.any() and found.dead == 0 and found.worst <= 1


def test_ours_stops_at_a_held_target_and_brakes_for_nan(bench):
    job = bench.task(bench.SLOW, bench.franka(0.02), 1)
    path, _, end = bench.response(bench.CONTENDERS["slewrl"], job, seconds=2.0)
    assert (path <= end).all() and (path[-1] == end).all()
    assert bench.with_nans(bench.CONTENDERS["slewrl"], 100) == "brakes"
    assert "NaN" in bench.with_nans(bench.DoubleClip, 100)


def test_the_audit_sees_each_kind(bench):
    limits = RateLimits(0.5, -1, 1, acceleration=0.125)
    path = np.array([0, 0, 0.125, 0.375, 0.75, 1.0])[:, None, None]
    found = bench.audit(path, limits)
    assert not found.exact.any() and found.dead == 1  # at 1.0 with 0.25 a step leads to 1.125 at least
    beyond = bench.audit(np.append(path, [[[1.125]]], axis=0), limits)
    assert beyond.exact.tolist() == beyond.gross.tolist() == [0, 0, 1] and beyond.dead == 2
    assert bench.audit(np.array([0, 0, 0.6])[:, None, None], limits).exact.tolist() == [1, 1, 0]
