"""Turns the joints of a datasheet, and the user's corrections to them, into keyword arguments of ``RateLimits``.

delta = velocity * dt * safety and acceleration * dt^2 * safety are computed in exact rationals from the decimals in the
file and rounded down once.
"""

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from slewrl.errors import shortened
from slewrl.limits import boxmath
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Joint, Sheet, in_radians
from slewrl.limits.parse import UNSAID, repeated

Arguments = dict[str, Any]
"""The keyword arguments of RateLimits."""
Angles = Literal["radians", "degrees"]
FASTEST = 20 * math.pi
"""The largest plausible joint speed, rad/s: ten turns per second. 180 degrees/s misread as rad/s exceeds it."""
FARTHEST = 8 * math.pi
"""The largest plausible joint angle, rad: four turns either way."""
SHORTEST = Fraction(1, 100)
"""The shortest plausible time, s, for a joint to cross its range; a shorter one means wrong units."""
REACH = 2**18
"""The range of a continuous joint, in deltas. There float32 still resolves a step to less than 1 % of delta."""
NONE = "none"
"""What a user writes for a joint without an acceleration limit."""


class Corrections(TypedDict, total=False):
    """The user's selection of joints and corrections to a file. Joint names may be patterns such as ``wheel_*``."""

    joints: Iterable[str] | None
    """The joints to use, by name, in action order; None means all."""
    bounds: Mapping[str, tuple[Number, Number]] | None
    """{joint: (low, high)}: bounds that replace those of the file."""
    speeds: Mapping[str, Number] | None
    """{joint: rad/s or m/s}: speeds that replace those of the file."""
    acceleration: Number | Mapping[str, Number | None] | None
    """rad/s^2 or m/s^2 for all joints, or {joint: number}, instead of those of the file; "none" for no limit."""
    deceleration: Number | Mapping[str, Number | None] | None
    """The same for slowing down, where it differs."""
    exclude: Iterable[str]
    """Joints to leave out."""
    continuous: Iterable[str]
    """Joints without stops; their bounds are set by ``continuous_bound``."""
    angles: Angles | None
    """The unit of the file's angles, "radians" or "degrees"; None means radians, checked for plausibility."""


class Fault(NamedTuple):
    """The reason why a joint cannot be used; ``fixes`` are the options that would fix it."""

    joint: str
    reason: str
    fixes: tuple[str, ...]


OPTIONS = {
    "--speeds": ("--speeds {name}={unit}_PER_S", "speeds={name: 9}"),
    "--acceleration": ("--acceleration {name}={unit}_PER_S2 or {name}=none", "acceleration={name: 20}"),
    "--deceleration": ("--deceleration {name}={unit}_PER_S2", "deceleration={name: 20}"),
    "--bounds": ("--bounds {name}=LOW,HIGH", "bounds={name: (low, high)}"),
    "--continuous": ("--continuous {name}", "continuous=[name]"),
    "--exclude": ("--exclude {name}", "exclude=[name]"),
    "--angles degrees": ("--angles degrees if the file is in degrees", 'angles="degrees"'),
    "--angles radians": ("--angles radians if it is right", 'angles="radians"'),
    "--urdf": ("--urdf PATH", "urdf=path"),
}
"""Option -> how it is written on the command line, and as a Python keyword."""


class DatasheetError(ValueError):
    """A file with joints whose limits are missing or impossible; the message lists them all, each with its fix."""

    def __init__(self, where: str, joints: Mapping[str, Joint], faults: tuple[Fault, ...]) -> None:
        self.faults = faults
        self.suggestions = _suggestions(joints, faults)
        count = len({fault.joint for fault in faults})
        lines = [f"{where}: {count} of {len(joints)} joint{'s' * (len(joints) > 1)} cannot be used as the file has it:"]
        alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
        for fault in faults:
            alike.setdefault((joints[fault.joint].unit, *fault[1:]), []).append(fault.joint)
        for (unit, reason, fixes), names in alike.items():
            have = f"joint {names[0]!r} has" if len(names) == 1 else f"joints {', '.join(map(repr, names))} have"
            name = "NAME" if len(names) > 1 else shlex.quote(names[0])
            given = ", or ".join(
                OPTIONS[option][0].format(name=name, unit=unit.upper().replace(" ", "_")) for option in fixes
            )
            lines.append(f"  {have} {reason}" + f"; give {given}" * bool(fixes))
        if self.suggestions:
            words = (f"{option} {' '.join(map(shlex.quote, names))}" for option, names in self.suggestions.items())
            lines.append(f"Perhaps: {' '.join(words)}")
        if keywords := [python for option, (_, python) in OPTIONS.items() if any(option in f.fixes for f in faults)]:
            lines.append(f"In Python: {', '.join(keywords)}.")
        super().__init__("\n".join(lines))


