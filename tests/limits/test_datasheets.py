"""What a robot's files say, in the units they say it in, and what a user says beside them."""

import importlib
import math
import os
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slewrl import RateLimits
from slewrl.commands.limits import _heterogeneity
from slewrl.robots.custom import read_robot

# ---------------------------------------------------------------------- units

PI = Fraction("3.141592653589793238462643383279"), Fraction("3.141592653589793238462643383280")
"""Below and above."""
UR = """
joint_limits:
  shoulder_pan_joint:
    has_acceleration_limits: false
    has_position_limits: true
    min_position: !degrees -360.0
    max_position: !degrees  360.0
    has_velocity_limits: true
    max_velocity: !degrees  180.0
  elbow_joint:
    has_position_limits: true
    min_position: !radians -3.0
    max_position: !radians 3.0
    has_velocity_limits: true
    max_velocity: !radians 3.0
"""
"""The tags of Universal Robots' joint_limits.yaml."""


def written(tmp_path, text, name="joint_limits.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_degrees_in_a_joint_limits_yaml_are_degrees(tmp_path):
    limits = RateLimits.from_joint_limits_yaml(written(tmp_path, UR), dt="0.02")
    assert limits.delta.tolist() == pytest.approx([math.pi * 0.02, 0.06])
    assert limits.high.tolist() == pytest.approx([2 * math.pi, 3]) and (limits.low == -limits.high).all()


numbers = st.decimals("0.001", "720", places=3).map(str)


@given(speed=numbers, low=numbers, high=numbers)
def test_degrees_are_rounded_inward(tmp_path_factory, speed, low, high):
    """The largest float within the exact value: never wider."""
    path = tmp_path_factory.getbasetemp() / "degrees.yaml"
    row = f"{{min_position: !degrees -{low}, max_position: !degrees {high}, max_velocity: !degrees {speed}}}"
    path.write_text(f"joint_limits: {{hip: {row}}}")
    limits = RateLimits.from_joint_limits_yaml(path, dt=1, angles="radians")
    for said, value in ((speed, limits.delta[0]), (low, -limits.low[0]), (high, limits.high[0])):
        below, above = (Fraction(said) * pi / 180 for pi in PI)
        assert Fraction(float(value)) <= below and above < Fraction(math.nextafter(value, math.inf))


@pytest.mark.parametrize("tag", ["!deg", "!grads", "!!float", "!!python/object/apply:os.system"])
def test_other_tags_are_refused_by_name(tmp_path, tag):
    name = tag.replace("!!", "tag:yaml.org,2002:")
    with pytest.raises(ValueError, match=rf"limits.yaml: line 9 has the tag '{name}', expected !degrees or !radians"):
        RateLimits.from_joint_limits_yaml(written(tmp_path, UR.replace("!degrees  180", f"{tag} 180")), dt=0.02)
    ours = written(tmp_path, f"joints: {{hip: {{delta: {tag} 5, low: -1, high: 1}}}}", "limits.yaml")
    with pytest.raises(ValueError, match=rf"limits.yaml: line 1 has the tag '{name}', expected none"):
        RateLimits.from_yaml(ours)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("!degrees j1: {max_velocity: 1}", "line 1 has the tag '!degrees' at 'j1', expected it at a number"),
        ("j1: {!degrees max_velocity: 1}", "has the tag '!degrees' at 'max_velocity'"),
        ("j1: {<<: {!degrees max_velocity: 1}}", "has the tag '!degrees' at 'max_velocity'"),
        ("j1: {max_velocity: &a !degrees 1, *a : 2}", "has the tag '!degrees' at '1'"),
        ("j1: {has_velocity_limits: !radians true}", "has the tag '!radians' at 'has_velocity_limits'"),
        ("j1: !degrees 5", "joint 'j1' is !degrees 5, expected a mapping"),
    ],
)
def test_a_tag_is_for_a_number(tmp_path, row, message):
    with pytest.raises(ValueError, match=rf"limits.yaml: .*{message}"):
        RateLimits.from_joint_limits_yaml(written(tmp_path, f"joint_limits: {{{row}}}"), dt=0.02)


