"""The walking tasks: robot, ground, reward and options by name, and what their observations hold.

Numbers of commands, noise and episodes are IsaacLab's for the same tasks unless marked ours.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slewrl.envs.vec_env import Layout, Mirror
from slewrl.limits import RateLimits
from slewrl.locomotion.rewards import G1_TERMS, H1_TERMS, Term
from slewrl.locomotion.terrain import SCAN_MIRROR
from slewrl.robots.spec import RobotSpec


@dataclass(frozen=True)
class Options:
    """What can be changed of a task: ``--set task.NAME=VALUE``."""

    seconds: float = 20.0
    """Length of an episode."""
    practice: float = 0.0
    """Length of an episode while training; 0: the same. Ours."""
    running: float = 0.0
    """While training, episodes begin at up to this share of the commanded velocity; ours."""
    forward: tuple[float, float] = (0.0, 1.0)
    """Commanded speed ahead, m/s."""
    sideways: tuple[float, float] = (0.0, 0.0)
    """Commanded speed to the left, m/s."""
    turning: tuple[float, float] = (-1.0, 1.0)
    """Commanded yaw rate, rad/s."""
    heading: bool = False
    """Draw a heading to turn to, instead of a yaw rate."""
    standing: float = 0.02
    """Share of commands to stand still."""
    resample: float = 10.0
    """Seconds until another command."""
    lenient: float = 150.0
    """L*: while training, penalties grow until episodes last this many control steps (c_f); 0: full from the start.
    Ours: with holosoma's 750 a straddle was learned while it was free, and kept."""
    noise: float = 1.0
    """Observation noise, as a multiple of the task's."""
    friction: tuple[float, float] = (1.0, 1.0)
    """Factor of the ground's friction, drawn for each episode."""
    mass: tuple[float, float] = (1.0, 1.0)
    """Factor of the mass of each link, drawn for each episode."""
    push: float = 0.0
    """Fastest push, m/s, every 5 to 10 s."""
    delay: int = 0
    """Longest delay from policy to actuator, control steps; drawn for each episode, so that no step doubles."""

    def __post_init__(self) -> None:
        """Refuse what no episode could use."""
        for name in ("forward", "sideways", "turning", "friction", "mass"):
            pair = getattr(self, name)
            numbers = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, int | float) for x in pair)
            if not (numbers and np.isfinite(pair).all() and pair[0] <= pair[1]):
                raise ValueError(f"task.{name} is {pair!r}, expected (least, most)")
            if name in ("friction", "mass") and pair[0] <= 0:
                raise ValueError(f"task.{name} is {pair!r}, expected factors > 0")
        for name in ("seconds", "practice", "running", "resample", "lenient", "noise", "push", "standing"):
            value = getattr(self, name)
            least = 0.02 if name in ("seconds", "resample") else 0.0
            most = {"standing": 1.0, "running": 1.0, "seconds": 3_600.0, "practice": 3_600.0}.get(name, 1e6)
            if not (isinstance(value, int | float) and least <= value <= most):
                raise ValueError(f"task.{name} is {value!r}, expected a number from {least:g} to {most:g}")
        if not isinstance(self.heading, bool):
            raise ValueError(f"task.heading is {self.heading!r}, expected true or false")
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
    """What a return is a multiple of: the paper sums G1's rewards (1), and H1's times the control period (.02 s)."""

    @property
    def gait(self) -> bool:
        """Whether the reward has a gait's phase."""
        return self.terms is G1_TERMS


NOISE = {"gyroscope": 0.2, "gravity": 0.05, "joint_angles_less_default": 0.01, "joint_speeds": 1.5, "height_scan": 0.1}
"""rad/s, 1, rad, rad/s, m."""
G1_NOISE = {**NOISE, "joint_speeds": 0.1}
"""holosoma's, whose task and reward G1's are."""
_H1 = Task("h1", "rough", H1_TERMS, Options(heading=True), NOISE, return_unit=1.0)
_G1 = Task("g1", "flat", G1_TERMS, Options(sideways=(-0.5, 0.5)), G1_NOISE, return_unit=0.02)
TASKS = {
    "H1-rough": _H1,
    "H1-flat": replace(_H1, ground="flat"),
    "G1-flat": _G1,
    "G1-rough": replace(_G1, ground="rough"),
}
OWN = replace(_H1, robot="", ground="flat")
"""Of a robot of the user's own: H1's reward, which knows of no gait."""


def layout(task: Task, robot: RobotSpec, limits: RateLimits) -> Layout:
    """Where things are in an observation, and its left-right mirror image."""
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
    blocks["previous_action"] = joints
    sizes = [len(index) for index, _ in blocks.values()]
    starts = np.cumsum([0, *sizes])
    whole = np.concatenate([start + i for start, (i, _) in zip(starts, blocks.values(), strict=False)])
    mirror = Mirror(whole, np.concatenate([s for _, s in blocks.values()]), *joints) if mirrored else None
    parts = tuple(zip(blocks, sizes, strict=True))[1:-1]
    return Layout(int(starts[-1]), privileged=3, mirror=mirror, parts=parts)


def _alike(robot: RobotSpec, limits: RateLimits, index: NDArray[np.int64], sign: NDArray[np.float32]) -> bool:
    """Whether servos, default pose and limits are the same on both sides, so that a mirror image could happen."""
    servos = np.array([[joint.kp, joint.kd, float(joint.effort)] for joint in robot.joints])
    flips = sign < 0
    down, up = (
        np.where(flips, a[..., index], b[..., index]) for a, b in ((limits.up, limits.down), (limits.down, limits.up))
    )
    low, high = (
        np.where(flips, -a[index], b[index]) for a, b in ((limits.high, limits.low), (limits.low, limits.high))
    )
    pairs = [(servos[index], servos), (down, limits.down), (up, limits.up), (low, limits.low), (high, limits.high)]
    return all(
        np.allclose(image, own) for image, own in [*pairs, (sign * robot.default_pose[index], robot.default_pose)]
    )
