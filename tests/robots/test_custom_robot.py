"""A user's own robot: URDF and MJCF read right, and every mistake named."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import gymnasium
import mujoco
import numpy as np
import pytest

from slewrl.limits import RateLimits
from slewrl.robots import ROBOTS, looks
from slewrl.robots.custom import read_robot, robot_model
from slewrl.robots.mjcf import mjcf

TURNED = ' rpy="0.1 0.2 0.3"'
MESH = '<geometry><mesh filename="package://nowhere/part.stl"/></geometry>'


def link(name: str, mass: float, size: str, at: str = "0 0 0", contact: str = "box") -> str:
    """A link with an inertial frame that is turned, a visual mesh that does not exist, and a shape for contact."""
    x, y, z = (float(edge) for edge in size.split())
    xx, yy, zz = (mass * (a * a + b * b) / 12 for a, b in ((y, z), (x, z), (x, y)))
    shape = f'<geometry><box size="{size}"/></geometry>' if contact == "box" else MESH
    collision = f'<collision><origin xyz="{at}"/>{shape}</collision>' if contact else ""
    return f"""<link name="{name}"><visual>{MESH}</visual>{collision}
      <inertial><origin xyz="{at}"{TURNED}/><mass value="{mass}"/>
      <inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def joint(name: str, parent: str, child: str, at: str, axis: str = "0 1 0", limit: str | None = None) -> str:
    limit = limit or '<limit lower="-1.1" upper="0.9" effort="60" velocity="12.5"/>'
    return f"""<joint name="{name}" type="revolute"><origin xyz="{at}" rpy="0.05 0 0.02"/><axis xyz="{axis}"/>
      <parent link="{parent}"/><child link="{child}"/>{limit}</joint>"""


def leg(side: str, y: float) -> str:
    return (
        link(f"{side}_thigh", 2.0, "0.1 0.1 0.3", "0 0 -0.15")
        + link(f"{side}_foot", 0.8, "0.2 0.1 0.04", "0.04 0 -0.3")
        + joint(f"{side}_hip_joint", "torso", f"{side}_thigh", f"0 {y} -0.2")
        + joint(f"{side}_knee_joint", f"{side}_thigh", f"{side}_foot", "0 0 -0.3")
    )


def biped(**changes: str) -> str:
    """A torso on two legs of two joints each; ``changes`` replace text."""
    frames = """<link name="world"/><link name="imu"/>
      <joint name="to_world" type="floating"><parent link="world"/><child link="torso"/></joint>
      <joint name="to_imu" type="fixed"><origin xyz="0 0 0.1"/><parent link="torso"/><child link="imu"/></joint>"""
    head = link("head", 1.0, "0.1 0.1 0.1", "0 0 0.05") + (
        '<joint name="neck" type="fixed"><origin xyz="0 0 0.25"/><parent link="torso"/><child link="head"/></joint>'
    )
    legs = leg("l", 0.1) + leg("r", -0.1)
    text = f'<robot name="biped">{frames}{link("torso", 10.0, "0.2 0.3 0.4")}{head}{legs}</robot>'
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def urdf(tmp_path):
    def write(text: str = "", name: str = "biped.urdf") -> str:
        (tmp_path / name).write_text(text or biped())
        return str(tmp_path / name)

    return write


# ---------------------------------------------------------------------- what is read


def test_a_urdf_becomes_the_same_kind_of_robot(urdf):
    robot = robot_model(urdf())
    assert robot.name == "biped" and robot.mass == pytest.approx(10 + 1 + 2 * 2.8)
    assert [j.name for j in robot.joints] == ["l_hip_joint", "l_knee_joint", "r_hip_joint", "r_knee_joint"]
    assert robot.links[0].name == "torso" == robot.torso and robot.feet == ("l_foot", "r_foot")
    assert robot.proximal == ("l_hip_joint", "r_hip_joint") and robot.distal == ("l_knee_joint", "r_knee_joint")
    assert {(j.kp, j.kd) for j in robot.joints} == {(60.0, 1.5)}  # effort at 1 rad; 0.025 s
    assert robot.default_pose.tolist() == [0, 0, 0, 0]
    model = mujoco.MjModel.from_xml_string(mjcf(robot))
    assert (model.nu, model.nv, model.nsensordata) == (4, 10, 38)
    assert model.actuator_forcerange[0].tolist() == [-60, 60] and model.actuator_ctrlrange[0].tolist() == [-1.1, 0.9]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert min(data.sensor(f"{side}_foot_pos").data[2] for side in ("left", "right")) == pytest.approx(0, abs=1e-9)
    assert data.sensor("left_foot_quat").data == pytest.approx(
        [1, 0, 0, 0]
    )  # level, however the foot's frame is turned
    assert data.sensor("left_foot_pos").data[1] > 0 > data.sensor("right_foot_pos").data[1]