def urdf(tmp_path, *joints, name="robot.urdf"):
    """A URDF of (name, type, attributes of its limit, more XML)."""
    made = (
        f'<joint name="{n}" type="{kind}"><limit {limit}/>{"".join(more)}</joint>' for n, kind, limit, *more in joints
    )
    return written(tmp_path, f"<robot>{''.join(made)}</robot>", name)


def test_what_cannot_be_radians_is_refused_until_the_user_says_so(tmp_path):
    bare = written(tmp_path, UR.replace("!degrees", ""))
    with pytest.raises(ValueError, match=r"'shoulder_pan_joint' has velocity limit 180\.0 rad/s.*degrees"):
        RateLimits.from_joint_limits_yaml(bare, dt="0.02")
    with pytest.raises(ValueError, match=r"range \[-360\.0, 360\.0\] rad, .*--angles degrees"):
        RateLimits.from_joint_limits_yaml(bare, dt="0.02")
    as_degrees = RateLimits.from_joint_limits_yaml(bare, dt="0.02", angles="degrees")
    tagged = RateLimits.from_joint_limits_yaml(written(tmp_path, UR, "tagged.yaml"), dt="0.02")
    for name in ("delta", "low", "high"):
        assert getattr(as_degrees, name).tolist() == getattr(tagged, name).tolist()
    assert RateLimits.from_joint_limits_yaml(bare, dt="0.02", angles="radians").delta[0] == pytest.approx(3.6)
    with pytest.raises(ValueError, match="angles is 'turns', expected 'radians' or 'degrees'"):
        RateLimits.from_joint_limits_yaml(bare, dt="0.02", angles="turns")


@pytest.mark.parametrize(
    "limit",
    [
        'lower="-1" upper="1" velocity="180"',
        'lower="-170" upper="170" velocity="2"',
        'lower="0" upper="0.01" velocity="5"',
    ],
)
def test_a_urdf_in_degrees_is_refused_and_read_as_degrees_if_told(tmp_path, limit):
    path = urdf(tmp_path, ("hip", "revolute", limit))
    with pytest.raises(ValueError, match=r"'hip' has .*degrees"):
        RateLimits.from_urdf(path, dt=0.02)
    plain = RateLimits.from_urdf(path, dt="0.02", angles="radians")
    if "0.01" not in limit:
        turned = RateLimits.from_urdf(path, dt="0.02", angles="degrees")
        assert turned.delta[0] / plain.delta[0] == pytest.approx(math.pi / 180)
        assert turned.high[0] / plain.high[0] == pytest.approx(math.pi / 180)
    slide = urdf(tmp_path, ("rail", "prismatic", limit))  # metres are metres
    assert RateLimits.from_urdf(slide, dt="0.02", angles="degrees") == RateLimits.from_urdf(slide, dt="0.02")


XACRO = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro">{}</robot>'
PLAIN = '<joint name="hip" type="revolute"><limit lower="-1" upper="{}" velocity="9"/></joint>'


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (f'<xacro:macro name="leg">{PLAIN.format(1)}</xacro:macro>', "<macro> of xacro"),
        (f'<xacro:unless value="0">{PLAIN.format(1)}</xacro:unless>', "<unless> of xacro"),
        (PLAIN.format(1).replace("hip", "${prefix}_j"), r"'\${prefix}_j'"),
        (PLAIN.format("${pi}"), r"'\${pi}'"),
        (PLAIN.format("$(arg far)"), r"'\$\(arg far\)'"),
    ],
)
def test_xacro_is_refused_until_it_is_run(tmp_path, inside, message):
    path = written(tmp_path, XACRO.format(inside), "x.urdf")
    for read in (lambda path: RateLimits.from_urdf(path, dt=0.02), read_robot):
        with pytest.raises(ValueError, match=rf"x.urdf has {message}, expected a URDF: run xacro first"):
            read(path)
    assert RateLimits.from_urdf(written(tmp_path, XACRO.format(PLAIN.format(1)), "x.urdf"), dt=0.02).dim == 1


