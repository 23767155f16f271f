"""The robots' models against the tables they come from, and their mechanics against closed forms.

Expected numbers are typed here from the URDFs, not read from the package.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import mujoco
import numpy as np
import pytest
import torch

from slewrl.limits import RateLimits
from slewrl.robots import ROBOTS
from slewrl.robots.mjcf import mjcf
from slewrl.robots.spec import Geom, JointSpec, LinkSpec, RobotSpec

NAMES = ("h1", "g1")
ALL = (*NAMES, "g1_29")
X, Y, Z = [1, 0, 0], [0, 1, 0], [0, 0, 1]
GRAVITY = 9.81


def compiled(robot: RobotSpec, **options) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(mjcf(robot, **options))


def start(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return data


def passive(robot: RobotSpec) -> RobotSpec:
    """No friction, no damping, servos off."""
    quiet = dict(kp=0.0, kd=0.0, damping=0.0, frictionloss=0.0)
    return replace(robot, links=tuple(replace(k, joint=k.joint and replace(k.joint, **quiet)) for k in robot.links))


# ---------------------------------------------------------------------- the tables

# group: axis, range, effort, kp, kd, armature, default; left side.
JOINTS = {
    "h1": {
        "hip_yaw": (Z, [-0.43, 0.43], 200, 150, 2, 0.01, 0),
        "hip_roll": (X, [-0.43, 0.43], 200, 150, 2, 0.01, 0),
        "hip_pitch": (Y, [-3.14, 2.53], 200, 150, 2, 0.01, -0.1),
        "knee": (Y, [-0.26, 2.05], 300, 200, 4, 0.01, 0.3),
        "ankle": (Y, [-0.87, 0.52], 40, 40, 2, 0.01, -0.2),
    },
    "g1": {
        "hip_pitch": (Y, [-2.5307, 2.8798], 88, 100, 2, 0.010178, -0.312),
        "hip_roll": (X, [-0.5236, 2.9671], 139, 100, 2, 0.025102, 0),
        "hip_yaw": (Z, [-2.7576, 2.7576], 88, 100, 2, 0.010178, 0),
        "knee": (Y, [-0.0873, 2.8798], 139, 150, 4, 0.025102, 0.669),
        "ankle_pitch": (Y, [-0.8727, 0.5236], 35, 40, 2, 0.007219, -0.363),
        "ankle_roll": (X, [-0.2618, 0.2618], 35, 40, 2, 0.007219, 0),
    },
}
OTHERS = {"h1": {}, "g1": {"waist_yaw": (Z, [-2.618, 2.618], 88, 200, 5, 0.010178, 0)}}
RIGHT = {"h1": {}, "g1": {"right_hip_roll": [-2.9671, 0.5236]}}  # what is not the same on both sides


@pytest.mark.parametrize("name", NAMES)
def test_joints_are_the_tables(name):
    model = compiled(ROBOTS[name])
    rows = {f"{side}_{group}": row for side in ("left", "right") for group, row in JOINTS[name].items()} | OTHERS[name]
    assert [model.joint(i).name for i in range(1, model.njnt)] == list(rows)
    assert [model.actuator(i).name for i in range(model.nu)] == list(rows)
    assert list(ROBOTS[name].rate_limits().names) == list(rows)
    for joint, (axis, span, effort, kp, kd, armature, default) in rows.items():
        hinge, servo = model.joint(joint), model.actuator(joint)
        bounds = RIGHT[name].get(joint, span)
        assert hinge.axis.tolist() == axis
        assert hinge.range.tolist() == bounds and servo.ctrlrange.tolist() == bounds
        assert servo.forcerange.tolist() == [-effort, effort]
        assert servo.gainprm[0] == kp and servo.biasprm[1:3].tolist() == [-kp, -kd]
        assert model.dof_armature[hinge.dofadr[0]] == armature
        assert model.key_qpos[0, hinge.qposadr[0]] == pytest.approx(default)
        assert model.key_ctrl[0, servo.id] == pytest.approx(default)


# mass, centre, ixx iyy izz ixy ixz iyz, frame in the parent; the right side by hand from the left.
INERTIALS = {
    "h1": {
        "pelvis": (
            *(5.39, [-0.0002, 4e-05, -0.04522]),
            [0.044582, 0.0082464, 0.049021, 8.7034e-05, -1.9893e-05, 4.021e-06],
            None,
        ),
        "left_hip_pitch_link": (
            *(4.152, [0.00746, -0.02346, -0.08193]),
            [0.082618, 0.081579, 0.0060081, -0.00066654, 0.0040725, 0.0072024],
            [0, 0.11536, 0],
        ),
        "right_hip_pitch_link": (
            *(4.152, [0.00746, 0.02346, -0.08193]),
            [0.082618, 0.081579, 0.0060081, 0.00066654, 0.0040725, -0.0072024],
            [0, -0.11536, 0],
        ),
        "right_ankle_link": (
            *(0.552448, [0.048568, 0, -0.045609]),
            [0.01, 0.01, 0.01, 0, 0.000143, 0],
            [0, 0, -0.4],
        ),
        "torso_link": (
            *(17.789, [0.000489, 0.002797, 0.20484]),
            [0.4873, 0.40963, 0.12785, -0.00053763, 0.0020276, -0.00074582],
            [0, 0, 0],
        ),
        "right_elbow_link": (
            *(0.669, [0.15908, 0.000144, -0.015776]),
            [0.00042388, 0.0060062, 0.0060023, 3.6086e-05, 0.00029293, -4.664e-06],
            [0.0185, 0, -0.198],
        ),
    },
    "g1": {
        "pelvis": (
            *(3.813, [0, 0, -0.07605]),
            [0.010549, 0.0093089, 0.0079184, 0, 2.1e-06, 0],
            None,
        ),
        "left_hip_yaw_link": (
            *(1.702, [-0.057709, -0.010981, -0.15078]),
            [0.0057774, 0.0076124, 0.003149, -0.0005411, -0.0023948, -0.0007072],
            [0.025001, 0, -0.12412],
        ),
        "right_hip_yaw_link": (
            *(1.702, [-0.057709, 0.010981, -0.15078]),
            [0.0057774, 0.0076124, 0.003149, 0.0005411, -0.0023948, 0.0007072],
            [0.025001, 0, -0.12412],
        ),
        "right_knee_link": (
            *(1.932, [0.005457, -0.003964, -0.12074]),
            [0.011329, 0.011277, 0.0015168, -4.82e-05, -4.49e-05, 0.0007146],
            [-0.078273, -0.0021489, -0.17734],
        ),
        "left_ankle_roll_link": (
            *(0.608, [0.026505, 0, -0.016425]),
            [0.0002231, 0.0016161, 0.0016667, 2e-07, 8.91e-05, -1e-07],
            [0, 0, -0.017558],
        ),
        "torso_link": (
            *(6.78, [0.000931, 0.000346, 0.15082]),
            [0.05905, 0.047014, 0.025652, 3.3302e-05, -0.0017715, -2.2399e-05],
            [0, 0, 0],
        ),
        "right_shoulder_pitch_link": (
            *(0.718, [0, -0.035892, -0.011628]),
            [0.0004291, 0.000453, 0.000423, 9.2e-06, 6.4e-06, -2.26e-05],
            [0.0039563, -0.10022, 0.24778],
        ),
        "left_rubber_hand": (
            *(0.17, [0.05361310808, -0.0029590524, 0.00215413091]),
            [1.0099485e-04, 2.8135871e-04, 2.1894770e-04, 3.6185907e-05, -7.4301518e-07, 3.3018974e-06],
            [0.0415, 0.003, 0],
        ),
    },
}
TOTAL = {"h1": 51.650, "g1": 33.341, "g1_29": 33.341}


def tensor(numbers) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = numbers
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def turn_of(quaternion) -> np.ndarray:
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, quaternion)
    return flat.reshape(3, 3)


@pytest.mark.parametrize("name", NAMES)
def test_links_are_the_tables(name):
    model = compiled(ROBOTS[name])
    for link, (mass, centre, inertia, frame) in INERTIALS[name].items():
        body = model.body(link)
        turn = turn_of(body.iquat)
        assert body.mass[0] == mass
        assert body.ipos == pytest.approx(centre, abs=1e-12)
        assert turn @ np.diag(body.inertia) @ turn.T == pytest.approx(tensor(inertia), abs=1e-6 * max(inertia))
        if frame is not None:
            assert body.pos == pytest.approx(frame, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_masses_add_up_and_every_inertia_is_a_bodys(name):
    robot = ROBOTS[name]
    model = compiled(robot)
    assert model.body_mass.sum() == pytest.approx(TOTAL[name], abs=5e-4)
    assert model.body_mass.sum() == pytest.approx(robot.mass, abs=1e-9)
    assert (model.nu, model.nv) == {"h1": (10, 16), "g1": (13, 19), "g1_29": (29, 35)}[name]
    for link in robot.links:
        moments = np.linalg.eigvalsh(tensor(link.inertia))
        assert moments[0] > 0 and moments[0] + moments[1] >= moments[2], link.name


@pytest.mark.parametrize("name", ALL)
def test_our_frames_are_mujocos(name):
    robot = ROBOTS[name]
    model = compiled(robot)
    data = start(model)
    base = np.array([0, 0, robot.base_height])
    for link, (position, turn) in robot.frames().items():
        assert data.body(link).xpos == pytest.approx(base + position, abs=1e-7)  # the pose is in float32
        assert data.body(link).xmat.reshape(3, 3) == pytest.approx(turn, abs=1e-7)


def test_the_foot_of_g1_reaches_as_far_as_its_urdfs_four_spheres():
    capsules = [geom for geom in ROBOTS["g1"].link("right_ankle_roll_link").geoms if geom.touches]
    ends = np.array([end for geom in capsules for end in geom.ends])
    assert len(capsules) == 3 and {geom.size for geom in capsules} == {(0.01,)}
    assert (ends.min(0) - 0.01).tolist() == pytest.approx([-0.05 - 0.005, -0.03 - 0.005, -0.03 - 0.005])
    assert (ends.max(0) + 0.01)[:2].tolist() == pytest.approx([0.12 + 0.005, 0.03 + 0.005])


def test_soles_touch_the_ground_in_the_default_pose():
    # Thigh and shank lean by -.1 and .2; the foot is level.
    assert ROBOTS["h1"].base_height == pytest.approx(0.1742 + 0.4 * np.cos(0.1) + 0.4 * np.cos(0.2) + 0.062, abs=1e-12)
    for name in ALL:
        model = compiled(ROBOTS[name])
        data = start(model)
        for side in ("left", "right"):
            assert data.sensor(f"{side}_foot_pos").data[2] == pytest.approx(0, abs=1e-7)
            assert turn_of(data.sensor(f"{side}_foot_quat").data) == pytest.approx(np.eye(3), abs=1e-7)
        data.qpos[2] -= 0.001
        mujoco.mj_forward(model, data)
        assert data.ncon == {"h1": 8}.get(name, 12) and data.contact.dist.min() == pytest.approx(-0.001, abs=1e-7)
        # holosoma's angles of G1 add up to -.006 rad: the feet of .16 m are not quite level.
        slope = sum(ROBOTS[name].default_pose[:5][[0, 3, 4]]) if name != "h1" else 0.0
        assert np.ptp(data.contact.dist) == pytest.approx(0.16 * abs(slope), abs=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_every_joint_says_where_its_numbers_come_from(name):
    for joint in ROBOTS[name].joints:
        assert all(word in joint.source for word in ("range, speed, effort: ", "gains")), joint.name


# ---------------------------------------------------------------------- mechanics


def standing(name: str, stiffness: float, seconds: float = 10.0) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """After some time on stiff joints, the ankles of both legs together at ``stiffness`` times m g h."""
    robot = ROBOTS[name]
    model = compiled(robot)
    data = start(model)
    height = data.subtree_com[1, 2] - data.body(robot.feet[0]).xpos[2]
    ankle = stiffness * robot.mass * GRAVITY * height / 2
    groups = {joint.group for joint in robot.joints}
    model = compiled(robot, gains={g: (ankle if "ankle" in g else 1000.0, 20.0) for g in groups})
    data = start(model)
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return model, data


@pytest.mark.parametrize("name", NAMES)
def test_standing_on_stiff_ankles(name):
    """An inverted pendulum on springs: m g h is what they must exceed, by the lean that is left."""
    _, data = standing(name, 2.0)
    assert data.qpos[2] > 0.98 * ROBOTS[name].base_height
    assert turn_of(data.qpos[3:7])[2, 2] > 0.99
    assert np.abs(data.qvel).max() < 0.01
    forces = [data.sensor(f"{side}_foot_contact").data for side in ("left", "right")]
    assert sum(force[3] for force in forces) == pytest.approx(TOTAL[name] * GRAVITY, rel=0.001)
    assert all(force[0] > 0 and force[3] > 0.3 * TOTAL[name] * GRAVITY for force in forces)
    assert data.sensor("torso_contact").data.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_soft_ankles_fall_and_the_fall_is_sensed(name):
    _, data = standing(name, 0.7)
    assert data.qpos[2] < 0.5 * ROBOTS[name].base_height
    assert data.sensor("torso_contact").data[0] > 0 and data.sensor("torso_contact").data[3] > 0.5 * TOTAL[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [X, Y])
@pytest.mark.parametrize("angle", [-1.6, 1.6])
def test_a_fall_to_any_side_is_sensed(name, axis, angle):
    model = compiled(ROBOTS[name])
    data = start(model)
    mujoco.mju_axisAngle2Quat(data.qpos[3:7], np.float64(axis), angle)
    data.qpos[2] = 0.6
    touched = False
    for _ in range(200):
        mujoco.mj_step(model, data)
        touched |= np.linalg.norm(data.sensor("torso_contact").data[1:]) > 1
    assert touched


@pytest.mark.parametrize("name", ALL)
def test_joint_targets_are_tracked_with_the_base_held(name):
    """At rest the servo carries gravity: kp (target - q) = gravity's torque, but for dry friction."""
    robot = ROBOTS[name]
    model = compiled(robot, fixed_base=True)
    data = start(model)
    rng = np.random.default_rng(0)
    low, high = model.actuator_ctrlrange.T
    target = np.clip(data.ctrl + rng.uniform(-0.3, 0.3, model.nu), low + 0.1, high - 0.1)
    step = np.abs(target - data.qpos).max()
    data.ctrl[:] = target
    farthest = 0.0
    for _ in range(2000):
        mujoco.mj_step(model, data)
        farthest = max(farthest, np.abs(data.qpos - target).max())
    mujoco.mj_forward(model, data)
    assert farthest < 2 * step  # no joint swings further out than a free spring would
    assert np.abs(data.qvel).max() < 0.01 and data.ncon == 0
    kp = model.actuator_gainprm[:, 0]
    assert (np.abs(kp * (target - data.qpos) - data.qfrc_bias) <= model.dof_frictionloss + 0.05).all()
    assert np.abs(target - data.qpos).max() < {"g1_29": 0.15}.get(name, 0.05)  # G1's arms are soft


