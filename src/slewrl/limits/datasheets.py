"""Reads the joints of a robot description: URDF, MJCF, and the joint_limits.yaml of ros2_control and MoveIt."""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from slewrl.errors import shortened
from slewrl.io.files import check_regular
from slewrl.io.plain_yaml import TextLoader, load_yaml
from slewrl.limits.boxmath import Number, exact
from slewrl.limits.parse import UNSAID, check_name

MOVABLE = ("revolute", "prismatic", "continuous")
XACRO = re.compile(r"\{[^}]*xacro/?\}")
"""The start of an element in xacro's namespace, whose URI has changed over time."""
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
ACCELERATION = ("has_acceleration_limits", "max_acceleration", "has_deceleration_limits", "max_deceleration")
"""The entries of a joint_limits.yaml about acceleration."""
PI = Fraction("3.14159265358979323846264338327950288419"), Fraction("3.14159265358979323846264338327950288420")
"""A lower and an upper bound of pi."""


class Joint(NamedTuple):
    """The limits of one joint as a file states them; None where it states nothing.

    Text is kept as written, in the file's unit. Other numbers are known to be in rad or m, except for the range of an
    ``unsure`` joint.
    """

    velocity: Number | None
    low: Number | None
    high: Number | None
    unit: str = "rad"
    unsure: bool = False
    acceleration: Number | None = None
    """Per second squared; infinite where the user says that there is no limit."""
    deceleration: Number | None = None


class Sheet(NamedTuple):
    """A datasheet: its independent joints, and notes on what was left out."""

    path: Path
    joints: dict[str, Joint]
    notes: tuple[str, ...] = ()
    kind: str = "URDF"


def radians(degrees: Number, up: bool) -> Fraction:
    """Convert degrees to rad, rounded up or down by a relative error below 1e-38."""
    angle = exact(degrees)
    return angle * PI[(angle > 0) == up] / 180


def in_radians(joint: Joint) -> Joint:
    """Convert a joint from degrees to radians, rounded inward. Text that is not a number is kept, to be refused."""

    def turned(value: Number | None, up: bool = False) -> Number | None:
        try:
            return radians(value, up) if isinstance(value, str) and joint.unit != "m" else value
        except ValueError:
            return value

    return joint._replace(
        velocity=turned(joint.velocity),
        low=turned(joint.low, up=True),
        high=turned(joint.high),
        acceleration=turned(joint.acceleration),
        deceleration=turned(joint.deceleration),
    )


def xml_root(path: str | Path, tag: str = "", kind: str = "") -> ElementTree.Element:
    """The root element of a file: <robot> of a URDF, <mujoco> of an MJCF; any but ``tag`` is refused, if given."""
    check_regular(Path(path))
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: not readable as XML ({error})") from error
    _check_expanded(path, root)
    if tag and root.tag != tag:
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <{tag}> ({kind})")
    return root


def read_urdf(path: str | Path) -> Sheet:
    """Read the movable joints of a URDF, without mimic joints."""
    root = xml_root(path, "robot", "a URDF")
    found: dict[str, Joint] = {}
    left: dict[str, list[str]] = {}
    for joint in root.iter("joint"):
        kind, name = joint.get("type"), joint.get("name", "")
        if joint.find("mimic") is not None:
            left.setdefault("mimic joints", []).append(name)
        elif kind in ("floating", "planar"):
            left.setdefault(f"{kind} joints", []).append(name)
        elif kind in MOVABLE:  # <transmission> blocks hold untyped <joint> elements
            _check_new(path, name, found)
            limit = joint.find("limit")
            found[name] = _urdf_joint(kind, {} if limit is None else limit.attrib)
            if limit is not None and limit.get("jerk"):
                left.setdefault("jerk limits of", []).append(name)
    if not found:
        raise ValueError(f"{path}: no movable joint (expected type {', '.join(MOVABLE)})")
    return Sheet(Path(path), found, _notes(left))


