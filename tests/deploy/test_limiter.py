"""RateLimiter: in F_t in exact arithmetic, whatever it is asked for, whenever."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter
from slewrl.limits import boxmath
from slewrl.limits.parse import read_limits

NAN, INF = float("nan"), float("inf")
MAX, BEYOND = float(np.finfo(np.float64).max), float(np.nextafter(2.0**1021, np.inf))


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


# ---------------------------------------------------------------- a budget for all joints


def pair(budget, up=(0.2, 0.5), **options):
    """Two joints in [-1, 1], a fall twice as fast as a rise, at 0."""
    up = np.array(up)
    limiter = RateLimiter(read_limits(None, [-1.0, -1.0], [1.0, 1.0], up, 2 * up, None), budget=budget, **options)
    limiter.start([0.0, 0.0])
    return limiter


def spent(after, before, up, down, share=Fraction(1)):
    """Sum of |move| / (rate * share) in rational numbers; a move at rate 0 is infinite."""
    moves = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(after, before, strict=True)]
    total = Fraction(0)
    for move, rise, fall in zip(moves, up, down, strict=True):
        rate = Fraction(float(rise if move > 0 else fall)) * share
        if move and not rate:
            return INF
        total += abs(move) / rate if move else 0
    return total


def test_a_budget_of_one_is_half_the_rate_of_each_of_two():
    near = {"rtol": 0, "atol": 1e-14}
    assert np.allclose(pair(1.0).step([INF, INF]), [0.1, 0.25], **near)
    assert np.allclose(pair(1.0).step([INF, -INF]), [0.1, -0.5], **near)  # of the direction moved
    assert np.allclose(pair(0.75).step([0.2, 0.25]), [0.1, 0.125], **near)  # 1 + .5, so half of each
    assert np.allclose(pair(1.0).step([INF, NAN]), [0.2, 0.0], **near)  # one alone has all of it
    assert np.array_equal(pair(1.0).step([0.05, 0.25]), [0.05, 0.25])  # .25 + .5
    assert np.allclose(pair(1.0, dt=0.02).step([INF, INF], 0.01), [0.05, 0.125], **near)  # half the time, half the way
    assert np.allclose(pair(1.0, dt=0.02, longest=2).step([INF, INF], 0.04), [0.2, 0.5], **near)
    derated = pair(1.0)
    derated.derate({"joint0": 0.1})
    assert np.allclose(derated.step([INF, INF]), [0.05, 0.25], **near)
    derated.derate({"joint0": 0.0})
    assert np.array_equal(derated.step([INF, 0.7]), [derated.prev[0], 0.7])  # who may not move, spends nothing


def test_a_budget_of_all_joints_takes_nothing_but_roundings():
    rich, plain, rng = begun(budget=7), begun(), np.random.default_rng(6)
    for prev, command in adversarial(rng, plain, 500):
        rich.start(prev)
        assert np.allclose(rich.step(command), plain.step(command), rtol=1e-14, atol=1e-14 * plain.up.max())


def test_over_budget_and_outside_the_range_it_still_comes_back_only():
    """And remembers that it is outside when it was pulled back there, short of the edge the clip had reached."""
    limiter = pair(0.5)
    limiter.start([1.3, 0.0])  # .4 a step: the clip alone takes three quarters of one, the budget leaves less
    path = [limiter.prev]
    for wanted in ([-INF, -INF], [INF, INF], [NAN, INF], [-INF, INF], [-INF, -INF], [-INF, -INF]):
        path.append(limiter.step(wanted))
        assert -1 <= path[-1][0] <= max(path[-2][0], 1) and abs(path[-1][1]) <= 1
        assert spent(path[-1], path[-2], limiter.up, limiter.down) <= Fraction(1, 2)
    assert path[1][0] == pytest.approx(1.2) and path[2][0] == path[3][0] == path[1][0]  # out there nothing takes it on
    assert path[-1][0] < 1


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 29), st.integers(0, 2**32 - 1), st.floats(-6, 0), st.sampled_from([1.0, 2.5]),
    st.sampled_from([0, 0, 0, -150, -300]),
)  # fmt: skip
def test_the_budget_holds_in_rational_numbers(d, seed, decades, longest, scale):
    """Whatever is asked for, derated, early, late, from outside the range, down to rates that are subnormal."""
    rng, budget = np.random.default_rng(seed), d * 10.0**decades
    made = limits(d, seed)._replace(**{key: 10.0**scale * getattr(limits(d, seed), key) for key in ("up", "down")})
    limiter = RateLimiter(made, dt=0.02, longest=longest, budget=budget)
    limiter.start(rng.normal((made.low + made.high) / 2, made.high - made.low) * rng.choice([0.0, 1.0]))
    for k, (prev, command) in enumerate(adversarial(rng, limiter, 12)):
        if k % 4 == 3:
            lowered = made.up * rng.choice([0, 1e-9, rng.random()], d)
            limiter.derate(dict(zip(made.names, lowered, strict=True)))
        dt = rng.choice([0.02, 0.01, 0.05, 1e-300, 0.0, NAN, INF, rng.exponential(0.02)]) if k % 3 else None
        up, down = limiter.rates
        near = prev + rng.dirichlet(np.ones(d)) * budget * up  # a sum that is the budget, up to roundings
        after = limiter.step(command if k % 3 else near, dt)
        low, high = np.minimum(made.low, prev), np.maximum(made.high, prev)
        share = Fraction(1) if dt is None else _share(dt, longest)
        if share == 0:
            assert np.array_equal(after, prev)
            continue
        most = [[Fraction(float(x)) * share for x in rate] for rate in (up, down)]
        moves = [Fraction(float(a)) - Fraction(float(p)) for a, p in zip(after, prev, strict=True)]
        assert all(-fall <= move <= rise for move, rise, fall in zip(moves, *most, strict=True))
        assert ((after >= low) & (after <= high)).all()
        assert spent(after, prev, up, down, share) <= Fraction(budget)
        assert limiter._inside == bool(((after >= made.low) & (after <= made.high)).all())


def _share(dt, longest):
    """Of a nominal step of 20 ms."""
    if not dt > 0:
        return Fraction(0)
    return Fraction(longest) if dt == INF else min(Fraction(dt) / Fraction(0.02), Fraction(longest))


@pytest.mark.parametrize("budget", [0, -1.0, NAN, INF, 7.5, True, "2"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match=rf"budget is {budget!r}, expected a number in \(0, 7\]"):
        begun(budget=budget)


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


def one(up=0.1, down=0.1, low=-1.0, high=1.0, **options):
    """A limiter for one joint whose limits nothing else has checked."""
    return RateLimiter(SimpleNamespace(up=[up], down=[down], low=[low], high=[high], names=("hip",)), **options)


def test_the_largest_numbers_are_exact():
    """Sums that overflow would lose the step back; just below, there are none."""
    most, rng = boxmath.LARGEST, np.random.default_rng(0)
    limiter = one(most, most, -most, most, dt=0.02, longest=1.0)
    for prev in (*most * rng.uniform(-1, 1, 300), -5.5 * 2.0**971, most, -most):
        for rate, wanted in ((most, INF), (most, -INF), (most * 2.0 ** -rng.uniform(0, 60), rng.choice([INF, -INF]))):
            limiter.start([prev])
            limiter.derate({"hip": rate})
            moved = Fraction(limiter.step([wanted])[0]) - Fraction(prev)
            assert abs(moved) <= Fraction(rate) and -most <= limiter.prev[0] <= most


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
        (lambda: begun().derate({"joint1": BEYOND}), r"rate of 'joint1' is 2.2\d*e\+307, expected .*at most 2\^1021"),
        (lambda: begun().set_rates([[1.0] * 7, [1.0] * 6 + [BEYOND]]), r"rate of 'joint6' is 2.2\d*e\+307"),
        (lambda: begun().set_rates([[1.0] * 7, [-1.0] * 7]), r"rate of 'joint0' is -1.0"),
        (lambda: begun([0.0] * 6 + [-BEYOND]), r"pose of 'joint6' is -2.2\d*e\+307, expected .*at most 2\^1021"),
        (lambda: one(up=BEYOND), r"'hip': rates up 2.2\d*e\+307, down 0.1, expected .*at most 2\^1021"),
        (lambda: one(down=MAX), r"'hip': rates up 0.1, down 1.7\d*e\+308, expected .*at most 2\^1021"),
        (lambda: one(low=-BEYOND), r"'hip': range \[-2.2\d*e\+307, 1.0\], expected .*at most 2\^1021"),
        (lambda: one(high=MAX), r"'hip': range \[-1.0, 1.7\d*e\+308\], expected .*at most 2\^1021"),
        (lambda: one(up=1e9, longest=1e300), r"longest is 1e\+300: 'hip' .*at most 2\^1021"),
        (lambda: begun().derate({"joint1": "0.05"}), "rate of 'joint1' is '0.05', expected a finite number >= 0"),
        (lambda: begun().derate({"joint1": None}), "rate of 'joint1' is None"),
        (lambda: begun().derate({"joint1": True}), "rate of 'joint1' is True"),
        (lambda: begun().derate({"joint1": [0.1, 0.2]}), r"rate of 'joint1' is \[0.1, 0.2\]"),
        (lambda: begun().derate(0.05), r"rates are 0.05, expected \{joint: largest change per step\}, or None"),
        (lambda: begun().set_rates([["0.1"] * 7] * 2), r"rates .* expected numbers of shape \(2, 7\), finite and >= 0"),
        (lambda: begun().set_rates("x"), "rates .* expected numbers"),
        (lambda: begun(longest="2"), "longest is '2', expected a finite number of nominal steps >= 1"),
        (lambda: begun(longest=None), "longest is None"),
        (lambda: begun(longest=True), "longest is True"),
        (lambda: begun(dt="x"), "dt is 'x', expected a positive control period in seconds"),
        (lambda: begun(dt="0.02"), "dt is '0.02'"),
        (lambda: begun(dt=[0.02]), r"dt is \[0.02\]"),
        (lambda: begun(dt="x" * 999), r"dt is 'x{10,60}\.\.\. \(1001 characters\), expected"),
        (lambda: begun(dt=0.02).step(np.zeros(7), "0.02"), "dt is '0.02', expected seconds since the last step"),
        (lambda: begun(dt=0.02).step(np.zeros(7), [0.02]), r"dt is \[0.02\], expected seconds"),
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


def test_it_says_what_it_limits():
    limits = RateLimits(up={"hip": 0.2, "knee": 0.5}, down={"hip": 0.1, "knee": 0.5}, low=-1.0, high=1.0)
    assert repr(RateLimiter(limits, budget=1.5)) == "RateLimiter(hip +0.2/-0.1, knee +0.5/-0.5; budget 1.5)"