def _suggestions(joints: Mapping[str, Joint], faults: tuple[Fault, ...]) -> dict[str, list[str]]:
    """The options that may fix faults without a number: exclude joints without a speed, declare wheels continuous."""
    fixes: dict[str, list[tuple[str, ...]]] = {}
    for fault in faults:
        if fault.fixes[:1] not in (FIX_ACCELERATION[:1], FIX_DECELERATION[:1]):
            fixes.setdefault(fault.joint, []).append(fault.fixes)
    no_speed = [name for name in fixes if joints[name].velocity is None and all("--exclude" in m for m in fixes[name])]
    # Not for joints whose stops another file (--urdf) may have, nor for those with an implausible range.
    wheels = [name for name in fixes if fixes[name] == [FIX_CONTINUOUS] and name not in no_speed]
    found = {"--continuous": wheels, "--exclude": no_speed if len(no_speed) < len(joints) else []}
    return {option: names for option, names in found.items() if names}


def corrected(sheet: Sheet, corrections: Corrections) -> tuple[dict[str, Joint], list[str]]:
    """The selected joints in order, with the user's corrections applied, and the names of the continuous ones."""
    angles = corrections.get("angles")
    if angles not in (None, *get_args(Angles)):
        raise ValueError(f"angles is {angles!r}, expected 'radians' or 'degrees'")
    if angles == "degrees" and sheet.kind == "MJCF":
        raise ValueError(
            "angles is 'degrees', but an MJCF says for itself what its angles are in (<compiler angle=...>)"
        )
    found = {name: in_radians(joint) if angles == "degrees" else joint for name, joint in sheet.joints.items()}
    joints = corrections.get("joints")
    wanted = list(found) if joints is None else list(joints)
    if twice := repeated(wanted):
        raise ValueError(f"joints names {min(twice)!r} twice")
    if unknown := [name for name in wanted if name not in found]:
        raise KeyError(_unknown(str(sheet.path), unknown[0], found))
    where = str(sheet.path)
    continuous = set(matching(corrections.get("continuous", ()), found, where))
    for name in continuous:
        _check_continuous(name, found[name], angles)
        found[name] = found[name]._replace(low=None, high=None, unit="rad")
    for pattern, change in _changes(corrections):
        for name in matching([pattern], found, where):
            found[name] = found[name]._replace(**change)
    for pattern, (low, high) in (corrections.get("bounds") or {}).items():
        for name in matching([pattern], found, where):
            found[name] = found[name]._replace(low=_certain(low), high=_certain(high), unsure=False)
            continuous.discard(name)
    out = set(matching(corrections.get("exclude", ()), found, where))
    if not (left := {name: found[name] for name in wanted if name not in out}):
        raise ValueError(f"{sheet.path}: no joint is left of {', '.join(found)}")
    return left, [name for name in left if name in continuous]


def _certain(value: Number) -> Number:
    """A user's number, converted from text so that its unit is not doubted; other text is kept, to be refused later."""
    number = finite(value) if isinstance(value, str) else None
    return value if number is None else number


