"""What figures and measures ask of a task's robot: its joint groups (Util-P, Util-D) and its pair. Needs no torch."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from slewrl.robots import ROBOTS

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec


class Groups(NamedTuple):
    """Joints near the body and far from it, as places in an action."""

    proximal: tuple[int, ...]
    distal: tuple[int, ...]


def find_robot(task: str) -> "RobotSpec | None":
    """H1 of "H1", of H1-rough and of isaaclab:Isaac-Velocity-Rough-H1-v0; None of a task of no robot in ``ROBOTS``."""
    for part in re.split("[-:]", task):
        if part.lower() in ROBOTS:
            robot: RobotSpec = ROBOTS[part.lower()]
            if robot.name == part:
                return robot
    return None


def robot_of(task: str) -> str:
    """The name of a task's robot, or ""."""
    robot = find_robot(task)
    return robot.name if robot else ""


def groups_of(task: str, joints: Sequence[str]) -> Groups:
    """The groups of a task's joints, which a simulator may name left_ankle_joint; empty for a task of no robot."""
    if not (robot := find_robot(task)):
        return Groups((), ())
    names = [joint.removesuffix("_joint") for joint in joints]
    proximal, distal = (
        tuple(i for i, name in enumerate(names) if name in group) for group in (robot.proximal, robot.distal)
    )
    return Groups(proximal, distal)
