"""The robot of a task and its joint groups (Util-P, Util-D), for reports, without torch."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slewrl.robots import ROBOTS

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec


def find_robot(task: str) -> "RobotSpec | None":
    """The robot in ``ROBOTS`` that a task names (H1-rough, isaaclab:Isaac-Velocity-Rough-H1-v0), or None."""
    for part in re.split("[-:]", task):
        if part.lower() in ROBOTS:
            robot: RobotSpec = ROBOTS[part.lower()]
            if robot.name == part:
                return robot
    return None


def robot_of(task: str) -> str:
    """The name of a task's robot, or "" if there is none."""
    robot = find_robot(task)
    return robot.name if robot else ""


def groups_of(task: str, joints: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of a task's proximal and distal joints, named with or without _joint; empty without a robot."""
    robot, names = find_robot(task), [joint.removesuffix("_joint") for joint in joints]
    if robot is None:
        return (), ()
    proximal = tuple(i for i, name in enumerate(names) if name in robot.proximal)
    distal = tuple(i for i, name in enumerate(names) if name in robot.distal)
    return proximal, distal
