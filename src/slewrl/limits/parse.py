"""Parses limits as users write them into float64 arrays, rounded inward, or raises an error that names the joint."""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.errors import shortened
from slewrl.limits import boxmath
from slewrl.limits.boxmath import Number

Values = Number | Sequence[Number] | NDArray[Any] | Mapping[str, Number] | Any
"""A number for every joint, one per joint, ``{joint: number}``, or a torch tensor."""

MIXED = "m/rad"
"""The units of limits with both prismatic and revolute joints."""
UNSAID = "rad or m"
"""The units of a file that does not say which joints are prismatic."""

Rounding = Callable[[Number], float]
"""One of the rounding functions of ``boxmath``, such as ``round_down``."""
MIDDLE = "middle"
"""The name of the reset action in the middle of each joint's range."""


class Limits(NamedTuple):
    """Checked limits: read-only float64 arrays, rates (d,) or (..., d), bounds (d,)."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    names: tuple[str, ...]


def read_limits(
    delta: Values | None,
    low: Values | None,
    high: Values | None,
    up: Values | None,
    down: Values | None,
    names: Iterable[str] | None,
) -> Limits:
    """Parse and check limits; ``RateLimits`` documents the accepted forms and the errors."""
    rise, fall = _rates(delta, up, down)
    given = {"up": rise, "down": fall, "low": low, "high": high}
    for key in ("low", "high"):
        if given[key] is None:
            raise ValueError(f"{key} is missing: every joint needs finite position bounds low < high")
    joints = _joint_names(names, given.values())
    size = len(joints) if joints else max(_length(value) for value in given.values())
    joints = joints or tuple(f"joint{i}" for i in range(size))
    if not joints:
        raise ValueError("there are no joints: delta, low and high are empty")
    label = {"up": "delta", "down": "delta"} if delta is not None else {}
    inward = {"low": boxmath.round_up}
    arrays = {
        key: _parse(label.get(key, key), value, inward.get(key, boxmath.round_down), joints)
        for key, value in given.items()
    }
    _validate(arrays, joints, label)
    return Limits(**arrays, names=joints)


def _rates(delta: Values | None, up: Values | None, down: Values | None) -> tuple[Values, Values]:
    if delta is not None and up is None and down is None:
        return delta, delta
    if delta is None and up is not None and down is not None:
        return up, down
    raise ValueError("give either delta, or both up and down (the largest rise and fall per control step)")


def _joint_names(names: Iterable[str] | None, values: Iterable[Any]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ValueError(f"names is {names!r}, expected a sequence of joint names such as [{names!r}]")
    first_mapping: Iterable[str] = next((v for v in values if isinstance(v, Mapping)), ())
    joints = tuple(str(name) for name in (first_mapping if names is None else names))
    for name in joints:
        check_name(name)
    if twice := repeated(joints):
        raise ValueError(f"duplicate joint name {min(twice)!r}: every joint needs a name of its own")
    return joints


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, in order of first occurrence."""
    return [name for name, count in Counter(names).items() if count > 1]


def check_name(name: str) -> None:
    """Refuse a joint name that is blank or not printable."""
    if not name.strip() or not name.isprintable():
        raise ValueError(f"joint name is {shortened(name)}, expected printable text")


def read_period(dt: Any, where: str = "") -> float | None:
    """Parse a control period in seconds; None stays None."""
    if dt is None:
        return None
    try:
        period = math.nan if isinstance(dt, (bool, np.bool_)) else float(dt)
    except (ValueError, TypeError, OverflowError):
        period = math.nan
    if not 0 < period < math.inf:
        raise ValueError(f"{where}dt is {shortened(dt)}, expected a positive control period in seconds")
    return period


def _length(value: Any) -> int:
    return int(np.shape(value)[-1]) if np.ndim(value) else 1


def _parse(
    label: str, value: Any, rounded: Rounding, joints: tuple[str, ...], scale: Fraction = Fraction(1)
) -> NDArray[np.float64]:
    """Parse a user's values into a read-only float64 array (..., d), each scaled, then rounded by ``rounded``."""
    if isinstance(value, Mapping):
        value = _by_joint(label, value, joints)
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach().cpu().double().numpy()
    raw = np.asarray(value)
    if raw.ndim == 0:
        raw = np.broadcast_to(raw, (len(joints),))
    if raw.shape[-1] != len(joints):
        raise ValueError(
            f"{label} has {raw.shape[-1]} entries where there are {len(joints)} joints ({', '.join(joints)}): "
            "expected one per joint, in their order, or one number for all"
        )
    truths = [x for x in value if isinstance(x, (bool, np.bool_))] if isinstance(value, (list, tuple)) else []
    if raw.dtype.kind == "b" or truths:
        raise ValueError(f"{label} is {shortened(value)}, expected numbers, not truth values")
    if raw.dtype.kind == "f" and raw.dtype.itemsize <= 8 and scale == 1:
        array = raw.astype(np.float64)  # widening: exact
    else:
        array = np.empty(raw.shape)
        for index in np.ndindex(raw.shape):
            array[index] = _rounded(label, raw[index], lambda x: rounded(boxmath.exact(x) * scale), joints[index[-1]])
    array.setflags(write=False)
    return array


def _rounded(label: str, value: Any, rounded: Rounding, joint: str) -> float:
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return rounded(value)
    except (ValueError, TypeError, OverflowError):
        # Text that is not a finite number ("nan" and "inf" included), or a number beyond float64.
        plain = ", as a plain decimal" if isinstance(value, str) else ""
        raise ValueError(f"{label} of {joint!r} is {shortened(value)}, expected a finite number{plain}") from None


