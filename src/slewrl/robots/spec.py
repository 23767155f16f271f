"""What a robot is: its links and joints as datasheet facts, each number with where it comes from.

A robot's file states the left side and the middle; ``mirrored`` makes the right side. x is forward, y left, z up;
metres, kilograms, radians, seconds.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import boxmath, rates
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Joint

if TYPE_CHECKING:  # a robot's facts are read without torch, too
    from slewrl.limits import RateLimits

Vector = tuple[float, float, float]
Inertia = tuple[float, float, float, float, float, float]
"""kg m^2: ixx iyy izz ixy ixz iyz."""
Floats = NDArray[np.float64]
CONTROL_PERIOD = 0.02
"""Seconds per control step that the paper's limits are for."""
SHARES: dict[str, Number] = {"spec": 1, "tight": "0.25"}
"""Limit presets that every robot has: the share of the datasheet's speed a joint may use."""
OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l", "L": "R", "R": "L"}
MIRROR_SIGN = {(1.0, 0.0, 0.0): -1, (0.0, 1.0, 0.0): 1, (0.0, 0.0, 1.0): -1}
"""Axes that keep their direction on the other side, and the sign of the angle there: roll and yaw flip."""


@dataclass(frozen=True)
class JointSpec:
    """A hinge with its position servo."""

    name: str
    """As in the URDF, without "_joint"."""
    axis: Vector
    low: Number
    """rad; a decimal string is that very decimal, as everywhere in limits."""
    high: Number
    speed: Number | None
    """rad/s, the datasheet's; None if unknown."""
    effort: Number
    """Nm, the largest torque."""
    kp: float
    """Nm/rad"""
    kd: float
    """Nm s/rad"""
    default: float
    """rad, standing."""
    group: str
    """The same joint on both sides: what tables and plots add up over."""
    armature: float = 0.0
    """kg m^2, the rotor's inertia behind the gear."""
    damping: float = 0.0
    """Nm s/rad, passive."""
    frictionloss: float = 0.0
    """Nm, dry friction."""
    source: str = ""
    """Where the numbers come from."""

    def mirrored(self) -> "JointSpec":
        """The joint on the other side. It keeps the axis, as URDFs do, so that roll and yaw change sign."""
        name = other_side(self.name)
        if self.mirror_sign > 0:
            return replace(self, name=name)
        return replace(self, name=name, low=_negated(self.high), high=_negated(self.low), default=-self.default)

    @property
    def mirror_sign(self) -> int:
        """What the angle is multiplied by in a mirror."""
        if self.axis not in MIRROR_SIGN:
            raise ValueError(f"joint {self.name!r} has axis {self.axis}, expected x, y or z to be mirrored")
        return MIRROR_SIGN[self.axis]


@dataclass(frozen=True)
class Geom:
    """A primitive: what touches the ground, or what is seen."""

    kind: str
    """box, sphere, capsule, cylinder or ellipsoid; for the eye also mesh."""
    size: tuple[float, ...]
    """m, as in MJCF: half edges; radius; radius and half length. Of a mesh its scale."""
    pos: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    ends: tuple[Vector, Vector] | None = None
    """Of a capsule or cylinder, instead of pos, rpy and the half length."""
    touches: bool = False
    """Whether it meets the ground; otherwise it is for the eye."""
    material: str = "shell"
    """shell, dark or accent."""
    file: str = ""
    """Of a mesh."""

    def mirrored(self) -> "Geom":
        """The same on the other side."""
        ends = self.ends and (_flip(self.ends[0]), _flip(self.ends[1]))
        return replace(self, pos=_flip(self.pos), rpy=_flip_turn(self.rpy), ends=ends)

    def lowest(self, up: Floats) -> float:
        """The least ``up . p`` over its points p, m; ``up`` is a unit vector (3,) in the link's frame."""
        if self.ends is not None:
            return float(min(up @ np.array(end) for end in self.ends) - self.size[0])
        x, y, z = np.abs(up @ rotation(self.rpy))
        first, *rest = self.size
        if self.kind == "sphere":
            reach = first
        elif self.kind == "capsule":
            reach = first + rest[0] * z
        elif self.kind == "cylinder":
            reach = first * np.hypot(x, y) + rest[0] * z
        elif self.kind == "ellipsoid":
            reach = float(np.linalg.norm((first * x, rest[0] * y, rest[1] * z)))
        else:
            reach = first * x + rest[0] * y + rest[1] * z
        return float(up @ np.array(self.pos) - reach)


