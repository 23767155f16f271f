"""The arithmetic of the feasible box F_t, written once for numpy, torch and JAX.

    F_t = [prev - down, prev + up] intersected with [low, high]            (per joint)

In floats ``prev + up`` may round outward, which breaks the limit by an ulp. The functions here construct the set and
decide membership exactly; docs/guarantee.md proves the theorems named below. The edges are defined here and derived
nowhere else. Who uses or repeats them:

* ``limits/box.py`` (``FeasibleBox``) calls both functions; layers in torch have their edges from it;
* ``integrations/jax/box.py`` calls ``guard_edges``, in programs that XLA compiles;
* ``layers/arrays.py`` writes ``guard_edges`` out for a ``prev`` in the range, since a wrapper steps one environment;
* ``layers/fused.py`` builds no edges: prev + R f with guarded rates, clipped to the range, is within ``guard_edges``;
* ``deploy/limiter.py`` writes ``tight_edges`` out into buffers of its own, for a robot's control loop;
* ``deploy/c/limiter.h`` is ``deploy/limiter.py`` in C, in double; ``deploy/c/policy.h`` is ``guard_edges`` in float.

tests/limits/test_box_contract.py holds all of them to the functions below, bit for bit (the fused layer where a rate
decides). Acceleration limits have arithmetic of their own, on a grid of commands: ``limits/viability.py``.

Functions take numpy, torch or JAX arrays of one float dtype; pass the module as ``xp``. Actions, rates and
bounds are at most ``largest`` of that dtype in magnitude, so that no sum overflows. This file needs numpy but no torch,
so that the controller on the robot can use it.
"""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Arrays of numpy, torch and JAX share the operators and functions used here, but have no common type.
Array = Any
Number = int | float | str | Fraction
LARGEST = 2.0**1021
"""The largest magnitude of actions, rates and bounds in float64."""


def largest(info: Any) -> float:
    """The largest magnitude for a dtype (``info`` is its finfo): a quarter of its largest power of two.

    A sum of two such numbers and the differences that recover its error (``two_sum``) do not overflow.
    """
    return 2.0 ** (math.frexp(float(info.max))[1] - 3)


def as_power(magnitude: float) -> str:
    """Format a power of two for messages, e.g. "2^13"."""
    return f"2^{math.frexp(magnitude)[1] - 1}"


