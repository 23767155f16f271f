"""Acceleration limits: the increments after which a joint can still stop before its position bound.

For one joint with command q and increment v = q_t - q_{t-1}, in a control step:

    bottom <= v_next <= top,    top = min(v + A, up, fastest(high - q)),    bottom its mirror image

``fastest(room)`` is the largest increment from which braking by D per step stops within ``room``. Braking from v
travels S(v) = v + (v - D)+ + (v - 2D)+ + ..., a maximum of lines in v, so S(v) <= room is a minimum over them, and
full braking from any increment in [bottom, top] is in the next interval: it is never empty (docs/acceleration.md).

All numbers are whole numbers of grid units, held in float64 below 2^53, so that every sum here is exact and the
interval is a statement about integers. ``Grid`` says how a joint's limits and commands become such numbers. Functions
take numpy arrays or torch tensors; pass the module as ``xp``.

``increments`` is the definition: ``ViableBox`` (``limits/viable_box.py``) calls it in torch, ``numpy_edges`` beside it
and ``Motion`` (``deploy/motion.py``, ``deploy/lines.py``) write it out with shortcuts, ``layers/viable_arrays.py`` and
``layers/fused.py`` have their edges from ``numpy_edges``, ``deploy/c/accelerated.h`` is it in C and has the edges for
``accelerated_layer.h``; tests/limits/test_viable_contract.py holds all of them to it, bit for bit.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.limits.boxmath import Array

BITS = 24
"""Every command and increment has at most 2^24 grid units, so float32 holds it exactly."""


class Grid(NamedTuple):
    """The limits of d joints in whole grid units, each rounded inward; arrays (d,), read-only."""

    unit: NDArray[np.float64]
    """The grid unit of each joint, a power of two in the units of the action."""
    up: NDArray[np.float64]
    down: NDArray[np.float64]
    acceleration: NDArray[np.float64]
    """A: how much an increment may grow in a step."""
    deceleration: NDArray[np.float64]
    """D: how much an increment may shrink in a step."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def make_grid(
    rates: Any, acceleration: NDArray[np.float64] | None, deceleration: NDArray[np.float64] | None
) -> Grid | None:
    """Put limits, (d,) each and per control step, on a grid per joint; without an acceleration there is none.

    Args:
        rates: anything with names, up, down, low and high.
        acceleration: A.
        deceleration: D.

    Rates lose one unit more than rounding takes, since an episode begins at the grid point nearest to the measured
    pose, half a unit away from it, and the first steps have to hold from the pose itself.

    Raises:
        ValueError: a limit of some joint is less than two grid units.
    """
    if acceleration is None or deceleration is None:
        return None
    limits = {key: getattr(rates, key) for key in ("up", "down", "low", "high")}
    limits |= {"acceleration": acceleration, "deceleration": deceleration}
    columns: dict[str, list[float]] = {key: [] for key in Grid._fields}
    for i, name in enumerate(rates.names):
        exact = {key: Fraction(float(array[i])) for key, array in limits.items()}
        unit = grid_unit(float(limits["low"][i]), float(limits["high"][i]))
        low, high = math.ceil(exact["low"] / Fraction(unit)), math.floor(exact["high"] / Fraction(unit))
        if high - low < 4 or unit < 2.0**-1000:
            raise ValueError(
                f"the range of {name!r} is [{float(exact['low'])}, {float(exact['high'])}], expected one that the grid "
                f"of commands, {unit:g}, resolves: shift or scale the action"
            )
        row = {"unit": unit, "low": low, "high": high}
        for key in ("up", "down"):
            row[key] = min(math.floor(exact[key] / Fraction(unit)) - 1, high - low)
        for key in ("acceleration", "deceleration"):
            row[key] = min(math.floor(exact[key] / Fraction(unit)) - 1, row["up"] + row["down"])
        for key, value in row.items():
            if value < 1 and key not in ("unit", "low", "high"):
                raise ValueError(
                    f"{key} of {name!r} is {float(exact[key])} per step, expected at least {2 * unit}: two units of "
                    f"the grid of commands, which float32 needs in [{float(exact['low'])}, {float(exact['high'])}]"
                )
            columns[key].append(value)
    arrays = {key: np.array(column, dtype=np.float64) for key, column in columns.items()}
    for array in arrays.values():
        array.setflags(write=False)
    return Grid(**arrays)


def grid_unit(low: float, high: float) -> float:
    """The smallest power of two of which |low|, |high| and high - low are at most 2^24."""
    reach = max(abs(Fraction(low)), abs(Fraction(high)), Fraction(high) - Fraction(low))
    unit = Fraction(2) ** (math.frexp(float(reach))[1] - BITS - 1)
    while reach / unit > 2**BITS:
        unit *= 2
    return float(unit)


def fastest(room: Array, deceleration: Array, xp: Any = np) -> Array:
    """The largest increment v from which braking by D per step stops within ``room`` >= 0.

    v = min over m >= 1 of floor((2 room + D m (m - 1)) / 2m), where m is the number of steps. The minimum is at the
    smallest m with room <= D m (m + 1) / 2. A square root in float64 finds it: between whole numbers below 2^26 it is
    never too coarse, and where room = D m (m + 1) / 2 exactly, m and m + 1 give the same v.
    """
    twice = 2 * room
    m = xp.ceil(xp.sqrt(twice / deceleration + 0.25) - 0.5)
    m = xp.where(m < 1, 1.0, m)
    return xp.floor((twice + deceleration * (m * (m - 1))) / (2 * m))