def _changes(corrections: Corrections) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a user says about speeds and accelerations: (pattern of joints, fields of ``Joint``)."""
    for pattern, speed in (corrections.get("speeds") or {}).items():
        yield pattern, {"velocity": _certain(speed)}
    for pattern, limit in _by_pattern(corrections.get("acceleration")):
        without = {"deceleration": None} if limit == math.inf else {}  # no limit on one, none on the other
        yield pattern, {"acceleration": limit, **without}
    for pattern, limit in _by_pattern(corrections.get("deceleration")):
        yield pattern, {"deceleration": limit}


def reaccelerated(
    joints: Mapping[str, Joint], rates: Mapping[str, Fraction], dt: float | None, corrections: Corrections
) -> Arguments:
    """The accelerations of ``joints`` after the user's corrections, as arguments of ``RateLimits``; empty without any.

    Args:
        joints: joints with an acceleration per second squared, or per step squared without a ``dt``, if they have one,
            and a deceleration where it differs.
        rates: the largest change per step of each.
        dt: control period in seconds.
        corrections: ``acceleration`` and ``deceleration`` of these are used.
    """
    found = dict(joints)
    for pattern, change in _changes(corrections):
        for name in matching([pattern], found, "the limits"):
            found[name] = found[name]._replace(**change)
    limited = any(_limits(joint.acceleration) or _limits(joint.deceleration) for joint in found.values())
    if not limited:
        return {}
    if faults := tuple(Fault(n, *fault) for n, joint in found.items() for fault in _acceleration_faults(joint, True)):
        raise DatasheetError("the limits", found, faults)
    period = Fraction(1 if dt is None else dt)
    made: Arguments = {"acceleration": {}, "deceleration": {}}
    for name, joint in found.items():
        for key, value in _accelerations(name, joint, rates[name], period**2).items():
            made[key][name] = value / period**2
    return made


def _by_pattern(given: Number | Mapping[str, Number | None] | None) -> Iterator[tuple[str, Number]]:
    """(pattern, limit) of a number for all joints or of a mapping; "none" and None are infinite."""
    if given is not None:
        for pattern, value in (given if isinstance(given, Mapping) else {"*": given}).items():
            yield pattern, math.inf if value is None or value == NONE else _certain(value)


def matching(patterns: Iterable[str], joints: Collection[str], where: str) -> Iterator[str]:
    """The joints that the patterns match; a pattern that is a joint's name matches only that joint."""
    for pattern in patterns:
        names = [pattern] if pattern in joints else [name for name in joints if fnmatchcase(name, pattern)]
        if not names:
            raise KeyError(_unknown(where, pattern, joints))
        yield from names


def _unknown(where: str, name: str, joints: Iterable[str]) -> str:
    return f"{where}: no movable joint {name!r}; it has: {', '.join(joints)}"


def _check_continuous(name: str, joint: Joint, angles: Angles | None) -> None:
    """Refuse to treat a joint that has stops as continuous."""
    if joint.unit == "m":
        raise ValueError(f"joint {name!r} slides, so it is not continuous; give its bounds")
    low, high = finite(joint.low), finite(joint.high)
    odd = not angles and any(what == "bounds" for what, _ in not_radians(joint))
    if low is not None and high is not None and low < high and not odd:
        raise ValueError(f"joint {name!r} has range [{joint.low}, {joint.high}] in the file, so it is not continuous")


def not_radians(joint: Joint) -> Iterator[tuple[str, str]]:
    """The values of a revolute joint that cannot be in rad, rad/s or rad/s^2: (key of ``FIX_UNIT``, reason).

    Only text and the range of an ``unsure`` joint are checked; other numbers are known to be in rad.
    """
    doubted = [isinstance(value, str) or (joint.unsure and i > 0) for i, value in enumerate(joint[:3])]
    speed, low, high = (finite(value) for value in joint[:3])
    rate, span = f"velocity limit {_shown(joint.velocity)} rad/s", f"{_span(joint)} rad"
    ranged = low is not None and high is not None and low < high
    if speed is not None and doubted[0] and speed > FASTEST:
        yield "speeds", f"{rate}, more than {FASTEST / (2 * math.pi):.0f} turns a second"
    elif speed is not None and ranged and any(doubted) and speed * SHORTEST > high - low:  # type: ignore[operator]
        yield "speeds", f"{rate}, which crosses its {span} in less than {float(SHORTEST):g} s"
    if ranged and any(doubted[1:]) and max(-low, high) > FARTHEST:  # type: ignore[operator, type-var]
        yield "bounds", f"{span}, more than {FARTHEST / (2 * math.pi):.0f} turns"
    for key in ("acceleration", "deceleration"):
        stated, number = getattr(joint, key), finite(getattr(joint, key))
        if speed is not None and isinstance(stated, str) and number is not None and number * SHORTEST > speed > 0:
            between = "from rest to" if key == "acceleration" else "to rest from"
            why = f"which takes less than {float(SHORTEST):g} s {between} its {_shown(joint.velocity)} rad/s"
            yield key, f"{key} limit {stated} rad/s^2, {why}"