def test_its_limits_are_those_of_the_urdf(urdf):
    path = urdf()
    robot = robot_model(path)
    made = robot.rate_limits(safety="0.5")
    assert made == RateLimits.from_urdf(path, dt=0.02, safety="0.5").with_reset(robot.default_pose)
    assert robot.rate_limits("tight").delta.tolist() == pytest.approx([12.5 * 0.02 * 0.25] * 4)
    assert robot.presets == ("spec", "tight")


def test_a_urdf_moves_as_mujocos_own_reader_has_it(urdf):
    """Accelerations in random states, the base held: MuJoCo reads a URDF's base as part of the world."""
    path = urdf(biped(floating="fixed", **{TURNED: ""}))  # MuJoCo 3.11 overlooks how an inertial is turned
    robot = robot_model(path)
    bare = replace(
        robot, links=tuple(replace(k, joint=k.joint and replace(k.joint, armature=0.0)) for k in robot.links)
    )
    ours = mujoco.MjModel.from_xml_string(mjcf(bare, fixed_base=True, gains={j.name: (0.0, 0.0) for j in robot.joints}))
    theirs = mujoco.MjModel.from_xml_path(path)
    for model in (ours, theirs):
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    assert [theirs.joint(i).name for i in range(4)] == [ours.joint(i).name for i in range(4)]
    rng = np.random.default_rng(0)
    for _ in range(10):
        q, dq = rng.uniform(-0.8, 0.8, 4), rng.normal(size=4)
        found = []
        for model in (ours, theirs):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = q, dq
            mujoco.mj_forward(model, data)
            found.append(data.qacc.copy())
        assert found[0] == pytest.approx(found[1], rel=1e-7, abs=1e-7)


def test_an_inertial_frame_may_be_turned(urdf):
    """By yaw 30 degrees: ixx = xx cos^2 + yy sin^2, iyy = xx sin^2 + yy cos^2, ixy = (xx - yy) sin cos."""
    foot = robot_model(urdf(biped(**{TURNED: ' rpy="0 0 0.5235987755982988"'}))).link("l_foot")
    xx, yy, zz = (0.8 * (a * a + b * b) / 12 for a, b in ((0.1, 0.04), (0.2, 0.04), (0.2, 0.1)))
    expected = (0.75 * xx + 0.25 * yy, 0.25 * xx + 0.75 * yy, zz, (xx - yy) * np.sqrt(3) / 4, 0, 0)
    assert foot.inertia == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["h1", "g1"])
def test_an_mjcf_of_ours_reads_back_as_the_same_robot(name, tmp_path):
    robot = ROBOTS[name]
    path = tmp_path / "copy.xml"
    path.write_text(mjcf(robot))
    again = robot_model(path)
    assert (again.feet, again.torso) == (robot.feet, robot.torso)
    assert again.base_height == pytest.approx(robot.base_height, abs=1e-6)
    for ours, theirs in zip(robot.joints, again.joints, strict=True):
        assert (theirs.name, theirs.group, theirs.axis, theirs.kp, theirs.kd) == (
            *(ours.name, ours.group, ours.axis, ours.kp, ours.kd),
        )
        assert float(theirs.low) == float(ours.low) and float(theirs.effort) == float(ours.effort)
        assert theirs.default == pytest.approx(ours.default)
    index, sign = robot.mirror_joints()
    assert all(np.array_equal(a, b) for a, b in zip(again.mirror_joints(), (index, sign), strict=True))
    models = [mujoco.MjModel.from_xml_string(mjcf(each, visuals=False)) for each in (robot, again)]
    rng = np.random.default_rng(0)
    state = rng.uniform(-0.2, 0.2, models[0].nq), rng.normal(size=models[0].nv), rng.uniform(-0.2, 0.2, models[0].nu)
    found = []
    for model in models:
        model.opt.tolerance, model.opt.iterations = 0, 200
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = state
        data.qpos[2:7] = [2, 1, 0, 0, 0]
        mujoco.mj_forward(model, data)
        found.append(data.qacc.copy())
    assert found[0] == pytest.approx(found[1], rel=1e-5, abs=1e-4)  # MuJoCo turned the inertias to their own axes


