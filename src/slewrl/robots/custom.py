"""Reads a user's robot from its URDF or MJCF as a ``RobotSpec``, for the same tasks as H1 and G1.

    robot = robot_model("my.urdf", feet=("l_foot", "r_foot"))

x must point forward, y left and z up. Only primitive shapes make contact; meshes are for pictures. docs/robots.md says
what is assumed where a file is silent, and how my.robot.yaml beside my.urdf replaces it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from slewrl.io.plain_yaml import load_yaml
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Joint, xml_root
from slewrl.limits.rates import not_radians
from slewrl.robots.bodies import several, with_valid_inertia
from slewrl.robots.legs import find_feet, heaviest, joints_to, note_on_sides, path_to, sidecar, with_soles, with_trunk
from slewrl.robots.looks import with_simple_shapes
from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RawRobot, RobotSpec, vector
from slewrl.robots.urdf import read_urdf

Value = TypeVar("Value")
Other = TypeVar("Other")
DAMPING_TIME = 0.025
"""The default kd / kp, s: within a factor of two of Unitree's gains for H1 and G1."""
ROTOR = 0.01
"""The default rotor inertia, kg m^2, since a URDF has none; it keeps light feet stable."""


@dataclass(frozen=True)
class Overrides:
    """The user's additions and corrections to the file; see ``robot_model``."""

    joints: tuple[str, ...] | None
    pose: Mapping[str, float]
    gains: Mapping[str, tuple[float, float]]
    speeds: Mapping[str, Number]
    efforts: Mapping[str, Number]
    bounds: Mapping[str, tuple[Number, Number]]
    shapes: Mapping[str, Sequence[float]]

    def drives(self, joint: str) -> bool:
        """Whether a joint is driven rather than welded."""
        return self.joints is None or joint in self.joints


def robot_model(
    path: str | Path,
    *,
    joints: Iterable[str] | None = None,
    feet: tuple[str, str] | None = None,
    torso: str | None = None,
    pose: Mapping[str, float] | None = None,
    gains: Mapping[str, tuple[float, float]] | None = None,
    speeds: Mapping[str, Number] | None = None,
    efforts: Mapping[str, Number] | None = None,
    bounds: Mapping[str, tuple[Number, Number]] | None = None,
    shapes: Mapping[str, Sequence[float]] | None = None,
) -> RobotSpec:
    """Read a two-legged robot. Joints and links keep their names, so that limits from the same file fit.

    Args:
        path: path of a URDF (root <robot>) or an MJCF (root <mujoco>).
        joints: joints to drive; the others are welded at the default pose. Default: all.
        feet: links of the left and the right foot; default: the two ends of limbs that reach lowest.
        torso: link that must not touch the ground; default: the heaviest link that is not part of a leg.
        pose: default pose, {joint: rad}; default: an MJCF's first keyframe, or zero, moved into the range. Here and
            below a joint's group ("knee" for "left_knee_joint") names both sides.
        gains: {joint: (Nm/rad, Nm s/rad)}; default: those of an MJCF's position actuators, or full effort at an error
            of one radian.
        speeds: {joint: rad/s}, for joints without a speed.
        efforts: {joint: Nm}, for joints without an effort.
        bounds: {joint: (low, high)} in rad, for joints without a range.
        shapes: {link: (length, width, height, x, y, z)} in m: a contact box for a link that has only a mesh, by its
            edges and its centre in the link's frame.

    Raises:
        ValueError: something the model needs is missing or impossible; the message names the link or joint.
        KeyError: a name is not in the file; the message lists the names that are.
    """
    driven = None if joints is None else tuple(joints)
    overrides = Overrides(driven, pose or {}, gains or {}, speeds or {}, efforts or {}, bounds or {}, shapes or {})
    raw = _read(Path(path), overrides)
    _check_names(path, raw.links, overrides)
    links, notes = with_valid_inertia(path, [_posed(path, link, overrides) for link in raw.links])
    draft = RobotSpec(Path(path).stem, links, ("", ""), "", (), (), meshes={k: v for k, v in raw.meshes.items() if v})
    welded = f"welded, since only hinges are driven: {several(list(raw.welded.values()))}" if raw.welded else ""
    left, right = feet or find_feet(path, draft, welded)
    _check_legs(path, draft, (left, right), raw.welded)
    draft = replace(draft, links=tuple(_completed(path, link, overrides) for link in links))
    draft, guessed = with_soles(draft, (left, right))
    guessed += _note_on_speeds(links, draft.links) + note_on_sides((left, right))
    trunk = torso or heaviest(draft, (left, right))
    legs = [joints_to(draft, foot) for foot in (left, right)]
    robot = replace(
        with_trunk(draft, trunk),
        feet=(left, right),
        torso=trunk,
        proximal=tuple(leg[0] for leg in legs if leg),
        distal=tuple(leg[-1] for leg in legs if leg),
        notes=tuple(note for note in (welded, *notes, *guessed) if note),
    )
    return with_simple_shapes(robot, {link.name for link in robot.links if link.name in raw.meshes or not link.geoms})


