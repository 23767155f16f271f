"""The walking tasks, from the robots' files, and the layout of their observations.

Numbers of commands, noise and episodes are IsaacLab's for the same tasks unless marked ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slewrl.envs.vec_env import Layout, Mirror
from slewrl.limits import RateLimits
from slewrl.locomotion.rewards import KNEE_SWING, KNEE_WIDTH, STRIDE_WIDTH, Term
from slewrl.locomotion.terrain import SCAN_MIRROR
from slewrl.registry import Registry
from slewrl.robots import ROBOTS, walking_task
from slewrl.robots.spec import RobotSpec, WalkingTask

SHAPE = ("knee_swing", "knee_width", "stride_width")
"""Options that shape the terms of G1's gait."""


@dataclass(frozen=True)
class Options:
    """Options of a task: ``--set task.NAME=VALUE``."""

    seconds: float = 20.0
    """Length of an episode, s."""
    practice: float = 0.0
    """Length of an episode in training, s; 0: the same. Ours."""
    running: float = 0.0
    """In training, episodes begin at up to this share of the commanded velocity; ours."""
    forward: tuple[float, float] = (0.0, 1.0)
    """Commanded speed ahead, m/s."""
    sideways: tuple[float, float] = (0.0, 0.0)
    """Commanded speed to the left, m/s."""
    turning: tuple[float, float] = (-1.0, 1.0)
    """Commanded yaw rate, rad/s."""
    heading: bool = False
    """Whether to command a heading to turn to, instead of a yaw rate."""
    standing: float = 0.02
    """Share of commands to stand still."""
    resample: float = 10.0
    """Seconds between commands."""
    lenient: float = 150.0
    """L*: in training, penalties grow until episodes last this many control steps (c_f); 0: full from the start. Ours:
    holosoma's 750 taught a straddle."""
    knee_swing: float = KNEE_SWING
    """kappa_flex of G1's reward, how far its knees should bend and stretch in a gait, rad."""
    knee_width: float = KNEE_WIDTH
    """sigma_k, how far off that still pays, rad."""
    stride_width: float = STRIDE_WIDTH
    """sigma_s, how far off a foot's place in a stride still pays, m."""
    noise: float = 1.0
    """Observation noise, as a multiple of the task's."""
    friction: tuple[float, float] = (1.0, 1.0)
    """Range of the factor of the ground's friction, drawn for each episode."""
    mass: tuple[float, float] = (1.0, 1.0)
    """Range of the factor of the mass of each link, drawn for each episode."""
    payload: float = 0.0
    """Mass added to the torso, kg."""
    push: float = 0.0
    """Largest velocity of a push, m/s, every 5 to 10 s."""
    delay: int = 0
    """Longest delay from policy to actuator, control steps; drawn for each episode."""
    always_delayed: bool = False
    """Whether every episode has the longest delay."""
    pose: str = ""
    """Another of the robot's default poses (G1: rl_gym); else that of the limits, if they have one, or its own."""

    def __post_init__(self) -> None:
        for name in ("forward", "sideways", "turning", "friction", "mass"):
            pair = getattr(self, name)
            numbers = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, int | float) for x in pair)
            if not (numbers and np.isfinite(pair).all() and pair[0] <= pair[1]):
                raise ValueError(f"task.{name} is {pair!r}, expected (least, most)")
            if name in ("friction", "mass") and pair[0] <= 0:
                raise ValueError(f"task.{name} is {pair!r}, expected factors > 0")
        for name in (
            "seconds",
            "practice",
            "running",
            "resample",
            "lenient",
            "noise",
            "push",
            "payload",
            "standing",
            *SHAPE,
        ):
            value = getattr(self, name)
            least = 0.02 if name in ("seconds", "resample") else 0.0
            most = {"standing": 1.0, "running": 1.0, "seconds": 3_600.0, "practice": 3_600.0}.get(name, 1e6)
            if not (isinstance(value, int | float) and least <= value <= most):
                raise ValueError(f"task.{name} is {value!r}, expected a number from {least:g} to {most:g}")
        for name in ("knee_width", "stride_width"):
            if not getattr(self, name) > 0:
                raise ValueError(f"task.{name} is {getattr(self, name)!r}, expected a number > 0")
        for name in ("heading", "always_delayed"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"task.{name} is {getattr(self, name)!r}, expected true or false")
        if not isinstance(self.pose, str):
            raise ValueError(f"task.pose is {self.pose!r}, expected the name of a pose")
        if not (isinstance(self.delay, int) and not isinstance(self.delay, bool) and self.delay >= 0):
            raise ValueError(f"task.delay is {self.delay!r}, expected whole control steps, 0 or more")