DECIMAL = re.compile(r"(?=.{1,1700}$)[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
"""A plain decimal number, of bounded length (any float64 fits) and exponent, so that 1e999999999 is refused."""


def exact(value: Number) -> Fraction:
    """The exact value of a user's number: a string is read as a decimal, a float as its binary value.

    Raises:
        ValueError: the string is not a plain decimal number (1/3 and 1_0 are not), or the value is NaN or a boolean.
        OverflowError: the value is an infinite float.
    """
    if isinstance(value, (str, Decimal)):
        text = str(value).strip()
        if not DECIMAL.fullmatch(text):
            raise ValueError("expected a plain decimal number")
        return Fraction(text)
    if isinstance(value, (bool, np.bool_)):
        raise ValueError("expected a number, not a truth value")
    return Fraction(value)


def round_down(value: Number) -> float:
    """The largest float64 that is <= ``value``, compared exactly."""
    target = exact(value)
    rounded = float(target)
    return float(np.nextafter(rounded, -np.inf)) if Fraction(rounded) > target else rounded


def round_up(value: Number) -> float:
    """The smallest float64 that is >= ``value``, compared exactly."""
    return -round_down(-exact(value)) + 0.0  # no negative zero


def round_nearest(value: Number) -> float:
    """The float64 nearest to ``value``, for values that are not limits, such as a pose."""
    return float(exact(value))


def cast_down(wide: Array, narrow: Array, xp: Any = np) -> Array:
    """Move ``narrow``, a cast of ``wide`` to fewer bits, to the largest value <= ``wide``.

    The caller casts, since numpy and torch do so differently. The comparison is exact: it is made in the wider dtype.
    """
    below = xp.nextafter(narrow, xp.full_like(narrow, -np.inf))
    return xp.where(narrow > wide, below, narrow)


def half_gap(low: Array, high: Array, xp: Any = np) -> Array:
    """Half the gap between A = max(|low|, |high|) and the float below it: the rounding error of a sum <= A."""
    reach = xp.maximum(abs(low), abs(high))
    return 0.5 * (reach - xp.nextafter(reach, xp.zeros_like(reach)))


def guard(delta: Array, low: Array, high: Array, xp: Any = np) -> Array:
    """The guarded limit: the largest rate for which ``prev +- guard`` stays within ``delta`` after rounding.

    That is ``delta`` minus the half gap, rounded down; it makes ``guard_edges`` sound (Theorem 2). The result is not
    positive if ``delta`` is too small to resolve in this dtype over this range. All shapes are (..., d).
    """
    shrunk = delta - half_gap(low, high, xp)
    return xp.nextafter(shrunk, xp.full_like(shrunk, -np.inf))


def guard_edges(prev: Array, down: Array, up: Array, low: Array, high: Array, xp: Any = np) -> tuple[Array, Array]:
    """Edges of F_t from *guarded* limits: sound, within two ulps of the range of the exact ones, and cheap.

    A ``prev`` outside [low, high] gives the interval from ``prev`` inward, so the joint can only return (within the
    rate limit up to one ulp of ``prev``; ``tight_edges`` has no such slack). A rate of 0 holds the joint.
    """
    top = xp.maximum(xp.minimum(prev + up, high), prev)
    bottom = xp.minimum(xp.maximum(prev - down, low), prev)
    return bottom, top


def tight_edges(prev: Array, down: Array, up: Array, low: Array, high: Array, xp: Any = np) -> tuple[Array, Array]:
    """Edges of F_t from *unguarded* limits: the outermost feasible floats (Theorem 1).

    The rounding error of each sum is recovered exactly (TwoSum, Knuth), and a sum that was rounded outward is moved
    back by one float. Magnitudes must not exceed ``largest``, or the sums could overflow.
    """
    sum_up, error_up = two_sum(prev, up)
    sum_down, error_down = two_sum(prev, -down)
    inf = xp.full_like(sum_up, np.inf)
    sum_up = xp.where(error_up < 0, xp.nextafter(sum_up, -inf), sum_up)
    sum_down = xp.where(error_down > 0, xp.nextafter(sum_down, inf), sum_down)
    top = xp.maximum(xp.minimum(sum_up, high), prev)
    bottom = xp.minimum(xp.maximum(sum_down, low), prev)
    return bottom, top


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``(s, e)`` with s = a + b rounded and s + e = a + b exactly, barring overflow (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def outside(action: Array, prev: Array, down: Array, up: Array, low: Array, high: Array) -> Array:
    """Decide which joints left F_t, without rounding error; booleans of shape (..., d).

    Pass all arguments in one dtype that holds them losslessly (float64 for float32 data). NaN counts as outside.
    """
    step, error = two_sum(action, -prev)
    # `step` is a - prev rounded to nearest and `up` is a float, so rounding is monotone across `up`:
    # step < up implies a - prev <= up, step > up implies >, and on equality the error term decides.
    rate_ok = (step < up) | ((step == up) & (error <= 0))
    rate_ok = rate_ok & ((step > -down) | ((step == -down) & (error >= 0)))
    return ~(rate_ok & (action >= low) & (action <= high))


def over_budget(action: Array, prev: Array, down: Array, up: Array, budget: Number) -> NDArray[np.bool_]:
    """Decide exactly which steps exceeded ``budget``: sum_i |a_i - prev_i| / rate_i > budget.

    rate_i is the user's limit in the direction of the move. Actions (..., d) are exact in float64; the result is (...).
    Sums close to the budget are decided in rational arithmetic. NaN counts as over, and a joint that did not move uses
    none of the budget, whatever its rate.
    """
    action, prev, down, up = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (action, prev, down, up)))
    limit = exact(budget)
    with np.errstate(all="ignore"):
        step = action - prev
        spent = np.where(step == 0, 0.0, np.abs(step) / np.where(step > 0, up, down)).sum(-1)
    over: NDArray[np.bool_] = np.array(~(spent <= float(limit)))
    # The sum of d quotients has at most d + 1 rounding errors; sums nearer to B than that are computed exactly.
    doubtful = np.abs(spent - float(limit)) <= (action.shape[-1] + 8) * np.finfo(np.float64).eps * float(limit)
    for where in np.argwhere(doubtful).tolist():
        rows = ([Fraction(float(x)) for x in array[tuple(where)]] for array in (action, prev, down, up))
        moves = ((a - p, fall, rise) for a, p, fall, rise in zip(*rows, strict=True) if a != p)
        over[tuple(where)] = sum(move / rise if move > 0 else -move / fall for move, fall, rise in moves) > limit
    return over