@dataclass(frozen=True)
class LinkSpec:
    """A rigid body and how it hangs on its parent."""

    name: str
    parent: str
    """"" for the base."""
    pos: Vector
    """m, of this link's frame in the parent's."""
    rpy: Vector
    """rad, roll, pitch, yaw about the parent's fixed axes, as in a URDF."""
    mass: float
    com: Vector
    inertia: Inertia
    """About the centre of mass, in the link's axes."""
    joint: JointSpec | None = None
    """None: welded to the parent."""
    geoms: tuple[Geom, ...] = ()
    locked: bool = False
    """The joint is there, but welded at its default angle."""

    def mirrored(self) -> "LinkSpec":
        """The link on the other side."""
        xx, yy, zz, xy, xz, yz = self.inertia
        return replace(
            self,
            name=other_side(self.name),
            parent=other_side(self.parent),
            pos=_flip(self.pos),
            rpy=_flip_turn(self.rpy),
            com=_flip(self.com),
            inertia=(xx, yy, zz, -xy, xz, -yz),
            joint=self.joint and self.joint.mirrored(),
            geoms=tuple(geom.mirrored() for geom in self.geoms),
        )


@dataclass(frozen=True)
class WalkingTask:
    """What a robot is to do, as its file says it; ``locomotion/tasks.py`` makes the task of it."""

    ground: str = "flat"
    """"flat" or "rough"."""
    reward: str = "velocity"
    """A name of ``locomotion.tasks.REWARDS``, or "package.module:TERMS" of your own."""
    gait: bool = False
    """Whether the reward is about feet in a gait, whose phase is observed, too."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the defaults of ``locomotion.tasks.Options``."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """What differs from the half-widths ``locomotion.tasks.NOISE``."""
    return_unit: float = 1.0
    """What a return is a multiple of: the paper sums G1's rewards (.02), and H1's times the control period (1)."""


@dataclass(frozen=True)
class RobotSpec:
    """A legged robot: links in tree order (every parent first, a branch before the next)."""

    name: str
    links: tuple[LinkSpec, ...]
    feet: tuple[str, str]
    """Links: left, right."""
    torso: str
    """The link that must not touch the ground, nor what hangs on it."""
    proximal: tuple[str, ...]
    """Joints of the measure Util-P."""
    distal: tuple[str, ...]
    """Joints of Util-D."""
    deltas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Limit presets: {name: {joint group: rad per control step of 0.02 s}}."""
    tasks: Mapping[str, WalkingTask] = field(default_factory=dict)
    """{"flat": ...} is the task NAME-flat."""
    pair: tuple[str, str] | None = None
    """The two joints whose increments the figures show; default: neighbours."""
    pair_note: str = ""
    """What a figure's caption says of them."""
    meshes: Mapping[str, tuple[Geom, ...]] = field(default_factory=dict)
    """Link -> the meshes its file names, where the files are there: for pictures, see ``looks``."""
    notes: tuple[str, ...] = ()
    """What was made of the robot's file that the user should know."""

    # ------------------------------------------------------------------ joints

    @cached_property
    def joints(self) -> tuple[JointSpec, ...]:
        """The actuated joints, in the order of actions."""
        return tuple(link.joint for link in self.links if link.joint and not link.locked)

    @cached_property
    def default_pose(self) -> NDArray[np.float32]:
        """(d,) joint angles to stand and to reset in, rad, within the range even in float32."""
        low = np.array([boxmath.round_up(joint.low) for joint in self.joints])
        high = np.array([boxmath.round_down(joint.high) for joint in self.joints])
        highest = boxmath.cast_down(high, high.astype(np.float32))
        lowest = -boxmath.cast_down(-low, (-low).astype(np.float32))
        pose = np.array([joint.default for joint in self.joints], dtype=np.float32)
        inside: NDArray[np.float32] = np.clip(pose, lowest, highest)
        return inside

    def mirror_joints(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """(index, sign), (d,) each: ``sign * q[..., index]`` is the left-right mirror image of joint angles q.

        None where joints do not come in pairs named left and right, with axes and ranges that mirror each other.
        """
        names = [joint.name for joint in self.joints]
        others = [other_side(name) for name in names]
        if set(others) != set(names):
            return None
        index = np.array([names.index(name) for name in others], dtype=np.int64)
        axes = np.array([self._axes[name] for name in names])
        sign = np.einsum("ij,ij->i", axes * [-1, 1, -1], axes[index]).round(6)  # axes mirror as rotations do
        span = np.array([[float(joint.low), float(joint.high)] for joint in self.joints])
        alike = np.allclose(np.sort(sign[:, None] * span[index], axis=1), span)
        return (index, sign.astype(np.float32)) if alike and (np.abs(sign) == 1).all() else None

    @cached_property
    def _axes(self) -> dict[str, Floats]:
        """Joint axes in the base's frame, in the default pose."""
        frames = self.frames()
        return {link.joint.name: frames[link.name][1] @ link.joint.axis for link in self.links if link.joint}

    def rate_limits(
        self, preset: str = "paper", *, safety: Number | None = None, dt: Number = CONTROL_PERIOD
    ) -> "RateLimits":
        """How far each joint's position target may move in one control step, rad, starting at the default pose.

        Args:
            preset: a row of ``deltas``, "spec" (the datasheet's speed * dt) or "tight" (a quarter of it).
            safety: instead of a preset, the share of the datasheet's speed, in (0, 1].
            dt: control period in seconds. The rows of ``deltas`` are for 0.02 only.
        """
        from slewrl.limits import RateLimits

        if safety is None and preset in self.deltas:
            return self._from_table(preset, dt)
        if safety is None and preset not in SHARES:
            raise KeyError(f"{self.name} has no preset {preset!r}; it has: {', '.join(self.presets)}")
        share = SHARES[preset] if safety is None else safety
        rows = {joint.name: _row(joint) for joint in self.joints}
        made = rates.arguments(rows, dt, share, self.name)
        return RateLimits(**made | {"groups": [joint.group for joint in self.joints], "reset": self.default_pose})

    def checked(self, limits: "RateLimits") -> "RateLimits":
        """Limits that somebody else wrote, if they are this robot's: its joints in order, within their ranges."""
        names = tuple(joint.name for joint in self.joints)
        if limits.names != names:
            raise ValueError(f"limits are for {', '.join(limits.names)}; expected {self.name}'s: {', '.join(names)}")
        for i, joint in enumerate(self.joints):
            low, high, delta = limits.low[i], limits.high[i], limits.delta[..., i].max()
            if low < float(joint.low) or high > float(joint.high):
                raise ValueError(
                    f"joint {joint.name!r}: limits allow [{low}, {high}] rad, expected within its range "
                    f"[{joint.low}, {joint.high}]"
                )
            fastest = float(joint.speed) * (limits.dt or CONTROL_PERIOD) if joint.speed else 0.0
            if delta > high - low and delta > fastest:  # a datasheet's speed may cross a narrow range in a step
                raise ValueError(
                    f"joint {joint.name!r}: a limit of {delta} rad per step is larger than its range [{low}, {high}], "
                    "so that it limits nothing; expected radians per control step"
                )
        return limits

    @property
    def presets(self) -> tuple[str, ...]:
        """The names ``rate_limits`` knows."""
        return (*self.deltas, *SHARES)

    def _from_table(self, preset: str, dt: Number) -> "RateLimits":
        from slewrl.limits import RateLimits

        if float(dt) != CONTROL_PERIOD:
            raise ValueError(
                f"dt is {dt}, but {self.name}'s limits {preset!r} are per step of {CONTROL_PERIOD} s; "
                "for another period give safety=, the share of the datasheet's speed"
            )
        return RateLimits(
            [self.deltas[preset][joint.group] for joint in self.joints],
            [joint.low for joint in self.joints],
            [joint.high for joint in self.joints],
            names=[joint.name for joint in self.joints],
            groups=[joint.group for joint in self.joints],
            dt=CONTROL_PERIOD,
            units="rad",
            reset=self.default_pose,
        )

    # ------------------------------------------------------------------ links

    @property
    def mass(self) -> float:
        """kg, of everything."""
        return sum(link.mass for link in self.links)

    def link(self, name: str) -> LinkSpec:
        """The link of that name."""
        for link in self.links:
            if link.name == name:
                return link
        raise KeyError(f"{self.name} has no link {name!r}; it has: {', '.join(link.name for link in self.links)}")

    def sole(self, foot: str) -> tuple[Vector, Floats]:
        """Middle of a foot's lowest surface, m, and the rotation (3, 3) of the base's axes, both in the foot's frame.

        In the default pose; it is where the foot's site is, and how that is turned.
        """
        touching = [geom for geom in self.link(foot).geoms if geom.touches]
        if not touching:
            raise ValueError(f"foot {foot!r} of {self.name} has no geom that touches the ground, expected at least one")
        turn = self.frames()[foot][1]
        centres = np.array([point for geom in touching for point in (geom.ends or (geom.pos,))]) @ turn.T
        x, y, _ = (centres.min(0) + centres.max(0)) / 2
        lowest = min(geom.lowest(turn[2]) for geom in touching)
        return vector(turn.T @ np.array([x, y, lowest])), turn.T

    @cached_property
    def base_height(self) -> float:
        """Height of the base above the ground when the lower sole touches it in the default pose, m."""
        frames = self.frames()
        soles = [frames[foot][0] + frames[foot][1] @ np.array(self.sole(foot)[0]) for foot in self.feet]
        return -min(float(sole[2]) for sole in soles)

    def frames(self) -> dict[str, tuple[Floats, Floats]]:
        """Position (3,) and rotation (3, 3) of every link in the base's frame, in the default pose."""
        found: dict[str, tuple[Floats, Floats]] = {}
        for link in self.links:
            origin, turn = found.get(link.parent, (np.zeros(3), np.eye(3)))
            if not link.parent:  # the base is the frame
                found[link.name] = (origin, turn)
                continue
            own = rotation(link.rpy)
            if link.joint:
                own = own @ about(link.joint.axis, link.joint.default)
            found[link.name] = (origin + turn @ np.array(link.pos), turn @ own)
        return found

    def mjcf(self, **options: Any) -> str:
        """The MuJoCo model as text; see ``robots.mjcf.mjcf`` for the options."""
        from slewrl.robots.mjcf import mjcf

        return mjcf(self, **options)


class RawRobot(NamedTuple):
    """What a robot's file says, before anything is chosen."""

    links: tuple[LinkSpec, ...]
    """In tree order; NaN where the file says nothing of a joint's range, effort or gains."""
    welded: Mapping[str, str] = {}
    """Link -> why its joint cannot be driven, as in "joint 'lift' is prismatic"."""
    meshes: Mapping[str, tuple[Geom, ...]] = {}
    """Link that names meshes -> those of them to show, if their files are there."""


def both_sides(left: Iterable[LinkSpec]) -> tuple[LinkSpec, ...]:
    """A left limb, then the right one."""
    links = tuple(left)
    return (*links, *(link.mirrored() for link in links))


def other_side(name: str) -> str:
    """left_knee for right_knee and the reverse, l_knee for r_knee; the same name for what has no side."""
    return "_".join(OTHER_SIDE.get(part, part) for part in name.split("_"))


def rotation(rpy: Vector) -> Floats:
    """(3, 3) of roll, pitch and yaw: Rz(yaw) Ry(pitch) Rx(roll)."""
    roll, pitch, yaw = rpy
    return about((0.0, 0.0, 1.0), yaw) @ about((0.0, 1.0, 0.0), pitch) @ about((1.0, 0.0, 0.0), roll)


def about(axis: Vector, angle: float) -> Floats:
    """(3, 3): a turn about a unit axis (Rodrigues: I + sin K + (1 - cos) K^2)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn: Floats = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return turn


def rpy_of(turn: Floats) -> Vector:
    """Roll, pitch and yaw of a rotation (3, 3); with the pitch upright, all of the rest is roll."""
    level = math.hypot(turn[0, 0], turn[1, 0])
    pitch = math.atan2(-turn[2, 0], level)
    if level < 1e-9:
        return math.atan2(-turn[1, 2], turn[1, 1]), pitch, 0.0
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])


def tensor(inertia: Inertia) -> Floats:
    """(3, 3)."""
    xx, yy, zz, xy, xz, yz = inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inertia_of(turn: Floats, own: Floats) -> Inertia:
    """An inertia tensor (3, 3) given in axes that are turned by ``turn`` (3, 3), in the link's axes."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = (turn @ own @ turn.T).tolist()
    return xx, yy, zz, xy, xz, yz


def vector(numbers: Iterable[float]) -> Vector:
    """Three numbers as a tuple of floats."""
    x, y, z = (float(number) for number in numbers)
    return x, y, z


def _row(joint: JointSpec) -> Joint:
    speed = None if joint.speed is None else str(joint.speed)
    return Joint(speed, joint.low, joint.high)


def _flip(point: Vector) -> Vector:
    return point[0], -point[1], point[2]


def _flip_turn(rpy: Vector) -> Vector:
    return -rpy[0], rpy[1], -rpy[2]


def _negated(number: Number) -> Number:
    if not isinstance(number, str):
        return -number
    return number.removeprefix("-") if number.startswith("-") else f"-{number}"