def test_degrees_of_a_joint_in_metres_are_refused(tmp_path):
    path = urdf(tmp_path, ("elbow_joint", "prismatic", 'lower="0" upper="1" velocity="1"'))
    bounds = UR.replace("!radians -3.0", "!degrees -3.0")
    with pytest.raises(ValueError, match=r"'elbow_joint'.*!degrees.* in metres"):
        RateLimits.from_joint_limits_yaml(written(tmp_path, bounds), dt=0.02, urdf=path)


# ---------------------------------------------------------------------- all faults at once, and what mends them

GOOD = ("hip", "revolute", 'lower="-1" upper="1" velocity="9"')
FAULTS = (
    GOOD,
    ("wheel_left", "continuous", 'velocity="9"'),
    ("wheel_right", "continuous", 'velocity="9"'),
    ("caster", "continuous", ""),
    ("knee", "revolute", 'lower="1" upper="-1" velocity="9"'),
    ("ankle", "revolute", 'lower="-1" upper="1" velocity="0"'),
    ("toe", "revolute", 'lower="-1" upper="1" velocity="1/3"'),
    ("heel", "revolute", 'lower="-1_0" upper="1" velocity="1_0"'),
    ("rail", "prismatic", 'velocity="1"'),
)


def test_all_faults_are_named_at_once_with_what_mends_each(tmp_path):
    path = urdf(tmp_path, *FAULTS)
    with pytest.raises(ValueError, match="8 of 9 joints") as caught:
        RateLimits.from_urdf(path, dt=0.02)
    said = str(caught.value)
    for part in (
        "'wheel_left', 'wheel_right', 'caster' have no position bounds",
        "--continuous NAME, or --bounds NAME=LOW,HIGH, or --exclude NAME",
        "Perhaps: --continuous wheel_left wheel_right --exclude caster\n",
        "'caster' has no velocity limit",
        "--exclude caster",
        "'knee' has range [1, -1], expected low < high",
        "--bounds knee=LOW,HIGH",
        "'ankle' has velocity limit 0, expected a positive speed",
        "--speeds ankle=RAD_PER_S",
        "'toe' has velocity limit '1/3', expected a finite number, as a plain decimal",
        "'heel' has velocity limit '1_0', expected a finite number, as a plain decimal",
        "'heel' has range ['-1_0', 1], expected finite numbers, as plain decimals",
        "--bounds rail=LOW,HIGH",
        "In Python",
    ):
        assert part in said
    assert "'hip'" not in said and "--continuous rail" not in said
    limits = RateLimits.from_urdf(
        path,
        dt=0.02,
        continuous=["wheel_*"],
        exclude=["caster", "rail"],
        speeds={"toe": "2", "heel": 3, "ankle": 4},
        bounds={"knee": ("-1", "1"), "heel": (-1, 1)},
    )
    assert limits.names == ("hip", "wheel_left", "wheel_right", "knee", "ankle", "toe", "heel")
    assert limits.delta[-3:].tolist() == pytest.approx([0.08, 0.04, 0.06])


def test_an_arm_is_never_proposed_as_a_wheel(tmp_path):
    """MoveIt's files leave bounds out, and a range in degrees is a range."""
    moveit = written(tmp_path, "joint_limits: {elbow: {max_velocity: 2}}")
    arm = urdf(tmp_path, ("elbow", "revolute", 'lower="-170" upper="170" velocity="2"'))
    for read, path in ((RateLimits.from_joint_limits_yaml, moveit), (RateLimits.from_urdf, arm)):
        with pytest.raises(ValueError, match="1 of 1 joint") as caught:
            read(path, dt=0.02)
        assert "Perhaps" not in str(caught.value)


