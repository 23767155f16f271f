"""Acceleration limits from files and presets: the numbers, the rounding, and what is refused."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slewrl import RateLimits
from slewrl.deploy.limiter import RateLimiter
from slewrl.limits import files
from slewrl.limits.parse import read_acceleration, read_limits
from slewrl.limits.presets import PRESETS
from slewrl.limits.rates import DatasheetError

PANDA = Path(__file__).parents[2] / "examples" / "panda_joint_limits.yaml"
WIDE = {"low": -3.0, "high": 3.0}


def written(tmp_path, text, name="joint_limits.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def ulps(a, b):
    """How many floats lie from a up to b, both positive."""
    return int(np.float64(b).view(np.int64)) - int(np.float64(a).view(np.int64))


pytestmark = pytest.mark.filterwarnings("ignore:acceleration is .* never binds")

# ---------------------------------------------------------------------- limits.yaml

positive = st.floats(1e-3, 1e3)


@settings(max_examples=50, deadline=None)
@given(a=positive, d=positive, dt=st.none() | st.floats(1e-4, 10.0))
def test_limits_yaml_is_read_back_bit_for_bit(tmp_path_factory, a, d, dt):
    path = tmp_path_factory.getbasetemp() / "limits.yaml"
    scale = 1 if dt is None else Fraction(dt) ** 2
    slower = [Fraction(a) / scale, Fraction(d) / scale]
    limits = RateLimits(
        {"hip": 0.2, "knee": 0.5}, **WIDE, dt=dt, acceleration=[Fraction(a) / scale] * 2, deceleration=slower
    )
    for made in (limits, RateLimits(**limits._parts() | {"deceleration": None})):
        made.to_yaml(path)
        assert RateLimits.from_yaml(path) == made
        text = yaml.safe_load(path.read_text())["joints"]
        assert text["hip"]["acceleration"] == made.acceleration[0]  # per step squared
        assert ("deceleration" in text["knee"]) == (made is limits and a != d) and "deceleration" not in text["hip"]


def test_the_arguments_suit_whoever_has_no_torch(tmp_path):
    """As a limiter reads them: exactly the bits of RateLimits."""
    path = tmp_path / "limits.yaml"
    limits = RateLimits.from_joint_limits_yaml(PANDA, dt="0.02", deceleration=30)
    limits.to_yaml(path)
    read = files.from_yaml(path)
    arrays = read_limits(None, read["low"], read["high"], read["up"], read["down"], None)
    made = read_acceleration(read["acceleration"], read["deceleration"], arrays, read["dt"])
    assert np.array_equal(made[0], limits.acceleration) and np.array_equal(made[1], limits.deceleration)


def test_files_without_acceleration_are_as_before(tmp_path):
    path = written(tmp_path, "joints: {hip: {delta: '0.2', low: -1, high: 1}}", "limits.yaml")
    read = files.from_yaml(path)
    assert read["acceleration"] is None and read["deceleration"] is None and RateLimits(**read).grid is None
    RateLimits(**read).to_yaml(path)
    assert "acceleration" not in path.read_text()
    RateLimits(0.2, [-1], [1], dt=0.02).to_joint_limits_yaml(path)
    assert "acceleration" not in path.read_text()


@pytest.mark.parametrize("dt", ["dt: 0.02\n", ""])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("acceleration: fast", "acceleration of 'hip' is 'fast', expected a finite number"),
        ("acceleration: 1/3", "acceleration of 'hip' is '1/3', expected a finite number, as a plain decimal"),
        ("acceleration: true", "acceleration of 'hip' is 'true', expected a finite number"),
        ("acceleration: .nan", "acceleration of 'hip' is nan, expected a "),
        ("acceleration: .inf", "acceleration of 'hip' is inf, expected a "),
        ("acceleration: 0", "acceleration of 'hip' is 0.0, expected a positive"),
        ("acceleration: -0.5", "acceleration of 'hip' is -0.5, expected a positive"),
        ("acceleration: 0.5, deceleration: -1", "deceleration of 'hip' is -1.0, expected a positive"),
        ("acceleration: 1e-9", "acceleration of 'hip' is 1e-09 per step, expected at least"),
        ("deceleration: 0.5", "joint 'hip' has deceleration 0.5, expected acceleration with it"),
        (
            "acelleration: 0.5",
            "joint 'hip' has an unknown entry 'acelleration', expected delta, up, down, acceleration",
        ),
    ],
)
def test_a_bad_acceleration_is_refused_by_joint_and_value(tmp_path, dt, row, message):
    path = written(tmp_path, f"{dt}joints: {{hip: {{delta: 0.2, low: -1, high: 1, {row}}}}}", "limits.yaml")
    with pytest.raises(ValueError, match=message):
        RateLimits.from_yaml(path)


def test_all_joints_of_a_limits_yaml_have_an_acceleration_or_none(tmp_path):
    rows = "a: {delta: 0.2, low: -1, high: 1, acceleration: 0.1}, b: {delta: 0.2, low: -1, high: 1}"
    with pytest.raises(ValueError, match=r"limits.yaml: joint 'b' has no 'acceleration', expected one, as others have"):
        RateLimits.from_yaml(written(tmp_path, f"joints: {{{rows}}}", "limits.yaml"))


def test_a_person_may_write_a_quoted_decimal(tmp_path):
    row = "{delta: 0.2, low: -1, high: 1, acceleration: '0.006'}"
    limits = RateLimits.from_yaml(written(tmp_path, f"dt: 0.02\njoints: {{hip: {row}}}", "limits.yaml"))
    below = float(limits.acceleration[0])
    assert Fraction(below) <= Fraction("0.006") < Fraction(math.nextafter(below, 1))


def test_a_limits_yaml_says_what_its_accelerations_are_in(tmp_path):
    made = RateLimits({"hip": 0.2}, -1, 1, dt=0.02, acceleration=15)
    made.to_yaml(path := tmp_path / "limits.yaml")
    text = path.read_text()
    assert "acceleration_in: per step squared" in text and RateLimits.from_yaml(path) == made
    older = written(tmp_path, text.replace("acceleration_in: per step squared\n", ""), "limits.yaml")
    assert RateLimits.from_yaml(older) == made
    row = "acceleration_in: per second squared\njoints: {hip: {delta: 0.2, low: -1, high: 1, acceleration: 15}}"
    path = written(tmp_path, "dt: 0.02\n" + row, "limits.yaml")
    assert RateLimits.from_yaml(path) == made
    assert (RateLimiter(path).accelerations == made.acceleration).all()
    with pytest.raises(
        ValueError, match=r"has an unknown entry 'acceleration_unit', expected units, dt, acceleration_in"
    ):
        RateLimits.from_yaml(written(tmp_path, row.replace("_in", "_unit"), "limits.yaml"))
    with pytest.raises(ValueError, match="acceleration_in is per second squared, expected a dt with it"):
        RateLimits.from_yaml(written(tmp_path, row, "limits.yaml"))
    with pytest.raises(ValueError, match=r"acceleration_in is 'rad/s\^2', expected per step squared or per second sq"):
        RateLimits.from_yaml(written(tmp_path, row.replace("per second squared", "rad/s^2"), "limits.yaml"))


def test_an_acceleration_in_the_wrong_unit_is_said_by_the_limiter_too(tmp_path):
    row = "dt: 0.02\njoints: {hip: {delta: 0.2, low: -1, high: 1, acceleration: 15}}"
    path = written(tmp_path, row, "limits.yaml")
    for read in (RateLimits.from_yaml, RateLimiter):
        with pytest.warns(
            UserWarning, match=r"never binds: is it in other units\?.*acceleration_in: per second squared"
        ):
            read(path)


# ---------------------------------------------------------------------- joint_limits.yaml

ROW = "min_position: -1, max_position: 1, max_velocity: 2"


def one(tmp_path, row, dt="0.02", **said):
    path = written(tmp_path, f"joint_limits: {{hip: {{{ROW}, {row}}}}}")
    return RateLimits.from_joint_limits_yaml(path, dt=dt, **said)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("has_acceleration_limits: true, max_acceleration: 5", (5, 5)),
        ("max_acceleration: 5", (5, 5)),
        ("has_acceleration_limits: true, max_acceleration: 5, max_deceleration: 8", (5, 8)),
        ("max_acceleration: 5, has_deceleration_limits: true, max_deceleration: 8", (5, 8)),
        ("max_acceleration: 5, has_deceleration_limits: false, max_deceleration: 8", (5, 5)),
        ("max_acceleration: 5, max_deceleration: -8", (5, 8)),  # as MoveIt's Pilz planner writes it
        ("max_acceleration: !degrees 180, max_deceleration: !degrees -360", (math.pi, 2 * math.pi)),
        ("max_acceleration: !radians 5", (5, 5)),
        ("has_acceleration_limits: false, max_acceleration: 0", None),
        ("has_acceleration_limits: false, max_acceleration: 5, max_deceleration: 8", None),
        ("has_acceleration_limits: false", None),
    ],
)
def test_what_a_joint_limits_yaml_says_of_acceleration(tmp_path, row, expected):
    limits = one(tmp_path, row)
    if expected is None:
        assert limits.grid is None and limits.acceleration is None
    else:
        found = limits.acceleration[0], limits.deceleration[0]
        assert found == pytest.approx([value * 0.0004 for value in expected], rel=1e-12)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "has_acceleration_limits: true",
            r"joint 'hip': has_acceleration_limits is on but max_acceleration is missing",
        ),
        ("has_acceleration_limits: true, max_acceleration:", "has_acceleration_limits is on but max_acceleration is"),
        (
            "max_acceleration: 5, has_deceleration_limits: true",
            "joint 'hip': has_deceleration_limits is on but max_deceleration is missing",
        ),
        ("has_acceleration_limits: maybe", "has_acceleration_limits is 'maybe', expected true or false"),
        ("max_acceleration: 0", "'hip' has acceleration limit 0, expected a positive number; give --acceleration hip="),
        ("max_acceleration: fast", "'hip' has acceleration limit 'fast', expected a finite number, as a plain decimal"),
        ("max_acceleration: inf", "'hip' has acceleration limit 'inf', expected a finite number"),
        ("max_acceleration: none", "'hip' has acceleration limit 'none', expected a finite number"),
        ("max_acceleration: 5, max_deceleration: 0", "'hip' has deceleration limit 0, .*give --deceleration hip="),
        (
            "has_acceleration_limits: false, has_deceleration_limits: true, max_deceleration: 8",
            "'hip' has deceleration limit 8 but no acceleration limit; give --acceleration hip=.* or hip=none",
        ),
        ("max_acceleration: !grads 5", "has the tag '!grads', expected !degrees or !radians"),
    ],
)
def test_what_is_wrong_with_an_acceleration_is_said_by_name(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        one(tmp_path, row)


numbers = st.decimals("0.1", "720", places=3).map(str)


@settings(max_examples=50, deadline=None)
@given(a=numbers, d=numbers, dt=st.sampled_from(["0.02", 0.02, 0.3, "0.1"]), safety=st.sampled_from([1, 0.9, "0.7"]))
def test_accelerations_are_never_rounded_outward(tmp_path_factory, a, d, dt, safety):
    """The largest float within the product, however dt and safety are read; safety scales accelerations, too."""
    path = tmp_path_factory.getbasetemp() / "joint_limits.yaml"
    path.write_text(f"joint_limits: {{hip: {{{ROW}, max_acceleration: {a}, max_deceleration: {d}}}}}")
    limits = RateLimits.from_joint_limits_yaml(path, dt=dt, safety=safety, angles="radians")
    for said, made in ((a, limits.acceleration[0]), (d, limits.deceleration[0])):
        products = [
            Fraction(said) * t**2 * s
            for t in (Fraction(dt), Fraction(str(dt)))
            for s in (Fraction(safety), Fraction(str(safety)))
        ]
        assert Fraction(float(made)) <= min(products) < Fraction(math.nextafter(made, math.inf))


@settings(max_examples=50, deadline=None)
@given(a=st.floats(0.01, 1.0), d=st.floats(0.01, 1.0), dt=st.floats(1e-3, 1.0))
def test_a_joint_limits_yaml_reads_back_never_wider(tmp_path_factory, a, d, dt):
    path = tmp_path_factory.getbasetemp() / "joint_limits.yaml"
    scale = Fraction(dt) ** 2
    given = {"acceleration": [Fraction(a) / scale], "deceleration": [Fraction(d) / scale]}
    limits = RateLimits([1.0], **WIDE, names=["hip"], dt=dt, **given)
    limits.to_joint_limits_yaml(path)
    for loader in (yaml.BaseLoader, yaml.SafeLoader):  # as we read it; as ROS does, doubles
        row = yaml.load(path.read_text(), Loader=loader)["joint_limits"]["hip"]  # noqa: S506
        for period in (Fraction(dt), Fraction(repr(dt))):
            assert Fraction(row["max_acceleration"]) * period**2 <= Fraction(a)
            assert Fraction(row.get("max_deceleration", row["max_acceleration"])) * period**2 <= Fraction(d)
    back = RateLimits.from_joint_limits_yaml(path, dt=dt, angles="radians")
    # Lost at most: 2.5 ulps of the acceleration and half of one of dt, squared, each worth two, and one to the product.
    assert 0 <= ulps(back.acceleration[0], a) <= 9 and 0 <= ulps(back.deceleration[0], d) <= 9


def test_max_deceleration_is_written_where_it_differs(tmp_path):
    path = tmp_path / "joint_limits.yaml"
    said = dict(acceleration={"hip": 100, "knee": 100}, deceleration={"hip": 100, "knee": 200})
    RateLimits({"hip": 0.2, "knee": 0.5}, **WIDE, dt=0.02, **said).to_joint_limits_yaml(path)
    rows = yaml.safe_load(path.read_text())["joint_limits"]
    assert rows["hip"]["has_acceleration_limits"] is True and rows["hip"]["max_acceleration"] == pytest.approx(100)
    assert "max_deceleration" not in rows["hip"] and rows["knee"]["max_deceleration"] == pytest.approx(200)
    assert rows["knee"]["has_deceleration_limits"] is True


MIXED = f"""joint_limits:
  arm: {{{ROW}, has_acceleration_limits: true, max_acceleration: 5}}
  wrist: {{{ROW}, has_acceleration_limits: false}}
  finger: {{{ROW}}}
