"""The arithmetic of the box against rational arithmetic: every claim here is exact, with no tolerance."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from slewrl.limits import boxmath

DTYPES = [np.float32, np.float64, np.float16]


def floats(dtype, lo, hi):
    width = np.finfo(dtype).bits
    edge = [float(np.nextafter(dtype(lo), dtype(0))), float(np.nextafter(dtype(hi), dtype(0)))]
    return st.one_of(st.floats(float(dtype(lo)), float(dtype(hi)), width=width), st.sampled_from([*edge, 0.0]))


def test_decimals_round_inward_and_floats_keep_their_bits():
    for text in ("0.1", "0.2", "0.3", "0.4", "1e-3", "2.9671", "1"):
        down, up = boxmath.round_down(text), boxmath.round_up(text)
        assert Fraction(down) <= Fraction(text) <= Fraction(up)
        assert up in (down, np.nextafter(down, np.inf))
    assert boxmath.round_down(0.2) == boxmath.round_up(0.2) == 0.2
    assert boxmath.round_down("0.2") < 0.2  # the float 0.2 lies above the decimal


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_two_sum_is_error_free(a, b):
    total, error = boxmath.two_sum(np.float64(a), np.float64(b))
    assert Fraction(float(total)) + Fraction(float(error)) == Fraction(a) + Fraction(b)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_edges_are_sound_and_tight_ones_are_exactly_the_feasible_floats(dtype, data):
    width = np.finfo(dtype).bits
    draw = data.draw
    low, high = sorted((draw(st.floats(-50, 50, width=width)), draw(st.floats(-50, 50, width=width))))
    assume(high > low)
    up = draw(st.floats(float(np.finfo(dtype).smallest_normal), 200, width=width))
    down = draw(st.floats(float(np.finfo(dtype).smallest_normal), 200, width=width))
    prev = draw(floats(dtype, low, high))
    prev, low, high, up, down = (np.array([x], dtype) for x in (min(max(prev, low), high), low, high, up, down))

    def feasible(x):
        step = Fraction(float(x)) - Fraction(float(prev[0]))
        return -Fraction(float(down[0])) <= step <= Fraction(float(up[0])) and low[0] <= x <= high[0]

    bottom, top = boxmath.tight_edges(prev, down, up, low, high)
    assert feasible(bottom[0]) and feasible(top[0]) and bottom[0] <= prev[0] <= top[0]
    assert not feasible(np.nextafter(top[0], dtype(np.inf)))
    assert not feasible(np.nextafter(bottom[0], dtype(-np.inf)))

    guarded = [boxmath.guard(rate, low, high) for rate in (down, up)]
    inner_bottom, inner_top = boxmath.guard_edges(prev, *guarded, low, high)
    assert feasible(inner_bottom[0]) and feasible(inner_top[0])
    # Within two ulps of the range: half a gap for the guard, one for its rounding, half for the sum's.
    gap = float(np.spacing(np.maximum(abs(low), abs(high)))[0])
    assert float(top[0]) - float(inner_top[0]) <= 2 * gap
    assert float(inner_bottom[0]) - float(bottom[0]) <= 2 * gap


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_edges_are_exact_from_the_smallest_to_the_largest_float(dtype, data):
    """Any floats up to ``largest``: there is no overflow, and sums of subnormals are exact."""
    largest, smallest = boxmath.largest(np.finfo(dtype)), float(np.finfo(dtype).smallest_subnormal)
    draw, bits = data.draw, np.finfo(dtype).bits
    either = st.one_of(
        st.floats(-largest, largest, width=bits),
        st.integers(-40, 40).map(lambda n: n * smallest),
        st.sampled_from([-largest, largest]),
    )
    low, prev, high = sorted(draw(either) for _ in range(3))
    down, up = (abs(draw(either)) or smallest for _ in range(2))
    assume(low < high)
    args = prev, down, up, low, high = [np.array([x], dtype) for x in (prev, down, up, low, high)]

    def feasible(x):
        step = Fraction(float(x)) - Fraction(float(prev[0]))
        return -Fraction(float(down[0])) <= step <= Fraction(float(up[0])) and low[0] <= x <= high[0]

    bottom, top = boxmath.tight_edges(*args)
    assert feasible(bottom[0]) and feasible(top[0])
    assert not feasible(np.nextafter(top[0], dtype(np.inf))) and not feasible(np.nextafter(bottom[0], dtype(-np.inf)))
    guarded = [np.maximum(boxmath.guard(rate, low, high), 0) for rate in (down, up)]
    assert all(feasible(edge[0]) for edge in boxmath.guard_edges(prev, *guarded, low, high))


def test_the_largest_magnitudes():
    assert boxmath.largest(np.finfo(np.float64)) == boxmath.LARGEST == 2.0**1021
    bounds = [boxmath.largest(torch.finfo(dtype)) for dtype in (torch.float32, torch.bfloat16, torch.float16)]
    assert bounds == [2.0**125, 2.0**125, 2.0**13]


@settings(max_examples=2000, deadline=None)
@given(st.floats(-4, 4), st.floats(-2, 2), st.sampled_from([0.1, 0.2, 0.25, 0.4, 2**-30]))
@example(0.3, 0.1, 0.2)
def test_outside_agrees_with_fractions(action, prev, delta):
    step = Fraction(action) - Fraction(prev)
    expected = not (abs(step) <= Fraction(delta) and -2 <= action <= 2)
    one = np.array([1.0])
    assert boxmath.outside(action * one, prev * one, delta, delta, -2.0, 2.0)[0] == expected


def test_outside_decides_ties_that_floats_cannot_see():
    # 0.3 - 0.1 rounds to 0.19999999999999998 < 0.2, and 0.1 + 0.2 rounds to 0.30000000000000004 > 0.3.
    prev, delta = np.array([0.1]), 0.2
    action = prev + delta
    assert Fraction(float(action[0])) - Fraction(0.1) > Fraction(0.2)
    assert boxmath.outside(action, prev, delta, delta, -1.0, 1.0)[0]
    assert boxmath.outside(np.array([np.nan]), prev, delta, delta, -1.0, 1.0)[0]


def test_torch_and_numpy_compute_the_same_bits():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        prev = rng.uniform(-1, 1, 10_000).astype(dtype)
        args = [np.full_like(prev, x) for x in (0.2, 0.35, -1, 1)]
        for function in (boxmath.tight_edges, boxmath.guard_edges):
            ours = function(prev, *args)
            theirs = function(torch.from_numpy(prev), *(torch.from_numpy(a) for a in args), xp=torch)
            for a, b in zip(ours, theirs, strict=True):
                assert np.array_equal(a, b.numpy())
        guards = boxmath.guard(args[0], args[2], args[3])
        assert np.array_equal(guards, boxmath.guard(*(torch.from_numpy(a) for a in (args[0], *args[2:])), xp=torch))