FIX_SPEED = ("--speeds", "--exclude")
FIX_RANGE = ("--bounds", "--exclude")
FIX_CONTINUOUS = ("--continuous", *FIX_RANGE)
FIX_ACCELERATION = ("--acceleration", "--exclude")
FIX_DECELERATION = ("--deceleration", "--exclude")
FIX_UNIT = {
    "speeds": ("--speeds", "--angles degrees", "--angles radians"),
    "bounds": ("--bounds", "--angles degrees", "--angles radians", "--continuous"),
    "acceleration": ("--acceleration", "--angles degrees", "--angles radians"),
    "deceleration": ("--deceleration", "--angles degrees", "--angles radians"),
}
"""What cannot be in radians -> the options that would fix it."""


def _faults(
    name: str, joint: Joint, continuous: bool, angles: Angles | None, kind: str, limited: bool
) -> Iterator[Fault]:
    yield from (Fault(name, *fault) for fault in _speed_faults(joint, kind))
    yield from (Fault(name, *fault) for fault in _acceleration_faults(joint, limited))
    if not continuous:
        yield from (Fault(name, *fault) for fault in _range_faults(joint, kind))
    if joint.unit != "m" and angles is None:
        for what, why in not_radians(joint):  # an MJCF states its own angle unit
            fixes = (fix for fix in FIX_UNIT[what] if (kind, fix) != ("MJCF", "--angles degrees"))
            yield Fault(name, why, tuple(fixes))