def _check_expanded(path: str | Path, root: ElementTree.Element) -> None:
    """Refuse unexpanded xacro, whose joints depend on macros and conditions."""
    elements = (f"<{e.tag.partition('}')[2]}> of xacro" for e in root.iter() if XACRO.match(e.tag))
    inside = (value for joint in root.iter("joint") for e in joint.iter() for value in e.attrib.values())
    values = (shortened(value) for value in inside if "${" in value or "$(" in value)
    if found := next(elements, None) or next(values, None):
        raise ValueError(f"{path} has {found}, expected a URDF: run xacro first: xacro robot.urdf.xacro > robot.urdf")


def _urdf_joint(kind: str, limit: dict[str, str]) -> Joint:
    low, high = (None, None) if kind == "continuous" else (limit.get("lower"), limit.get("upper"))
    faster, slower = limit.get("acceleration") or None, limit.get("deceleration") or None
    return Joint(limit.get("velocity"), low, high, "m" if kind == "prismatic" else "rad", False, faster, slower)


def read_mjcf(path: str | Path) -> Sheet:
    """Read the independent hinge and slide joints of an MJCF, as MuJoCo compiles it. It has no speeds."""
    xml_root(path, "mujoco", "an MJCF")
    from slewrl.robots.read_mjcf import mjcf_joints

    found: dict[str, Joint] = {}
    left: dict[str, list[str]] = {}
    for number, (name, kind, span, follows) in enumerate(mjcf_joints(Path(path))):
        if kind not in ("hinge", "slide"):
            left.setdefault(f"{kind} joints", []).append(name or f"joint {number}")
        elif follows:
            left.setdefault("joints that an equality ties to another one", []).append(name)
        else:
            if not name:
                raise ValueError(f"{path}: joint {number} has no name, expected one")
            _check_new(path, name, found)
            low, high = span or (None, None)
            found[name] = Joint(None, low, high, "rad" if kind == "hinge" else "m", unsure=True)
    if not found:
        raise ValueError(f"{path}: no hinge or slide joint")
    return Sheet(Path(path), found, _notes(left), "MJCF")


def _check_new(path: str | Path, name: str, found: dict[str, Joint]) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if name in found:
        raise ValueError(f"{path}: duplicate joint name {name!r}")


def _notes(left: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"left out: {what} {', '.join(names)}" for what, names in left.items())


class Tagged(NamedTuple):
    """A number whose unit the file states."""

    unit: str
    text: str

    def __repr__(self) -> str:
        """The number as the file has it, with its tag."""
        return f"{self.unit} {self.text}"


class _SheetLoader(TextLoader):
    tags = ("!degrees", "!radians")

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Compose a mapping as PyYAML does, and refuse unit tags on anything but numbers."""
        node: Any = super().compose_mapping_node(anchor)
        for key, value in node.value:
            flag = isinstance(key.value, str) and key.value.startswith("has_")
            if tag := next((part.tag for part in (key, value)[: 1 + flag] if part.tag in self.tags), None):
                line = key.start_mark.line + 1
                raise ValueError(f"line {line} has the tag {tag!r} at {shortened(key.value)}, expected it at a number")
        return node


def _tagged(loader: TextLoader, node: Any) -> Tagged:
    return Tagged(node.tag, str(loader.construct_scalar(node)))


for _tag in _SheetLoader.tags:
    _SheetLoader.add_constructor(_tag, _tagged)


def read_joint_limits(path: str | Path, urdf: str | Path | None = None) -> Sheet:
    """Read the joints of a joint_limits.yaml; missing limits are taken from ``urdf``."""
    tables = list(_tables(load_yaml(path, _SheetLoader)))
    if len(tables) != 1:
        raise ValueError(f"{path}: {len(tables)} 'joint_limits' mappings found, expected one (ros2_control or MoveIt)")
    fallback = read_urdf(urdf).joints if urdf is not None else {}
    found: dict[str, Joint] = {}
    left: dict[str, list[str]] = {}
    for name, row in tables[0].items():
        if not isinstance(row, dict):
            raise ValueError(f"{path}: joint {name!r} is {shortened(row)}, expected a mapping of limits")
        _check_new(path, name, found)
        found[name] = _row_joint(row, fallback.get(name, Joint(None, None, None, UNSAID)), f"{path}: joint {name!r}")
        if "max_jerk" in row and not _is_off(row, "has_jerk_limits"):
            left.setdefault("jerk limits of", []).append(name)
    return Sheet(Path(path), found, _notes(left), "joint_limits.yaml")


def holds_our_limits(path: str | Path) -> bool:
    """Whether a YAML file is a limits.yaml of slewrl rather than a joint_limits.yaml."""
    data = load_yaml(path, _SheetLoader)
    return isinstance(data, dict) and "joints" in data and not list(_tables(data))


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    """Every ``joint_limits`` mapping at any depth (ROS nests them under node names and ros__parameters)."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "joint_limits" and isinstance(value, dict) and value:
                yield value
            else:
                yield from _tables(value)


