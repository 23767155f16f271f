"""Unitree G1: twelve leg joints and the waist's yaw, 33.34 kg; in ``G1_29`` waist and arms move, too.

Masses, inertias, frames, ranges, speeds, efforts: unitree_ros d6f13aa, g1_description/g1_29dof_rev_1_0.urdf.
Gains of the legs: unitree_rl_gym 276801e. Rotor inertia: mjlab 1.6.0, from Unitree's motor data.
Default angles of the legs: holosoma 0.0.3, whose task the paper builds on; unitree_rl_gym's are the pose "rl_gym".
Gains of the waist: IsaacLab 2.3.2 G1_MINIMAL's torso (holosoma's 28.5 Nm/rad cannot hold the trunk up); arms: holosoma
0.0.3. The foot's four spheres (-.055 .. .125, sole at z -.035) are three capsules here, for smooth and fast contact.
Paper: Table sim_constraint_params; hip_roll 0.10 as in its text and kappa, 0.40 in the table (docs/deviations.md).
Facts (c) Unitree Robotics, BSD-3-Clause: see NOTICE.
"""

from dataclasses import replace

from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RobotSpec, Vector, WalkingTask, both_sides, capsule, hinge

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
ZERO = (0.0, 0.0, 0.0)
URDF, RL_GYM = "unitree_ros d6f13aa g1_29dof_rev_1_0.urdf", "unitree_rl_gym 276801e"
ISAACLAB, HOLOSOMA = "IsaacLab 2.3.2 G1_MINIMAL's torso", "holosoma 0.0.3"
ROTOR = {"7520-14": 0.010178, "7520-22": 0.025102, "5020x2": 0.007219, "5020": 0.003610, "4010": 0.00425}
"""Motor -> rotor inertia behind the gear, kg m^2."""
DAMPING = 0.001
"""The passive damping of unitree_rl_gym's models, Nm s/rad."""


def _joint(
    name: str,
    axis: Vector,
    limits: tuple[str, str, str, str],
    motor: str,
    gains: tuple[float, float],
    default: float = 0.0,
    source: str = RL_GYM,
) -> JointSpec:
    low, high, speed, effort = limits
    where = f"range, speed, effort: {URDF}; armature: mjlab 1.6.0; gains: {source}; default: {HOLOSOMA}"
    kp, kd, group = *gains, name.removeprefix("left_")
    return JointSpec(name, axis, low, high, speed, effort, kp, kd, default, group, ROTOR[motor], DAMPING, source=where)


