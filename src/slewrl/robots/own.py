"""A robot of your own from its URDF or MJCF: the same ``RobotSpec`` as H1's and G1's, for the same tasks.

    robot = robot_model("my.urdf", feet=("l_foot", "r_foot"))

What the file does not say can also stand beside it, where `slewrl robot` and `--task robot:my.urdf` read it, too:

    # my.robot.yaml, beside my.urdf: the arguments of robot_model by name
    feet: [l_foot, r_foot]
    speeds: {knee: 12}
    shapes: {l_foot: [0.2, 0.1, 0.04, 0.05, 0, -0.02], r_foot: [0.2, 0.1, 0.04, 0.05, 0, -0.02]}

The file's x must point forward, y left and z up. Meshes are never read: what touches the ground are the boxes,
spheres, cylinders and capsules of the file. What files leave out and we choose:

* gains: full effort at an error of one radian, kp = effort / rad, and kd = kp / 40 s. That is within a factor of two
  of what Unitree publishes for H1 and G1. An MJCF with position actuators keeps its own.
* rotor inertia: 0.01 kg m^2 where the file has none (a URDF has no place for it), which keeps light feet calm.
* default pose: an MJCF's first keyframe, else all zero, moved into each joint's range.
* feet: of the links after which no joint follows, the two whose contact shapes reach lowest; the left one is the one
  with the larger y.
* torso, whose touching the ground is a fall: the heaviest link that is not part of a leg. Without a shape of its own it
  gets the box that has its mass and inertia.
* proximal and distal joints (Util-P, Util-D): the first and the last of each leg.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from slewrl.boxmath import Number
from slewrl.datasheets import Joint, xml_root
from slewrl.plain_yaml import load_yaml
from slewrl.rates import not_radians
from slewrl.robots.read_urdf import urdf_links
from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RobotSpec, rpy_of, tensor, vector

Wish = TypeVar("Wish")
DAMPING_TIME = 0.025
"""s: kd over kp."""
ROTOR = 0.01
"""kg m^2"""
LEVEL = 0.02
"""m by which the height of two feet may differ."""
THIN = 0.01
"""m, half of the least edge of a box made of an inertia."""


@dataclass(frozen=True)
class Wishes:
    """What the user says beside the file; see ``robot_model``."""

    joints: tuple[str, ...] | None
    pose: Mapping[str, float]
    gains: Mapping[str, tuple[float, float]]
    speeds: Mapping[str, Number]
    efforts: Mapping[str, Number]
    bounds: Mapping[str, tuple[Number, Number]]
    shapes: Mapping[str, Sequence[float]]

    def drives(self, joint: str) -> bool:
        """Whether a joint is to be moved rather than welded."""
        return self.joints is None or joint in self.joints

    def named(self) -> Iterator[str]:
        """Every joint that is spoken of."""
        return chain(self.joints or (), self.pose, self.gains, self.speeds, self.efforts, self.bounds)


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
    """Read a two-legged robot; see the head of this file for what is chosen where a file is silent.

    Joint and link names stay as in the file, so that limits from the same file (``RateLimits.from_urdf``) fit.

    Args:
        path: a URDF (root <robot>) or an MJCF (root <mujoco>).
        joints: which joints are driven; the others are welded at the default pose. Default: all.
        feet: the left and the right foot's link.
        torso: the link that must not touch the ground.
        pose: {joint: rad} to stand in. Here and below a joint's group ("knee" for "left_knee_joint") names both sides.
        gains: {joint: (Nm/rad, Nm s/rad)}.
        speeds: {joint: rad/s}, for files that do not say.
        efforts: {joint: Nm}, likewise.
        bounds: {joint: (low, high)} in rad, for joints without a range.
        shapes: {link: (length, width, height, x, y, z)} in m: a box to touch the ground with, for links that have only
            a mesh; its edges, and its centre in the link's frame.

    Raises:
        ValueError: something the model needs is missing or impossible; the message names the link or joint.
        KeyError: a name that the file does not have; the message lists those it has.
    """
    driven = None if joints is None else tuple(joints)
    wishes = Wishes(driven, pose or {}, gains or {}, speeds or {}, efforts or {}, bounds or {}, shapes or {})
    raw = _read(Path(path), wishes)
    _check_names(path, raw, wishes)
    links = tuple(_checked(path, _finished(path, link, wishes)) for link in raw)
    draft = RobotSpec(Path(path).stem, links, ("", ""), "", (), ())
    if not draft.joints:
        raise ValueError(f"{path}: no joint is driven, expected revolute joints")
    left, right = feet or _feet(path, draft)
    legs = [_joints_to(draft, foot) for foot in (left, right)]
    trunk = torso or _heaviest(draft, (left, right))
    robot = replace(
        draft,
        links=_with_shape(draft, trunk),
        feet=(left, right),
        torso=trunk,
        proximal=tuple(leg[0] for leg in legs if leg),
        distal=tuple(leg[-1] for leg in legs if leg),
    )
    for foot in robot.feet:
        robot.sole(foot)  # raises if there is nothing to stand on
    return robot


def read_robot(path: str | Path) -> RobotSpec:
    """As ``robot_model``, with what the file beside it says."""
    beside = said_beside(Path(path))
    if not beside.exists():
        return robot_model(path)
    said: Any = load_yaml(beside) or {}
    known = [name for name in signature(robot_model).parameters if name != "path"]
    if not isinstance(said, dict) or (unknown := set(said) - set(known)):
        odd = f"has {', '.join(map(repr, unknown))}" if isinstance(said, dict) else "holds no names"
        raise ValueError(f"{beside} {odd}, expected some of: {', '.join(known)}")
    try:
        wishes: dict[str, Any] = {name: tuple(x) if name == "feet" else x for name, x in said.items()}
        return robot_model(path, **wishes)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{beside} is not understood: {error}") from error


def said_beside(path: Path) -> Path:
    """Where a user says what a robot's file leaves out."""
    return path.with_suffix(".robot.yaml")


