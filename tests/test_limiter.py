"""RateLimiter: in F_t in exact arithmetic, whatever it is asked for, whenever."""

from fractions import Fraction

import numpy as np
import pytest

from slewrl import boxmath
from slewrl.deploy.limiter import RateLimiter
from slewrl.reading import read_limits

NAN, INF = float("nan"), float("inf")


def limits(d=7, seed=0):
    """Ranges and rates of all sizes, different up and down."""
    rng = np.random.default_rng(seed)
    centre, half = rng.normal(0, 3, d), 10 ** rng.uniform(-2, 2, d)
    up, down = half * 10 ** rng.uniform(-3, 0.5, d), half * 10 ** rng.uniform(-3, 0.5, d)
    return read_limits(None, centre - half, centre + half, up, down, None)


def begun(pose=None, **options):
    made = limits()
    limiter = RateLimiter(made, **options)
    limiter.start((made.low + made.high) / 2 if pose is None else pose)
    return limiter


def adversarial(rng, limiter, steps):
    """Commands near the edges of the box to the ulp, far outside, and none at all."""
    d = len(limiter.names)
    for _ in range(steps):
        prev = limiter.prev
        near = prev + rng.choice([-1, 1], d) * rng.choice([limiter.up, limiter.down])
        near = np.nextafter(near, rng.choice([-INF, INF], d))
        wild = rng.choice([NAN, INF, -INF, 1e308, -1e308, 5e-324, 0.0], d)
        plain = rng.normal(prev, limiter.up)
        yield prev, np.choose(rng.integers(0, 3, d), [near, wild, plain])


def test_zero_violations_fed_back():
    limiter, rng, broken = begun(), np.random.default_rng(1), 0
    for prev, command in adversarial(rng, limiter, 20_000):
        out = limiter.step(command)
        broken += boxmath.outside(out, prev, limiter.down, limiter.up, limiter.low, limiter.high).sum()
    assert broken == 0


def test_its_edges_are_those_of_boxmath():
    """Every feasible float can be reached: asking for infinity gives the outermost."""
    limiter, rng = begun(), np.random.default_rng(2)
    for _ in range(3_000):
        prev = rng.uniform(limiter.low, limiter.high)
        bottom, top = boxmath.tight_edges(prev, limiter.down, limiter.up, limiter.low, limiter.high)
        for wanted, edge in ((INF, top), (-INF, bottom)):
            limiter.start(prev)
            assert np.array_equal(limiter.step(np.full(prev.shape, wanted)), edge)
        inside = rng.uniform(bottom, top)
        limiter.start(prev)
        assert np.array_equal(limiter.step(inside), inside)  # and what is allowed passes unchanged


def test_nan_holds_that_joint_alone():
    limiter = begun()
    prev = limiter.prev
    out = limiter.step([NAN, INF, NAN, *prev[3:]])
    assert np.array_equal(out[[0, 2]], prev[[0, 2]]) and out[1] > prev[1]
    assert limiter.nans == 2


@pytest.mark.parametrize("longest", [1.0, 2.5])
def test_a_step_moves_in_proportion_to_its_time(longest):
    """By rational numbers: never more than rate * min(dt / nominal, longest)."""
    limiter, rng = begun(dt=0.02, longest=longest), np.random.default_rng(3)
    times = [
        0.02,
        np.nextafter(0.02, 0),
        np.nextafter(0.02, 1),
        0.01,
        0.04,
        1e9,
        INF,
        1e-300,
        *rng.exponential(0.02, 60),
    ]
    for dt in times:
        prev = (limiter.low + limiter.high) / 2
        share = min(Fraction(dt) / Fraction(0.02), Fraction(longest)) if dt < INF else Fraction(longest)
        for sign, rate in ((1, limiter.up), (-1, limiter.down)):
            limiter.start(prev)
            moved = limiter.step(np.full(prev.shape, sign * INF), dt) - 0.0
            for out, before, most in zip(moved, prev, rate, strict=True):
                assert abs(Fraction(out) - Fraction(before)) <= Fraction(most) * share
    for dt in (0.0, -0.02, NAN):
        prev = limiter.prev
        assert np.array_equal(limiter.step(-np.sign(prev) * INF, dt), prev)


def test_on_time_is_as_if_untimed():
    timed, plain, rng = begun(dt=0.02), begun(), np.random.default_rng(4)
    for _, command in adversarial(rng, plain, 500):
        assert np.array_equal(timed.step(command, 0.02), plain.step(command))


def test_late_steps_do_not_catch_up():
    limiter, other = begun(dt=0.02), begun()
    assert np.array_equal(limiter.step(np.full(7, INF), 10.0), other.step(np.full(7, INF)))


def test_pushed_out_of_the_range_it_only_comes_back():
    made = limits()
    outside = made.high + 2.5 * made.down
    limiter = begun(outside)
    for wanted in (INF, NAN):
        assert np.array_equal(limiter.step(np.full(7, wanted)), outside)
    before = outside
    for _ in range(10):
        after = limiter.step(made.low)
        assert ((after < before) | (before == made.low)).all()
        assert not boxmath.outside(after, before, made.down, made.up, made.low, np.maximum(made.high, before)).any()
        before = after
    assert (after <= made.high).all()  # two and a half steps' worth