def read_robot(path: str | Path) -> RobotSpec:
    """Read a robot as ``robot_model`` does, with the arguments in the .robot.yaml beside its file, if there is one."""
    beside = sidecar(path)
    if not beside.exists():
        return robot_model(path)
    given: Any = load_yaml(beside) or {}
    known = [name for name in signature(robot_model).parameters if name != "path"]
    if not isinstance(given, dict) or (unknown := set(given) - set(known)):
        odd = f"has {', '.join(map(repr, unknown))}" if isinstance(given, dict) else "holds no names"
        raise ValueError(f"{beside} {odd}, expected some of: {', '.join(known)}")
    try:
        arguments: dict[str, Any] = {name: tuple(x) if name == "feet" else x for name, x in given.items()}
        return robot_model(path, **arguments)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{beside} is not understood: {error}") from error


def _read(path: Path, overrides: Overrides) -> RawRobot:
    root = xml_root(path)
    if root.tag == "robot":
        return read_urdf(path, root, overrides.drives)
    if root.tag != "mujoco":
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <robot> (a URDF) or <mujoco> (an MJCF)")
    from slewrl.robots.read_mjcf import read_mjcf

    return read_mjcf(path, overrides.drives)


def _check_names(path: str | Path, links: Sequence[LinkSpec], overrides: Overrides) -> None:
    joints = [link.joint for link in links if link.joint]
    names, groups = [joint.name for joint in joints], {joint.group for joint in joints}
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{path}: duplicate joint name {twice[0]!r}")
    if strange := set(overrides.shapes) - {link.name for link in links}:
        raise KeyError(f"{path}: no link {min(strange)!r}; it has: {', '.join(link.name for link in links)}")
    by_joint = (overrides.pose, overrides.gains, overrides.speeds, overrides.efforts, overrides.bounds)
    for name in chain(overrides.joints or (), *by_joint):
        if name not in names and (name not in groups or name in (overrides.joints or ())):
            raise KeyError(f"{path}: no revolute joint {name!r}; it has: {', '.join(names)}")


def _check_legs(path: str | Path, robot: RobotSpec, feet: tuple[str, str], welded: Mapping[str, str]) -> None:
    """Refuse a leg with a joint that is not a hinge, unless the user has named the joints to drive."""
    for link in (link for foot in feet for link in path_to(robot, foot)):
        if link.name in welded:
            raise ValueError(
                f"{path}: {welded[link.name]}, expected revolute in a leg; name the joints to drive in "
                f"{sidecar(path).name} beside it (joints: [...]), and the others are welded"
            )


def _posed(path: str | Path, link: LinkSpec, overrides: Overrides) -> LinkSpec:
    """The link in the default pose, with the user's contact box, and with its contact shapes drawn."""
    touching = (*link.geoms, *_boxes(path, link.name, overrides))
    shown = replace(link, geoms=(*touching, *(replace(geom, touches=False) for geom in touching)))
    if link.joint is None:
        return shown
    locked = not overrides.drives(link.joint.name)
    joint = replace(link.joint, default=_pose(path, link.joint, overrides, locked))
    return replace(shown, joint=joint, locked=locked)


