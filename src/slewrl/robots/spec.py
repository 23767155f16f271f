"""Robots as data: links, joints and limits, in metres, kilograms, radians and seconds; x is forward, y left, z up.

A robot's module states the left side and the trunk; ``mirrored`` makes the right side.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.limits import boxmath, rates
from slewrl.limits.boxmath import Number
from slewrl.limits.datasheets import Joint

if TYPE_CHECKING:  # reports read robots without torch
    from slewrl.limits import RateLimits

Vector = tuple[float, float, float]
Inertia = tuple[float, float, float, float, float, float]
"""ixx, iyy, izz, ixy, ixz, iyz in kg m^2."""
Floats = NDArray[np.float64]
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
ZERO: Vector = (0.0, 0.0, 0.0)
CONTROL_PERIOD = 0.02
"""The control period of the paper's limits, s."""
SHARES: dict[str, Number] = {"spec": 1, "tight": "0.25"}
"""The limit presets of every robot: the share of the datasheet's speed that a joint may use."""
ACCELERATED = "_acceleration"
"""The end of the name of a preset with acceleration limits."""
OTHER_SIDE = {"left": "right", "right": "left", "l": "r", "r": "l", "L": "R", "R": "L"}


@dataclass(frozen=True)
class JointSpec:
    """A hinge joint with its position servo."""

    name: str
    """The joint's name in the URDF, without "_joint"."""
    axis: Vector
    low: Number
    """The lower end of the range, rad; a decimal string means exactly that decimal."""
    high: Number
    speed: Number | None
    """The datasheet's largest speed, rad/s; None if unknown."""
    effort: Number
    """The largest torque, Nm."""
    kp: float
    """The servo's stiffness, Nm/rad."""
    kd: float
    """The servo's damping, Nm s/rad."""
    default: float
    """The angle in the default pose, rad."""
    group: str
    """The name that a left and a right joint share, over which tables and plots average."""
    armature: float = 0.0
    """The rotor's inertia behind the gear, kg m^2."""
    damping: float = 0.0
    """The passive damping, Nm s/rad."""
    frictionloss: float = 0.0
    """The dry friction, Nm."""
    source: str = ""
    """The origin of the numbers."""

    def mirrored(self) -> "JointSpec":
        """The joint on the other side, with the same axis, as in URDFs: roll and yaw angles change sign."""
        if self.axis not in (X, Y, Z):
            raise ValueError(f"joint {self.name!r} has axis {self.axis}, expected x, y or z to be mirrored")
        other = replace(self, name=other_side(self.name))
        if self.axis == Y:
            return other
        return replace(other, low=_negated(self.high), high=_negated(self.low), default=-self.default)


@dataclass(frozen=True)
class Geom:
    """A shape of a link, for contact with the ground or for pictures."""

    kind: str
    """box, sphere, capsule, cylinder or ellipsoid; for pictures also mesh."""
    size: tuple[float, ...]
    """As in MJCF, m: half edges; radius; or radius and half length. For a mesh its scale."""
    pos: Vector = ZERO
    rpy: Vector = ZERO
    ends: tuple[Vector, Vector] | None = None
    """The end points of a capsule or cylinder, instead of pos, rpy and half length."""
    touches: bool = False
    """Whether it makes contact with the ground; otherwise it is only drawn."""
    material: str = "shell"
    """shell, dark or accent."""
    file: str = ""
    """The file of a mesh."""

    def mirrored(self) -> "Geom":
        """The shape on the other side."""
        ends = self.ends and (_flip(self.ends[0]), _flip(self.ends[1]))
        return replace(self, pos=_flip(self.pos), rpy=_flip_turn(self.rpy), ends=ends)

    def lowest(self, up: Floats) -> float:
        """The smallest ``up . p`` over its points p, m; ``up`` is a unit vector (3,) in the link's frame."""
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
    """A rigid body and its connection to its parent."""

    name: str
    parent: str
    """The parent's name, "" for the base."""
    pos: Vector
    """The position of this link's frame in the parent's, m."""
    rpy: Vector
    """Roll, pitch and yaw about the parent's fixed axes, as in a URDF, rad."""
    mass: float
    com: Vector
    inertia: Inertia
    """The inertia about the centre of mass, in the link's axes."""
    joint: JointSpec | None = None
    """The joint to the parent; None if the link is welded to it."""
    geoms: tuple[Geom, ...] = ()
    locked: bool = False
    """Whether the joint is welded at its default angle."""

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
    """A walking task of a robot, from which ``locomotion/tasks.py`` makes the environment."""

    ground: str = "flat"
    """"flat" or "rough"."""
    reward: str = "velocity"
    """A name in ``locomotion.tasks.REWARDS``, or "package.module:TERMS"."""
    gait: bool = False
    """Whether the reward asks for a gait, whose phase is then observed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the defaults of ``locomotion.tasks.Options``."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Changes to the half-widths of the noise, ``locomotion.tasks.NOISE``."""
    return_unit: float = 1.0
    """The unit of returns: the paper sums G1's rewards (.02), and H1's times the control period (1)."""