def _read(path: Path, wishes: Wishes) -> tuple[LinkSpec, ...]:
    root = xml_root(path)
    if root.tag == "robot":
        return urdf_links(path, root, wishes.drives)
    if root.tag != "mujoco":
        raise ValueError(f"{path}: root element is <{root.tag}>, expected <robot> (a URDF) or <mujoco> (an MJCF)")
    from slewrl.robots.read_mjcf import mjcf_links

    return mjcf_links(path, wishes.drives)


def _check_names(path: str | Path, links: Sequence[LinkSpec], wishes: Wishes) -> None:
    joints = [link.joint for link in links if link.joint]
    names, groups = [joint.name for joint in joints], {joint.group for joint in joints}
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{path}: duplicate joint name {twice[0]!r}")
    if strange := set(wishes.shapes) - {link.name for link in links}:
        raise KeyError(f"{path}: no link {min(strange)!r}; it has: {', '.join(link.name for link in links)}")
    for name in wishes.named():
        if name not in names and (name not in groups or name in (wishes.joints or ())):
            raise KeyError(f"{path}: no revolute joint {name!r}; it has: {', '.join(names)}")


def _finished(path: str | Path, link: LinkSpec, wishes: Wishes) -> LinkSpec:
    """The link with what the user wishes and what we choose, and shapes that can be seen."""
    touching = (*link.geoms, *_boxes(path, link.name, wishes))
    shown = replace(link, geoms=(*touching, *(replace(geom, touches=False) for geom in touching)))
    if link.joint is None:
        return shown
    joint = _finished_joint(path, link.joint, wishes)
    return replace(shown, joint=joint, locked=not wishes.drives(joint.name))


def _boxes(path: str | Path, link: str, wishes: Wishes) -> tuple[Geom, ...]:
    """The box the user gives a link."""
    if link not in wishes.shapes:
        return ()
    shape = [float(x) for x in wishes.shapes[link]]
    if len(shape) != 6 or min(shape[:3]) <= 0:
        raise ValueError(f"{path}: the shape of {link!r} is {shape}, expected length, width, height, x, y, z in m")
    return (Geom("box", vector(np.array(shape[:3]) / 2), vector(np.array(shape[3:])), (0.0, 0.0, 0.0), touches=True),)


def _finished_joint(path: str | Path, joint: JointSpec, wishes: Wishes) -> JointSpec:
    where = f"{path}: joint {joint.name!r}"
    pose = _wish(wishes.pose, joint, joint.default)
    if not wishes.drives(joint.name):
        return replace(joint, default=pose)
    low, high = _wish(wishes.bounds, joint, (joint.low, joint.high))
    least, most = _float(low, where), _float(high, where)
    if not -math.inf < least < most < math.inf:
        found = "no range" if math.isnan(least + most) else f"range [{low}, {high}]"
        raise ValueError(f"{where} has {found}, expected low < high in rad; {_say(path, 'bounds', joint, '[-1, 1]')}")
    if pose != joint.default and not least <= pose <= most:
        raise ValueError(f"{where} is to stand at {pose} rad, expected within its range [{low}, {high}]")
    effort = _wish(wishes.efforts, joint, joint.effort)
    if not 0 < _float(effort, where) < math.inf:
        found = "no effort" if math.isnan(float(effort)) else f"effort {effort}"
        raise ValueError(f"{where} has {found}, expected a positive torque in Nm; {_say(path, 'efforts', joint, '60')}")
    speed = _wish(wishes.speeds, joint, joint.speed)
    if speed is not None:
        _float(speed, where)
    for what, why in not_radians(Joint(None if speed is None else str(speed), low, high)):
        wish = _say(path, what, joint, "12" if what == "speeds" else "[-1, 1]")
        raise ValueError(f"{where} has {why}; is it in degrees? If so, {wish}")
    kp, kd = _wish(wishes.gains, joint, _gains(joint, float(effort)))
    turns = replace(joint, low=low, high=high, default=min(max(pose, least), most))
    return replace(turns, speed=speed, effort=effort, kp=kp, kd=kd, armature=joint.armature or ROTOR)


