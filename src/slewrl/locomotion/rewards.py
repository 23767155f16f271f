"""The paper's two reward tables (Table reward_functions): rows of name, weight and phi.

A phi maps a ``Moment`` of N environments to (N,), sign and curriculum included. What the paper leaves undefined is ours
(docs/deviations.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slewrl.locomotion.frames import wrapped

Floats = NDArray[np.float64]

TRACKING = 0.25
"""Width of both tracking terms, (m/s)^2 and (rad/s)^2; the paper's."""
LEAST_CURRICULUM = 0.3
"""Least c_f of torso and of G1's orientation; the paper's."""
SWING_HEIGHT = 0.09
"""Height of a foot at mid-swing, m; holosoma's."""
HEIGHT_WIDTH = 0.063
"""sigma_h, m: 2 sigma_h^2 = .008, holosoma's."""
KNEE_SWING, KNEE_WIDTH, LEAST_KNEE = 0.25, 0.3, 0.1
"""kappa_flex, sigma_k and theta_min, rad; ours."""
STRIDE_WIDTH = 0.1
"""sigma_s, m; ours."""
FEET_APART = 0.15
"""d_min, m; holosoma's."""
TOUCH = 1.0
"""A foot with a larger force than this is on the ground, N; the paper's."""


@dataclass
class Feet:
    """The left and the right foot of N robots."""

    place: Floats
    """(N, 2, 3): positions of the soles in the heading frame, z above the ground below them, m."""
    speed: Floats
    """(N, 2): horizontal speed, m/s."""
    yaw: Floats
    """(N, 2): yaw angle, rad."""
    force: Floats
    """(N, 2): contact force with the ground, N."""
    phase: Floats
    """(N, 2): gait phase, rad; a foot swings while cos(phase) > 0, and is at mid-swing at 0."""
    moves: Floats
    """(N,): 1 where the command is to walk, 0 where it is to stand."""
    stride: Floats
    """(N,): L, how far a foot moves before and behind the hip at the commanded speed, m."""


@dataclass
class Moment:
    """What the rewards of one step are computed from, for N environments with d joints.

    The *heading frame* has its x along the base's heading, its z up, and its origin below the base.
    """

    velocity: Floats
    """(N, 2): velocity of the base in the heading frame, m/s."""
    yaw_rate: Floats
    """(N,): angular velocity about the vertical, rad/s."""
    gravity: Floats
    """(N, 3): the unit vector of gravity in the base's frame; (0, 0, -1) upright."""
    command: Floats
    """(N, 3): commanded vx, vy (m/s) and yaw rate (rad/s)."""
    joints: Floats
    """(N, d): joint angles, rad."""
    bend: Floats
    """(N, d): joint angles minus those of the default pose, rad."""
    part: dict[str, NDArray[np.int64]]
    """Columns of the joints of a kind, "knee", "hip_roll", ..., left first."""
    feet: Any
    """``Feet``, or None where no term needs them."""
    curriculum: float
    """c_f = min(mean episode length / L*, 1)."""
    knee_swing: float = KNEE_SWING
    knee_width: float = KNEE_WIDTH
    stride_width: float = STRIDE_WIDTH
    """kappa_flex, sigma_k (rad) and sigma_s (m)."""


def linear_velocity(m: Moment) -> Floats:
    """exp(-|v_xy - v_xy_cmd|^2 / .25)."""
    return np.exp(_squares(m.velocity - m.command[:, :2]) / -TRACKING)


def angular_velocity(m: Moment) -> Floats:
    """exp(-(w_z - w_z_cmd)^2 / .25)."""
    return np.exp(np.square(m.yaw_rate - m.command[:, 2]) / -TRACKING)


def survival(m: Moment) -> Floats:
    """1 at every step."""
    return np.ones(len(m.yaw_rate))


def orientation(m: Moment, least: float = 0.0) -> Floats:
    """-|g_xy|^2 max(c_f, least)."""
    return -max(m.curriculum, least) * _squares(m.gravity[:, :2])


def default_pose(m: Moment) -> Floats:
    """-|theta - theta_default|^2 c_f, over all joints."""
    return -m.curriculum * _squares(m.bend)


def default_pose_but_knees(m: Moment) -> Floats:
    """-|theta - theta_default|^2 c_f, over all joints but the knees."""
    return -m.curriculum * (_squares(m.bend) - _squares(m.bend[:, m.part["knee"]]))


def default_part(m: Moment, part: str, least: float = 0.0) -> Floats:
    """-|theta - theta_default|^2 max(c_f, least), over the joints of a kind."""
    return -max(m.curriculum, least) * _squares(m.bend[:, m.part[part]])


