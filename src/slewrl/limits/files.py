"""Reads and writes limits: URDF, MJCF, the joint_limits.yaml of ros2_control and MoveIt, and slewrl's limits.yaml.

Readers return the keyword arguments of ``RateLimits``, so that a robot computer can read its limits without torch.
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import yaml

from slewrl.errors import shortened
from slewrl.io.files import is_yaml
from slewrl.io.plain_yaml import load_yaml
from slewrl.limits import boxmath
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Sheet, read_joint_limits, read_mjcf, read_urdf, xml_root
from slewrl.limits.parse import read_period
from slewrl.limits.rates import Arguments, Corrections, arguments, corrected, per_second, readings

if TYPE_CHECKING:
    from slewrl.limits import RateLimits

KEYS = ("units", "dt", "acceleration_in", "joints")
ROW_KEYS = ("delta", "up", "down", "acceleration", "deceleration", "low", "high", "group", "reset")


ACCELERATION_IN = ("per step squared", "per second squared")
"""What a limits.yaml may have its accelerations in; one that does not say has them per step squared."""


class Read(NamedTuple):
    """Limits read from a file: the arguments of RateLimits, the unit of each joint, and notes for the user."""

    arguments: Arguments
    units: dict[str, str]
    notes: tuple[str, ...]


def read_sheet(path: str | Path, urdf: str | Path | None = None) -> Sheet:
    """Read a datasheet; its kind is recognised from the file."""
    if is_yaml(path):
        return read_joint_limits(path, urdf)
    if urdf is not None:
        raise ValueError(f"--urdf is for a joint_limits.yaml, and {path} is not one")
    return read_mjcf(path) if xml_root(path).tag == "mujoco" else read_urdf(path)


def from_sheet(sheet: Sheet, dt: Number, safety: Number = 1, **corrections: Unpack[Corrections]) -> Read:
    """Read limits from a datasheet, with the user's corrections; see ``RateLimits.from_urdf``."""
    found, continuous = corrected(sheet, corrections)
    made = arguments(found, dt, safety, str(sheet.path), continuous, corrections.get("angles"), sheet.kind)
    kept: dict[float, list[str]] = {}
    for name in continuous:
        kept.setdefault(float(made["high"][name]), []).append(name)
    notes = (
        f"continuous, kept within ±{far:g} rad, where float32 resolves a step: {', '.join(kept[far])}" for far in kept
    )
    return Read(made, {name: joint.unit for name, joint in found.items()}, (*sheet.notes, *notes))


ROS2_HEADER = """\
# Joint limits for ros2_control (below ros__parameters) or MoveIt, written by slewrl; in {units} and seconds.
# max_velocity: the largest change per control step over dt = {dt} s, rounded down so that times dt it is never above.
"""


def to_joint_limits_yaml(limits: "RateLimits", path: str | Path) -> None:
    """See ``RateLimits.to_joint_limits_yaml``."""
    _one_per_joint(limits)
    if limits.dt is None:
        raise ValueError(
            "these limits have no dt, which speeds need: RateLimits(..., dt=0.02), or `dt: 0.02` in the file"
        )
    header = ROS2_HEADER.format(units=" ".join(limits.units.split()), dt=limits.dt)
    if limits.acceleration is not None:
        header += "# max_acceleration, and max_deceleration where it differs: likewise, over dt squared.\n"
    rows = {}
    for i, name in enumerate(limits.names):
        up, down, slower = float(limits.up[i]), float(limits.down[i]), float(limits.delta[i])
        if up != down:
            header += (
                f"# {name!r}: rise {up!r} and fall {down!r} per step differ; its max_velocity is the slower one's.\n"
            )
        rows[name] = {
            "has_position_limits": True,
            "min_position": float(limits.low[i]),
            "max_position": float(limits.high[i]),
            "has_velocity_limits": True,
            "max_velocity": _within(slower, max(readings(limits.dt))),
            **_acceleration_rows(limits, i),
        }
    Path(path).write_text(header + yaml.safe_dump({"joint_limits": rows}, sort_keys=False), encoding="utf-8")


def _acceleration_rows(limits: "RateLimits", i: int) -> dict[str, Any]:
    """The entries of a joint_limits.yaml about the acceleration of joint i; none if there is no limit."""
    made: dict[str, Any] = {}
    for key, value in _accelerations(limits, i).items():
        made |= {f"has_{key}_limits": True, f"max_{key}": _within(value, max(readings(limits.dt or 1.0)) ** 2)}
    return made


def _accelerations(limits: "RateLimits", i: int) -> dict[str, float]:
    """The acceleration of joint i per step squared, and its deceleration where that differs; empty without a limit."""
    if limits.acceleration is None or limits.deceleration is None:
        return {}
    faster, slower = float(limits.acceleration[i]), float(limits.deceleration[i])
    return {"acceleration": faster} | ({} if slower == faster else {"deceleration": slower})


def _within(limit: float, period: Fraction) -> float:
    """The largest float v with v * period <= limit, whether v means its bits or the decimal it prints as."""
    rate = boxmath.round_down(Fraction(limit) / period)
    while max(readings(rate)) * period > Fraction(limit):
        rate = math.nextafter(rate, 0.0)
    return rate


