"""Limits from files: the numbers, the rounding, and the message for each way a file can be wrong."""

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter

URDF = """<robot name="leg">
  <link name="base"/><link name="a"/><link name="b"/><link name="c"/>
  <joint name="left_hip_joint" type="revolute"><parent link="base"/><child link="a"/>
    <limit lower="-0.43" upper="0.43" effort="200" velocity="23"/></joint>
  <joint name="left_slide_joint" type="prismatic"><parent link="a"/><child link="b"/>
    <limit lower="0" upper="0.1" effort="200" velocity="0.5"/></joint>
  <joint name="left_wheel_joint" type="continuous"><parent link="b"/><child link="c"/>
    <limit effort="40" velocity="9"/></joint>
  <joint name="finger_joint" type="revolute"><parent link="b"/><child link="c"/>
    <limit lower="0" upper="1" velocity="9"/><mimic joint="left_hip_joint"/></joint>
  <joint name="mount" type="fixed"><parent link="b"/><child link="c"/></joint>
  <transmission name="t"><joint name="left_hip_joint"/></transmission>
</robot>"""


@pytest.fixture
def urdf(tmp_path):
    path = tmp_path / "leg.urdf"
    path.write_text(URDF)
    return path


def test_urdf_gives_speed_times_dt_times_safety(urdf):
    limits = RateLimits.from_urdf(urdf, dt=0.02, safety=0.9, joints=["left_slide_joint", "left_hip_joint"])
    assert limits.names == ("left_slide_joint", "left_hip_joint")
    assert limits.groups == ("slide", "hip") and limits.units == "m/rad" and limits.dt == 0.02
    assert limits.delta.tolist() == pytest.approx([0.009, 0.414])
    for i, speed in enumerate(("0.5", "23")):  # never above the datasheet, read as decimals or as floats
        delta = Fraction(float(limits.delta[i]))
        assert delta <= Fraction(speed) * Fraction("0.02") * Fraction("0.9")
        assert delta <= Fraction(speed) * Fraction(0.02) * Fraction(0.9)
    assert Fraction(float(limits.low[1])) >= Fraction("-0.43")


@pytest.mark.parametrize("dt", ["0.02", 0.02, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("safety", ["0.9", 0.9, 0.7, 1])
def test_urdf_never_rounds_outward(tmp_path, dt, safety):
    """The largest float64 within the product, however dt and safety are read."""
    path = tmp_path / "many.urdf"
    speeds = [f"{0.1 * k + 0.37:.2f}" for k in range(60)]
    joint = '<joint name="j{}" type="revolute"><limit lower="-1" upper="1" velocity="{}"/></joint>'
    path.write_text("<robot>" + "".join(joint.format(i, v) for i, v in enumerate(speeds)) + "</robot>")
    limits = RateLimits.from_urdf(path, dt=dt, safety=safety)
    for speed, delta in zip(speeds, limits.delta.tolist(), strict=True):
        readings = [
            Fraction(speed) * a * b
            for a in (Fraction(dt), Fraction(str(dt)))
            for b in (Fraction(safety), Fraction(str(safety)))
        ]
        assert Fraction(delta) <= min(readings) < Fraction(math.nextafter(delta, math.inf))


def test_continuous_joints_need_bounds(urdf):
    with pytest.raises(ValueError, match=r"(?s)'left_wheel_joint' has no position bounds.*bounds=\{name: \("):
        RateLimits.from_urdf(urdf, dt=0.02)
    limits = RateLimits.from_urdf(urdf, dt=0.02, bounds={"left_wheel_joint": ("-100", "100")})
    assert limits.names == ("left_hip_joint", "left_slide_joint", "left_wheel_joint")  # no fixed, no mimic
    assert limits.high[2] == 100


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("<robot>", ValueError, "not readable as XML"),
        ("<mujoco/>", ValueError, "root element is <mujoco>, expected <robot>"),
        ("<robot/>", ValueError, "no movable joint"),
        (URDF.replace(' velocity="23"', ""), ValueError, "'left_hip_joint' has no velocity limit"),
        (URDF.replace('"23"', '"0"'), ValueError, "'left_hip_joint' has velocity limit 0, expected a positive"),
        (URDF.replace('"23"', '"nan"'), ValueError, "'left_hip_joint' has velocity limit 'nan', expected a finite"),
        (
            URDF.replace('lower="-0.43" upper="0.43"', 'lower="0.43" upper="-0.43"'),
            ValueError,
            r"range \[0.43, -0.43\], expected low < high",
        ),
        (URDF.replace("left_slide_joint", "left_hip_joint"), ValueError, "duplicate joint name 'left_hip_joint'"),
    ],
)
def test_bad_urdf(tmp_path, text, error, message):
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(error, match=message):
        RateLimits.from_urdf(path, dt=0.02, bounds={"left_wheel_joint": (-1, 1)} if "wheel" in text else None)