def test_names_and_patterns_that_fit_nothing_are_refused(tmp_path):
    path = urdf(tmp_path, GOOD, ("odd[1]*", "revolute", 'lower="-1" upper="1" velocity="9"'))
    for said in (
        {"exclude": ["kne*"]},
        {"speeds": {"kne*": 1}},
        {"continuous": ["kne*"]},
        {"bounds": {"kne*": (0, 1)}},
    ):
        with pytest.raises(KeyError, match=r"no movable joint 'kne\*'; it has: hip, odd"):
            RateLimits.from_urdf(path, dt=0.02, **said)
    assert RateLimits.from_urdf(path, dt=0.02, exclude=["odd[1]*"]).names == ("hip",)  # a name before a pattern
    with pytest.raises(ValueError, match="no joint is left"):
        RateLimits.from_urdf(path, dt=0.02, exclude=["*"])
    with pytest.raises(
        ValueError, match="speeds of 'hip' is 'fast', expected a plain decimal|'hip' has velocity limit"
    ):
        RateLimits.from_urdf(path, dt=0.02, speeds={"hip": "fast"})


def test_a_continuous_joint_has_its_rate_exactly_and_a_bound_floats_resolve(tmp_path):
    path = urdf(tmp_path, ("wheel", "continuous", 'velocity="9.7"'), ("slow", "revolute", 'velocity="0.001"'))
    limits = RateLimits.from_urdf(path, dt="0.02", continuous=["wheel", "slow"])
    assert Fraction(float(limits.delta[0])) <= Fraction("9.7") * Fraction("0.02")
    assert (limits.high == -limits.low).all() and (np.log2(limits.high) % 1 == 0).all()
    assert (limits.high / limits.delta > 1e5).all()  # more than half an hour at full speed, 50 Hz
    for prev in (torch.zeros(2), torch.tensor(limits.high).float() * 0.99):
        box = limits.box(prev)
        moved = (box.high.double() - prev.double()).numpy()
        assert (moved >= 0.98 * limits.delta).all() and (moved <= limits.delta).all()
    with pytest.raises(ValueError, match=r"'hip' has range \[-1, 1\] in the file, so it is not continuous"):
        RateLimits.from_urdf(urdf(tmp_path, GOOD), dt=0.02, continuous=["hip"])


# ---------------------------------------------------------------------- MJCF

MJCF = """<mujoco><compiler angle="{angle}"/><worldbody><body name="base"><freejoint name="root"/>
  <geom size="1"/>
  <body name="a"><geom size="1"/><joint name="hip" range="{low} {high}"/>
    <body name="b"><geom size="1"/><joint name="rail" type="slide" range="0 0.5"/>
      <body name="c"><geom size="1"/><joint name="wheel"/>
        <body name="d"><geom size="1"/><joint name="finger" range="{low} {high}"/>
          <body name="e"><geom size="1"/><joint name="neck" type="ball"/></body></body></body></body></body>
  </body></worldbody><equality><joint joint1="finger" joint2="hip"/></equality></mujoco>"""


