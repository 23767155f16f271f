"""The arithmetic of the feasible box F_t, written once for numpy and for torch.

    F_t = [prev - down, prev + up] intersected with [low, high]            (per joint)

In exact arithmetic that line is all there is. In floats ``prev + up`` rounds, half the time outward, and a
"hard" limit is broken by an ulp. The functions here decide and construct membership exactly:

* ``round_down`` / ``round_up`` turn what the user wrote into floats *inside* it;
* ``guard`` shrinks a limit by half an ulp of the range, so that the two-line box above is sound as it stands;
* ``guard_edges`` / ``tight_edges`` give the box's float edges;
* ``outside`` decides, with no rounding error at all, whether an executed action left the set;
* ``over_budget`` decides likewise whether a step of all joints together spent more than they share.

The edges are defined here and derived nowhere else. Who uses or repeats them:

* ``limits/box.py`` (``FeasibleBox``) calls both functions; layers in torch have their edges from it;
* ``layers/arrays.py`` writes ``guard_edges`` out for a ``prev`` in the range, since a wrapper steps one environment;
* ``layers/fused.py`` builds no edges: prev + R f with guarded rates, clipped to the range, is within ``guard_edges``;
* ``deploy/limiter.py`` writes ``tight_edges`` out into buffers of its own, for a robot's control loop;
* ``deploy/c/limiter.h`` is ``deploy/limiter.py`` in C, in double; ``deploy/c/policy.h`` is ``guard_edges`` in float.

tests/limits/test_box_contract.py holds all of them to the functions below, bit for bit (the fused layer where a rate
decides). A new kind of limit, such as one on acceleration, begins here, and that test says where it has to follow.

Everything works on numpy arrays or torch tensors of one float dtype: pass the module as ``xp``. Actions, rates and
bounds are at most ``largest`` of that dtype in magnitude, so that no sum overflows. This file imports numpy only, so
the controller on the robot can use it without torch.
Proofs of the two theorems named below: docs/guarantee.md.
"""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

# numpy arrays and torch tensors share the operators and the five functions used here; there is no common type.
Array = Any
Number = int | float | str | Fraction
LARGEST = 2.0**1021
"""``largest`` of float64: the magnitude that actions, rates and bounds may have."""


def largest(info: Any) -> float:
    """The largest magnitude of actions, rates and bounds in a dtype: a quarter of its largest power of two.

    A sum of two such numbers and the differences that recover its error (``two_sum``) do not overflow.

    Args:
        info: ``numpy.finfo`` or ``torch.finfo`` of the dtype.
    """
    return 2.0 ** (math.frexp(float(info.max))[1] - 3)


def as_power(magnitude: float) -> str:
    """``largest`` for messages: "2^13"."""
    return f"2^{math.frexp(magnitude)[1] - 1}"