PELVIS = LinkSpec(
    *("pelvis", "", ZERO, ZERO, 3.813, (0.0, 0.0, -0.07605)),
    (0.010549, 0.0093089, 0.0079184, 0.0, 2.1e-06, 0.0),
    geoms=(
        Geom("box", (0.06, 0.055, 0.045), (0.0, 0.0, -0.05)),
        capsule((0.0, -0.06, -0.1), (0.0, 0.06, -0.1), 0.05, "dark"),
    ),
)
CONTOUR = LinkSpec("pelvis_contour_link", "pelvis", ZERO, ZERO, 0.001, ZERO, (1e-7, 1e-7, 1e-7, 0.0, 0.0, 0.0))
LEG = (
    LinkSpec(
        *("left_hip_pitch_link", "pelvis", (0.0, 0.064452, -0.1027), ZERO, 1.35, (0.002741, 0.047791, -0.02606)),
        (0.001811, 0.0014193, 0.0012812, 3.68e-05, -3.44e-05, 0.000171),
        _joint("left_hip_pitch", Y, ("-2.5307", "2.8798", "32", "88"), "7520-14", (100.0, 2.0), -0.312),
        (hinge(0.052, 0.034, "accent", (0.0, 0.045, 0.0)),),
    ),
    LinkSpec(
        *("left_hip_roll_link", "left_hip_pitch_link", (0.0, 0.052, -0.030465), (0.0, -0.1749, 0.0)),
        *(1.52, (0.029812, -0.001045, -0.087934)),
        (0.0023773, 0.0024123, 0.0016595, -3.8e-06, -0.0003908, 1.84e-05),
        _joint("left_hip_roll", X, ("-0.5236", "2.9671", "20", "139"), "7520-22", (100.0, 2.0)),
        (capsule((0.01, 0.0, -0.01), (0.025, 0.0, -0.1), 0.052),),
    ),
    LinkSpec(
        *("left_hip_yaw_link", "left_hip_roll_link", (0.025001, 0.0, -0.12412), ZERO),
        *(1.702, (-0.057709, -0.010981, -0.15078)),
        (0.0057774, 0.0076124, 0.003149, -0.0005411, -0.0023948, -0.0007072),
        _joint("left_hip_yaw", Z, ("-2.7576", "2.7576", "32", "88"), "7520-14", (100.0, 2.0)),
        (
            capsule((0.0, 0.0, 0.0), (-0.06, 0.0, -0.13), 0.05, touches=True),
            capsule((-0.005, 0.0, -0.02), (-0.072, 0.0, -0.155), 0.053),
        ),
    ),
    LinkSpec(
        *("left_knee_link", "left_hip_yaw_link", (-0.078273, 0.0021489, -0.17734), (0.0, 0.1749, 0.0)),
        *(1.932, (0.005457, 0.003964, -0.12074)),
        (0.011329, 0.011277, 0.0015168, 4.82e-05, -4.49e-05, -0.0007146),
        _joint("left_knee", Y, ("-0.0873", "2.8798", "20", "139"), "7520-22", (150.0, 4.0), 0.669),
        (
            capsule((0.01, 0.0, 0.0), (0.01, 0.0, -0.2), 0.04, touches=True),
            hinge(0.056, 0.048, "accent"),
            capsule((0.008, 0.0, -0.05), (0.0, 0.0, -0.26), 0.042),
        ),
    ),
    LinkSpec(
        *("left_ankle_pitch_link", "left_knee_link", (0.0, -9.4445e-05, -0.30001), ZERO),
        *(0.074, (-0.007269, 0.0, 0.011137)),
        (8.4e-06, 1.89e-05, 1.26e-05, 0.0, -2.9e-06, 0.0),
        _joint("left_ankle_pitch", Y, ("-0.8727", "0.5236", "30", "35"), "5020x2", (40.0, 2.0), -0.363),
        (hinge(0.026, 0.028),),
    ),
    LinkSpec(
        *("left_ankle_roll_link", "left_ankle_pitch_link", (0.0, 0.0, -0.017558), ZERO),
        *(0.608, (0.026505, 0.0, -0.016425)),
        (0.0002231, 0.0016161, 0.0016667, 2e-07, 8.91e-05, -1e-07),
        _joint("left_ankle_roll", X, ("-0.2618", "0.2618", "30", "35"), "5020x2", (40.0, 2.0)),
        (
            capsule((-0.045, 0.02, -0.025), (0.115, 0.025, -0.025), 0.01, touches=True),
            capsule((-0.045, 0.0, -0.025), (0.115, 0.0, -0.025), 0.01, touches=True),
            capsule((-0.045, -0.02, -0.025), (0.115, -0.025, -0.025), 0.01, touches=True),
            Geom("box", (0.09, 0.032, 0.009), (0.035, 0.0, -0.026), material="dark"),
            capsule((-0.03, 0.0, -0.008), (0.08, 0.0, -0.014), 0.021),
        ),
    ),
)
TRUNK = (
    LinkSpec(
        *("waist_yaw_link", "pelvis", ZERO, ZERO, 0.214, (0.003494, 0.000233, 0.018034)),
        (0.00010673, 0.00010422, 0.0001625, 2.703e-06, -7.631e-06, -2.01e-07),
        _joint("waist_yaw", Z, ("-2.618", "2.618", "32", "88"), "7520-14", (200.0, 5.0), source=ISAACLAB),
        (Geom("cylinder", (0.055, 0.022), (0.0, 0.0, 0.02), material="dark"),),
    ),
    LinkSpec(
        *("waist_roll_link", "waist_yaw_link", (-0.0039635, 0.0, 0.044), ZERO, 0.086, (0.0, 2.3e-05, 0.0)),
        (7.079e-06, 6.339e-06, 8.245e-06, 0.0, 0.0, 0.0),
        _joint("waist_roll", X, ("-0.52", "0.52", "30", "35"), "5020x2", (200.0, 5.0), source=ISAACLAB),
        locked=True,
    ),
    LinkSpec(
        *("torso_link", "waist_roll_link", ZERO, ZERO, 6.78, (0.000931, 0.000346, 0.15082)),
        (0.05905, 0.047014, 0.025652, 3.3302e-05, -0.0017715, -2.2399e-05),
        _joint("waist_pitch", Y, ("-0.52", "0.52", "30", "35"), "5020x2", (200.0, 5.0), source=ISAACLAB),
        (
            Geom("box", (0.07, 0.1, 0.14), (0.0, 0.0, 0.16), touches=True),
            # The pelvis, here so that the torso's contact sensor sees it; on the yaw axis the waist does not move it.
            Geom("sphere", (0.07,), (0.0039635, 0.0, -0.124), touches=True),
            Geom("box", (0.072, 0.085, 0.095), (0.004, 0.0, 0.205)),
            capsule((0.0, 0.0, 0.04), (0.0, 0.0, 0.14), 0.062, "dark"),
            Geom("box", (0.006, 0.035, 0.035), (0.076, 0.0, 0.225), material="accent"),
            capsule((0.0, -0.085, 0.25), (0.0, 0.085, 0.25), 0.046),
            capsule((0.0, 0.0, 0.3), (0.0, 0.0, 0.34), 0.032, "dark"),
        ),
        locked=True,
    ),
    LinkSpec(
        *("head_link", "torso_link", (0.0039635, 0.0, -0.044), ZERO, 1.036, (0.005267, 0.000299, 0.449869)),
        (0.004085051, 0.004185212, 0.001807911, -2.543e-06, -6.9455e-05, -3.726e-06),
        geoms=(
            Geom("sphere", (0.085,), (0.01, 0.0, 0.46), touches=True),
            capsule((0.005, 0.0, 0.43), (0.005, 0.0, 0.48), 0.066),
            Geom("ellipsoid", (0.03, 0.055, 0.055), (0.052, 0.0, 0.455), material="dark"),
        ),
    ),
)
LOGO = replace(CONTOUR, name="logo_link", parent="torso_link", pos=(0.0039635, 0.0, -0.044))
ARM_MOTOR, WRIST_MOTOR = ("5020", (14.251, 0.907)), ("4010", (16.778, 1.068))
ARM = (
    LinkSpec(
        *("left_shoulder_pitch_link", "torso_link", (0.0039563, 0.10022, 0.24778)),
        *((0.27931, 5.4949e-05, -0.00019159), 0.718, (0.0, 0.035892, -0.011628)),
        (0.0004291, 0.000453, 0.000423, -9.2e-06, 6.4e-06, 2.26e-05),
        _joint("left_shoulder_pitch", Y, ("-3.0892", "2.6704", "37", "25"), *ARM_MOTOR, 0.2, HOLOSOMA),
        (capsule((0.0, 0.01, 0.0), (0.0, 0.04, -0.01), 0.04, "dark"),),
    ),
    LinkSpec(
        *("left_shoulder_roll_link", "left_shoulder_pitch_link", (0.0, 0.038, -0.013831), (-0.27925, 0.0, 0.0)),
        *(0.643, (-0.000227, 0.00727, -0.063243)),
        (0.0006177, 0.0006912, 0.0003894, -1e-06, 8.7e-06, -5.3e-06),
        _joint("left_shoulder_roll", X, ("-1.5882", "2.2515", "37", "25"), *ARM_MOTOR, 0.2, HOLOSOMA),
        (capsule((0.0, 0.004, 0.0), (0.0, 0.006, -0.08), 0.038),),
    ),
    LinkSpec(
        *("left_shoulder_yaw_link", "left_shoulder_roll_link", (0.0, 0.00624, -0.1032), ZERO),
        *(0.734, (0.010773, -0.002949, -0.072009)),
        (0.0009988, 0.0010605, 0.0004354, 7.9e-06, 0.0001412, -2.86e-05),
        _joint("left_shoulder_yaw", Z, ("-2.618", "2.618", "37", "25"), *ARM_MOTOR, source=HOLOSOMA),
        (capsule((0.0, 0.0, 0.0), (0.01, 0.0, -0.075), 0.035),),
    ),
    LinkSpec(
        *("left_elbow_link", "left_shoulder_yaw_link", (0.015783, 0.0, -0.080518), ZERO),
        *(0.6, (0.064956, 0.004454, -0.010062)),
        (0.0002891, 0.0004152, 0.0004197, 6.53e-05, 1.72e-05, -5.6e-06),
        _joint("left_elbow", Y, ("-1.0472", "2.0944", "37", "25"), *ARM_MOTOR, 0.6, HOLOSOMA),
        (hinge(0.038, 0.034, "accent"), capsule((0.01, 0.0, -0.005), (0.1, 0.002, -0.01), 0.032)),
    ),
    LinkSpec(
        *("left_wrist_roll_link", "left_elbow_link", (0.1, 0.00188791, -0.01), ZERO),
        *(0.085445, (0.01713944778, 0.00053759094, 4.8864e-07)),
        (4.821544023e-05, 3.722899093e-05, 5.482106541e-05, -4.24511021e-06, 5.10599e-09, -1.23525e-09),
        _joint("left_wrist_roll", X, ("-1.972222054", "1.972222054", "37", "25"), *ARM_MOTOR, source=HOLOSOMA),
        (capsule((0.0, 0.0, 0.0), (0.03, 0.0, 0.0), 0.03, "dark"),),
    ),
    LinkSpec(
        *("left_wrist_pitch_link", "left_wrist_roll_link", (0.038, 0.0, 0.0), ZERO),
        *(0.48405, (0.02299989837, -0.00111685314, -0.00111658096)),
        (0.00016579646273, 0.0004295405741, 0.00042953697654, -1.231206746e-05, 1.231699194e-05, 8.1417712e-07),
        _joint("left_wrist_pitch", Y, ("-1.614429558", "1.614429558", "22", "5"), *WRIST_MOTOR, source=HOLOSOMA),
        (capsule((0.0, 0.0, 0.0), (0.05, 0.0, 0.0), 0.029),),
    ),
    LinkSpec(
        *("left_wrist_yaw_link", "left_wrist_pitch_link", (0.046, 0.0, 0.0), ZERO),
        *(0.0845765, (0.02200381568, 0.00049485096, 0.00053861123)),
        (4.929128828e-05, 5.973338134e-05, 3.928083826e-05, -4.5735494e-07, 4.45867591e-06, 4.3217198e-07),
        _joint("left_wrist_yaw", Z, ("-1.614429558", "1.614429558", "22", "5"), *WRIST_MOTOR, source=HOLOSOMA),
        (capsule((0.0, 0.0, 0.0), (0.04, 0.0, 0.0), 0.026, "dark"),),
    ),
    LinkSpec(
        *("left_rubber_hand", "left_wrist_yaw_link", (0.0415, 0.003, 0.0), ZERO),
        *(0.17, (0.05361310808, -0.0029590524, 0.00215413091)),
        (0.00010099485235, 0.00028135871572, 0.00021894770414, 3.618590791e-05, -7.4301519e-07, 3.30189743e-06),
        geoms=(
            Geom("sphere", (0.05,), (0.05, 0.0, 0.0), touches=True),
            Geom("ellipsoid", (0.06, 0.022, 0.036), (0.055, 0.0, 0.0), material="dark"),
        ),
    ),
)
PAPER = {
    **{"hip_pitch": "0.40", "hip_roll": "0.10", "hip_yaw": "0.35", "knee": "0.35"},
    **{"ankle_pitch": "0.25", "ankle_roll": "0.18", "waist_yaw": "0.25"},
}
ACCELERATIONS = {
    **{"hip_pitch": "96.3", "hip_roll": "183", "hip_yaw": "1040", "knee": "1000"},
    **{"ankle_pitch": "3500", "ankle_roll": "4600", "waist_yaw": "301"},
}
"""Group -> rad/s^2: effort / M_ii, rounded down to three digits, with M the joint-space inertia in the pose "rl_gym".
That is what a motor could do to a free limb without gravity; Unitree publishes efforts and inertias, no accelerations.
"""
RL_GYM_POSE = {"hip_pitch": -0.1, "knee": 0.3, "ankle_pitch": -0.2}
"""The default angles of unitree_rl_gym 276801e, straighter; runs from before there was a choice have them."""
ANKLES = ("ankle_pitch", "ankle_roll")