@pytest.mark.parametrize(("angle", "low", "high"), [("degree", "-33.3", "90.1"), ("radian", "-0.57", "1.57")])
def test_mjcf(tmp_path, angle, low, high):
    path = written(tmp_path, MJCF.format(angle=angle, low=low, high=high), "robot.xml")
    with pytest.raises(
        ValueError, match=r"(?s)'hip', 'wheel' have no velocity limit.*MJCF.*--speeds NAME=RAD_PER_S.*rail=M_"
    ):
        RateLimits.from_mjcf(path, dt="0.02")
    speeds = {"hip": "9", "wheel": "20", "rail": "0.5"}
    limits = RateLimits.from_mjcf(path, dt="0.02", speeds=speeds, continuous=["wheel"])
    assert limits.names == ("hip", "rail", "wheel") and limits.units == "m/rad"
    assert limits.delta.tolist() == pytest.approx([0.18, 0.01, 0.4])
    for said, value, pi in ((low, -limits.low[0], PI[0]), (high, limits.high[0], PI[0])):
        exact = abs(Fraction(said)) * (pi / 180 if angle == "degree" else 1)
        assert exact * (1 - Fraction(1, 10**14)) < Fraction(float(value)) <= exact
    with pytest.raises(ValueError, match="angles is 'degrees', but an MJCF says"):
        RateLimits.from_mjcf(path, dt="0.02", speeds=speeds, continuous=["wheel"], angles="degrees")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>", "joint 0 has no name"),
        ("<mujoco/>", "no hinge or slide joint"),
        ("<mujoco><worldbody><bdy/></worldbody></mujoco>", "(?s)robot.xml: .*bdy"),
        ("<robot/>", "root element is <robot>, expected <mujoco>"),
    ],
)
def test_bad_mjcf(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        RateLimits.from_mjcf(written(tmp_path, text, "robot.xml"), dt=0.02)


def test_the_range_of_an_mjcf_is_doubted_too(tmp_path):
    path = written(tmp_path, MJCF.format(angle="radian", low="-90", high="90"), "robot.xml")
    said = {"dt": "0.02", "speeds": {"hip": "9", "wheel": "20", "rail": "0.5"}, "continuous": ["wheel"]}
    with pytest.raises(ValueError, match=r"'hip' has range \[-90, 90\] rad, more than 4 turns") as caught:
        RateLimits.from_mjcf(path, **said)
    assert "--angles radians" in str(caught.value) and "--angles degrees" not in str(caught.value)
    assert RateLimits.from_mjcf(path, **said, angles="radians").high[0] == pytest.approx(90)
    assert RateLimits.from_mjcf(path, **said, bounds={"hip": (-90, 90)}).high[0] == 90


@pytest.mark.parametrize(
    "inside",
    [
        '<replicate count="100000000" offset="1 0 0">{}</replicate>',
        '<replicate count="9999"><replicate count="9999">{}</replicate></replicate>',
        '<composite type="cable" count="100000000 1 1" size="1"><geom size=".1"/></composite>',
        '<flexcomp name="f" type="grid" count="999 999 999" spacing="1 1 1" mass="1" radius=".1"/>',
        '<replicate count="1e8">{}</replicate>',
    ],
)
def test_copies_without_end_are_refused_at_once(tmp_path, inside):
    body = '<body><joint name="hip"/><geom size="1"/></body>'
    text = f"<mujoco><worldbody>{inside.format(body)}</worldbody></mujoco>"
    path = written(tmp_path, text, "robot.xml")
    at_once(lambda: RateLimits.from_mjcf(path, dt=0.02), "copies, expected at most 10,000|expected whole numbers")


# ---------------------------------------------------------------------- kappa

RAIL = ("rail", "prismatic", 'lower="0" upper="1" velocity="0.1"')


def test_kappa_never_mixes_metres_and_radians(tmp_path):
    limits = RateLimits.from_urdf(urdf(tmp_path, GOOD, RAIL), dt=0.02)
    assert limits.units == "m/rad"
    with pytest.raises(ValueError, match="kappa compares rates of one unit, and these limits are in m/rad"):
        _ = limits.kappa
    assert RateLimits([1, 2], -1, 1, units="rad/s").kappa == 2


PANDA = """joint_limits:
  panda_joint1: {min_position: -2.8, max_position: 2.8, max_velocity: 2.175}
  panda_finger_joint1: {min_position: 0, max_position: 0.04, max_velocity: 0.1}
"""


def test_kappa_needs_a_file_that_says_which_joints_slide(tmp_path):
    """A joint_limits.yaml has radians and metres in one form; a tag or a URDF says which."""
    path = written(tmp_path, PANDA)
    limits = RateLimits.from_joint_limits_yaml(path, dt=0.02)
    assert limits.units == "rad or m" and limits.why_not_zero() == "the limits are in rad or m"
    with pytest.raises(ValueError, match="kappa compares rates of one unit, and these limits are in rad or m"):
        _ = limits.kappa
    assert _heterogeneity(limits, None) == "kappa is not given: the file does not say which joints slide (--urdf)"
    known = urdf(tmp_path, ("panda_joint1", "revolute", ""), ("panda_finger_joint1", "prismatic", ""))
    assert RateLimits.from_joint_limits_yaml(path, dt=0.02, urdf=known).units == "m/rad"
    assert RateLimits.from_joint_limits_yaml(written(tmp_path, UR), dt=0.02).units == "rad"
    with pytest.raises(ValueError, match="--speeds elbow=RAD_OR_M_PER_S"):
        RateLimits.from_joint_limits_yaml(written(tmp_path, "joint_limits: {elbow: {}}"), dt=0.02)


# ---------------------------------------------------------------------- files that would take for ever


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (RateLimits.from_joint_limits_yaml, RateLimits.from_urdf, lambda path, dt: RateLimits.from_yaml(path)):
        with pytest.raises(ValueError, match="pipe is no regular file"):
            read(tmp_path / "pipe", dt=0.02)


def at_once(read, message):
    begun = time.perf_counter()
    with pytest.raises(ValueError, match=message):
        read()
    assert time.perf_counter() - begun < 5


BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}\n" for i in range(1, 12)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB + "joint_limits: {hip: {max_velocity: 1}}", "more than 20,000 entries at line"),
        (MERGES + "joint_limits: {hip: {max_velocity: 1}}", "more than 20,000 entries at line"),
        ("a: &a {b: *a}", "line 1 has an alias of what it is part of"),
        ("joints: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("joints: " + "{a: " * 5000 + "}" * 5000, "nested too deeply"),
        ("x: [" + "1," * 200_000 + "]", "more than 20,000 entries"),
    ],
    ids=["aliases", "merges", "itself", "lists", "mappings", "long"],
)
def test_a_file_that_explodes_is_refused_at_once(tmp_path, text, message):
    path = written(tmp_path, text)
    at_once(lambda: RateLimits.from_joint_limits_yaml(path, dt=0.02), message)
    at_once(lambda: RateLimits.from_yaml(path), message)


