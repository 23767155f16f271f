"""Robots as data: facts of joints and links, the limits they imply, and MuJoCo models made of them. Needs no torch."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slewrl.registry import Registry

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec, WalkingTask

ROBOTS = Registry(
    "robot", {"h1": "slewrl.robots.h1:H1", "g1": "slewrl.robots.g1:G1", "g1_29": "slewrl.robots.g1:G1_29"}
)
"""Robots by name."""


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


def walking_task(task: str) -> "tuple[RobotSpec, WalkingTask] | None":
    """The robot and the task of its file that NAME-TASK means (H1-rough), or None."""
    name, _, declared = task.partition("-")
    robot = find_robot(name)
    return (robot, robot.tasks[declared]) if robot and robot.name == name and declared in robot.tasks else None


def groups_of(task: str, joints: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of a task's proximal and distal joints, named with or without _joint; empty without a robot."""
    robot, names = find_robot(task), [joint.removesuffix("_joint") for joint in joints]
    if robot is None:
        return (), ()
    proximal = tuple(i for i, name in enumerate(names) if name in robot.proximal)
    distal = tuple(i for i, name in enumerate(names) if name in robot.distal)
    return proximal, distal
