"""A robot of your own from its URDF or MJCF: the same ``RobotSpec`` as H1's and G1's, for the same tasks.

    robot = robot_model("my.urdf", feet=("l_foot", "r_foot"))

What the file does not say can also stand beside it, where `slewrl robot` and `--task robot:my.urdf` read it, too:

    # my.robot.yaml, beside my.urdf: the arguments of robot_model by name
    feet: [l_foot, r_foot]
    speeds: {knee: 12}
    shapes: {l_foot: [0.2, 0.1, 0.04, 0.05, 0, -0.02], r_foot: [0.2, 0.1, 0.04, 0.05, 0, -0.02]}

The file's x must point forward, y left and z up. What touches the ground are the boxes, spheres, cylinders and capsules
of the file, never its meshes, which are for pictures (``looks``). What files leave out and we choose:

* gains: full effort at an error of one radian, kp = effort / rad, and kd = kp / 40 s. That is within a factor of two
  of what Unitree publishes for H1 and G1. An MJCF with position actuators keeps its own.
* rotor inertia: 0.01 kg m^2 where the file has none (a URDF has no place for it), which keeps light feet calm.
* default pose: an MJCF's first keyframe, else all zero, moved into each joint's range.
* feet: the two ends of limbs that reach lowest (``legs``); the left one is the one with the larger y. Without a shape
  of their own they get a level box that has their mass and inertia, and a note.
* masses and inertias that no body has: see ``bodies``, which notes what it does.
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

from slewrl.io.plain_yaml import load_yaml
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Joint, xml_root
from slewrl.limits.rates import not_radians
from slewrl.robots.bodies import mended, several
from slewrl.robots.legs import about_sides, find_feet, heaviest, joints_to, path_to, with_soles, with_trunk
from slewrl.robots.looks import with_simple_shapes
from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RawRobot, RobotSpec, vector
from slewrl.robots.urdf import read_urdf

Value = TypeVar("Value")
Other = TypeVar("Other")
DAMPING_TIME = 0.025
"""s: kd over kp."""
ROTOR = 0.01
"""kg m^2"""


@dataclass(frozen=True)
class Overrides:
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
    overrides = Overrides(driven, pose or {}, gains or {}, speeds or {}, efforts or {}, bounds or {}, shapes or {})
    raw = _read(Path(path), overrides)
    _check_names(path, raw.links, overrides)
    links, notes = mended(path, [_posed(path, link, overrides) for link in raw.links])
    draft = RobotSpec(Path(path).stem, links, ("", ""), "", (), (), meshes={k: v for k, v in raw.meshes.items() if v})
    welded = f"welded, since only hinges are driven: {several(list(raw.welded.values()))}" if raw.welded else ""
    left, right = feet or find_feet(path, draft, welded)
    _check_legs(path, draft, (left, right), raw.welded)
    draft = replace(draft, links=tuple(_finished(path, link, overrides) for link in links))
    draft, guessed = with_soles(draft, (left, right))
    guessed += _about_speeds(links, draft.links) + about_sides((left, right))
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
        overrides: dict[str, Any] = {name: tuple(x) if name == "feet" else x for name, x in said.items()}
        return robot_model(path, **overrides)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{beside} is not understood: {error}") from error


def said_beside(path: Path) -> Path:
    """Where a user says what a robot's file leaves out."""
    return path.with_suffix(".robot.yaml")


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
    for name in overrides.named():
        if name not in names and (name not in groups or name in (overrides.joints or ())):
            raise KeyError(f"{path}: no revolute joint {name!r}; it has: {', '.join(names)}")


def _check_legs(path: str | Path, robot: RobotSpec, feet: tuple[str, str], welded: Mapping[str, str]) -> None:
    """Refuse a leg with a joint that is no hinge, unless the user has said which ones are driven."""
    for link in (link for foot in feet for link in path_to(robot, foot)):
        if link.name in welded:
            raise ValueError(
                f"{path}: {welded[link.name]}, expected revolute in a leg; name the joints to drive in "
                f"{said_beside(Path(path)).name} beside it (joints: [...]), and the others are welded"
            )


def _posed(path: str | Path, link: LinkSpec, overrides: Overrides) -> LinkSpec:
    """The link as it stands, with the box the user gives it, and shapes that can be seen."""
    touching = (*link.geoms, *_boxes(path, link.name, overrides))
    shown = replace(link, geoms=(*touching, *(replace(geom, touches=False) for geom in touching)))
    if link.joint is None:
        return shown
    locked = not overrides.drives(link.joint.name)
    joint = replace(link.joint, default=_pose(path, link.joint, overrides, locked))
    return replace(shown, joint=joint, locked=locked)