@pytest.mark.parametrize("name", NAMES)
def test_without_gravity_targets_are_reached(name):
    model = compiled(ROBOTS[name], fixed_base=True)
    model.opt.gravity[:] = 0
    data = start(model)
    data.ctrl[:] += 0.1
    for _ in range(1000):
        mujoco.mj_step(model, data)
    friction = model.dof_frictionloss / model.actuator_gainprm[:, 0]  # what dry friction can hold
    assert (np.abs(data.qpos - data.ctrl) <= friction + 1e-3).all()


@pytest.mark.parametrize("name", NAMES)
def test_free_fall(name):
    model = compiled(ROBOTS[name])
    data = start(model)
    data.qpos[2] += 10
    mujoco.mj_forward(model, data)
    first, dt, steps = data.subtree_com[1, 2], model.opt.timestep, 200
    for _ in range(steps):
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    t = steps * dt
    # Semi-implicit Euler falls g t dt / 2 further than g t^2 / 2.
    assert data.subtree_com[1, 2] == pytest.approx(first - GRAVITY * t * t / 2 - GRAVITY * t * dt / 2, abs=1e-9)
    assert data.sensor("velocity").data[2] == pytest.approx(-GRAVITY * t, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_energy_is_kept_when_nothing_takes_it(name):
    model = compiled(passive(ROBOTS[name]), fixed_base=True, dt=0.001)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    model.jnt_limited[:] = 0
    data = start(model)
    data.qvel[:] = np.random.default_rng(0).uniform(-2, 2, model.nv)
    mujoco.mj_forward(model, data)
    total, moving = data.energy.sum(), data.energy[1]
    for _ in range(1000):
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    assert moving > 1 and data.energy.sum() - total == pytest.approx(0, abs=1e-4 * moving)


def compound(robot: RobotSpec, first: str) -> tuple[float, np.ndarray, float]:
    """Of a link and all that hangs on it: mass, centre from its joint, inertia about that joint's y axis."""
    frames = robot.frames()
    limb = [robot.link(first)]
    for link in robot.links:  # parents first
        limb += [link] * (link.parent in {known.name for known in limb})
    pivot, y_axis = frames[first][0], frames[first][1][:, 1]
    mass, moment, inertia = 0.0, np.zeros(3), 0.0
    for link in limb:
        position, turn = frames[link.name]
        centre = position + turn @ np.array(link.com) - pivot
        arm = centre - y_axis * (centre @ y_axis)
        own = y_axis @ turn @ tensor(link.inertia) @ turn.T @ y_axis
        mass, moment, inertia = mass + link.mass, moment + link.mass * centre, inertia + own + link.mass * arm @ arm
    return mass, moment / mass, inertia


@pytest.mark.parametrize("first", ["left_hip_pitch_link", "right_knee_link"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stiff_leg_swings_like_a_compound_pendulum(name, first):
    """T = 2 pi sqrt((I + armature) / (m g r)), about a pitch axis with all other joints welded."""
    still = passive(ROBOTS[name])
    robot = replace(still, links=tuple(replace(k, locked=k.name != first) for k in still.links))
    mass, centre, inertia = compound(still, first)
    reach = np.hypot(centre[0], centre[2])
    armature = still.link(first).joint.armature
    expected = 2 * np.pi * np.sqrt((inertia + armature) / (mass * GRAVITY * reach))
    model = compiled(robot, fixed_base=True, dt=0.001)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = start(model)
    lowest = data.qpos[0] + np.arctan2(centre[0], -centre[2])
    data.qpos[:] = lowest + 0.02
    times = crossings(model, data, lowest)
    assert np.diff(times)[::2].mean() + np.diff(times)[1::2].mean() == pytest.approx(expected, rel=1e-3)


def crossings(model: mujoco.MjModel, data: mujoco.MjData, level: float, count: int = 5) -> np.ndarray:
    times: list[float] = []
    while len(times) < count:
        before, at = data.qpos[0] - level, data.time
        mujoco.mj_step(model, data)
        after = data.qpos[0] - level
        if before * after < 0:
            times.append(at + (data.time - at) * before / (before - after))
        assert data.time < 20
    return np.array(times)


def test_a_single_link_swings_like_a_rod():
    """A rod of length l hung at its end: T = 2 pi sqrt(2 l / (3 g))."""
    length, mass = 0.6, 1.5
    ground = (Geom("sphere", (0.01,), touches=True),)
    base = LinkSpec("base", "", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0, (0.0, 0.0, 0.0), (0.1, 0.1, 0.1, 0.0, 0.0, 0.0))
    joint = JointSpec("pivot", (0.0, 1.0, 0.0), "-3", "3", "1", "1", 0.0, 0.0, 0.0, "pivot")
    own = mass * length**2 / 12
    rod = LinkSpec(
        *("rod", "base", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), mass, (0.0, 0.0, -length / 2)),
        (own, own, 1e-6 + own * 1e-3, 0.0, 0.0, 0.0),
        *(joint, ground),
    )
    robot = RobotSpec("rod", (base, rod), ("rod", "rod"), "base", (), ())
    model = compiled(robot, fixed_base=True, dt=0.001)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = start(model)
    data.qpos[0] = 0.02
    times = crossings(model, data, 0.0)
    assert times[2] - times[0] == pytest.approx(2 * np.pi * np.sqrt(2 * length / (3 * GRAVITY)), rel=1e-3)


# ---------------------------------------------------------------------- left and right


def symmetrised(robot: RobotSpec) -> RobotSpec:
    """The robot with its middle made symmetric; the real torso's centre of mass is up to 3 mm to one side."""

    def middle(link: LinkSpec) -> LinkSpec:
        xx, yy, zz, _, xz, _ = link.inertia
        return replace(link, com=(link.com[0], 0.0, link.com[2]), inertia=(xx, yy, zz, 0.0, xz, 0.0))

    sided = ("left_", "right_")
    return replace(robot, links=tuple(k if k.name.startswith(sided) else middle(k) for k in robot.links))


@pytest.mark.parametrize(("height", "tolerance"), [(2.0, 1e-9), (0.0, 1e-6)])
@pytest.mark.parametrize("name", ALL)
def test_the_mirror_image_of_a_motion_is_a_motion(name, height, tolerance):
    """Accelerations of mirrored states are mirrored accelerations, in the air and on the ground."""
    robot = symmetrised(ROBOTS[name])
    model = compiled(robot)
    model.opt.tolerance, model.opt.iterations = 0, 200
    index, sign = robot.mirror_joints()
    linear, angular = np.array([1, -1, 1]), np.array([-1, 1, -1])
    rng = np.random.default_rng(1)

    def accelerations(base, quaternion, velocity, spin, q, dq, target):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = np.concatenate([base, quaternion, q]), np.concatenate([velocity, spin, dq])
        data.ctrl[:] = target
        mujoco.mj_forward(model, data)
        return data.qacc, data.ncon

    touching = 0
    for _ in range(20):
        quaternion = np.array([1, *rng.uniform(-0.2, 0.2, 3)])
        quaternion /= np.linalg.norm(quaternion)
        base = np.array([0.3, 0.2, robot.base_height + height + rng.uniform(-0.05, 0.05)])
        velocity, spin = rng.normal(size=3), rng.normal(size=3)
        q = robot.default_pose + rng.uniform(-0.2, 0.2, len(index))
        dq, target = rng.normal(size=len(index)), q + rng.uniform(-0.3, 0.3, len(index))
        here, contacts = accelerations(base, quaternion, velocity, spin, q, dq, target)
        image = [sign * joints[index] for joints in (q, dq, target)]
        there, mirrored = accelerations(
            base * linear, quaternion * [1, -1, 1, -1], velocity * linear, spin * angular, *image
        )
        expected = np.concatenate([here[:3] * linear, here[3:6] * angular, sign * here[6:][index]])
        assert there == pytest.approx(expected, rel=tolerance, abs=tolerance * np.abs(here).max())
        assert mirrored == contacts
        touching += contacts
    assert bool(touching) is (height == 0)


@pytest.mark.parametrize("name", ALL)
def test_mirroring_twice_changes_nothing(name):
    robot = ROBOTS[name]
    index, sign = robot.mirror_joints()
    assert index[index].tolist() == list(range(len(index))) and (sign * sign[index]).tolist() == [1] * len(index)
    assert (sign * robot.default_pose[index]).tolist() == robot.default_pose.tolist()
    assert all(link.mirrored().mirrored() == link for link in robot.links)
    limits = robot.rate_limits("spec")
    ends = np.sort(sign[:, None] * np.stack([limits.low, limits.high], 1)[index], axis=1)
    assert ends.tolist() == np.stack([limits.low, limits.high], 1).tolist()


# ---------------------------------------------------------------------- the model


@pytest.mark.parametrize("name", ALL)
def test_sensors_come_in_the_stated_order(name):
    model = compiled(ROBOTS[name])
    feet = [f"{side}_foot_{what}" for side in ("left", "right") for what in ("pos", "quat", "vel")]
    names = ["gyro", "velocity", *feet, "left_foot_contact", "right_foot_contact", "torso_contact"]
    assert [model.sensor(i).name for i in range(model.nsensor)] == names
    assert model.sensor_dim.tolist() == [3, 3, 3, 4, 3, 3, 4, 3, 4, 4, 4] and model.nsensordata == 38


@pytest.mark.parametrize("name", NAMES)
def test_gyro_and_velocity_are_in_the_bases_frame(name):
    model = compiled(ROBOTS[name])
    data = start(model)
    data.qpos[2] += 1
    data.qpos[3:7] = [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]  # facing +y
    data.qvel[:6] = [0, 0.7, 0.2, 0.1, 0.2, 0.3]
    mujoco.mj_forward(model, data)
    assert data.sensor("velocity").data == pytest.approx([0.7, 0, 0.2], abs=1e-12)
    assert data.sensor("gyro").data == pytest.approx([0.1, 0.2, 0.3], abs=1e-12)
    arm = data.sensor("left_foot_pos").data - data.qpos[:3]
    assert data.sensor("left_foot_vel").data == pytest.approx(data.qvel[:3] + np.cross([-0.2, 0.1, 0.3], arm))


@pytest.mark.parametrize("name", ALL)
def test_a_robot_does_not_touch_itself(name):
    model = compiled(ROBOTS[name])
    data = start(model)
    rng = np.random.default_rng(0)
    low, high = model.jnt_range[1:].T
    for _ in range(20):
        data.qpos[7:], data.qpos[2] = rng.uniform(low, high), 5
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


def test_what_is_only_seen_does_not_change_the_physics():
    seen, bare = compiled(ROBOTS["g1"]), compiled(ROBOTS["g1"], visuals=False)
    assert bare.ngeom < seen.ngeom
    ends = []
    for model in (seen, bare):
        data = start(model)
        mujoco.mj_step(model, data, 200)
        ends.append(data.qpos.tolist())
    assert ends[0] == ends[1]


@dataclass(frozen=True)
class Ramp:
    """A field that rises along x, from -0.5 m to 0.5 m."""

    rows: int = 21
    cols: int = 41
    radius_x: float = 4.0
    radius_y: float = 2.0
    height_range: float = 1.0
    lowest: float = -0.5
    base: float = 0.3


def test_a_height_field_instead_of_a_plane():
    model = compiled(ROBOTS["h1"], terrain=Ramp())
    assert (model.hfield_nrow[0], model.hfield_ncol[0]) == (21, 41)
    assert model.hfield_size[0].tolist() == [4.0, 2.0, 1.0, 0.3]
    model.hfield_data[:] = np.tile(np.linspace(0, 1, 41), 21)
    data = start(model)
    for x in (-2.0, 0.0, 2.0):  # a ray straight down meets the surface z = x / 8
        hit = mujoco.mj_ray(model, data, np.array([x, 1.0, 3.0]), np.array([0.0, 0, -1]), None, 1, -1, np.zeros(1, "i"))
        assert 3 - hit == pytest.approx(x / 8, abs=1e-6)
    data.qpos[2] += 0.02
    for _ in range(60):
        mujoco.mj_step(model, data)
    assert data.sensor("left_foot_contact").data[0] > 0 and data.sensor("torso_contact").data[0] == 0


def test_gains_by_joint_or_group():
    model = compiled(ROBOTS["g1"], gains={"knee": (70.0, 3.0), "right_knee": (80.0, 3.5)})
    assert model.actuator("left_knee").gainprm[0] == 70 and model.actuator("right_knee").biasprm[2] == -3.5
    assert model.actuator("left_hip_yaw").gainprm[0] == 100
    with pytest.raises(KeyError, match="gains name an unknown joint 'elbow'; known: ankle_pitch"):
        mjcf(ROBOTS["g1"], gains={"elbow": (1.0, 1.0)})


# ---------------------------------------------------------------------- limits

SPEED = {  # rad/s, datasheets
    "h1": {"hip_yaw": 23, "hip_roll": 23, "hip_pitch": 23, "knee": 14, "ankle": 9},
    "g1": {
        **{"hip_pitch": 32, "hip_roll": 20, "hip_yaw": 32, "knee": 20},
        **{"ankle_pitch": 30, "ankle_roll": 30, "waist_yaw": 32},
    },
}


@pytest.mark.parametrize(("preset", "share"), [("spec", 1.0), ("tight", 0.25)])
@pytest.mark.parametrize("name", NAMES)
def test_datasheet_presets_are_a_share_of_the_speed(name, preset, share):
    limits = ROBOTS[name].rate_limits(preset)
    expected = [SPEED[name][group] * 0.02 * share for group in limits.groups]
    assert limits.delta.tolist() == pytest.approx(expected, rel=1e-15)
    assert limits.dt == 0.02 and limits.units == "rad"
    assert ROBOTS[name].rate_limits(safety=share) == limits


def test_hand_computed_limits():
    h1, g1 = ROBOTS["h1"], ROBOTS["g1"]
    assert h1.rate_limits("spec").delta[:5].tolist() == pytest.approx([0.46, 0.46, 0.46, 0.28, 0.18])
    assert g1.rate_limits("tight").delta[:6].tolist() == pytest.approx([0.16, 0.1, 0.16, 0.1, 0.15, 0.15])
    assert g1.rate_limits(safety="0.5", dt="0.01").delta[-1] == pytest.approx(0.16)
    kappas = {("h1", "paper"): 2.2222, ("g1", "paper"): 4.0, ("g1", "paper_table"): 2.2222, ("h1", "spec"): 2.5556}
    for (name, preset), kappa in kappas.items():
        assert ROBOTS[name].rate_limits(preset).kappa == pytest.approx(kappa, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_accelerations_are_the_efforts_over_the_inertias(name):
    """Effort / M_ii by MuJoCo, in unitree_rl_gym's default pose, rounded down to three digits."""
    robot = ROBOTS[name].in_pose("rl_gym") if name == "g1" else ROBOTS[name]
    model = compiled(robot)
    data = start(model)
    for joint in robot.joints:
        unit, column = np.zeros(model.nv), np.zeros(model.nv)
        place = model.joint(joint.name).dofadr[0]
        unit[place] = 1
        mujoco.mj_mulM(model, data, column, unit)
        able, said = float(joint.effort) / column[place], float(robot.accelerations[joint.group])
        assert said <= able < said * 1.01 and float(f"{said:.3g}") == said


@pytest.mark.parametrize("name", NAMES)
def test_presets_with_an_acceleration_have_the_rates_of_those_without(name):
    robot = ROBOTS[name]
    square = Fraction("0.0004")
    for preset, share in (("paper", square), ("spec", square), ("tight", square / 4)):
        plain, limits = robot.rate_limits(preset), robot.rate_limits(f"{preset}_acceleration")
        assert plain.grid is None and np.array_equal(limits.delta, plain.delta) and limits.names == plain.names
        stated = [Fraction(robot.accelerations[group]) * share for group in limits.groups]
        for a, exact in zip(limits.acceleration.tolist(), stated, strict=True):
            assert Fraction(a) <= exact < Fraction(math.nextafter(a, math.inf))
        assert np.array_equal(limits.acceleration, limits.deceleration)
        limits.box(limits.clamp(torch.from_numpy(robot.default_pose)), velocity=torch.zeros(limits.dim))


def test_tasks_have_their_robots_presets():
    plain = {"H1": ("paper", "spec", "tight"), "G1": ("paper", "paper_table", "spec", "tight")}
    for robot, names in plain.items():
        presets = (*names, *(f"{name}_acceleration" for name in names))
        for preset in presets:
            limits = ROBOTS[robot.lower()].rate_limits(preset)
            assert all(RateLimits.preset(f"{robot}{task}", preset) == limits for task in ("", "-flat", "-rough"))
        assert ROBOTS[robot.lower()].presets == presets


@pytest.mark.parametrize("name", ALL)
def test_the_default_pose_is_a_place_to_start_from(name):
    robot = ROBOTS[name]
    limits = robot.rate_limits("spec")
    pose = robot.default_pose
    assert pose.dtype == np.float32 and not limits.outside(pose, pose).any()
    limits.box(pose)


@pytest.mark.parametrize("name", ["h1", "g1"])
def test_a_share_of_the_datasheet_keeps_the_acceleration_that_a_preset_names(name):
    whole, half = (ROBOTS[name].rate_limits("spec_acceleration", safety=share) for share in ("1", "0.5"))
    np.testing.assert_allclose(half.acceleration, whole.acceleration / 2, rtol=1e-12)
    assert ROBOTS[name].rate_limits("spec", safety="0.5").acceleration is None


def test_what_a_robot_cannot_give():
    with pytest.raises(KeyError, match="H1 has no preset 'papr'; it has: paper, spec, tight"):
        ROBOTS["h1"].rate_limits("papr")
    with pytest.raises(ValueError, match=r"dt is 0.01, but G1's limits 'paper' are per step of 0.02 s"):
        ROBOTS["g1"].rate_limits("paper", dt=0.01)
    with pytest.raises(ValueError, match="safety is 2, expected a share"):
        ROBOTS["g1"].rate_limits(safety=2)
    with pytest.raises(KeyError, match="G1 has no link 'tail'; it has: pelvis"):
        ROBOTS["g1"].link("tail")
    with pytest.raises(KeyError, match="unknown robot 'h2'"):
        _ = ROBOTS["h2"]


def test_util_groups_are_the_papers():
    h1, g1 = ROBOTS["h1"], ROBOTS["g1"]
    assert len(h1.proximal) == 6 and all("hip" in name for name in h1.proximal)
    assert h1.distal == ("left_ankle", "right_ankle") and g1.proximal == ("left_hip_pitch", "right_hip_pitch")
    assert len(g1.distal) == 4 and all("ankle" in name for name in g1.distal)
    for robot in (h1, g1):
        names = [joint.name for joint in robot.joints]
        assert set(robot.proximal) | set(robot.distal) <= set(names)
