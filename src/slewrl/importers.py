"""Limits from files and to files: URDF, ros2_control / MoveIt joint_limits.yaml, and our own limits.yaml.

delta = velocity * dt * safety is computed in exact rationals from the decimals in the file and rounded down once.
What is read comes as the keyword arguments of ``RateLimits``, so that a robot can read its limits without torch.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import yaml

from slewrl import boxmath
from slewrl.boxmath import Number

if TYPE_CHECKING:
    from slewrl.limits import RateLimits

MOVABLE = ("revolute", "prismatic", "continuous")
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
ROW_KEYS = ("delta", "up", "down", "low", "high", "group", "reset")
Arguments = dict[str, Any]
"""The keyword arguments of RateLimits."""


class _Joint(NamedTuple):
    """What a file says of one joint, as written; None where it says nothing."""

    velocity: str | None
    low: Number | None
    high: Number | None
    unit: str = "rad"


# ---------------------------------------------------------------------- URDF


def from_urdf(
    path: str | Path,
    dt: Number,
    safety: Number = 1,
    joints: Iterable[str] | None = None,
    bounds: Mapping[str, tuple[Number, Number]] | None = None,
) -> Arguments:
    """See ``RateLimits.from_urdf``."""
    found = _read_urdf(path)
    wanted = list(found) if joints is None else list(joints)
    twice = sorted({name for name in wanted if wanted.count(name) > 1})
    if twice:
        raise ValueError(f"joints names {twice[0]!r} twice")
    for name in [*wanted, *(bounds or {})]:
        if name not in found:
            raise KeyError(f"{path}: no movable joint {name!r}; it has: {', '.join(found)}")
    chosen = {name: found[name] for name in wanted}
    for name, (low, high) in (bounds or {}).items():
        if name in chosen:
            chosen[name] = chosen[name]._replace(low=low, high=high)
    return _limits(chosen, dt, safety, f"{path}: joint", "bounds={name: (low, high)} (--bounds name=low,high)")


def _read_urdf(path: str | Path) -> dict[str, _Joint]:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: not readable as XML ({error})") from error
    if root.tag != "robot":
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <robot> (a URDF)")
    found: dict[str, _Joint] = {}
    for joint in root.iter("joint"):
        # <transmission> blocks hold untyped <joint> elements; a mimic joint follows another one.
        if joint.get("type") not in MOVABLE or joint.find("mimic") is not None:
            continue
        name = joint.get("name", "")
        if name in found:
            raise ValueError(f"{path}: duplicate joint name {name!r}")
        limit = joint.find("limit")
        get = limit.get if limit is not None else lambda key: None
        bounded = joint.get("type") != "continuous"
        low, high = (get("lower"), get("upper")) if bounded else (None, None)
        found[name] = _Joint(get("velocity"), low, high, "m" if joint.get("type") == "prismatic" else "rad")
    if not found:
        raise ValueError(f"{path}: no movable joint (expected type {', '.join(MOVABLE)})")
    return found


# ---------------------------------------------------------------------- ros2_control / MoveIt


def from_joint_limits_yaml(
    path: str | Path, dt: Number, safety: Number = 1, urdf: str | Path | None = None
) -> Arguments:
    """See ``RateLimits.from_joint_limits_yaml``."""
    # BaseLoader builds strings only: safe, and the decimals stay as written.
    tables = list(_joint_limits_tables(_load_yaml(path, yaml.BaseLoader)))
    if len(tables) != 1:
        raise ValueError(f"{path}: {len(tables)} 'joint_limits' mappings found, expected one (ros2_control or MoveIt)")
    fallback = _read_urdf(urdf) if urdf is not None else {}
    found = {}
    for name, row in tables[0].items():
        if not isinstance(row, dict):
            raise ValueError(f"{path}: joint {name!r} is {row!r}, expected a mapping of limits")
        known = fallback.get(name, _Joint(None, None, None))
        where = f"{path}: joint {name!r}"
        low, high = (_switched(row, "has_position_limits", f"{end}_position", where) for end in ("min", "max"))
        velocity = _switched(row, "has_velocity_limits", "max_velocity", where)
        found[name] = _Joint(velocity or known.velocity, low or known.low, high or known.high, known.unit)
    return _limits(found, dt, safety, f"{path}: joint", "urdf=PATH (--urdf PATH)")


def _joint_limits_tables(node: Any) -> Iterator[dict[str, Any]]:
    """Every ``joint_limits`` mapping, however deep (ROS nests it under node names and ros__parameters)."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "joint_limits" and isinstance(value, dict) and value:
                yield value
            else:
                yield from _joint_limits_tables(value)