def to_yaml(limits: "RateLimits", path: str | Path) -> None:
    """See ``RateLimits.to_yaml``."""
    _one_per_joint(limits)
    joints = {}
    for i, name in enumerate(limits.names):
        up, down = float(limits.up[i]), float(limits.down[i])
        rate = {"delta": up} if up == down else {"up": up, "down": down}
        ends = {"low": float(limits.low[i]), "high": float(limits.high[i])}
        row: dict[str, Any] = {**rate, **_accelerations(limits, i), **ends, "group": limits.groups[i]}
        joints[name] = row if limits.reset is None else {**row, "reset": float(limits.reset[i])}
    given = {} if limits.acceleration is None else {"acceleration_in": ACCELERATION_IN[0]}
    text = yaml.safe_dump(
        {"units": limits.units, "dt": limits.dt, **given, "joints": joints},
        sort_keys=False, default_flow_style=None, width=120,
    )  # fmt: skip
    header = (
        "# slewrl rate limits. delta: largest change per control step; low, high: action range; dt in seconds;\n"
        "# reset, if given: where the joint is before an episode's first step.\n"
        "# Numbers are rounded inward, so a digit may differ in the last place from the datasheet.\n"
    )
    if limits.acceleration is not None:
        header += (
            "# acceleration, and deceleration where it differs: largest change of an increment, in the unit that\n"
            "# acceleration_in names, per step squared or per second squared.\n"
        )
    Path(path).write_text(header + text, encoding="utf-8")


def from_yaml(path: str | Path) -> Arguments:
    """See ``RateLimits.from_yaml``; accelerations are rationals in the unit that ``RateLimits`` takes them in."""
    data = load_yaml(path)
    joints = data.get("joints") if isinstance(data, dict) else None
    if not isinstance(joints, dict) or not joints:
        raise ValueError(f"{path}: no 'joints' mapping found (expected what `slewrl limits` writes)")
    if unknown := [key for key in data if key not in KEYS]:
        raise ValueError(f"{path} has an unknown entry {shortened(unknown[0])}, expected {', '.join(KEYS)}")
    columns: dict[str, dict[str, Any]] = {key: {} for key in ROW_KEYS if key != "delta"}
    for name, row in joints.items():
        for key, value in _limits_row(row, f"{path}: joint {name!r}").items():
            columns[key][name] = value
    groups, dt = columns.pop("group"), read_period(data.get("dt"), f"{path}: ")
    optional: dict[str, Any] = {key: columns.pop(key) or None for key in ("reset", "acceleration", "deceleration")}
    in_seconds = _in_seconds(data, dt, path)
    if optional["acceleration"] is not None:
        if without := [name for name in joints if name not in optional["acceleration"]]:
            raise ValueError(f"{path}: joint {without[0]!r} has no 'acceleration', expected one, as others have one")
        for key in () if in_seconds else ("acceleration", "deceleration"):
            optional[key] = {name: _per_second(value, dt) for name, value in optional[key].items()}
    return {**columns, **optional, "groups": groups, "dt": dt, "units": data.get("units", "action")}


def _in_seconds(data: dict[str, Any], dt: float | None, path: str | Path) -> bool:
    """Whether a limits.yaml has its accelerations per second squared."""
    unit = data.get("acceleration_in", ACCELERATION_IN[0])
    if unit not in ACCELERATION_IN:
        raise ValueError(f"{path}: acceleration_in is {shortened(unit)}, expected {' or '.join(ACCELERATION_IN)}")
    if unit == ACCELERATION_IN[1] and dt is None:
        raise ValueError(f"{path}: acceleration_in is {unit}, expected a dt with it, the control period in seconds")
    return bool(unit == ACCELERATION_IN[1])


def _per_second(value: Any, dt: float | None) -> Any:
    """An acceleration of a limits.yaml per second squared; what is no number is kept, to be refused by name."""
    try:
        return value if dt is None else per_second(value, dt)
    except (ValueError, TypeError, OverflowError):
        return value


def _one_per_joint(limits: "RateLimits") -> None:
    if limits.up.ndim != 1 or limits.down.ndim != 1:
        raise ValueError(f"limits of shape {limits.up.shape} vary by sample; only one set per joint can be written")


def _limits_row(row: Any, where: str) -> dict[str, Any]:
    """The entry of one joint in a limits.yaml as up, down, low, high, group and, if given, accelerations and reset."""
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {shortened(row)}, expected a mapping with {', '.join(ROW_KEYS)}")
    if unknown := [key for key in row if key not in ROW_KEYS]:
        raise ValueError(f"{where} has an unknown entry {unknown[0]!r}, expected {', '.join(ROW_KEYS)}")
    rates = {"delta"} if "delta" in row else {"up", "down"}
    if rates != set(row) & {"delta", "up", "down"}:
        raise ValueError(f"{where} needs either delta, or both up and down; it has: {', '.join(row)}")
    for key in ("low", "high"):
        if row.get(key) is None:
            raise ValueError(f"{where} has no {key!r}; it has: {', '.join(row)}")
    up, down = row.get("up", row.get("delta")), row.get("down", row.get("delta"))
    made = {"up": up, "down": down, "low": row["low"], "high": row["high"], "group": row.get("group") or ""}
    if row.get("acceleration") is None and row.get("deceleration") is not None:
        raise ValueError(f"{where} has deceleration {shortened(row['deceleration'])}, expected acceleration with it")
    if row.get("acceleration") is not None:
        slower = row["acceleration"] if row.get("deceleration") is None else row["deceleration"]
        made |= {"acceleration": row["acceleration"], "deceleration": slower}
    return made if row.get("reset") is None else {**made, "reset": row["reset"]}