def _row_joint(row: dict[str, Any], known: Joint, where: str) -> Joint:
    low, high = (
        _value(_switched(row, "has_position_limits", f"{end}_position", where), known.unit, where, end == "min")
        for end in ("min", "max")
    )
    velocity = _value(_switched(row, "has_velocity_limits", "max_velocity", where), known.unit, where)
    faster, slower = _row_acceleration(row, known, where)
    if known.unit == UNSAID and any(isinstance(value, Fraction) for value in (velocity, low, high, faster, slower)):
        known = known._replace(unit="rad")  # the tag states it
    stated = [known[i] if value is None else value for i, value in enumerate((velocity, low, high))]
    return Joint(stated[0], stated[1], stated[2], known.unit, known.unsure, faster, slower)


def _row_acceleration(row: dict[str, Any], known: Joint, where: str) -> tuple[Number | None, Number | None]:
    """Acceleration and deceleration of a joint; those of the URDF if the row says nothing about either.

    ``has_acceleration_limits`` switches ``max_deceleration`` too, unless that has its own flag.
    """
    if not any(key in row for key in ACCELERATION):
        return known.acceleration, known.deceleration
    faster = _switched(row, "has_acceleration_limits", "max_acceleration", where)
    off = _is_off(row, "has_acceleration_limits") and "has_deceleration_limits" not in row
    slower = None if off else _unsigned(_switched(row, "has_deceleration_limits", "max_deceleration", where))
    return _value(faster, known.unit, where), _value(slower, known.unit, where)


def _unsigned(value: Any) -> Any:
    """A deceleration without the sign that MoveIt's Pilz planner wants."""
    if isinstance(value, Tagged):
        return value._replace(text=value.text.removeprefix("-"))
    return value.removeprefix("-") if isinstance(value, str) else value


def _value(value: Any, unit: str, where: str, up: bool = False) -> Number | None:
    """An entry as text, or in rad if it has a unit tag; None if it is missing."""
    if not isinstance(value, Tagged):
        return None if value in (None, "") else str(value)
    if unit == "m":
        raise ValueError(f"{where} has {value.unit} {value.text}, but the URDF has it as a joint that is in metres")
    try:
        return radians(value.text, up) if value.unit == "!degrees" else exact(value.text)
    except ValueError:
        return value.text


def _switched(row: dict[str, Any], flag: str, key: str, where: str) -> Any:
    """The value of ``key``, or None if its has_..._limits flag is off. A flag that is on requires the value."""
    switch = str(row.get(flag, "")).lower()
    if switch not in ("", *YES, *NO):
        raise ValueError(f"{where}: {flag} is {row[flag]!r}, expected true or false")
    if switch in YES and row.get(key) in (None, ""):
        raise ValueError(f"{where}: {flag} is on but {key} is missing; it has: {', '.join(row)}")
    return None if switch in NO else row.get(key)


def _is_off(row: dict[str, Any], flag: str) -> bool:
    return str(row.get(flag)).lower() in NO