def _switched(row: dict[str, Any], flag: str, key: str, where: str) -> str | None:
    """A value, unless its has_..._limits flag switches it off; a flag that is on needs its value."""
    switch = str(row.get(flag, "")).lower()
    if switch not in ("", *YES, *NO):
        raise ValueError(f"{where}: {flag} is {row[flag]!r}, expected true or false")
    if switch in YES and key not in row:
        raise ValueError(f"{where}: {flag} is on but {key} is missing; it has: {', '.join(row)}")
    return None if switch in NO else row.get(key)


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
            "max_velocity": _speed_within(slower, limits.dt),
        }
    Path(path).write_text(header + yaml.safe_dump({"joint_limits": rows}, sort_keys=False), encoding="utf-8")


def _speed_within(delta: float, dt: float) -> float:
    """The largest float v with v * dt <= delta, v and dt read as their bits or as the decimals they print as."""
    period = max(_readings(dt))
    speed = boxmath.round_down(Fraction(delta) / period)
    while max(_readings(speed)) * period > Fraction(delta):
        speed = math.nextafter(speed, 0.0)
    return speed


# ---------------------------------------------------------------------- shared


def _limits(found: Mapping[str, _Joint], dt: Number, safety: Number, where: str, remedy: str) -> Arguments:
    period, share = _smaller(dt, "dt"), _smaller(safety, "safety")
    if period <= 0:
        raise ValueError(f"dt is {dt}, expected a positive control period in seconds")
    if not 0 < share <= 1:
        raise ValueError(f"safety is {safety}, expected a share of the rated speed in (0, 1]")
    delta, low, high = {}, {}, {}
    for name, joint in found.items():
        if joint.velocity is None:
            raise ValueError(f"{where} {name!r} has no velocity limit, expected a positive speed (or leave it out)")
        if joint.low is None or joint.high is None:
            raise ValueError(f"{where} {name!r} has no position bounds, expected low < high; give them by {remedy}")
        speed = _smaller(joint.velocity, f"velocity of {name!r}")
        if speed <= 0:
            raise ValueError(f"{where} {name!r} has velocity limit {joint.velocity}, expected a positive speed")
        delta[name], low[name], high[name] = speed * period * share, joint.low, joint.high
    units = sorted({joint.unit for joint in found.values()})
    groups = guess_groups(found)
    return dict(delta=delta, low=low, high=high, groups=groups, dt=float(dt), units="/".join(units))


def _smaller(value: Number, label: str) -> Fraction:
    """A positive number as a rational: for a float, the smaller of its bits and the decimal it prints as.

    The product then stays within the limit under either reading.
    """
    try:
        return min(_readings(value))
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{label} is {value!r}, expected a finite number") from None


def _readings(value: Number) -> tuple[Fraction, ...]:
    """What a number may be taken for: a float's bits, and the decimal it prints as."""
    bits = boxmath.exact(value)
    return (bits, Fraction(repr(value))) if isinstance(value, float) else (bits,)


def guess_groups(names: Iterable[str]) -> list[str]:
    """A group per joint from its name: sides and a trailing "joint" dropped, so left and right share one."""
    sides = {"left", "right", "l", "r", "fl", "fr", "rl", "rr", "joint"}
    return ["_".join(p for p in name.split("_") if p.lower() not in sides) or name for name in names]