MJCF = """<mujoco><compiler angle="radian"/><asset><mesh name="shell" file="missing.stl"/></asset><worldbody>
  <geom type="plane" size="1 1 1"/>
  <body name="trunk" pos="0 0 1"><freejoint/><inertial mass="8" pos="0 0 0" diaginertia=".1 .1 .1"/>
    <geom type="mesh" mesh="shell"/>{legs}</body></worldbody>
  <actuator>{servos}</actuator></mujoco>"""
LEG = """<body name="{0}_leg" pos="0 {1} -.1"><joint name="{0}_hip" axis="0 1 0" range="-1 1" pos="0 0 .05"/>
  <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".04" mass="2"/></body>"""
LEGS = LEG.format("l", 0.1) + LEG.format("r", -0.1)
MOTORS = "".join(f'<motor joint="{side}_hip" gear="20" ctrlrange="-2 2"/>' for side in "lr")


def test_an_mjcf_with_motors_missing_meshes_and_joints_off_centre(tmp_path):
    path = tmp_path / "hopper.xml"
    path.write_text(MJCF.format(legs=LEGS, servos=MOTORS))
    robot = robot_model(path, speeds={"l_hip": "10", "r_hip": "10"}, pose={"l_hip": 0.2, "r_hip": 0.2})
    assert [float(j.effort) for j in robot.joints] == [40, 40] and robot.joints[0].kp == 40  # gear 20 times ctrl 2
    assert robot.feet == ("l_leg", "r_leg") and robot.torso == "trunk"
    assert robot.link("l_leg").pos == pytest.approx((0, 0.1, -0.05))  # the joint's place
    assert robot.base_height == pytest.approx(0.05 + 0.45 * np.cos(0.2) + 0.04)
    # A trunk whose shape is a missing mesh falls on the box of its inertia: edges sqrt(6 I / m) = .274 m.
    (box,) = [geom for geom in robot.link("trunk").geoms if geom.touches]
    assert box.kind == "box" and box.size == pytest.approx([np.sqrt(1.5 * 0.1 / 8)] * 3)
    assert mujoco.MjModel.from_xml_string(mjcf(robot)).nu == 2


def test_joints_not_named_are_welded_where_they_stand(urdf):
    robot = robot_model(urdf(), joints=["l_hip_joint", "r_hip_joint"], pose={"l_knee_joint": 0.5, "r_knee_joint": 0.5})
    assert [j.name for j in robot.joints] == ["l_hip_joint", "r_hip_joint"]
    model = mujoco.MjModel.from_xml_string(mjcf(robot))
    assert model.nu == 2 and model.body("l_foot").quat[2] == pytest.approx(np.sin(0.25), abs=0.01)
    index, sign = robot_model(urdf(biped(**{"0.05 0 0.02": "0 0 0"}))).mirror_joints()
    assert index.tolist() == [2, 3, 0, 1] and sign.tolist() == [1, 1, 1, 1]


def test_what_is_not_symmetric_has_no_mirror(urdf):
    assert robot_model(urdf()).mirror_joints() is None  # frames of both legs are turned the same way
    assert robot_model(urdf(biped(r_hip_joint="other_joint", **{"0.05 0 0.02": "0 0 0"}))).mirror_joints() is None


def test_wishes_overrule_the_file(urdf):
    robot = robot_model(
        urdf(),
        feet=("r_foot", "l_foot"),
        torso="head",
        gains={"l_hip_joint": (33.0, 2.0), "knee": (50.0, 3.0)},
        efforts={"l_hip_joint": 40},
        bounds={"l_hip_joint": ("-0.5", "0.5")},
    )
    first = robot.joints[0]
    assert (first.kp, first.kd, first.effort, first.low) == (33.0, 2.0, 40, "-0.5")
    assert [joint.kp for joint in robot.joints] == [33.0, 50.0, 60.0, 50.0]
    assert robot.feet == ("r_foot", "l_foot") and robot.torso == "head"


# ---------------------------------------------------------------------- mistakes

