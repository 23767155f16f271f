"""Unitree H1: ten leg joints, 51.65 kg; torso and arms are welded.

Masses, inertias, frames, gains, armature, damping and default pose: unitree_rl_gym 276801e, resources/robots/h1.
Ranges, speeds, efforts: unitree_ros d6f13aa, h1_description/urdf/h1.urdf (hip_pitch -1.57 .. 1.57 in unitree_rl_gym).
Contact shapes: the primitives of unitree_ros' URDF, with capsules for its cylinders and a larger trunk, so that a fall
onto an arm or the head is detected. Default angles of the arms: IsaacLab.
Paper: Table sim_constraint_params. Facts (c) Unitree Robotics, BSD-3-Clause: see NOTICE.
"""

from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RobotSpec, Vector, WalkingTask, both_sides, capsule, hinge

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
ZERO = (0.0, 0.0, 0.0)
SOURCE = (
    "range, speed, effort: unitree_ros d6f13aa h1.urdf; gains, default, armature, damping, friction: "
    "unitree_rl_gym 276801e"
)


def _leg(
    group: str, axis: Vector, low: str, high: str, speed: str, effort: str, kp: float, kd: float, default: float = 0.0
) -> JointSpec:
    rotor = dict(armature=0.01, damping=0.001, frictionloss=0.1)
    return JointSpec(f"left_{group}", axis, low, high, speed, effort, kp, kd, default, group, source=SOURCE, **rotor)


def _arm(group: str, axis: Vector, low: str, high: str, speed: str, effort: str, default: float = 0.0) -> JointSpec:
    source = "range, speed, effort: unitree_ros d6f13aa h1.urdf; gains, default: IsaacLab 2.3.2"
    return JointSpec(f"left_{group}", axis, low, high, speed, effort, 40.0, 10.0, default, group, 0.01, source=source)


