"""A robot in one file: H1's links, with limits, a task, joint groups and a pair of its own."""

from dataclasses import replace

from slewrl.robots.h1 import H1
from slewrl.robots.spec import WalkingTask

TOY = replace(
    H1,
    name="Toy",
    deltas={"gentle": dict.fromkeys(("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle"), "0.1")},
    tasks={"flat": WalkingTask(options={"seconds": 0.2, "forward": (0.0, 0.5)}, noise={"gyroscope": 0.1})},
    proximal=("left_hip_pitch", "right_hip_pitch"),
    distal=("left_knee", "right_knee"),
    pair=("left_hip_yaw", "left_knee"),
)