def test_a_restart_goes_on_as_if_nothing_had_happened():
    one, rng = begun(), np.random.default_rng(5)
    for k, (prev, command) in enumerate(adversarial(rng, one, 300)):
        if k % 50 == 0:
            two = begun(prev)
        assert np.array_equal(one.step(command), two.step(command))


def test_derating():
    limiter, made = begun(), limits()
    limiter.derate({"joint0": made.up[0] / 4, "joint1": 0.0, "joint2": 1e9})
    prev = limiter.prev
    moved = np.abs(limiter.step(np.full(7, INF)) - prev)
    assert moved[0] <= made.up[0] / 4 and moved[1] == 0  # 0 holds
    assert moved[2] <= made.up[2]  # and nothing is ever raised
    limiter.derate({"joint3": 0.0})
    assert limiter.rates[0, 1] == 0 and limiter.rates[0, 3] == 0  # the others keep what they have
    limiter.derate(None)
    assert limiter.step(np.full(7, INF))[1] > prev[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": [NAN] * 7}, "range"), ({"high": [INF] * 7}, "range"), ({"low": [1e9] * 7}, "range"),
        ({"up": [NAN] * 7}, "rates"), ({"down": [-0.1] * 7}, "rates"), ({"up": [0.0] * 7}, "rates"),
    ],
)  # fmt: skip
def test_limits_that_limit_nothing_are_refused(change, message):
    with pytest.raises(ValueError, match=f"'joint0': {message}"):
        RateLimiter(limits()._replace(**change))


def test_hold_and_release():
    limiter = begun()
    prev = limiter.prev
    limiter.hold()
    assert np.array_equal(limiter.step(np.full(7, INF)), prev)
    limiter.release()
    assert (limiter.step(np.full(7, INF)) > prev).all()


def test_it_writes_where_it_is_told_and_keeps_nothing():
    limiter, out = begun(), np.empty(7)
    assert limiter.step(np.zeros(7), out=out) is out
    kept = out.copy()
    out[:] = NAN  # the caller's array is the caller's
    limiter.prev[:] = NAN
    assert np.array_equal(limiter.prev, kept)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RateLimiter(limits()).step(np.zeros(7)), "start"),
        (lambda: begun(np.zeros(3)), r"pose has shape \(3,\), expected \(7,\)"),
        (lambda: begun([NAN] * 7), "pose of 'joint0' is nan, expected a finite number"),
        (lambda: begun().step(np.zeros(5)), r"command has shape \(5,\), expected numbers of shape \(7,\)"),
        (lambda: begun().step([1.0]), r"command has shape \(1,\)"),
        (lambda: begun().step(1.0), r"command has shape \(\)"),
        (lambda: begun().step(np.zeros((1, 7))), r"command has shape \(1, 7\)"),
        (lambda: begun().step(np.zeros(7), out=np.zeros(7, np.float32)), "out is float32"),
        (lambda: begun().step(np.zeros(7), out=np.zeros((2, 7))), r"out is float64 \(2, 7\)"),
        (lambda: begun().step(np.zeros(7), 0.02), "the limits have none"),
        (lambda: begun(dt=-1.0), "dt is -1.0, expected a positive"),
        (lambda: begun(longest=NAN), "longest is nan"),
        (lambda: begun(longest=0.3), "longest is 0.3, expected a finite number of nominal steps >= 1"),
        (lambda: begun().step(np.zeros(7), out=np.broadcast_to(0.0, 7)), "expected writable"),
        (lambda: begun().set_rates(np.zeros((2, 3))), r"rates have shape \(2, 3\)"),
        (lambda: begun().derate({"hip": 1.0}), "unknown joint 'hip'; known joints: joint0"),
        (lambda: begun().derate({"joint1": NAN}), "rate of 'joint1' is nan"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, KeyError, RuntimeError), match=message):
        call()


@pytest.mark.slow
def test_a_hundred_million_joint_steps():
    """Fed back, adversarial, with deratings and odd timing: 1,000 joints x 100,000 steps."""
    rng = np.random.default_rng(0)
    made, broken = limits(1_000), 0
    limiter = RateLimiter(made, dt=0.02)
    limiter.start((made.low + made.high) / 2)
    out, wild = np.empty(1_000), np.array([NAN, INF, -INF, 1e308, -1e308, 0.0])
    for k in range(100_000):
        prev = limiter.prev
        command = rng.normal(prev, made.up)
        command[rng.integers(1_000, size=600)] = wild[k % 6]
        if k % 997 == 0:
            limiter.start(rng.uniform(made.low, made.high))
            prev = limiter.prev
        limiter.step(command, 0.02 * rng.exponential() if k % 7 == 0 else None, out)
        broken += boxmath.outside(out, prev, made.down, made.up, made.low, made.high).sum()
    assert broken == 0