def _speed_faults(joint: Joint, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    speed, stated = finite(joint.velocity), f"velocity limit {_shown(joint.velocity)}"
    if joint.velocity is None:
        why = " (an MJCF has no place for it)" if kind == "MJCF" else ""
        yield f"no velocity limit{why}, expected a positive speed", FIX_SPEED
    elif speed is None:
        yield f"{stated}, expected a finite number, as a plain decimal", FIX_SPEED
    elif speed <= 0:
        yield f"{stated}, expected a positive speed", FIX_SPEED


def _acceleration_faults(joint: Joint, limited: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    if joint.acceleration is None and joint.deceleration is not None:
        yield f"deceleration limit {_shown(joint.deceleration)} but no acceleration limit", FIX_ACCELERATION
    elif joint.acceleration is None and limited:
        yield "no acceleration limit, expected one for every joint, as others have one", FIX_ACCELERATION
    fixes = {"acceleration": FIX_ACCELERATION, "deceleration": FIX_DECELERATION}
    for key, value in (("acceleration", joint.acceleration), ("deceleration", joint.deceleration)):
        if not _limits(value):
            continue
        number, stated = finite(value), f"{key} limit {_shown(value)}"
        if number is None:
            yield f"{stated}, expected a finite number, as a plain decimal", fixes[key]
        elif number <= 0:
            yield f"{stated}, expected a positive number", fixes[key]


def _limits(acceleration: Number | None) -> bool:
    return acceleration is not None and acceleration != math.inf


def _range_faults(joint: Joint, kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    low, high = finite(joint.low), finite(joint.high)
    span = _span(joint)
    if joint.low is None or joint.high is None:
        more = ("--urdf",) if kind == "joint_limits.yaml" else ()
        fixes = FIX_RANGE if joint.unit == "m" else FIX_CONTINUOUS
        yield "no position bounds, expected low < high", (*more, *fixes)
    elif low is None or high is None:
        yield f"{span}, expected finite numbers, as plain decimals", FIX_RANGE
    elif low >= high:
        yield f"{span}, expected low < high", FIX_RANGE


def finite(value: Number | None) -> Fraction | None:
    """The value as a rational, or None if it is not a finite number."""
    try:
        number = None if value is None else boxmath.exact(value)
        return None if number is None or not math.isfinite(float(number)) else number
    except (ValueError, TypeError, OverflowError):
        return None


def _span(joint: Joint) -> str:
    return f"range [{_shown(joint.low)}, {_shown(joint.high)}]"


def _shown(value: Number | None) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):.6g}"
    return str(value) if finite(value) is not None else shortened(value)


def arguments(
    found: Mapping[str, Joint],
    dt: Number,
    safety: Number,
    where: str,
    continuous: Collection[str] = (),
    angles: Angles | None = None,
    kind: str = "",
) -> Arguments:
    """The keyword arguments of ``RateLimits`` for these joints; ``kind`` is that of the file, if they are from one."""
    period, share = smaller(dt, "dt"), smaller(safety, "safety")
    if period <= 0:
        raise ValueError(f"dt is {dt}, expected a positive control period in seconds")
    if not 0 < share <= 1:
        raise ValueError(f"safety is {safety}, expected a share of the rated speed in (0, 1]")
    found = {name: _believed(joint, period) for name, joint in found.items()}
    limited = any(_limits(joint.acceleration) or _limits(joint.deceleration) for joint in found.values())
    faults = tuple(
        fault
        for name, joint in found.items()
        for fault in _faults(name, joint, name in continuous, angles, kind, limited)
    )
    if faults:  # without a file, no option would fix them
        raise DatasheetError(where, found, faults if kind else tuple(fault._replace(fixes=()) for fault in faults))
    columns = ("delta", "low", "high", *("acceleration", "deceleration") * limited)
    made: dict[str, dict[str, Number]] = {key: {} for key in columns}
    for name, joint in found.items():
        row = {"delta": smaller(joint.velocity, f"velocity of {name!r}") * period * share}
        if limited:
            row |= _accelerations(name, joint, row["delta"], period**2 * share)
        bound = continuous_bound(min(row.values()))
        low, high = (-bound, bound) if name in continuous else (joint.low, joint.high)
        for key, value in {**row, "low": low, "high": high}.items():
            made[key][name] = value if key in ("delta", "low", "high") else per_second(value, dt)  # type: ignore[assignment, arg-type]
    units = sorted({joint.unit for joint in found.values()})
    unit = UNSAID if UNSAID in units else "/".join(units)
    return {**made, "groups": guess_groups(found), "dt": float(dt), "units": unit}


def _believed(joint: Joint, period: Fraction) -> Joint:
    """A joint whose acceleration is twice its rate per step, as ``to_joint_limits_yaml`` writes it for no limit.

    That may be any number per second squared, and says nothing about its unit.
    """
    speed = finite(joint.velocity)
    change: dict[str, Any] = {}
    for key in ("acceleration", "deceleration"):
        number = finite(getattr(joint, key))
        if speed and number and abs(number * period / (2 * speed) - 1) < Fraction(1, 10**9):
            change[key] = number
    return joint._replace(**change)


def _accelerations(name: str, joint: Joint, delta: Fraction, scale: Fraction) -> dict[str, Fraction]:
    """Acceleration and deceleration per step squared. Without a limit it is twice the rate, which never binds."""
    slower = joint.acceleration if joint.deceleration is None else joint.deceleration
    given = {"acceleration": joint.acceleration, "deceleration": slower}
    return {
        key: smaller(value, f"{key} of {name!r}") * scale if _limits(value) else 2 * delta
        for key, value in given.items()
    }


def per_second(acceleration: Number, dt: Number) -> Fraction:
    """An acceleration per step squared as ``RateLimits`` takes it with a dt: per second squared, exactly."""
    return boxmath.exact(acceleration) / Fraction(float(dt)) ** 2


def continuous_bound(smallest: Fraction) -> Fraction:
    """The position bound of a continuous joint: the largest power of two below REACH times its smallest limit.

    With an acceleration limit that leaves at least 32 units of the grid of commands to each limit.
    """
    return Fraction(2) ** (math.frexp(min(float(smallest), 1e9) * REACH)[1] - 1)


def smaller(value: Number | None, label: str) -> Fraction:
    """A positive number as a rational: for a float, the smaller of its bits and the decimal it prints as.

    A limit computed from it holds under either interpretation.
    """
    try:
        return min(readings(value))  # type: ignore[arg-type]
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{label} is {shortened(value)}, expected a finite number") from None


def readings(value: Number) -> tuple[Fraction, ...]:
    """The possible exact values of a number: of a float, its bits and the decimal it prints as."""
    bits = boxmath.exact(value)
    return (bits, Fraction(repr(float(value)))) if isinstance(value, float) else (bits,)


def guess_groups(names: Iterable[str]) -> list[str]:
    """A group label per joint: its name without side and "joint", so that left and right share a label."""
    sides = {"left", "right", "l", "r", "fl", "fr", "rl", "rr", "joint"}
    return ["_".join(p for p in name.split("_") if p.lower() not in sides) or name for name in names]