"""


def test_joints_without_an_acceleration_among_others_are_named(tmp_path):
    path = written(tmp_path, MIXED)
    with pytest.raises(DatasheetError, match="2 of 3 joints") as caught:
        RateLimits.from_joint_limits_yaml(path, dt="0.02")
    said = str(caught.value)
    assert "joints 'wrist', 'finger' have no acceleration limit, expected one for every joint" in said
    assert "give --acceleration NAME=RAD_OR_M_PER_S2 or NAME=none, or --exclude NAME" in said and "'arm'" not in said
    assert "acceleration={name: 20}" in said and "Perhaps" not in said
    given = RateLimits.from_joint_limits_yaml(path, dt="0.02", acceleration={"wrist": "7", "fing*": 9})
    assert given.acceleration.tolist() == pytest.approx([5 * 0.0004, 7 * 0.0004, 9 * 0.0004])
    assert RateLimits.from_joint_limits_yaml(path, dt="0.02", exclude=["wrist", "finger"]).dim == 1


def test_a_joint_without_a_limit_beside_others_moves_as_its_rate_allows(tmp_path):
    path = written(tmp_path, MIXED)
    limits = RateLimits.from_joint_limits_yaml(path, dt="0.02", acceleration={"wrist": "none", "finger": None})
    box = limits.box(np.zeros(3), velocity=np.zeros(3))
    assert box.high.tolist() == pytest.approx([0.002, 0.04, 0.04], abs=1e-6)
    rate = limits.grid.unit * limits.grid.up
    turned = limits.box(np.array([0.0, rate[1], -rate[2]]), velocity=np.array([0.0, rate[1], -rate[2]]))
    assert turned.low[1] == 0 and turned.high[2] == 0  # from full rate to full rate the other way
    near = limits.box(
        np.array([0.0, limits.grid.high[1] * limits.grid.unit[1], 0.0]), velocity=np.array([0, rate[1], 0])
    )
    assert near.high[1] == near.prev[1]  # and no room to brake is needed
    limits.to_joint_limits_yaml(tmp_path / "again.yaml")
    assert RateLimits.from_joint_limits_yaml(tmp_path / "again.yaml", dt=0.02).acceleration == pytest.approx(
        limits.acceleration
    )
    fast = RateLimits.from_joint_limits_yaml(path, dt="0.001", acceleration={"wrist": "none", "finger": None})
    fast.to_joint_limits_yaml(tmp_path / "fast.yaml")  # 2 / dt times the speed, per second squared
    assert RateLimits.from_joint_limits_yaml(tmp_path / "fast.yaml", dt=0.001).acceleration == pytest.approx(
        fast.acceleration
    )
    both = one(tmp_path, "max_acceleration: 5, max_deceleration: 8", acceleration="none")
    assert both.grid is None  # that of slowing down goes, too
    path = written(tmp_path, MIXED)
    for nothing in ("none", {"*": None}, math.inf):
        plain = RateLimits.from_joint_limits_yaml(path, dt="0.02", acceleration=nothing)
        assert plain.grid is None and plain.acceleration is None


def test_a_urdf_gives_what_the_yaml_does_not_say(tmp_path):
    limit = '<limit lower="-1" upper="1" velocity="2" acceleration="5" deceleration="6" jerk="7"/>'
    urdf = written(tmp_path, f'<robot><joint name="hip" type="revolute">{limit}</joint></robot>', "hip.urdf")
    assert RateLimits.from_urdf(urdf, dt="0.02").acceleration[0] == pytest.approx(0.002)
    assert RateLimits.from_urdf(urdf, dt="0.02").deceleration[0] == pytest.approx(0.0024)
    assert files.read_sheet(urdf).notes == ("left out: jerk limits of hip",)
    for row, expected in (
        ("max_velocity: 1", 0.002),
        ("max_acceleration: 10", 0.004),
        ("has_acceleration_limits: false", None),
    ):
        path = written(tmp_path, f"joint_limits: {{hip: {{{row}}}}}")
        made = RateLimits.from_joint_limits_yaml(path, dt="0.02", urdf=urdf).acceleration
        assert made is None if expected is None else made[0] == pytest.approx(expected)


@pytest.mark.parametrize("key", ["acceleration", "deceleration"])
def test_an_acceleration_in_degrees_is_refused_and_read_as_degrees_if_told(tmp_path, key):
    """Speeds in radians and accelerations in degrees: a Franka would be at full speed within 3 ms."""
    row = "min_position: -2, max_position: 2, max_velocity: 2.175, max_acceleration: 15, max_deceleration: 15"
    mixed = row.replace(f"max_{key}: 15", f"max_{key}: 859.4")
    path = written(tmp_path, f"joint_limits: {{hip: {{{mixed}}}}}")
    message = rf"'hip' has {key} limit 859\.4 rad/s\^2, which takes less than 0\.01 s .*--{key} hip=.*--angles degrees"
    with pytest.raises(DatasheetError, match=message):
        RateLimits.from_joint_limits_yaml(path, dt="0.02")
    assert RateLimits.from_joint_limits_yaml(path, dt="0.02", angles="radians").dim == 1
    corrected = RateLimits.from_joint_limits_yaml(path, dt="0.02", **{key: 859.4})  # a user's own number is believed
    assert getattr(corrected, key)[0] == pytest.approx(859.4 * 0.02**2)
    slide = written(tmp_path, mixed.join(["joint_limits: {hip: {", "}}"]), "slide.yaml")
    urdf = written(
        tmp_path, '<robot><joint name="hip" type="prismatic"><limit velocity="2"/></joint></robot>', "slide.urdf"
    )
    assert RateLimits.from_joint_limits_yaml(slide, dt="0.02", urdf=urdf).units == "m"


# ---------------------------------------------------------------------- what a user says

URDF = """<robot><joint name="hip" type="revolute"><limit lower="-1" upper="1" velocity="2"/></joint>
<joint name="knee" type="revolute"><limit lower="-1" upper="1" velocity="4"/></joint>
<joint name="wheel" type="continuous"><limit velocity="10"/></joint></robot>"""


@pytest.mark.parametrize(
    ("said", "acceleration", "deceleration"),
    [
        (dict(acceleration=5), [5, 5], [5, 5]),
        (dict(acceleration="5", deceleration="7.5"), [5, 5], [7.5, 7.5]),
        (dict(acceleration={"*": 5, "knee": "10"}), [5, 10], [5, 10]),
        (dict(acceleration={"hip": 5, "knee": 10}, deceleration={"knee": 20}), [5, 10], [5, 20]),
        (dict(acceleration=5, deceleration="none"), [5, 5], [200, 400]),  # 2 delta / dt^2
    ],
)
def test_accelerations_for_a_urdf(tmp_path, said, acceleration, deceleration):
    path = written(tmp_path, URDF, "leg.urdf")
    limits = RateLimits.from_urdf(path, dt="0.02", exclude=["wheel"], **said)
    assert limits.acceleration.tolist() == pytest.approx([a * 0.0004 for a in acceleration])
    assert limits.deceleration.tolist() == pytest.approx([d * 0.0004 for d in deceleration])
    half = RateLimits.from_urdf(path, dt="0.02", safety="0.5", exclude=["wheel"], **said)
    assert half.acceleration.tolist() == pytest.approx((limits.acceleration / 2).tolist())


def test_accelerations_that_make_no_sense(tmp_path):
    path = written(tmp_path, URDF, "leg.urdf")
    for said, message in (
        (dict(acceleration=0), "'hip', 'knee' have acceleration limit 0, expected a positive"),
        (dict(acceleration="-5"), "'hip', 'knee' have acceleration limit -5, expected a positive"),
        (dict(acceleration={"hip": "fast"}), "'hip' has acceleration limit 'fast', expected a finite number"),
        (dict(deceleration=5), "'hip', 'knee' have deceleration limit 5 but no acceleration limit"),
        (dict(acceleration={"hip": 5}), "'knee' has no acceleration limit, expected one for every joint"),
        (dict(acceleration={"kne*": 5, "elbow": 1}), "no movable joint 'elbow'; it has: hip, knee"),
    ):
        with pytest.raises((ValueError, KeyError), match=message):
            RateLimits.from_urdf(path, dt="0.02", exclude=["wheel"], **said)


def test_a_continuous_joint_keeps_most_of_its_acceleration(tmp_path):
    path = written(tmp_path, URDF, "leg.urdf")
    limits = RateLimits.from_urdf(path, dt="0.02", joints=["wheel"], continuous=["wheel"], acceleration=10)
    kept = limits.grid.acceleration * limits.grid.unit / limits.acceleration
    assert 1 - 2 / 32 <= kept[0] < 1 and limits.high[0] == 2.0**10  # 2^17 to 2^18 times 0.004


def test_accelerations_for_an_mjcf(tmp_path):
    text = '<mujoco><worldbody><body><geom size="1"/><joint name="hip" range="-90 90"/></body></worldbody></mujoco>'
    path = written(tmp_path, text, "arm.xml")
    limits = RateLimits.from_mjcf(
        path, dt="0.02", speeds={"hip": 5}, acceleration={"hip": 20}, deceleration={"hip": 40}
    )
    assert limits.acceleration[0] == pytest.approx(0.008) and limits.deceleration[0] == pytest.approx(0.016)


# ---------------------------------------------------------------------- presets


@pytest.mark.parametrize("task", PRESETS)
def test_a_torque_reaches_its_full_rate_in_four_steps(task):
    tight, limits = (RateLimits.preset(task, name) for name in ("tight", "tight_acceleration"))
    assert np.array_equal(limits.delta, tight.delta) and limits.names == tight.names and limits.dt is None
    assert limits.acceleration.tolist() == pytest.approx((tight.delta / 4).tolist(), rel=1e-14)
    assert np.array_equal(limits.acceleration, limits.deceleration)
    assert (1 - limits.grid.acceleration * limits.grid.unit / limits.acceleration < 0.001).all()


# ---------------------------------------------------------------------- an arm


def test_the_pandas_published_limits():
    limits = RateLimits.from_joint_limits_yaml(PANDA, dt="0.02")
    assert limits.names == tuple(f"panda_joint{i}" for i in range(1, 8)) and limits.units == "rad"
    assert (limits.delta / 0.02).tolist() == pytest.approx([2.175] * 4 + [2.61] * 3)
    assert (limits.acceleration / 0.0004).tolist() == pytest.approx([15, 7.5, 10, 12.5, 15, 20, 20])
    assert limits.low.tolist() == pytest.approx([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
    assert limits.high.tolist() == pytest.approx([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
    assert re.search("Franka Emika, .Robot and interface specifications.", PANDA.read_text())