ABOVE_A_QUARTER = 0.25 * (1 + 2.0**-40)
"""Adds so little to a number of steps squared that only a room of 0 notices, for which it makes one step."""


def fastest_by(room: Array, twice_per_brake: Array, half_brake: Array) -> Array:
    """``fastest`` of numpy arrays in half its time, from 2 / D and D / 2.

    The nearest number of steps is taken rather than the one above less a half; between two, both give the same.
    """
    m = np.rint(np.sqrt(room * twice_per_brake + ABOVE_A_QUARTER))
    return np.floor((room + (m * m - m) * half_brake) / m)


def increments(velocity: Array, below: Array, above: Array, grid: Any, xp: Any = np) -> tuple[Array, Array]:
    """The edges ``(bottom, top)`` of the next increment.

    A rate or a bound that has changed while the joint moved can ask for more than full braking: then full braking is
    the interval. The order of priority is: bounds, acceleration, rate.

    Args:
        velocity: the last increment.
        below: the distance to the lower bound, >= 0.
        above: the distance to the upper bound, >= 0.
        grid: a ``Grid``, or anything with its fields.
        xp: ``numpy`` or ``torch``.
    """
    a, d = grid.acceleration, grid.deceleration
    least, most = reachable(velocity, a, d, xp)
    slowest = brake(velocity, d, xp)
    top = xp.minimum(xp.minimum(most, grid.up), fastest(above, d, xp))
    bottom = xp.maximum(xp.maximum(least, -grid.down), -fastest(below, d, xp))
    return xp.minimum(bottom, slowest), xp.maximum(top, slowest)


def reachable(velocity: Array, acceleration: Array, deceleration: Array, xp: Any = np) -> tuple[Array, Array]:
    """The increments that the acceleration limits allow after ``velocity``: slowing down uses D, speeding up A."""
    most = xp.where(velocity >= 0, velocity + acceleration, xp.minimum(velocity + deceleration, acceleration))
    least = xp.where(velocity <= 0, velocity - acceleration, xp.maximum(velocity - deceleration, -acceleration))
    return least, most


def brake(velocity: Array, deceleration: Array, xp: Any = np) -> Array:
    """The increment of full braking: towards 0 by D, and no further than 0."""
    return velocity - xp.minimum(xp.maximum(velocity, -deceleration), deceleration)


def stopping_distance(velocity: Array, deceleration: Array, xp: Any = np) -> Array:
    """S(|v|) = |v| + (|v| - D)+ + (|v| - 2D)+ + ...: how far full braking travels if the next increment is v."""
    speed = abs(velocity)
    n = xp.floor(speed / deceleration)
    return (n + 1) * speed - deceleration * (n * (n + 1) / 2)


def stops_in_time(velocity: Array, below: Array, above: Array, deceleration: Array, xp: Any = np) -> Array:
    """Whether a joint whose last increment was ``velocity`` can stop within its room by braking from now on."""
    slower = brake(velocity, deceleration, xp)
    return stopping_distance(slower, deceleration, xp) <= xp.where(slower > 0, above, below)


def too_sharp(action: Array, prev: Array, before: Array, acceleration: Array, deceleration: Array) -> NDArray[np.bool_]:
    """Decide exactly which joints broke their acceleration limit in the step from ``prev`` to ``action``.

    Commands may be any floats. Differences are compared in float64, and those nearer to the limit than their rounding
    errors in rational numbers. NaN and infinity count as broken.

    Args:
        action: the command of this step, (..., d).
        prev: the command of the last step, (..., d).
        before: the command before that, (..., d); equal to ``prev`` at the start.
        acceleration: A per step, (d,).
        deceleration: D per step, (d,).
    """
    arrays = np.broadcast_arrays(
        *(np.asarray(x, np.float64) for x in (action, prev, before, acceleration, deceleration))
    )
    action, prev, before, a, d = arrays
    with np.errstate(all="ignore"):
        step, velocity = action - prev, prev - before
        least, most = reachable(velocity, a, d)
        broken: NDArray[np.bool_] = np.array(~((step >= least) & (step <= most)))
        margin = np.minimum(np.abs(step - least), np.abs(step - most))
        error = 4 * np.finfo(np.float64).eps * (abs(action) + 2 * abs(prev) + abs(before) + a + d)
    # The rule depends on the sign of v only if A and D differ, and a joint at rest has v = 0 exactly.
    doubtful = (margin <= error) | ((a != d) & (abs(velocity) <= error) & (prev != before))
    for where in np.argwhere(doubtful & np.isfinite(error)).tolist():
        row = [Fraction(float(x[tuple(where)])) for x in arrays]
        broken[tuple(where)] = _too_sharp_exactly(*row)
    return broken


def _too_sharp_exactly(action: Fraction, prev: Fraction, before: Fraction, a: Fraction, d: Fraction) -> bool:
    step, velocity = action - prev, prev - before
    most = velocity + a if velocity >= 0 else min(velocity + d, a)
    least = velocity - a if velocity <= 0 else max(velocity - d, -a)
    return not least <= step <= most