PRISMATIC = {'name="l_hip_joint" type="revolute"': 'name="l_hip_joint" type="prismatic"'}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {'<mass value="2.0"/>': '<mass value="0"/>'},
            r"link 'l_thigh' has mass 0 and principal moments .*, expected a positive mass of a link that moves",
        ),
        ({'<mass value="2.0"/>': '<mass value="-2"/>'}, "link 'l_thigh' has mass -2.0, expected it positive"),
        ({'ixx="': 'ixx="nan '}, "<inertia ixx=.nan .*: expected 1 finite number"),
        (PRISMATIC, "joint 'l_hip_joint' is prismatic, expected revolute in a leg; name the joints to drive"),
        (
            {'lower="-1.1" upper="0.9"': ""},
            r"joint 'l_hip_joint' has no range, expected low < high in rad; give it in biped.robot.yaml",
        ),
        ({'lower="-1.1"': 'lower="1.1"'}, r"joint 'l_hip_joint' has range \[1.1, 0.9\], expected low < high"),
        ({'lower="-1.1"': 'lower="low"'}, "joint 'l_hip_joint' has limit 'low', expected a number"),
        ({'effort="60"': ""}, "joint 'l_hip_joint' has no effort, expected a positive torque in Nm; give it in biped"),
        ({'<axis xyz="0 1 0"/>': '<axis xyz="0 0 0"/>'}, "joint 'l_hip_joint' has axis .* expected a direction"),
        ({'name="r_knee_joint"': 'name="l_knee_joint"'}, "duplicate joint name 'l_knee_joint'"),
        ({'<parent link="l_thigh"/>': '<parent link="x"/>'}, "joint 'l_knee_joint' has parent link 'x', which is not"),
        (
            {'<link name="imu"/>': '<link name="imu"/><link name="lost"/>'},
            r"it has 2 links without a parent \(world, lost\)",
        ),
    ],
)
def test_a_bad_urdf_is_refused_by_name(urdf, changes, message):
    with pytest.raises(ValueError, match=message):
        robot_model(urdf(biped(**changes)))


def without_inertials(text: str) -> str:
    root = ElementTree.fromstring(text)
    for part in root.findall("link"):
        for inertial in part.findall("inertial"):
            part.remove(inertial)
    return ElementTree.tostring(root, encoding="unicode")


def test_a_urdf_without_inertials_is_refused(urdf):
    with pytest.raises(
        ValueError, match="link 'torso' has no inertial, expected mass and inertia of a link that moves"
    ):
        robot_model(urdf(without_inertials(biped())))


def test_feet_that_only_have_meshes_stand_on_their_inertia_and_it_is_said(urdf):
    """A box of 0.2 x 0.1 x 0.04 m, from the inertia of one."""
    text = biped(**{'<box size="0.2 0.1 0.04"/>': '<mesh filename="f.stl"/>', TURNED: "", "0.05 0 0.02": "0 0 0"})
    robot = robot_model(urdf(text))
    assert robot.feet == ("l_foot", "r_foot")
    (box,) = [geom for geom in robot.link("l_foot").geoms if geom.touches]
    assert (
        box.kind == "box" and box.size == pytest.approx((0.1, 0.05, 0.02)) and box.pos == pytest.approx((0.04, 0, -0.3))
    )
    assert robot.notes == (
        "standing on boxes of the mass and inertia of l_foot and r_foot (0.2 x 0.1 x 0.04 m), since meshes are not "
        "read for contact; measure the soles and give them as shapes",
    )
    assert robot_model(urdf()).notes == ()


# ---------------------------------------------------------------------- masses that no simulator takes


def welded_to(parent: str, name: str, inertial: str, at: str = "0.3 0 0.1") -> str:
    return f"""<link name="{name}">{inertial}</link><joint name="to_{name}" type="fixed"><origin xyz="{at}"/>
      <parent link="{parent}"/><child link="{name}"/></joint></robot>"""


def inertial(mass: float, moments: str) -> str:
    xx, yy, zz = moments.split()
    return f"""<inertial><mass value="{mass}"/>
      <inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>"""