def _by_joint(label: str, mapping: Mapping[str, Any], joints: tuple[str, ...]) -> list[Any]:
    if unknown := [name for name in mapping if name not in joints]:
        raise KeyError(f"{label} names an unknown joint {unknown[0]!r}; known joints: {', '.join(joints)}")
    if missing := [name for name in joints if name not in mapping]:
        names = ", ".join(map(repr, missing))
        raise KeyError(f"{label} is missing joint {names}; it has: {', '.join(map(str, mapping))}")
    return [mapping[name] for name in joints]


def _validate(arrays: dict[str, NDArray[np.float64]], joints: tuple[str, ...], label: dict[str, str]) -> None:
    largest = f"at most {boxmath.as_power(boxmath.LARGEST)} in magnitude: sums of larger numbers could overflow"
    for key, array in arrays.items():
        name, is_rate = label.get(key, key), key in ("up", "down")
        if array.ndim != 1 and not is_rate:
            raise ValueError(f"{key} has shape {array.shape}, expected ({len(joints)},): it cannot vary by sample")
        expected = "a positive finite rate per control step" if is_rate else "a finite position bound"
        _require(np.isfinite(array) & ((array > 0) | (not is_rate)), array, joints, name, expected)
        _require(abs(array) <= boxmath.LARGEST, array, joints, name, largest)
    for i, joint in enumerate(joints):
        if not arrays["low"][i] < arrays["high"][i]:
            raise ValueError(f"{joint!r}: low {arrays['low'][i]} is not below high {arrays['high'][i]}")


def _require(
    ok: NDArray[np.bool_], array: NDArray[np.float64], joints: tuple[str, ...], label: str, expected: str
) -> None:
    if not ok.all():
        where = tuple(np.argwhere(~ok)[0])
        raise ValueError(f"{label} of {joints[where[-1]]!r} is {array[where]}, expected {expected}")


def read_acceleration(
    acceleration: Values | None, deceleration: Values | None, limits: Limits, period: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | tuple[None, None]:
    """Parse acceleration and deceleration into per-step arrays (d,), rounded down; per second squared with a period."""
    if acceleration is None:
        if deceleration is not None:
            raise ValueError("deceleration is given without acceleration: give both, or acceleration alone for both")
        return None, None
    if limits.up.ndim > 1 or limits.down.ndim > 1:
        raise ValueError(f"delta has shape {limits.up.shape}, expected ({len(limits.names)},) with an acceleration")
    scale = Fraction(1) if period is None else Fraction(period) ** 2
    given = {"acceleration": acceleration, "deceleration": acceleration if deceleration is None else deceleration}
    made = {key: _per_step(key, value, scale, limits.names) for key, value in given.items()}
    if (made["acceleration"] >= limits.up + limits.down).all():
        warnings.warn(
            f"acceleration is {made['acceleration'].min():g} per step squared, at least twice the rate, and never "
            "binds: is it in other units? (RateLimits takes it per second squared with dt=; a limits.yaml per step "
            "squared, unless it says acceleration_in: per second squared)",
            stacklevel=3,
        )
    return made["acceleration"], made["deceleration"]


def _per_step(label: str, value: Values, scale: Fraction, joints: tuple[str, ...]) -> NDArray[np.float64]:
    array = _parse(label, value, boxmath.round_down, joints, scale)
    if array.ndim != 1:
        raise ValueError(f"{label} has shape {array.shape}, expected ({len(joints)},): it cannot vary by sample")
    _require(np.isfinite(array) & (array > 0), array, joints, label, "a positive finite number")
    return array


def read_reset(reset: Values, limits: Any) -> NDArray[np.float64]:
    """Parse a reset action for ``limits`` (any object with names, low and high) into a read-only array (d,).

    ``reset`` is one number for all joints, one per joint, ``{joint: number}``, or "middle". A value beyond a bound by
    no more than a rounding error is moved onto it; anything farther out is refused.
    """
    low, high, joints = limits.low, limits.high, limits.names
    if isinstance(reset, str) and reset == MIDDLE:
        pose = low + (high - low) / 2
    else:
        try:
            pose = _parse("reset_action", reset, boxmath.round_nearest, joints)
        except ValueError as error:
            hint = f" or {MIDDLE!r}" if isinstance(reset, str) else ""
            raise ValueError(f"{error}{hint}") from None
    if pose.shape != low.shape:
        raise ValueError(f"reset_action has shape {pose.shape}, expected ({len(joints)},): one entry per joint")
    slack = 1e-6 * (high - low)
    if len(bad := np.flatnonzero(~((pose >= low - slack) & (pose <= high + slack)))):
        i = int(bad[0])
        raise ValueError(f"reset_action of {joints[i]!r} is {pose[i]}, expected a number in [{low[i]}, {high[i]}]")
    inside: NDArray[np.float64] = np.clip(pose, low, high)
    inside.setflags(write=False)
    return inside


def read_groups(groups: Iterable[str] | Mapping[str, str] | None, joints: tuple[str, ...]) -> tuple[str, ...]:
    """Parse the group labels, one per joint; without any they are empty."""
    if groups is None:
        return ("",) * len(joints)
    labels = _by_joint("groups", groups, joints) if isinstance(groups, Mapping) else list(groups)
    if len(labels) != len(joints):
        raise ValueError(f"groups has {len(labels)} entries, expected {len(joints)}: one label per joint")
    return tuple(str(label) for label in labels)