G1 = RobotSpec(
    name="G1",
    links=(PELVIS, CONTOUR, *both_sides(LEG), *TRUNK, LOGO, *both_sides(ARM, locked=True)),
    feet=("left_ankle_roll_link", "right_ankle_roll_link"),
    torso="torso_link",
    proximal=("left_hip_pitch", "right_hip_pitch"),
    distal=tuple(f"{side}_{joint}" for side in ("left", "right") for joint in ANKLES),
    deltas={"paper": PAPER, "paper_table": PAPER | {"hip_roll": "0.40"}},
    poses={"rl_gym": RL_GYM_POSE},
    accelerations=ACCELERATIONS,
    tasks={
        # Reward and noise are holosoma's.
        ground: WalkingTask(ground, "gait", True, {"sideways": (-0.5, 0.5)}, {"joint_speeds": 0.1}, return_unit=0.02)
        for ground in ("flat", "rough")
    },
    pair=("left_hip_pitch", "left_ankle_roll"),
    pair_note="The paper’s plane, of the joints that walk and that hold the balance.",
)
G1_29 = replace(
    G1,
    name="G1_29",
    links=tuple(replace(link, locked=False) for link in G1.links),
    deltas={},
    tasks={},
    poses={},
    accelerations={},
)
"""G1 with all 29 joints, for which the paper has no limits."""