def _pose(path: str | Path, joint: JointSpec, overrides: Overrides, locked: bool) -> float:
    """The joint's angle in the default pose, rad: the user's, or the file's moved into its range."""
    where, chosen = f"{path}: joint {joint.name!r}", _override(overrides.pose, joint, None)
    pose = joint.default if chosen is None else float(chosen)
    low, high = _override(overrides.bounds, joint, (joint.low, joint.high))
    least, most = _float(low, where), _float(high, where)
    if locked or not least < most:  # a range that is none is refused later
        return pose
    if chosen is not None and not least <= pose <= most:
        raise ValueError(f"{where} is to stand at {pose} rad, expected within its range [{low}, {high}]")
    return min(max(pose, least), most)


def _finished(path: str | Path, link: LinkSpec, overrides: Overrides) -> LinkSpec:
    """The link with what the user overrides and what we choose of its joint."""
    if link.joint is None or link.locked:
        return link
    return replace(link, joint=_finished_joint(path, link.joint, overrides))


def _boxes(path: str | Path, link: str, overrides: Overrides) -> tuple[Geom, ...]:
    """The box the user gives a link."""
    if link not in overrides.shapes:
        return ()
    shape = [float(x) for x in overrides.shapes[link]]
    if len(shape) != 6 or min(shape[:3]) <= 0:
        raise ValueError(f"{path}: the shape of {link!r} is {shape}, expected length, width, height, x, y, z in m")
    return (Geom("box", vector(np.array(shape[:3]) / 2), vector(np.array(shape[3:])), (0.0, 0.0, 0.0), touches=True),)


def _finished_joint(path: str | Path, joint: JointSpec, overrides: Overrides) -> JointSpec:
    where = f"{path}: joint {joint.name!r}"
    low, high = _override(overrides.bounds, joint, (joint.low, joint.high))
    least, most = _float(low, where), _float(high, where)
    if not -math.inf < least < most < math.inf:
        found = "no range" if math.isnan(least + most) else f"range [{low}, {high}]"
        raise ValueError(f"{where} has {found}, expected low < high in rad; {_say(path, 'bounds', joint, '[-1, 1]')}")
    effort = _override(overrides.efforts, joint, joint.effort)
    if not 0 < _float(effort, where) < math.inf:
        found = "no effort" if math.isnan(float(effort)) else f"effort {effort}"
        raise ValueError(f"{where} has {found}, expected a positive torque in Nm; {_say(path, 'efforts', joint, '60')}")
    speed = _override(overrides.speeds, joint, joint.speed)
    if speed is not None:
        _float(speed, where)
    for what, why in not_radians(Joint(None if speed is None else str(speed), low, high)):
        if what == "speeds" and _override(overrides.speeds, joint, None) is None:
            speed = None  # the file's own is not believed, and a note says so
            continue
        wish = _say(path, what, joint, "12" if what == "speeds" else "[-1, 1]")
        raise ValueError(f"{where} has {why}; is it in degrees? If so, {wish}")
    kp, kd = _override(overrides.gains, joint, _gains(joint, float(effort)))
    return replace(
        joint, low=low, high=high, speed=speed, effort=effort, kp=kp, kd=kd, armature=joint.armature or ROTOR
    )


def _about_speeds(said: Sequence[LinkSpec], made: Sequence[LinkSpec]) -> list[str]:
    """A note on speeds in a file that are not believed."""
    pairs = [(a.joint, b.joint) for a, b in zip(said, made, strict=True) if a.joint and b.joint]
    odd = [f"{was.name} {was.speed}" for was, now in pairs if was.speed and not now.speed]
    return [f"speeds that cannot be rad/s and so are not believed (degrees?): {several(odd)}"] if odd else []


def _say(path: str | Path, what: str, joint: JointSpec, value: str) -> str:
    """How to give what a file leaves out."""
    return f"give it in {said_beside(Path(path)).name} beside it ({what}: {{{joint.name}: {value}}})"


def _override(overrides: Mapping[str, Value], joint: JointSpec, otherwise: Other) -> Value | Other:
    return overrides.get(joint.name, overrides.get(joint.group, otherwise))


def _gains(joint: JointSpec, effort: float) -> tuple[float, float]:
    """The file's, or those that reach the full effort at an error of one radian."""
    kp = effort if math.isnan(joint.kp) else joint.kp
    return kp, joint.kd if joint.kd > 0 else DAMPING_TIME * kp


def _float(value: Number, where: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{where} has limit {value!r}, expected a number") from None