def test_a_point_mass_counts_with_the_link_it_is_welded_to(urdf):
    """m r^2 about the common centre of mass, by hand: 10 kg at 0 and 2 kg at (.3, 0, .1) share (.05, 0, 1/60)."""
    plain = biped(**{TURNED: "", '<joint name="neck" type="fixed">': '<joint name="neck" type="fixed"><!-- -->'})
    robot = robot_model(urdf(plain.replace("</robot>", welded_to("torso", "camera", inertial(2, "0 0 0")))))
    bare = robot_model(urdf(plain)).mass
    torso = robot.link("torso")
    assert robot.mass == pytest.approx(bare + 2) and robot.link("camera").mass == 0
    assert torso.mass == pytest.approx(13)  # the head is welded to it, too
    arms = {10.0: (0, 0, 0), 1.0: (0, 0, 0.3), 2.0: (0.3, 0, 0.1)}
    com = sum(m * np.array(at) for m, at in arms.items()) / 13
    assert torso.com == pytest.approx(com)
    about_y = 10 * (0.2**2 + 0.4**2) / 12 + 1 * (0.1**2 + 0.1**2) / 12
    about_y += sum(m * ((np.array(at) - com)[[0, 2]] ** 2).sum() for m, at in arms.items())
    assert torso.inertia[1] == pytest.approx(about_y)
    assert robot.notes == ("counted with the links they are welded to, since they are no bodies by themselves: camera",)
    assert mujoco.MjModel.from_xml_string(mjcf(robot)).body_mass.sum() == pytest.approx(robot.mass)


@pytest.mark.parametrize("frame", [inertial(0, "0 0 0"), "", inertial(0, "1e-6 1e-6 1e-6"), inertial(1e-6, "0 0 3e-6")])
def test_a_frame_on_a_foot_changes_next_to_nothing(urdf, frame):
    """As Bolt, Talos and Anymal have them."""
    plain = robot_model(urdf())
    robot = robot_model(urdf(biped().replace("</robot>", welded_to("l_foot", "l_sole", frame, "0 0 -0.3"))))
    models = [mujoco.MjModel.from_xml_string(mjcf(each, visuals=False)) for each in (plain, robot)]
    found = []
    for model in models:
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        data.qpos[2] += 1
        data.qvel[:] = np.linspace(-1, 1, model.nv)
        mujoco.mj_forward(model, data)
        found.append(data.qacc.copy())
    assert found[0] == pytest.approx(found[1], rel=1e-3, abs=1e-3)


def test_a_base_may_be_a_frame(urdf):
    text = biped().replace('<parent link="world"/><child link="torso"/>', '<parent link="world"/><child link="base"/>')
    fixed = '<joint name="b" type="fixed"><parent link="base"/><child link="torso"/></joint></robot>'
    robot = robot_model(urdf(text.replace("</robot>", f'<link name="base">{inertial(0, "0 0 0")}</link>{fixed}')))
    assert robot.links[0].name == "base" and robot.links[0].mass == pytest.approx(11)  # torso and head
    assert robot.mass == pytest.approx(robot_model(urdf()).mass)


def test_a_link_without_mass_between_two_joints_is_a_gram(urdf):
    """As files write a joint of two axes; the robot otherwise stays as it is."""
    old = '<parent link="torso"/><child link="l_thigh"/>'
    virtual = (
        joint("l_roll_joint", "torso", "l_virtual", "0 0.1 -0.2", axis="1 0 0") + '<link name="l_virtual"/></robot>'
    )
    text = biped().replace(old, '<parent link="l_virtual"/><child link="l_thigh"/>').replace("</robot>", virtual)
    robot = robot_model(urdf(text), feet=("l_foot", "r_foot"))
    assert robot.link(
        "l_virtual"
    ).mass == 0.001 and "taken as balls of 1 g, since they move without a mass: l_virtual" in (robot.notes)
    assert mujoco.MjModel.from_xml_string(mjcf(robot)).nu == 5


def test_a_joint_that_moves_no_mass_is_welded(urdf):
    finger = joint("finger_joint", "head", "finger", "0 0 0.1") + f'<link name="finger">{inertial(0, "0 0 0")}</link>'
    robot = robot_model(urdf(biped().replace("</robot>", f"{finger}</robot>")))
    assert "finger_joint" not in [j.name for j in robot.joints]
    assert robot.notes[0] == "welded, since nothing with a mass hangs on these joints: finger_joint"


