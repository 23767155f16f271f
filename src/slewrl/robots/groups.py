"""Which joints the measures Util-P and Util-D are of, by their names: plain data, read without torch.

A joint belongs to a group if its name holds the group's word: left_hip_pitch, and a simulator's left_hip_pitch_joint.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Groups(NamedTuple):
    """Joints near the body and far from it, as places in an action."""

    proximal: tuple[int, ...]
    distal: tuple[int, ...]


WORDS = {"H1": ("hip", "ankle"), "G1": ("hip_pitch", "ankle")}
"""Robot -> words of its proximal and its distal joints (DD-SRad, notes of Table sim_full)."""


def robot_of(task: str) -> str:
    """H1 of H1-rough and of isaaclab:Isaac-Velocity-Rough-H1-v0; "" of a task that is neither H1's nor G1's."""
    return next((part for part in re.split("[-:]", task) if part in WORDS), "")


def groups_of(task: str, joints: Sequence[str]) -> Groups:
    """The groups of a task's joints; empty where the task's robot is not one of these."""
    if not (robot := robot_of(task)):
        return Groups((), ())
    proximal, distal = (tuple(i for i, joint in enumerate(joints) if word in joint) for word in WORDS[robot])
    return Groups(proximal, distal)