def test_bad_arguments(urdf):
    with pytest.raises(KeyError, match="no movable joint 'knee'; it has: left_hip_joint"):
        RateLimits.from_urdf(urdf, dt=0.02, joints=["knee"])
    with pytest.raises(ValueError, match="joints names 'left_hip_joint' twice"):
        RateLimits.from_urdf(urdf, dt=0.02, joints=["left_hip_joint", "left_hip_joint"])
    for safety in (0, -1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="safety is"):
            RateLimits.from_urdf(urdf, dt=0.02, safety=safety, joints=["left_hip_joint"])
    with pytest.raises(ValueError, match="dt is 0, expected a positive"):
        RateLimits.from_urdf(urdf, dt=0, joints=["left_hip_joint"])


ROS2 = """
controller_manager:
  ros__parameters:
    joint_limits:
      left_hip_joint:
        has_position_limits: true
        min_position: -0.43
        max_position: 0.43
        has_velocity_limits: true
        max_velocity: 23.0
"""
MOVEIT = """
default_velocity_scaling_factor: 0.1
joint_limits:
  left_hip_joint:
    has_velocity_limits: true
    max_velocity: 2.175
    has_acceleration_limits: false
    max_acceleration: 0.0
"""


def test_ros2_control_yaml(tmp_path):
    path = tmp_path / "joint_limits.yaml"
    path.write_text(ROS2)
    limits = RateLimits.from_joint_limits_yaml(path, dt=0.01, safety=0.5)
    assert limits.names == ("left_hip_joint",) and limits.delta[0] == pytest.approx(0.115)
    assert (limits.low[0], limits.high[0]) == pytest.approx((-0.43, 0.43))
    path.write_text(ROS2.replace("has_velocity_limits: true", "has_velocity_limits: false"))
    with pytest.raises(ValueError, match="'left_hip_joint' has no velocity limit"):
        RateLimits.from_joint_limits_yaml(path, dt=0.01)


def test_moveit_yaml_takes_bounds_from_the_urdf(tmp_path, urdf):
    path = tmp_path / "joint_limits.yaml"
    path.write_text(MOVEIT)
    with pytest.raises(ValueError, match=r"has no position bounds, expected low < high; give --urdf PATH"):
        RateLimits.from_joint_limits_yaml(path, dt=0.01)
    limits = RateLimits.from_joint_limits_yaml(path, dt=0.01, urdf=urdf)
    assert limits.delta[0] == pytest.approx(0.02175) and limits.high[0] == pytest.approx(0.43)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not readable as YAML"),
        ("a: 1", "0 'joint_limits' mappings found, expected one"),
        ("a: {joint_limits: {h: {}}}\nb: {joint_limits: {h: {}}}", "2 'joint_limits' mappings found"),
        ("joint_limits: {hip: {max_velocity: 1}, hip: {max_velocity: 2}}", "'hip' is given twice"),
        ("joint_limits: {hip: {has_velocity_limits: maybe}}", "has_velocity_limits is 'maybe', expected true or false"),
        ("joint_limits: {hip: {has_velocity_limits: yes, max_velocty: 1}}", "is on but max_velocity is missing"),
        ("joint_limits: {hip: 3}", "joint 'hip' is '3', expected a mapping"),
        (
            "joint_limits: !!python/object/apply:os.system ['true']",
            "line 1 has the tag 'tag:yaml.org,2002:python/object/apply:os.system', expected",
        ),
    ],
)
def test_bad_yaml(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        RateLimits.from_joint_limits_yaml(path, dt=0.01)


def test_a_file_that_is_not_text_is_named(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    for read in (RateLimits.from_yaml, lambda p: RateLimits.from_joint_limits_yaml(p, dt=0.02)):
        with pytest.raises(ValueError, match="binary.yaml: not readable as YAML"):
            read(path)


def test_yaml_round_trip_is_bit_exact(tmp_path, limits_family):
    path = tmp_path / "limits.yaml"
    for limits in limits_family.values():
        limits.to_yaml(path)
        assert RateLimits.from_yaml(path) == limits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("joints: {hip: {delta: '0.2', low: -1}}", "joint 'hip' has no 'high'"),
        ("hello", "no 'joints' mapping found"),
        ("joints: {hip: 3}", "joint 'hip' is 3, expected a mapping with delta, up"),
        ("joints: {hip: {delta: 0.2, up: 5, low: -1, high: 1}}", "needs either delta, or both up and down"),
        ("joints: {hip: {up: 5, low: -1, high: 1}}", "needs either delta, or both up and down"),
        ("joints: {hip: {delta: 0.2, lo: -1, high: 1}}", "unknown entry 'lo'"),
        ("joints: {hip: {delta: 0.2, low: -1, high: 1}, hip: {delta: 9, low: -1, high: 1}}", "'hip' is given twice"),
        ("joints: {hip: {delta: fast, low: -1, high: 1}}", "up of 'hip' is 'fast'|'hip' is .*fast"),
    ],
)
def test_bad_limits_yaml(tmp_path, text, message):
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        RateLimits.from_yaml(path)