@dataclass(frozen=True)
class RobotSpec:
    """A two-legged robot."""

    name: str
    links: tuple[LinkSpec, ...]
    """The links, depth first from the base."""
    feet: tuple[str, str]
    """The links of the left and the right foot."""
    torso: str
    """The link that must not touch the ground, with all that it carries."""
    proximal: tuple[str, ...]
    """The joints of the metric Util-P."""
    distal: tuple[str, ...]
    """The joints of the metric Util-D."""
    deltas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Limit presets: {name: {joint group: rad per control step of 0.02 s}}."""
    poses: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Other default poses by name: {joint group: rad}, where they differ from the joints' own."""
    accelerations: Mapping[str, str] = field(default_factory=dict)
    """Acceleration limits: {joint group: rad/s^2}; with them there is a preset NAME_acceleration for each NAME."""
    tasks: Mapping[str, WalkingTask] = field(default_factory=dict)
    """Tasks by suffix: {"flat": ...} is the task NAME-flat."""
    pair: tuple[str, str] | None = None
    """The two joints whose increments figures show; default: neighbours."""
    pair_note: str = ""
    """A sentence about the pair for the captions."""
    meshes: Mapping[str, tuple[Geom, ...]] = field(default_factory=dict)
    """Link -> the meshes that the robot's file names and that exist, for pictures (``looks``)."""
    notes: tuple[str, ...] = ()
    """Notes for the user on assumptions made in reading the file."""

    @cached_property
    def joints(self) -> tuple[JointSpec, ...]:
        """The actuated joints, in the order of actions."""
        return tuple(link.joint for link in self.links if link.joint and not link.locked)

    @cached_property
    def default_pose(self) -> NDArray[np.float32]:
        """The joint angles at reset, (d,), rad; within the range even in float32."""
        low = np.array([boxmath.round_up(joint.low) for joint in self.joints])
        high = np.array([boxmath.round_down(joint.high) for joint in self.joints])
        highest = boxmath.cast_down(high, high.astype(np.float32))
        lowest = -boxmath.cast_down(-low, (-low).astype(np.float32))
        pose = np.array([joint.default for joint in self.joints], dtype=np.float32)
        return np.clip(pose, lowest, highest)

    def in_pose(self, name: str) -> "RobotSpec":
        """The robot with another of its default poses."""
        if name not in self.poses:
            raise ValueError(f"{self.name} has no pose {name!r}; it has: {', '.join(self.poses) or 'its own only'}")
        changed = self.poses[name]
        return self._standing({joint.name: changed.get(joint.group, joint.default) for joint in self.joints})

    def posed(self, angles: NDArray[Any]) -> "RobotSpec":
        """The robot with these joint angles (d,), rad, as its default pose; itself where they are its own."""
        for known in (self, *map(self.in_pose, self.poses)):
            if np.array_equal(np.asarray(angles, np.float32), known.default_pose):
                return known
        return self._standing({joint.name: float(x) for joint, x in zip(self.joints, angles, strict=True)})

    def _standing(self, angles: Mapping[str, float]) -> "RobotSpec":
        links = (
            replace(link, joint=replace(link.joint, default=angles[link.joint.name]))
            if link.joint and link.joint.name in angles
            else link
            for link in self.links
        )
        return replace(self, links=tuple(links))

    def mirror_joints(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Return index and sign, (d,) each, such that ``sign * q[..., index]`` is the mirror image of joint angles q.

        None unless joints come in pairs named left and right, whose axes and ranges mirror each other.
        """
        names = [joint.name for joint in self.joints]
        others = [other_side(name) for name in names]
        if set(others) != set(names):
            return None
        index = np.array([names.index(name) for name in others], dtype=np.int64)
        frames = self.frames()
        axes = np.array(
            [frames[link.name][1] @ link.joint.axis for link in self.links if link.joint and not link.locked]
        )
        sign = np.einsum("ij,ij->i", axes * [-1, 1, -1], axes[index]).round(6)  # axes mirror as rotations do
        span = np.array([[float(joint.low), float(joint.high)] for joint in self.joints])
        alike = np.allclose(np.sort(sign[:, None] * span[index], axis=1), span)
        return (index, sign.astype(np.float32)) if alike and (np.abs(sign) == 1).all() else None

    def rate_limits(
        self, preset: str = "paper", *, safety: Number | None = None, dt: Number = CONTROL_PERIOD
    ) -> "RateLimits":
        """The limits on the change of each joint's position target per control step, rad, with the default pose.

        Args:
            preset: a key of ``deltas``, "spec" (the datasheet's speed * dt) or "tight" (a quarter of it). With
                ``_acceleration`` at its end, the same with ``accelerations``, of which "tight" takes a quarter as well.
            safety: instead of a preset, the share of the datasheet's speed, in (0, 1].
            dt: control period in seconds. The presets in ``deltas`` are for 0.02 only.
        """
        from slewrl.limits import RateLimits

        if safety is None and preset not in self.presets:
            raise KeyError(f"{self.name} has no preset {preset!r}; it has: {', '.join(self.presets)}")
        base = preset.removesuffix(ACCELERATED)
        limited = base != preset
        if safety is None and base in self.deltas:
            made = self._from_table(base, dt)
            if limited:
                square = rates.smaller(CONTROL_PERIOD, "dt") ** 2
                sharp = [Fraction(self.accelerations[joint.group]) * square for joint in self.joints]
                made["acceleration"] = [rates.per_second(value, CONTROL_PERIOD) for value in sharp]
        else:
            rows = {
                joint.name: Joint(
                    *(None if joint.speed is None else str(joint.speed), joint.low, joint.high),
                    acceleration=self.accelerations[joint.group] if limited else None,
                )
                for joint in self.joints
            }
            share = SHARES[base] if safety is None else safety
            made = rates.arguments(rows, dt, share, self.name, angles="radians")
        return RateLimits(**made | {"groups": [joint.group for joint in self.joints], "reset": self.default_pose})

    def _from_table(self, preset: str, dt: Number) -> dict[str, Any]:
        """The arguments of ``RateLimits`` for a preset in ``deltas``."""
        if float(dt) != CONTROL_PERIOD:
            raise ValueError(
                f"dt is {dt}, but {self.name}'s limits {preset!r} are per step of {CONTROL_PERIOD} s; "
                "for another period give safety=, the share of the datasheet's speed"
            )
        return {
            "delta": [self.deltas[preset][joint.group] for joint in self.joints],
            "low": [joint.low for joint in self.joints],
            "high": [joint.high for joint in self.joints],
            "names": [joint.name for joint in self.joints],
            "dt": CONTROL_PERIOD,
            "units": "rad",
        }

    def checked(self, limits: "RateLimits") -> "RateLimits":
        """Return the limits if they fit this robot: its joints in order, within their ranges; else raise."""
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
        """The names of the limit presets."""
        plain = (*self.deltas, *SHARES)
        return (*plain, *(f"{name}{ACCELERATED}" for name in plain)) if self.accelerations else plain

    @property
    def mass(self) -> float:
        """The total mass, kg."""
        return sum(link.mass for link in self.links)

    def link(self, name: str) -> LinkSpec:
        """The link of that name."""
        for link in self.links:
            if link.name == name:
                return link
        raise KeyError(f"{self.name} has no link {name!r}; it has: {', '.join(link.name for link in self.links)}")

    def sole(self, foot: str) -> tuple[Vector, Floats]:
        """The middle of a foot's lowest surface, m, and the base's axes (3, 3), both in the foot's frame, default pose.

        They are the position and the orientation of the foot's site.
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
        """The height of the base above the ground when the robot stands in the default pose, m."""
        frames = self.frames()
        soles = [frames[foot][0] + frames[foot][1] @ np.array(self.sole(foot)[0]) for foot in self.feet]
        return -min(float(sole[2]) for sole in soles)

    def frames(self) -> dict[str, tuple[Floats, Floats]]:
        """Link -> its position (3,) and rotation (3, 3) in the base's frame, in the default pose."""
        found: dict[str, tuple[Floats, Floats]] = {}
        for link in self.links:
            origin, turn = found.get(link.parent, (np.zeros(3), np.eye(3)))
            if not link.parent:
                found[link.name] = (origin, turn)
                continue
            relative = rotation(link.rpy)
            if link.joint:
                relative = relative @ about(link.joint.axis, link.joint.default)
            found[link.name] = (origin + turn @ np.array(link.pos), turn @ relative)
        return found


class RawRobot(NamedTuple):
    """The contents of a robot's file."""

    links: tuple[LinkSpec, ...]
    """The links, depth first; NaN for a joint's range, effort or gains that the file does not state."""
    welded: Mapping[str, str] = {}
    """Link -> the reason why its joint cannot be driven, such as "joint 'lift' is prismatic"."""
    meshes: Mapping[str, tuple[Geom, ...]] = {}
    """Link with meshes -> those to draw; empty if their files are missing."""


def capsule(start: Vector, end: Vector, radius: float, material: str = "shell", touches: bool = False) -> Geom:
    """A capsule between two points."""
    return Geom("capsule", (radius,), ends=(start, end), material=material, touches=touches)


def hinge(radius: float, half: float, material: str = "dark", pos: Vector = ZERO) -> Geom:
    """The visible housing of a motor: a cylinder along y."""
    return Geom("cylinder", (radius, half), pos, rpy=(math.pi / 2, 0.0, 0.0), material=material)


def both_sides(left: Iterable[LinkSpec], locked: bool = False) -> tuple[LinkSpec, ...]:
    """A left limb and its mirror image, with all joints locked if asked."""
    links = tuple(replace(link, locked=locked and link.joint is not None) for link in left)
    return (*links, *(link.mirrored() for link in links))


def other_side(name: str) -> str:
    """The name on the other side: left_knee for right_knee, l_knee for r_knee; unchanged without a side."""
    return "_".join(OTHER_SIDE.get(part, part) for part in name.split("_"))


def rotation(rpy: Vector) -> Floats:
    """The rotation matrix (3, 3) of roll, pitch and yaw: Rz(yaw) Ry(pitch) Rx(roll)."""
    roll, pitch, yaw = rpy
    return about(Z, yaw) @ about(Y, pitch) @ about(X, roll)


def about(axis: Vector, angle: float) -> Floats:
    """The rotation matrix (3, 3) about a unit axis, by Rodrigues' formula I + sin K + (1 - cos) K^2."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def rpy_of(turn: Floats) -> Vector:
    """Roll, pitch and yaw of a rotation (3, 3); yaw is 0 at a pitch of 90 degrees, where only one of both is free."""
    level = math.hypot(turn[0, 0], turn[1, 0])
    pitch = math.atan2(-turn[2, 0], level)
    if level < 1e-9:
        return math.atan2(-turn[1, 2], turn[1, 1]), pitch, 0.0
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])


def tensor(inertia: Inertia) -> Floats:
    """The inertia as a matrix (3, 3)."""
    xx, yy, zz, xy, xz, yz = inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def inertia_of(turn: Floats, matrix: Floats) -> Inertia:
    """Rotate an inertia matrix (3, 3) by ``turn`` (3, 3) into the link's axes."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = (turn @ matrix @ turn.T).tolist()
    return xx, yy, zz, xy, xz, yz


def vector(numbers: Iterable[float]) -> Vector:
    """Convert three numbers to a tuple of floats."""
    x, y, z = (float(number) for number in numbers)
    return x, y, z


def _flip(point: Vector) -> Vector:
    return point[0], -point[1], point[2]


def _flip_turn(rpy: Vector) -> Vector:
    return -rpy[0], rpy[1], -rpy[2]


def _negated(number: Number) -> Number:
    if not isinstance(number, str):
        return -number
    return number.removeprefix("-") if number.startswith("-") else f"-{number}"