@pytest.mark.parametrize("moments", ["0 0 0", "-0.01 0.02 0.03", "0.001 0.001 0.01"])
def test_an_inertia_that_no_body_has_becomes_the_nearest_that_one_has(urdf, moments):
    """As in iCub and Romeo: zero, negative, one moment larger than the other two together."""
    text = biped(**{TURNED: ""})
    zz = moments.split()[2]
    start = text.index("<inertial>", text.index('<link name="torso">'))
    end = text.index("</inertial>", start) + len("</inertial>")
    text = text[:start] + inertial(10, moments) + text[end:]
    text = text.replace('<joint name="neck" type="fixed">', '<joint name="neck" type="revolute">').replace(
        '<parent link="torso"/><child link="head"/>',
        '<limit lower="-1" upper="1" effort="1"/><parent link="torso"/><child link="head"/>',
    )
    robot = robot_model(urdf(text))
    made = np.sort(robot.link("torso").inertia[:3])
    radius = (0.75 * 10 / (np.pi * 1000)) ** (1 / 3)
    assert made[0] >= 0.4 * 10 * radius**2 * (1 - 1e-9) and made[0] + made[1] > made[2] >= float(zz)
    note = "given the nearest inertia that a body can have, at least that of a ball of water: torso"
    assert note in robot.notes
    assert mujoco.MjModel.from_xml_string(mjcf(robot)).nu == 5


def test_a_speed_that_limits_nothing_is_not_believed(urdf):
    robot = robot_model(urdf(biped(**{'velocity="12.5"': 'velocity="720"'})))
    assert robot.joints[0].speed is None and robot.notes[0].startswith(
        "speeds that cannot be rad/s and so are not believed"
    )
    with pytest.raises(ValueError, match="joint 'l_hip_joint' has velocity limit 720 rad/s, more than 10 turns"):
        robot_model(urdf(), speeds={"hip": 720})


def test_fingers_that_slide_or_follow_are_welded(urdf):
    slides = joint("slide", "head", "finger", "0 0 0.1").replace("revolute", "prismatic")
    follows = joint("follow", "head", "thumb", "0 0 0.1").replace("</joint>", '<mimic joint="slide"/></joint>')
    both = slides + link("finger", 0.1, "0.1 0.1 0.1") + follows + link("thumb", 0.1, "0.1 0.1 0.1")
    robot = robot_model(urdf(biped().replace("</robot>", f"{both}</robot>")))
    assert len(robot.joints) == 4
    assert robot.notes == (
        "welded, since only hinges are driven: joint 'slide' is prismatic, joint 'follow' is a mimic joint",
    )


# ---------------------------------------------------------------------- robots that do not walk on two legs


def quadruped() -> str:
    """The biped with a second pair of legs behind the first."""
    behind = (leg("h", 0.1) + leg("k", -0.1)).replace('xyz="0 0.1 -0.2"', 'xyz="-0.4 0.1 -0.2"')
    return biped().replace("</robot>", behind.replace('xyz="0 -0.1 -0.2"', 'xyz="-0.4 -0.1 -0.2"') + "</robot>")


def arm() -> str:
    """The biped's left leg alone, upside down on the ground."""
    return f'<robot name="arm">{link("torso", 10.0, "0.2 0.3 0.4")}{leg("l", 0.1)}</robot>'.replace("-0.3", "0.3")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (quadruped(), r"it stands on 4 feet \(l_foot, r_foot, h_foot, k_foot\)"),
        (arm(), "it has one limb, which ends in l_foot"),
    ],
)
def test_other_robots_are_sent_to_their_own_environment_with_lines_that_run(urdf, text, why):
    path = urdf(text)
    with pytest.raises(ValueError, match=f"{why};\nthe walking tasks are for robots on two legs") as refused:
        read_robot(path)
    said = str(refused.value)
    assert "Use your own environment" in said and "feet: [left, right]" in said
    lines = [line.strip() for line in said.splitlines() if line.startswith("    ")]
    assert len(lines) == 4 and lines[-1] == "env = slewrl.RateLimit(env, limits, reset_action=HOME)"
    limits = RateLimits.from_urdf(path, dt=0.02)
    gymnasium.register("YourRobot-v0", entry_point=lambda: ToyArm(limits))
    home = np.full(limits.dim, 0.25)
    try:
        scope = {"HOME": home}
        exec("\n".join(lines), scope)
    finally:
        gymnasium.registry.pop("YourRobot-v0")
    env = scope["env"]
    observation, _ = env.reset(seed=0)
    assert observation[-limits.dim :] == pytest.approx(home)
    applied = env.step(np.ones(limits.dim, np.float32))[-1]["applied_action"]
    assert (applied - home).min() > 0 and (applied - home).max() <= 0.9 * 12.5 * 0.02