def test_a_person_may_write_limits_yaml(tmp_path):
    path = tmp_path / "limits.yaml"
    path.write_text("joints: {hip: {delta: '0.2', low: -1, high: 1}, ankle: {up: 0.5, down: 0.25, low: -1, high: 1}}")
    limits = RateLimits.from_yaml(path)
    assert limits.up.tolist() == [0.19999999999999998, 0.5] and limits.down[1] == 0.25  # a quoted number is a decimal


# ---------------------------------------------------------------------- to ros2_control


def ulps(a, b):
    """How many floats lie from a up to b, both positive."""
    return int(np.float64(b).view(np.int64)) - int(np.float64(a).view(np.int64))


rates, periods = st.floats(1e-9, 1e4), st.floats(1e-5, 10.0)
places = st.floats(-1e3, 1e3)


@given(up=rates, down=rates, dt=periods, ends=st.tuples(places, places).filter(lambda e: abs(e[0] - e[1]) > 1e-6))
def test_joint_limits_yaml_reads_back_never_wider(tmp_path_factory, up, down, dt, ends):
    path = tmp_path_factory.getbasetemp() / "joint_limits.yaml"
    limits = RateLimits(up=[up], down=[down], low=[min(ends)], high=[max(ends)], names=["hip"], dt=dt)
    limits.to_joint_limits_yaml(path)
    for decimals, loader in ((True, yaml.BaseLoader), (False, yaml.SafeLoader)):  # as we read it; as ROS does, doubles
        row = yaml.load(path.read_text(), Loader=loader)["joint_limits"]["hip"]  # noqa: S506
        speed, low, high = (Fraction(row[key]) for key in ("max_velocity", "min_position", "max_position"))
        for period in (Fraction(dt), Fraction(repr(dt))):
            assert speed * period <= Fraction(min(up, down))
        assert decimals or (low, high) == (Fraction(min(ends)), Fraction(max(ends)))
    back = RateLimits.from_joint_limits_yaml(path, dt=dt, angles="radians")
    # Lost at most: 2.5 ulps of the speed and half of one of dt, either worth two of delta's, and one to the product.
    assert 0 <= ulps(back.delta[0], min(up, down)) <= 7
    assert limits.low[0] <= back.low[0] <= np.nextafter(limits.low[0], np.inf)
    assert np.nextafter(limits.high[0], -np.inf) <= back.high[0] <= limits.high[0]


def test_joint_limits_yaml_as_a_person_sees_it(tmp_path):
    path = tmp_path / "joint_limits.yaml"
    rates = dict(up={"hip": 0.4, "knee": 0.25}, down={"hip": 0.4, "knee": 0.5})
    RateLimits(**rates, low=-1, high=2, dt=0.02, units="rad").to_joint_limits_yaml(path)
    text = path.read_text()
    assert "'knee': rise 0.25 and fall 0.5 per step differ" in text and "'hip'" not in text and "dt = 0.02 s" in text
    rows = yaml.safe_load(text)["joint_limits"]
    assert rows["knee"] == {
        "has_position_limits": True,
        "min_position": -1.0,
        "max_position": 2.0,
        "has_velocity_limits": True,
        "max_velocity": pytest.approx(12.5),
    }
    assert all(type(row[key]) is float for row in rows.values() for key in row if not key.startswith("has"))


def test_joint_limits_yaml_needs_a_period_and_one_set(tmp_path):
    path = tmp_path / "joint_limits.yaml"
    with pytest.raises(ValueError, match=r"these limits have no dt, which speeds need: RateLimits\(..., dt=0.02\)"):
        RateLimits(0.2, [-1], [1]).to_joint_limits_yaml(path)
    with pytest.raises(ValueError, match="vary by sample"):
        RateLimits(np.full((2, 1), 0.2), [-1], [1], dt=0.02).to_joint_limits_yaml(path)
    assert not path.exists()


# ---------------------------------------------------------------------- on the robot, without torch


def test_a_limiter_reads_the_file_bit_for_bit(tmp_path, limits_family):
    path = tmp_path / "limits.yaml"
    for limits in limits_family.values():
        limits.to_yaml(path)
        limiter = RateLimiter.from_yaml(path)
        assert limiter.names == limits.names and limiter.dt == limits.dt
        for key in ("up", "down", "low", "high"):
            assert np.array_equal(getattr(limiter, key), getattr(limits, key))