def test_aliases_and_merges_of_an_honest_file_are_read(tmp_path):
    row = "{min_position: -1, max_position: 1, max_velocity: 2}"
    text = f"d: &d {row}\njoint_limits: {{a: *d, b: {{<<: *d, max_velocity: 1}}}}"
    assert RateLimits.from_joint_limits_yaml(written(tmp_path, text), dt=1).delta.tolist() == [2, 1]


HUGE = ["1e999999999", "1e-999999999", "-1E+99999999999999999999", "1" * 5000, "0." + "3" * 5000]


@pytest.mark.parametrize("number", HUGE, ids=range(len(HUGE)))
def test_numbers_beyond_all_measure_are_refused_at_once(tmp_path, number):
    row = 'lower="-1" upper="1" velocity="{}"'
    at_once(lambda: RateLimits.from_urdf(urdf(tmp_path, ("hip", "revolute", row.format(number))), dt=0.02), "'hip' has")
    bounds = f'lower="-1" upper="{number}" velocity="1"'
    at_once(lambda: RateLimits.from_urdf(urdf(tmp_path, ("hip", "revolute", bounds)), dt=0.02), "'hip' has range")
    ours = written(tmp_path, f"joints: {{hip: {{delta: '{number}', low: -1, high: 1}}}}", "limits.yaml")
    at_once(lambda: RateLimits.from_yaml(ours), "(up|delta) of 'hip' is '")
    with pytest.raises(ValueError) as caught:
        RateLimits.from_yaml(ours)
    assert len(str(caught.value)) < 200


# ---------------------------------------------------------------------- a folder of robots


def test_a_folder_of_robots_as_a_table(tmp_path, monkeypatch):
    """benchmarks/urdfs.py tries what a refusal proposes, and makes up no number."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    urdfs = importlib.import_module("urdfs")
    wheel, caster = FAULTS[1], FAULTS[3]
    assert urdfs.outcome(urdf(tmp_path, GOOD)) == ("read", "1 joints", "")
    kind, how, mend = urdfs.outcome(urdf(tmp_path, GOOD, wheel, caster))
    assert kind == "mended" and how.endswith("; then 2 joints") and mend == "`--continuous …` (1) `--exclude …` (1)"
    assert urdfs.outcome(urdf(tmp_path, GOOD, FAULTS[5]))[0] == "refused"
    assert urdfs.outcome(urdf(tmp_path))[:2] == (
        "refused",
        "no movable joint (expected type revolute, prismatic, continuous)",
    )