def _say(path: str | Path, what: str, joint: JointSpec, value: str) -> str:
    """How to give what a file leaves out."""
    return f"give it in {said_beside(Path(path)).name} beside it ({what}: {{{joint.name}: {value}}})"


def _wish(wishes: Mapping[str, Wish], joint: JointSpec, otherwise: Wish) -> Wish:
    return wishes.get(joint.name, wishes.get(joint.group, otherwise))


def _gains(joint: JointSpec, effort: float) -> tuple[float, float]:
    """The file's, or those that reach the full effort at an error of one radian."""
    kp = effort if math.isnan(joint.kp) else joint.kp
    return kp, joint.kd if joint.kd > 0 else DAMPING_TIME * kp


def _float(value: Number, where: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{where} has limit {value!r}, expected a number") from None


def _checked(path: str | Path, link: LinkSpec) -> LinkSpec:
    """The link, if a body can have its mass and inertia."""
    where = f"{path}: link {link.name!r}"
    if link.mass == 0 and not any(link.inertia):
        if link.parent and (link.joint is None or link.locked):
            return link  # a frame of reference
        raise ValueError(f"{where} has no inertial, expected mass and inertia of a link that moves")
    moments = np.linalg.eigvalsh(tensor(link.inertia))
    if not (link.mass > 0 and moments[0] > 0 and moments[0] + moments[1] >= moments[2] * (1 - 1e-6)):
        raise ValueError(
            f"{where} has mass {link.mass} and principal moments {moments.tolist()}, expected them positive and none "
            "larger than the other two together"
        )
    return link


def _feet(path: str | Path, robot: RobotSpec) -> tuple[str, str]:
    """The two last links that reach lowest: left, right."""
    frames, heights = robot.frames(), _lowest_of_limbs(robot)
    lowest = sorted(heights, key=lambda name: heights[name])
    if len(lowest) < 2 or heights[lowest[1]] - heights[lowest[0]] > LEVEL:
        seen = ", ".join(f"{name} {heights[name]:.3f} m" for name in lowest[:4])
        raise ValueError(
            f"{path}: expected two feet at one height, links after the last joint with a box, sphere, cylinder or "
            f"capsule for contact (meshes do not count); found {seen or 'none'}; give them in "
            f"{said_beside(Path(path)).name} beside it (feet: [left, right], and shapes: {{left: [length, width, "
            "height, x, y, z], ...}} for links with meshes only)"
        )
    left, right = sorted(lowest[:2], key=lambda name: -frames[name][0][1])
    return left, right


def _lowest_of_limbs(robot: RobotSpec) -> dict[str, float]:
    """Of each rigid part after a last joint, the link that reaches lowest, and how low in the base's frame, m."""
    frames = robot.frames()
    found: dict[str, tuple[float, str]] = {}
    parts = {link.name: next(k.name for k in reversed(_path_to(robot, link.name)) if _moves(k)) for link in robot.links}
    inner = {parts[link.parent] for link in robot.links if link.parent and _moves(link)}
    for link in robot.links:
        part, shapes = parts[link.name], [geom for geom in link.geoms if geom.touches]
        if part not in inner and shapes:
            origin, turn = frames[link.name]
            height = float(origin[2] + min(geom.lowest(turn[2]) for geom in shapes))
            found[part] = min(found.get(part, (math.inf, "")), (height, link.name))
    return {name: height for height, name in found.values()}


def _moves(link: LinkSpec) -> bool:
    """Whether it moves against its parent; the base does."""
    return not link.parent or (link.joint is not None and not link.locked)


def _path_to(robot: RobotSpec, name: str) -> list[LinkSpec]:
    """From the base to a link."""
    found: list[LinkSpec] = []
    while name:
        found.insert(0, robot.link(name))
        name = found[0].parent
    return found


def _joints_to(robot: RobotSpec, foot: str) -> list[str]:
    return [link.joint.name for link in _path_to(robot, foot) if link.joint and not link.locked]


def _heaviest(robot: RobotSpec, feet: tuple[str, str]) -> str:
    legs = {link.name for foot in feet for link in _path_to(robot, foot)[1:]}
    return max((link for link in robot.links if link.name not in legs), key=lambda link: link.mass).name


def _with_shape(robot: RobotSpec, torso: str) -> tuple[LinkSpec, ...]:
    """The links, the torso with a shape to fall on."""
    trunk = robot.link(torso)
    if any(geom.touches for geom in trunk.geoms):
        return robot.links
    moments, axes = np.linalg.eigh(tensor(trunk.inertia))
    axes *= np.sign(np.linalg.det(axes))
    # A box of mass m and half edges a, b, c has moments m (b^2 + c^2) / 3 and so on.
    half = np.sqrt(1.5 * np.maximum(moments.sum() - 2 * moments, 0) / trunk.mass)
    box = Geom("box", vector(np.maximum(half, THIN)), trunk.com, rpy_of(axes), touches=True)
    shaped = replace(trunk, geoms=(*trunk.geoms, box, replace(box, touches=False)))
    return tuple(shaped if link.name == torso else link for link in robot.links)
