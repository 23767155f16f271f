"""What a robot's file says of its joints: URDF, MJCF, and the joint_limits.yaml of ros2_control and MoveIt."""

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
"""How an element in xacro's namespace begins; it has had several addresses."""
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
BEYOND = ("acceleration", "deceleration", "jerk")
"""Limits that files have and we do not: a rate is all we limit."""
PI = Fraction("3.14159265358979323846264338327950288419"), Fraction("3.14159265358979323846264338327950288420")
"""Below and above."""


class Joint(NamedTuple):
    """What a file says of one joint; None where it says nothing.

    Text is as written, in the file's unit; a number that is not text is in rad or m for certain, but for the range of
    an ``unsure`` joint.
    """

    velocity: Number | None
    low: Number | None
    high: Number | None
    unit: str = "rad"
    unsure: bool = False


class Sheet(NamedTuple):
    """The joints that move by themselves, and what a person should know was left out."""

    path: Path
    joints: dict[str, Joint]
    notes: tuple[str, ...] = ()
    kind: str = "URDF"


def radians(degrees: Number, up: bool) -> Fraction:
    """Degrees in rad, by less than 1e-38 of it too large if ``up``, too small if not."""
    angle = exact(degrees)
    return angle * PI[(angle > 0) == up] / 180


def in_radians(joint: Joint) -> Joint:
    """A joint whose file is in degrees, rounded inward; what is no number stays, to be refused by name."""

    def turned(value: Number | None, up: bool = False) -> Number | None:
        try:
            return radians(value, up) if isinstance(value, str) and joint.unit != "m" else value
        except ValueError:
            return value

    return joint._replace(velocity=turned(joint.velocity), low=turned(joint.low, up=True), high=turned(joint.high))


# ---------------------------------------------------------------------- XML


def xml_root(path: str | Path) -> ElementTree.Element:
    """The root element of a file: <robot> of a URDF, <mujoco> of an MJCF."""
    check_regular(Path(path))
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: not readable as XML ({error})") from error
    _check_expanded(path, root)
    return root


def read_urdf(path: str | Path) -> Sheet:
    """The movable joints of a URDF that follow no other joint."""
    root = xml_root(path)
    if root.tag != "robot":
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <robot> (a URDF)")
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
            for what in [key for key in BEYOND if limit is not None and limit.get(key)]:
                left.setdefault(f"{what} limits of", []).append(name)
    if not found:
        raise ValueError(f"{path}: no movable joint (expected type {', '.join(MOVABLE)})")
    return Sheet(Path(path), found, _notes(left))


def _check_expanded(path: str | Path, root: ElementTree.Element) -> None:
    """Refuse xacro: what its macros and conditions make of the joints is not in the file."""
    elements = (f"<{e.tag.partition('}')[2]}> of xacro" for e in root.iter() if XACRO.match(e.tag))
    inside = (value for joint in root.iter("joint") for e in joint.iter() for value in e.attrib.values())
    values = (shortened(value) for value in inside if "${" in value or "$(" in value)
    if found := next(elements, None) or next(values, None):
        raise ValueError(f"{path} has {found}, expected a URDF: run xacro first: xacro robot.urdf.xacro > robot.urdf")


def _urdf_joint(kind: str, limit: dict[str, str]) -> Joint:
    low, high = (None, None) if kind == "continuous" else (limit.get("lower"), limit.get("upper"))
    return Joint(limit.get("velocity"), low, high, "m" if kind == "prismatic" else "rad")


def read_mjcf(path: str | Path) -> Sheet:
    """The hinges and slides of an MJCF that follow no other joint, as MuJoCo compiles it; no file has their speeds."""
    root = xml_root(path)
    if root.tag != "mujoco":
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <mujoco> (an MJCF)")
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


# ---------------------------------------------------------------------- ros2_control / MoveIt


class Tagged(NamedTuple):
    """A number whose unit the file states."""

    unit: str
    text: str

    def __repr__(self) -> str:
        """As the file has it."""
        return f"{self.unit} {self.text}"


class _SheetLoader(TextLoader):
    tags = ("!degrees", "!radians")

    def compose_mapping_node(self, anchor: Any) -> Any:
        """As PyYAML does it, with tags on numbers only."""
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
    """The joints of a joint_limits.yaml; what it leaves out is read from ``urdf``."""
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
        for what in BEYOND:
            if f"max_{what}" in row and str(row.get(f"has_{what}_limits")).lower() not in NO:
                left.setdefault(f"{what} limits of", []).append(name)
    return Sheet(Path(path), found, _notes(left), "joint_limits.yaml")


def holds_our_limits(path: str | Path) -> bool:
    """Whether a YAML file is a limits.yaml of ours rather than a datasheet."""
    data = load_yaml(path, _SheetLoader)
    return isinstance(data, dict) and "joints" in data and not list(_tables(data))


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    """Every ``joint_limits`` mapping, however deep (ROS nests it under node names and ros__parameters)."""
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
    if known.unit == UNSAID and any(isinstance(value, Fraction) for value in (velocity, low, high)):
        known = known._replace(unit="rad")  # a tag says so
    said = [known[i] if value is None else value for i, value in enumerate((velocity, low, high))]
    return known._replace(velocity=said[0], low=said[1], high=said[2])


def _value(value: Any, unit: str, where: str, up: bool = False) -> Number | None:
    """An entry as text, or in rad if the file states its unit; None where there is none."""
    if not isinstance(value, Tagged):
        return None if value in (None, "") else str(value)
    if unit == "m":
        raise ValueError(f"{where} has {value.unit} {value.text}, but the URDF has it as a joint that is in metres")
    try:
        return radians(value.text, up) if value.unit == "!degrees" else exact(value.text)
    except ValueError:
        return value.text


def _switched(row: dict[str, Any], flag: str, key: str, where: str) -> Any:
    """A value, unless its has_..._limits flag switches it off; a flag that is on needs its value."""
    switch = str(row.get(flag, "")).lower()
    if switch not in ("", *YES, *NO):
        raise ValueError(f"{where}: {flag} is {row[flag]!r}, expected true or false")
    if switch in YES and key not in row:
        raise ValueError(f"{where}: {flag} is on but {key} is missing; it has: {', '.join(row)}")
    return None if switch in NO else row.get(key)