@dataclass(frozen=True)
class Task:
    """A robot, the ground, and what is rewarded."""

    robot: str
    """A name of ``ROBOTS``."""
    ground: str
    """"flat" or "rough"."""
    terms: tuple[Term, ...]
    options: Options
    noise: dict[str, float]
    """Half-width of the uniform noise of an observation's parts."""
    return_unit: float
    """The unit of returns; see ``WalkingTask``."""
    gait: bool = False
    """Whether the reward has a gait phase."""


REWARDS = Registry(
    "reward", {"velocity": "slewrl.locomotion.rewards:H1_TERMS", "gait": "slewrl.locomotion.rewards:G1_TERMS"}
)
"""Reward terms by name: the paper's for H1, without a gait, and for G1."""
NOISE = {"gyroscope": 0.2, "gravity": 0.05, "joint_angles_less_default": 0.01, "joint_speeds": 1.5, "height_scan": 0.1}
"""Usual half-width of the noise of an observation's parts, in rad/s, 1, rad, rad/s and m."""


class Tasks(Mapping[str, Task]):
    """The tasks of every robot in ``ROBOTS``, made on access: NAME-flat of the robot NAME."""

    def __getitem__(self, name: str) -> Task:
        if (found := walking_task(name)) is None:
            raise KeyError(name)
        robot, task = found
        return make_task(robot.name.lower(), task)

    def __iter__(self) -> Iterator[str]:
        return (f"{spec.name}-{task}" for spec in ROBOTS.values() for task in spec.tasks)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def make_task(robot: str, spec: WalkingTask) -> Task:
    """The task of a robot of ``ROBOTS``, from what the robot's file specifies."""
    noise = {**NOISE, **spec.noise}
    return Task(robot, spec.ground, REWARDS[spec.reward], Options(**spec.options), noise, spec.return_unit, spec.gait)


TASKS = Tasks()
CUSTOM = make_task("", WalkingTask(options={"heading": True}))
"""The task of a user's own robot: H1's, on flat ground."""


def standing(task: Task, robot: RobotSpec, limits: RateLimits) -> RobotSpec:
    """The robot in the default pose of a task under these limits: what the policy's angles are relative to."""
    if task.options.pose:
        return robot.in_pose(task.options.pose)
    return robot if limits.reset is None else robot.posed(limits.reset)


def layout(task: Task, robot: RobotSpec, limits: RateLimits) -> Layout:
    """The parts of an observation, in their order, and its left-right mirror image."""
    mirrored = robot.mirror_joints()
    if mirrored and not _alike(robot, limits, *mirrored):
        mirrored = None
    joints = mirrored or (np.arange(len(robot.joints)), np.ones(len(robot.joints), np.float32))
    along, about, command = ((np.arange(3), np.array(s, np.float32)) for s in ((1, -1, 1), (-1, 1, -1), (1, -1, -1)))
    blocks = {
        "base_velocity": along,
        "gyroscope": about,
        "gravity": along,
        "command": command,
        "joint_angles_less_default": joints,
        "joint_speeds": joints,
    }
    if task.gait:
        blocks |= dict.fromkeys(("gait_sines", "gait_cosines"), (np.array([1, 0]), np.ones(2, np.float32)))
    if task.ground == "rough":
        blocks["height_scan"] = (SCAN_MIRROR, np.ones(len(SCAN_MIRROR), np.float32))
    seen = len(blocks)
    blocks |= dict.fromkeys(("previous_velocity",) if limits.grid is not None else (), joints)
    blocks["previous_action"] = joints
    sizes = [len(index) for index, _ in blocks.values()]
    starts = np.cumsum([0, *sizes])
    whole = np.concatenate([start + i for start, (i, _) in zip(starts, blocks.values(), strict=False)])
    mirror = Mirror(whole, np.concatenate([s for _, s in blocks.values()]), *joints) if mirrored else None
    parts = tuple(zip(blocks, sizes, strict=True))[1:seen]
    return Layout(int(starts[-1]), privileged=3, mirror=mirror, parts=parts)


def _alike(robot: RobotSpec, limits: RateLimits, index: NDArray[np.int64], sign: NDArray[np.float32]) -> bool:
    """Whether servos, default pose and limits are the same on both sides, so that mirror images are valid."""
    servos = np.array([[joint.kp, joint.kd, float(joint.effort)] for joint in robot.joints])
    flips = sign < 0
    down, up = (
        np.where(flips, a[..., index], b[..., index]) for a, b in ((limits.up, limits.down), (limits.down, limits.up))
    )
    low, high = (
        np.where(flips, -a[index], b[index]) for a, b in ((limits.high, limits.low), (limits.low, limits.high))
    )
    pairs = [(servos[index], servos), (down, limits.down), (up, limits.up), (low, limits.low), (high, limits.high)]
    pairs.append((sign * robot.default_pose[index], robot.default_pose))
    if limits.acceleration is not None and limits.deceleration is not None:
        pairs += [(array[index], array) for array in (limits.acceleration, limits.deceleration)]
    return all(np.allclose(image, original) for image, original in pairs)