def foot_height(m: Moment) -> Floats:
    """exp(-sum_f (h_f - h_f_swing)^2 / (2 sigma_h^2))."""
    wanted = m.feet.moves[:, None] * swing_height(m.feet.phase)
    return np.exp(_squares(m.feet.place[:, :, 2] - wanted) / (-2 * HEIGHT_WIDTH**2))


def knee_flexion(m: Moment) -> Floats:
    """exp(-sum_k (theta_k - theta_k_default - kappa_flex sin phi_k)^2 / (2 sigma_k^2)), sin phi_k = cos phi_f."""
    wanted = (m.feet.moves * m.knee_swing)[:, None] * np.cos(m.feet.phase)
    return np.exp(_squares(m.bend[:, m.part["knee"]] - wanted) / (-2 * m.knee_width**2))


def straight_knees(m: Moment) -> Floats:
    """-max(theta_min - theta_k, 0)^2 c_f, over both knees."""
    return -m.curriculum * _squares(np.maximum(LEAST_KNEE - m.joints[:, m.part["knee"]], 0))


def stride_length(m: Moment) -> Floats:
    """exp(-sum_f (x_f - L sin phi_f)^2 / (2 sigma_s^2))."""
    wanted = (m.feet.moves * m.feet.stride)[:, None] * np.sin(m.feet.phase)
    return np.exp(_squares(m.feet.place[:, :, 0] - wanted) / (-2 * m.stride_width**2))


def foot_parallelism(m: Moment) -> Floats:
    """-(psi_L - psi_R)^2 c_f."""
    difference = m.feet.yaw[:, 0] - m.feet.yaw[:, 1]
    return -m.curriculum * np.square(wrapped(difference))


def foot_clearance(m: Moment) -> Floats:
    """-max(d_min - |y_L - y_R|, 0)^2 c_f."""
    apart = np.abs(m.feet.place[:, 0, 1] - m.feet.place[:, 1, 1])
    return -m.curriculum * np.square(np.maximum(FEET_APART - apart, 0))


def anti_crossing(m: Moment) -> Floats:
    """-max(y_R - y_L, 0)^2 c_f."""
    return -m.curriculum * np.square(np.maximum(m.feet.place[:, 1, 1] - m.feet.place[:, 0, 1], 0))


def foot_slip(m: Moment) -> Floats:
    """-sum_f |v_f_xy| 1[|F_f| > 1 N]."""
    return -(m.feet.speed * (m.feet.force > TOUCH)).sum(1)


def swing_height(phase: Floats) -> Floats:
    """Wanted height of a foot above the ground, m: a cubic Bezier arc (smoothstep) up to mid-swing, and one down."""
    part = np.maximum(1 - np.abs(wrapped(phase)) / (np.pi / 2), 0)  # 1 at mid-swing, 0 where the foot stands
    return SWING_HEIGHT * part * part * (3 - 2 * part)


def _squares(x: Floats) -> Floats:
    """|x|^2 of each row."""
    return np.einsum("ij,ij->i", x, x)


Term = tuple[str, float, Callable[[Moment], Floats]]

H1_TERMS: tuple[Term, ...] = (
    ("linear_velocity", 1.5, linear_velocity),
    ("angular_velocity", 1.0, angular_velocity),
    ("survival", 0.02, survival),
    ("orientation", 3.0, orientation),
    ("default_pose", 0.05, default_pose),
)
G1_TERMS: tuple[Term, ...] = (
    ("linear_velocity", 1.5, linear_velocity),
    ("angular_velocity", 1.0, angular_velocity),
    ("survival", 0.02, survival),
    ("orientation", 3.0, partial(orientation, least=LEAST_CURRICULUM)),
    ("default_pose_but_knees", 0.05, default_pose_but_knees),
    ("default_knees", 0.05 * 0.5, partial(default_part, part="knee")),
    ("foot_height", 1.0, foot_height),
    ("knee_flexion", 1.5, knee_flexion),
    ("straight_knees", 2.0, straight_knees),
    ("stride_length", 1.5, stride_length),
    ("foot_parallelism", 1.0, foot_parallelism),
    ("foot_clearance", 4.0, foot_clearance),
    ("anti_crossing", 5.0, anti_crossing),
    ("hip_roll", 3.0, partial(default_part, part="hip_roll")),
    ("hip_yaw", 3.0, partial(default_part, part="hip_yaw")),
    ("torso", 2.0, partial(default_part, part="waist_yaw", least=LEAST_CURRICULUM)),
    ("ankle_pitch", 2.0, partial(default_part, part="ankle_pitch")),
    ("foot_slip", 0.5, foot_slip),
)