# ---------------------------------------------------------------------- limits.yaml


def to_yaml(limits: "RateLimits", path: str | Path) -> None:
    """See ``RateLimits.to_yaml``."""
    _one_per_joint(limits)
    joints = {}
    for i, name in enumerate(limits.names):
        up, down = float(limits.up[i]), float(limits.down[i])
        rate = {"delta": up} if up == down else {"up": up, "down": down}
        row = {**rate, "low": float(limits.low[i]), "high": float(limits.high[i]), "group": limits.groups[i]}
        joints[name] = row if limits.reset is None else {**row, "reset": float(limits.reset[i])}
    text = yaml.safe_dump(
        {"units": limits.units, "dt": limits.dt, "joints": joints}, sort_keys=False, default_flow_style=None, width=120
    )
    header = (
        "# slewrl rate limits. delta: largest change per control step; low, high: action range; dt in seconds;\n"
        "# reset, if given: where the joint is before an episode's first step.\n"
        "# Numbers are rounded inward, so a digit may differ in the last place from the datasheet.\n"
    )
    Path(path).write_text(header + text, encoding="utf-8")


def from_yaml(path: str | Path) -> Arguments:
    """See ``RateLimits.from_yaml``."""
    data = _load_yaml(path, yaml.SafeLoader)
    joints = data.get("joints") if isinstance(data, dict) else None
    if not isinstance(joints, dict) or not joints:
        raise ValueError(f"{path}: no 'joints' mapping found (expected what `slewrl limits` writes)")
    columns: dict[str, dict[str, Any]] = {key: {} for key in ("up", "down", "low", "high", "group", "reset")}
    for name, row in joints.items():
        for key, value in _limits_row(row, f"{path}: joint {name!r}").items():
            columns[key][name] = value
    groups, dt = columns.pop("group"), _seconds(data.get("dt"), path)
    reset = columns.pop("reset") or None
    return {**columns, "groups": groups, "dt": dt, "units": data.get("units", "action"), "reset": reset}


def _seconds(dt: Any, path: str | Path) -> float | None:
    try:
        return None if dt is None else float(dt)
    except (ValueError, TypeError):
        raise ValueError(f"{path}: dt is {dt!r}, expected a positive control period in seconds") from None


def _one_per_joint(limits: "RateLimits") -> None:
    if limits.up.ndim != 1 or limits.down.ndim != 1:
        raise ValueError(f"limits of shape {limits.up.shape} vary by sample; only one set per joint can be written")


def _limits_row(row: Any, where: str) -> dict[str, Any]:
    """One joint of a limits.yaml as up, down, low, high and group."""
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {row!r}, expected a mapping with {', '.join(ROW_KEYS)}")
    unknown = [key for key in row if key not in ROW_KEYS]
    if unknown:
        raise ValueError(f"{where} has an unknown entry {unknown[0]!r}, expected {', '.join(ROW_KEYS)}")
    rates = {"delta"} if "delta" in row else {"up", "down"}
    if rates != set(row) & {"delta", "up", "down"}:
        raise ValueError(f"{where} needs either delta, or both up and down; it has: {', '.join(row)}")
    for key in ("low", "high"):
        if row.get(key) is None:
            raise ValueError(f"{where} has no {key!r}; it has: {', '.join(row)}")
    up, down = row.get("up", row.get("delta")), row.get("down", row.get("delta"))
    made = {"up": up, "down": down, "low": row["low"], "high": row["high"], "group": row.get("group") or ""}
    return made if row.get("reset") is None else {**made, "reset": row["reset"]}


def _load_yaml(path: str | Path, base: Any) -> Any:
    """Plain data from a YAML file; ``base`` is BaseLoader or SafeLoader, neither of which runs code."""

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            twice = [key for i, key in enumerate(keys) if key in keys[:i]]
            if twice:
                raise ValueError(f"{path}: {twice[0]!r} is given twice")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=Loader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not readable as YAML ({error})") from error