def test_an_arm_with_joints_that_have_no_range_is_told_so(urdf):
    path = urdf(arm().replace('lower="-1.1" upper="0.9"', "").replace("revolute", "continuous"))
    with pytest.raises(
        ValueError, match=r"(?s)joints=\[.*in this file\n.*'l_hip_joint', 'l_knee_joint' have no position"
    ):
        read_robot(path)


class ToyArm(gymnasium.Env):
    """Goes where it is told."""

    def __init__(self, limits: RateLimits) -> None:
        self.action_space = gymnasium.spaces.Box(limits.low.astype(np.float32), limits.high.astype(np.float32))
        self.observation_space = gymnasium.spaces.Box(-2, 2, (limits.dim,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        return np.asarray(action, np.float32), 0.0, False, False, {}


# ---------------------------------------------------------------------- looks


def mesh_biped() -> str:
    """Every shape is a mesh that is nowhere."""
    return re.sub('<box size="[^"]*"/>', '<mesh filename="package://nowhere/part.stl"/>', biped())


def seen_on(robot, name: str):
    return [geom for geom in robot.link(name).geoms if not geom.touches]


def test_links_whose_meshes_are_missing_are_drawn_from_their_inertia(urdf):
    robot = robot_model(urdf(mesh_biped()))
    (thigh,) = seen_on(robot, "l_thigh")
    assert thigh.kind == "capsule" and thigh.ends == ((0, 0, 0), (0, 0, -0.3))  # from the hip to the knee
    assert 0.01 < thigh.size[0] < 0.1
    (head,) = seen_on(robot, "head")
    assert head.kind == "ellipsoid" and head.pos == pytest.approx((0, 0, 0.05))
    assert head.size == pytest.approx([np.sqrt(5 / 12) * 0.1] * 3)  # of a cube: m a^2 / 12 = m r^2 / 5
    assert not seen_on(robot, "imu")
    bare = mujoco.MjModel.from_xml_string(mjcf(robot, visuals=False))
    drawn = mujoco.MjModel.from_xml_string(mjcf(looks.dressed(robot)))
    assert drawn.ngeom > bare.ngeom and drawn.nmesh == 0
    assert np.array_equal(drawn.body_mass, bare.body_mass) and np.array_equal(drawn.body_inertia, bare.body_inertia)


OBJ = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .2\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"


def test_meshes_that_are_there_are_drawn_and_touch_nothing(urdf, tmp_path):
    package = tmp_path / "nowhere"
    package.mkdir()
    path = urdf(mesh_biped().replace("part.stl", "part.obj"))
    (package / "part.obj").write_text(OBJ)
    robot = robot_model(path)
    drawn = mujoco.MjModel.from_xml_string(mjcf(looks.dressed(robot)))
    mesh = drawn.geom_type == mujoco.mjtGeom.mjGEOM_MESH
    assert mesh.sum() == 6 and not drawn.geom_contype[mesh].any() and not drawn.geom_conaffinity[mesh].any()
    assert "mesh" not in mjcf(robot)  # what `slewrl robot --xml` writes stands alone
    (package / "bad.obj").write_text("this is no mesh")
    bad = robot_model(urdf(mesh_biped().replace("part.stl", "bad.obj")))
    assert bad.meshes and mujoco.MjModel.from_xml_string(mjcf(looks.dressed(bad))).nmesh == 0


def test_what_stands_beside_the_file_is_read(urdf):
    """Feet that are meshes, and a joint without a speed: a robot after all."""
    path = urdf(biped(**{'<box size="0.2 0.1 0.04"/>': '<mesh filename="f.stl"/>', ' velocity="12.5"': ""}))
    beside = Path(path).with_suffix(".robot.yaml")
    sole = "[0.2, 0.1, 0.04, 0.05, 0, 0.02]"
    joints = ", ".join(f"{side}_{part}_joint: 9" for side in "lr" for part in ("hip", "knee"))
    beside.write_text(f"speeds: {{{joints}}}\nshapes: {{l_foot: {sole}, r_foot: {sole}}}\n")
    robot = read_robot(path)
    assert robot.feet == ("l_foot", "r_foot") and float(robot.joints[0].speed) == 9
    assert robot.rate_limits("spec").delta[0] == pytest.approx(0.18)
    assert robot_model(urdf()).sole("l_foot") is not None
    for text, message in (
        ("foot: [a, b]", "biped.robot.yaml has 'foot', expected some of: joints, feet"),
        ("- a", "biped.robot.yaml holds no names, expected some of"),
        ("pose: 3", "biped.robot.yaml is not understood"),
        ("shapes: {l_foot: [1, 2]}", "the shape of 'l_foot' is .*, expected length, width, height, x, y, z in m"),
    ):
        beside.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_robot(path)


def test_unknown_names_are_refused(urdf):
    with pytest.raises(KeyError, match="no revolute joint 'elbow'; it has: l_hip_joint, l_knee_joint"):
        robot_model(urdf(), joints=["elbow"])
    with pytest.raises(KeyError, match="no revolute joint 'l_hip'"):
        robot_model(urdf(), gains={"l_hip": (1.0, 1.0)})
    with pytest.raises(KeyError, match="no revolute joint 'hip'; it has: l_hip_joint"):
        robot_model(urdf(), joints=["hip"])
    with pytest.raises(KeyError, match="biped has no link 'l_toe'; it has: torso"):
        robot_model(urdf(), feet=("l_toe", "r_toe"))
    with pytest.raises(ValueError, match=r"joint 'l_hip_joint' is to stand at 2.0 rad, expected within its range"):
        robot_model(urdf(), pose={"l_hip_joint": 2.0})


def test_limits_that_are_not_the_robots_are_refused(urdf):
    robot = robot_model(urdf())
    limits = robot.rate_limits("tight")
    assert robot.checked(limits) is limits
    names = limits.names
    with pytest.raises(ValueError, match="joint 'l_hip_joint': a limit of 2.5 rad per step is larger than its range"):
        robot.checked(RateLimits(2.5, -1.1, 0.9, names=names))
    with pytest.raises(ValueError, match=r"joint 'l_hip_joint': limits allow \[-1.2, 0.9\] rad, expected within its"):
        robot.checked(RateLimits(0.1, -1.2, 0.9, names=names))
    with pytest.raises(ValueError, match="limits are for a, b; expected biped's: l_hip_joint"):
        robot.checked(RateLimits(0.1, -1, 1, names=["a", "b"]))


def test_a_speed_that_a_file_does_not_give_is_asked_for(tmp_path):
    path = tmp_path / "hopper.xml"
    path.write_text(MJCF.format(legs=LEGS, servos=MOTORS))
    with pytest.raises(ValueError, match="'l_hip'.* no velocity limit"):
        robot_model(path).rate_limits("spec")


@pytest.mark.parametrize(
    ("legs", "servos", "message"),
    [
        (LEGS, "", "joint 'l_hip' has no effort, expected a positive torque"),
        (LEGS.replace('axis="0 1 0"', 'type="slide" axis="0 0 1"'), MOTORS, "joint 'l_hip' is not a hinge"),
        (
            LEGS.replace("<geom", '<joint name="extra" axis="1 0 0"/><geom', 1),
            MOTORS,
            "body 'l_leg' has 2 joints, expe",
        ),
        (LEGS.replace('range="-1 1"', 'range="-1 1" ref=".5"'), MOTORS, "joint 'l_hip' has ref 0.5, expected 0"),
        ("", "", "base 'trunk' turns|no joint is driven"),
        (LEGS.replace('axis="0 1 0"', 'axes="0 1 0"'), MOTORS, "hopper.xml: XML Error"),
    ],
)
def test_a_bad_mjcf_is_refused_by_name(tmp_path, legs, servos, message):
    path = tmp_path / "hopper.xml"
    path.write_text(MJCF.format(legs=legs, servos=servos))
    with pytest.raises(ValueError, match=message):
        robot_model(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.sdf").write_text("<sdf/>")
    (tmp_path / "b.urdf").write_text("<robot")
    with pytest.raises(ValueError, match=r"root element is <sdf>, expected <robot> \(a URDF\) or <mujoco>"):
        robot_model(tmp_path / "a.sdf")
    with pytest.raises(ValueError, match="not readable as XML"):
        robot_model(tmp_path / "b.urdf")
    with pytest.raises(FileNotFoundError):
        robot_model(tmp_path / "c.urdf")