DECIMAL = re.compile(r"(?=.{1,1700}$)[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
"""A plain decimal number, long enough to write any float64 in full, no longer: 1e999999999 would fill the memory."""


def exact(value: Number) -> Fraction:
    """The rational number a user wrote: a decimal string as the decimal, a float as its very bits.

    Raises:
        ValueError: the string is no plain decimal number (no 1/3, no 1_0), or beyond all floats; or a truth value.
        OverflowError: an infinite float.
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
    """The float64 nearest to ``value``: for what is no limit, such as a pose."""
    return float(exact(value))


def cast_down(wide: Array, narrow: Array, xp: Any = np) -> Array:
    """Move ``narrow``, a cast of ``wide`` to fewer bits, to the largest value <= ``wide``.

    The caller casts (numpy and torch spell it differently); the comparison happens in the wider dtype, so it
    is exact.
    """
    below = xp.nextafter(narrow, xp.full_like(narrow, -np.inf))
    return xp.where(narrow > wide, below, narrow)


def half_gap(low: Array, high: Array, xp: Any = np) -> Array:
    """Half the gap between A = max(|low|, |high|) and the float below it: what a sum of magnitude <= A rounds by."""
    reach = xp.maximum(abs(low), abs(high))
    return 0.5 * (reach - xp.nextafter(reach, xp.zeros_like(reach)))


def guard(delta: Array, low: Array, high: Array, xp: Any = np) -> Array:
    """The guarded limit: the largest rate for which ``prev +- guard`` stays within ``delta`` after rounding.

    That is ``delta`` less the half gap, rounded down, and it makes ``guard_edges`` sound (Theorem 2). Not positive
    when ``delta`` is too small to resolve in this dtype at this range.

    Args:
        delta: rate limit per control step, > 0, shape (..., d).
        low: lower position bound, shape (..., d).
        high: upper position bound, shape (..., d).
        xp: ``numpy`` or ``torch``.
    """
    shrunk = delta - half_gap(low, high, xp)
    return xp.nextafter(shrunk, xp.full_like(shrunk, -np.inf))


def guard_edges(prev: Array, down: Array, up: Array, low: Array, high: Array, xp: Any = np) -> tuple[Array, Array]:
    """Edges of F_t from *guarded* limits: sound, within two ulps of the range of the exact ones, and cheap.

    A ``prev`` outside [low, high] gives the interval from ``prev`` inward, so the joint can only come back
    (within the rate limit up to one ulp of ``prev``; ``tight_edges`` has no such slack). A rate of 0 holds.
    """
    top = xp.maximum(xp.minimum(prev + up, high), prev)
    bottom = xp.minimum(xp.maximum(prev - down, low), prev)
    return bottom, top


def tight_edges(prev: Array, down: Array, up: Array, low: Array, high: Array, xp: Any = np) -> tuple[Array, Array]:
    """Edges of F_t from *unguarded* limits: the outermost feasible floats (Theorem 1).

    The rounding error of each sum is recovered exactly (TwoSum, Knuth) and a sum that rounded outward steps
    back one float. Beyond ``largest`` the sums could overflow, and the step back would be lost.
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
    """Exactly which joints left F_t: the sign of each constraint, decided without rounding error.

    Pass everything in one dtype that holds the values losslessly (float64 for float32 data). NaN counts as
    outside. Shape (..., d) of booleans.
    """
    step, error = two_sum(action, -prev)
    # `step` is a - prev rounded to nearest and `up` is a float, so rounding is monotone across `up`:
    # step < up implies a - prev <= up, step > up implies >, and on equality the error term decides.
    rate_ok = (step < up) | ((step == up) & (error <= 0))
    rate_ok = rate_ok & ((step > -down) | ((step == -down) & (error >= 0)))
    return ~(rate_ok & (action >= low) & (action <= high))


def over_budget(action: Array, prev: Array, down: Array, up: Array, budget: Number) -> NDArray[np.bool_]:
    """Exactly which steps spent more than ``budget``: sum_i |a_i - prev_i| / rate_i > budget, rate_i the way it moved.

    Sums that floats decide beyond doubt are left at that; the others are done in rational numbers. NaN counts. A joint
    that stayed spent nothing, whatever its rate.

    Args:
        action: (..., d), float64 or exact in it.
        prev: (..., d).
        down: largest fall per step as the user wrote it, (d,) or (..., d).
        up: largest rise per step.
        budget: B, > 0.

    Returns:
        Booleans (...).
    """
    action, prev, down, up = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (action, prev, down, up)))
    limit = exact(budget)
    with np.errstate(all="ignore"):
        step = action - prev
        spent = np.where(step == 0, 0.0, np.abs(step) / np.where(step > 0, up, down)).sum(-1)
    over: NDArray[np.bool_] = np.array(~(spent <= float(limit)))
    # The sum of d quotients is within d + 1 roundings of the truth; anything nearer to B is looked at again.
    doubtful = np.abs(spent - float(limit)) <= (action.shape[-1] + 8) * np.finfo(np.float64).eps * float(limit)
    for where in np.argwhere(doubtful).tolist():
        rows = ([Fraction(float(x)) for x in array[tuple(where)]] for array in (action, prev, down, up))
        moves = ((a - p, fall, rise) for a, p, fall, rise in zip(*rows, strict=True) if a != p)
        over[tuple(where)] = sum(move / rise if move > 0 else -move / fall for move, fall, rise in moves) > limit
    return over