def test_a_limiter_refuses_what_limits_refuse(tmp_path):
    path = tmp_path / "limits.yaml"
    for text, message in (
        ("joints: {hip: {delta: -1, low: -1, high: 1}}", "'hip' is -1.0, expected a positive"),
        ("joints: {hip: {delta: .nan, low: -1, high: 1}}", "'hip' is nan, expected a positive"),
        ("dt: fast\njoints: {hip: {delta: 1, low: -1, high: 1}}", "limits.yaml: dt is 'fast', expected a positive"),
        ("dt: -1\njoints: {hip: {delta: 1, low: -1, high: 1}}", "dt is -1, expected a positive"),
    ):
        path.write_text(text)
        for read in (RateLimiter.from_yaml, RateLimits.from_yaml):
            with pytest.raises(ValueError, match=message):
                read(path)


def test_a_limiter_needs_neither_torch_nor_onnxruntime(tmp_path):
    path = tmp_path / "limits.yaml"
    RateLimits.preset("H1", "paper").to_yaml(path)
    code = (
        "import sys; sys.modules['torch'] = sys.modules['onnxruntime'] = None\n"
        "from slewrl.deploy.limiter import RateLimiter\n"
        f"limiter = RateLimiter.from_yaml({str(path)!r}); d = len(limiter.names)\n"
        "limiter.start([0.0] * d)\n"
        "print(max(limiter.step([float('inf')] * d)), limiter.dt)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0.39999999999999997", "0.02"]  # the float within 0.4


# ---------------------------------------------------------------------- numbers and names that were let through


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dt: true\njoints: {hip: {delta: 1, low: -1, high: 1}}", "limits.yaml: dt is .*true.*, expected a positive"),
        ("dt: [1]\njoints: {hip: {delta: 1, low: -1, high: 1}}", r"limits.yaml: dt is \[1\], expected a positive"),
        ("joints: {'': {delta: 1, low: -1, high: 1}}", "joint name is '', expected"),
        ("joints: {' ': {delta: 1, low: -1, high: 1}}", "joint name is ' ', expected"),
        ('joints: {"a\\e[31m": {delta: 1, low: -1, high: 1}}', "joint name is 'a.x1b.31m', expected"),
        (
            "joints: {hip: {delta: 1/3, low: -1, high: 1}}",
            "'hip' is '1/3', expected a finite number, as a plain decimal",
        ),
        (
            "joints: {hip: {delta: 1_0, low: -1, high: 1}}",
            "'hip' is '1_0', expected a finite number, as a plain decimal",
        ),
        (
            "joints: {hip: {delta: 0x1F, low: -1, high: 1}}",
            "'hip' is '0x1F', expected a finite number, as a plain decimal",
        ),
        (
            "joints: {hip: {delta: 1:30, low: -1, high: 1}}",
            "'hip' is '1:30', expected a finite number, as a plain decimal",
        ),
        (
            "joints: {hip: {delta: true, low: -1, high: 1}}",
            "'hip' is 'true', expected a finite number, as a plain decimal",
        ),
        (f"joints: {{hip: {{delta: 1, low: -1, high: {'1' * 5000}}}}}", r"^high of 'hip' is '1{20,50}\.\.\. \(5002 ch"),
    ],
)
def test_what_is_no_plain_number_or_name_is_refused(tmp_path, text, message):
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    for read in (RateLimits.from_yaml, RateLimiter.from_yaml):
        with pytest.raises(ValueError, match=message) as caught:
            read(path)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("dt", ["x", True, "", [1], float("nan"), 0, -1, "1e999999999"])
def test_a_period_that_is_none_is_refused_by_name(dt):
    with pytest.raises(ValueError, match="^dt is .*, expected a positive control period in seconds"):
        RateLimits(1, [-1], [1], dt=dt)


ODD = [10**5000, Fraction(10**5000, 3), "9" * 5000, True, "1/3", "١", "0x10", "1e400"]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_a_number_is_a_plain_finite_decimal(value):
    with pytest.raises(ValueError, match="^high (of 'hip' )?is ") as caught:
        RateLimits(["0.1", "0.1"], [-1, -1], {"hip": value, "knee": 1}, names=["hip", "knee"])
    assert len(str(caught.value)) < 200


def test_numpy_floats_are_numbers(urdf):
    ours = RateLimits.from_urdf(urdf, dt=np.float64(0.02), safety=np.float64(0.9), joints=["left_hip_joint"])
    assert ours == RateLimits.from_urdf(urdf, dt=0.02, safety=0.9, joints=["left_hip_joint"])