PELVIS = LinkSpec(
    *("pelvis", "", ZERO, ZERO, 5.39, (-0.0002, 4e-05, -0.04522)),
    (0.044582, 0.0082464, 0.049021, 8.7034e-05, -1.9893e-05, 4.021e-06),
    geoms=(
        Geom("box", (0.07, 0.10, 0.055), (0.0, 0.0, -0.06), material="dark"),
        capsule((0.0, -0.0875, -0.174), (0.0, 0.0875, -0.174), 0.055),
        Geom("box", (0.05, 0.06, 0.05), (0.0, 0.0, -0.13)),
    ),
)
LEG = (
    LinkSpec(
        *("left_hip_yaw_link", "pelvis", (0.0, 0.0875, -0.1742), ZERO, 2.244, (-0.04923, 0.0001, 0.0072)),
        (0.0025731, 0.0030444, 0.0022883, 9.159e-06, -0.00051948, 1.949e-06),
        _leg("hip_yaw", Z, "-0.43", "0.43", "23", "200", 150.0, 2.0),
        (Geom("cylinder", (0.058, 0.05), (0.0, 0.0, 0.0), material="dark"),),
    ),
    LinkSpec(
        *("left_hip_roll_link", "left_hip_yaw_link", (0.039468, 0.0, 0.0), ZERO, 2.232, (-0.0058, -0.00319, -9e-05)),
        (0.0020603, 0.0022482, 0.0024323, 3.2115e-05, 2.878e-06, -7.813e-06),
        _leg("hip_roll", X, "-0.43", "0.43", "23", "200", 150.0, 2.0),
        (capsule((0.0, 0.03, 0.0), (0.0, 0.09, 0.0), 0.05),),
    ),
    LinkSpec(
        *("left_hip_pitch_link", "left_hip_roll_link", (0.0, 0.11536, 0.0), ZERO, 4.152, (0.00746, -0.02346, -0.08193)),
        (0.082618, 0.081579, 0.0060081, -0.00066654, 0.0040725, 0.0072024),
        _leg("hip_pitch", Y, "-3.14", "2.53", "23", "200", 150.0, 2.0, default=-0.1),
        (
            capsule((0.0, 0.0, -0.1), (0.0, 0.0, -0.3), 0.05, touches=True),
            hinge(0.075, 0.045, "accent"),
            capsule((0.0, 0.0, -0.03), (0.0, 0.0, -0.36), 0.062),
        ),
    ),
    LinkSpec(
        *("left_knee_link", "left_hip_pitch_link", (0.0, 0.0, -0.4), ZERO, 1.721, (-0.00136, -0.00512, -0.1384)),
        (0.012205, 0.012509, 0.0020629, -6.8431e-05, 0.0010862, 0.00022549),
        _leg("knee", Y, "-0.26", "2.05", "14", "300", 200.0, 4.0, default=0.3),
        (
            capsule((0.0, 0.0, -0.1), (0.0, 0.0, -0.3), 0.05, touches=True),
            hinge(0.062, 0.05),
            capsule((0.0, 0.0, -0.06), (0.0, 0.0, -0.35), 0.045),
        ),
    ),
    LinkSpec(
        *("left_ankle_link", "left_knee_link", (0.0, 0.0, -0.4), ZERO, 0.552448, (0.048568, 0.0, -0.045609)),
        (0.01, 0.01, 0.01, 0.0, 0.000143, 0.0),
        _leg("ankle", Y, "-0.87", "0.52", "9", "40", 40.0, 2.0, default=-0.2),
        (
            Geom("box", (0.14, 0.015, 0.012), (0.05, 0.0, -0.05), touches=True),
            Geom("box", (0.14, 0.04, 0.014), (0.05, 0.0, -0.048), material="dark"),
            capsule((-0.02, 0.0, -0.03), (0.09, 0.0, -0.04), 0.026),
            hinge(0.034, 0.032, "accent"),
        ),
    ),
)
TORSO = LinkSpec(
    *("torso_link", "pelvis", ZERO, ZERO, 17.789, (0.000489, 0.002797, 0.20484)),
    (0.4873, 0.40963, 0.12785, -0.00053763, 0.0020276, -0.00074582),
    geoms=(
        Geom("box", (0.08, 0.15, 0.24), (0.0, 0.0, 0.24), touches=True),
        Geom("sphere", (0.09,), (0.0, 0.0, -0.1), touches=True),  # the pelvis
        Geom("sphere", (0.1,), (0.03, 0.0, 0.66), touches=True),  # the head
        Geom("box", (0.085, 0.14, 0.14), (0.0, 0.0, 0.33)),
        Geom("box", (0.07, 0.10, 0.11), (0.0, 0.0, 0.10), material="dark"),
        Geom("box", (0.006, 0.06, 0.05), (0.086, 0.0, 0.37), material="accent"),
        capsule((0.0, -0.16, 0.43), (0.0, 0.16, 0.43), 0.055),
        capsule((0.0, 0.0, 0.47), (0.01, 0.0, 0.58), 0.04, "dark"),
        capsule((0.02, 0.0, 0.62), (0.02, 0.0, 0.68), 0.085),
        Geom("ellipsoid", (0.035, 0.07, 0.06), (0.082, 0.0, 0.65), material="dark"),
    ),
)
ARM = (
    LinkSpec(
        *("left_shoulder_pitch_link", "torso_link", (0.0055, 0.15535, 0.42999), (0.43633, 0.0, 0.0)),
        *(1.033, (0.005045, 0.053657, -0.015715)),
        (0.0012985, 0.00087279, 0.00097338, -1.7333e-05, 8.683e-06, 3.9656e-05),
        _arm("shoulder_pitch", Y, "-2.87", "2.87", "9", "40", default=0.28),
        (capsule((0.0, 0.02, 0.0), (0.0, 0.06, -0.01), 0.048, "dark"),),
    ),
    LinkSpec(
        *("left_shoulder_roll_link", "left_shoulder_pitch_link", (-0.0055, 0.0565, -0.0165), (-0.43633, 0.0, 0.0)),
        *(0.793, (0.000679, 0.00115, -0.094076)),
        (0.0015742, 0.0016973, 0.0010183, 2.298e-06, -7.2265e-05, -6.3691e-05),
        _arm("shoulder_roll", X, "-0.34", "3.11", "9", "40"),
        (capsule((0.0, 0.0, 0.0), (0.0, 0.0, -0.1), 0.047),),
    ),
    LinkSpec(
        *("left_shoulder_yaw_link", "left_shoulder_roll_link", (0.0, 0.0, -0.1343), ZERO),
        *(0.839, (0.01365, 0.002767, -0.16266)),
        (0.003664, 0.0040789, 0.00066383, -1.0671e-05, 0.00034733, 7.0213e-05),
        _arm("shoulder_yaw", Z, "-1.3", "4.45", "20", "18"),
        (capsule((0.0, 0.0, 0.0), (0.01, 0.0, -0.19), 0.042),),
    ),
    LinkSpec(
        *("left_elbow_link", "left_shoulder_yaw_link", (0.0185, 0.0, -0.198), ZERO),
        *(0.669, (0.15908, -0.000144, -0.015776)),
        (0.00042388, 0.0060062, 0.0060023, -3.6086e-05, 0.00029293, 4.664e-06),
        _arm("elbow", Y, "-1.25", "2.61", "20", "18", default=0.52),
        (
            Geom("sphere", (0.1,), (0.2, 0.0, -0.015), touches=True),
            hinge(0.046, 0.04, "accent"),
            capsule((0.02, 0.0, -0.01), (0.2, 0.0, -0.015), 0.036),
            Geom("ellipsoid", (0.06, 0.03, 0.045), (0.26, 0.0, -0.015), material="dark"),
        ),
    ),
)
HIPS = ("hip_yaw", "hip_roll", "hip_pitch")
PAPER = {"hip_yaw": "0.40", "hip_roll": "0.40", "hip_pitch": "0.40", "knee": "0.25", "ankle": "0.18"}
ACCELERATIONS = {"hip_yaw": "1610", "hip_roll": "184", "hip_pitch": "196", "knee": "1740", "ankle": "1780"}
"""Group -> rad/s^2: effort / M_ii, rounded down to three digits, with M the joint-space inertia in the default pose.
That is what a motor could do to a free limb without gravity; Unitree publishes efforts and inertias, no accelerations.
"""

H1 = RobotSpec(
    name="H1",
    links=(PELVIS, *both_sides(LEG), TORSO, *both_sides(ARM, locked=True)),
    feet=("left_ankle_link", "right_ankle_link"),
    torso="torso_link",
    proximal=tuple(f"{side}_{joint}" for side in ("left", "right") for joint in HIPS),
    distal=("left_ankle", "right_ankle"),
    deltas={"paper": PAPER},
    accelerations=ACCELERATIONS,
    tasks={ground: WalkingTask(ground, options={"heading": True}) for ground in ("rough", "flat")},
    pair=("left_hip_pitch", "left_ankle"),
    pair_note="H1 has one joint in each ankle: the paper’s figure names an ankle roll, which it does not have.",
)