def _pose(path: str | Path, joint: JointSpec, overrides: Overrides, locked: bool) -> float:
    """The joint's default angle, rad: the user's, or the file's moved into its range."""
    where, chosen = f"{path}: joint {joint.name!r}", _override(overrides.pose, joint, None)
    pose = joint.default if chosen is None else float(chosen)
    low, high = _override(overrides.bounds, joint, (joint.low, joint.high))
    lower, upper = _float(low, where), _float(high, where)
    if locked or not lower < upper:  # an invalid range is refused later
        return pose
    if chosen is not None and not lower <= pose <= upper:
        raise ValueError(f"{where} is to stand at {pose} rad, expected within its range [{low}, {high}]")
    return min(max(pose, lower), upper)


def _boxes(path: str | Path, link: str, overrides: Overrides) -> tuple[Geom, ...]:
    """The user's contact box for a link, if any."""
    if link not in overrides.shapes:
        return ()
    shape = [float(x) for x in overrides.shapes[link]]
    if len(shape) != 6 or min(shape[:3]) <= 0:
        raise ValueError(f"{path}: the shape of {link!r} is {shape}, expected length, width, height, x, y, z in m")
    return (Geom("box", vector(x / 2 for x in shape[:3]), vector(shape[3:]), touches=True),)


def _completed(path: str | Path, link: LinkSpec, overrides: Overrides) -> LinkSpec:
    """The link with the user's overrides and the defaults of its joint."""
    if link.joint is None or link.locked:
        return link
    joint, where = link.joint, f"{path}: joint {link.joint.name!r}"
    low, high = _override(overrides.bounds, joint, (joint.low, joint.high))
    lower, upper = _float(low, where), _float(high, where)
    if not -math.inf < lower < upper < math.inf:
        found = "no range" if math.isnan(lower + upper) else f"range [{low}, {high}]"
        raise ValueError(f"{where} has {found}, expected low < high in rad; {_hint(path, 'bounds', joint, '[-1, 1]')}")
    effort = _override(overrides.efforts, joint, joint.effort)
    if not 0 < _float(effort, where) < math.inf:
        found = "no effort" if math.isnan(float(effort)) else f"effort {effort}"
        raise ValueError(
            f"{where} has {found}, expected a positive torque in Nm; {_hint(path, 'efforts', joint, '60')}"
        )
    speed = _override(overrides.speeds, joint, joint.speed)
    if speed is not None:
        _float(speed, where)
    for what, why in not_radians(Joint(None if speed is None else str(speed), low, high)):
        if what == "speeds" and _override(overrides.speeds, joint, None) is None:
            speed = None  # ignore the file's speed, with a note
            continue
        hint = _hint(path, what, joint, "12" if what == "speeds" else "[-1, 1]")
        raise ValueError(f"{where} has {why}; is it in degrees? If so, {hint}")
    kp, kd = _override(overrides.gains, joint, _gains(joint, float(effort)))
    driven = replace(joint, low=low, high=high, speed=speed, effort=effort, kp=kp, kd=kd)
    return replace(link, joint=replace(driven, armature=joint.armature or ROTOR))


def _note_on_speeds(read: Sequence[LinkSpec], completed: Sequence[LinkSpec]) -> list[str]:
    """A note on speeds in the file that were ignored as implausible."""
    pairs = [(a.joint, b.joint) for a, b in zip(read, completed, strict=True) if a.joint and b.joint]
    odd = [f"{was.name} {was.speed}" for was, now in pairs if was.speed and not now.speed]
    return [f"speeds that cannot be rad/s and so are not believed (degrees?): {several(odd)}"] if odd else []


def _hint(path: str | Path, what: str, joint: JointSpec, value: str) -> str:
    """A hint on how to state a missing value."""
    return f"give it in {sidecar(path).name} beside it ({what}: {{{joint.name}: {value}}})"


def _override(overrides: Mapping[str, Value], joint: JointSpec, otherwise: Other) -> Value | Other:
    return overrides.get(joint.name, overrides.get(joint.group, otherwise))


def _gains(joint: JointSpec, effort: float) -> tuple[float, float]:
    """The gains of the file, or those that reach the full effort at an error of one radian."""
    kp = effort if math.isnan(joint.kp) else joint.kp
    return kp, joint.kd if joint.kd > 0 else DAMPING_TIME * kp


def _float(value: Number, where: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{where} has limit {value!r}, expected a number") from None
