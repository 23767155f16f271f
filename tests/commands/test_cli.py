"""The command line as a person meets it."""

import errno
import json
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_campaign import InProcess

from slewrl import LAYERS, RateLimits, __version__
from slewrl.cli import refuse_repeats
from slewrl.commands import demo
from slewrl.commands.train import Train, _value
from slewrl.io.console import Console
from slewrl.training import checkpoint
from slewrl.training.checks import check_spec
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

URDF = Path(__file__).parents[2] / "examples" / "leg.urdf"


def test_the_installed_command(tmp_path):
    command = [Path(sys.executable).parent / "slewrl", "--help"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    for word in ("Where to start", "slewrl demo", "slewrl limits robot.urdf --dt 0.02 --safety 0.9", "In Python"):
        assert word in result.stdout


def test_limits_from_a_urdf(slewrl, tmp_path):
    result = slewrl("limits", URDF, "--dt", "0.02", "--safety", "0.9")
    assert result.returncode == 0, result.stderr
    for word in ("left_hip_pitch_joint", "0.414", "kappa = 2.56", "times the volume", "wrote limits.yaml"):
        assert word in result.stdout
    limits = RateLimits.from_yaml(tmp_path / "limits.yaml")
    assert limits == RateLimits.from_urdf(URDF, dt=0.02, safety=0.9)
    again = slewrl("limits", URDF, "--dt", "0.02")
    assert again.returncode == 2 and "limits.yaml exists: pass --force" in again.stderr
    assert RateLimits.from_yaml(tmp_path / "limits.yaml") == limits  # nothing was overwritten
    few = slewrl("limits", "limits.yaml", "--joints", "left_ankle_joint", "--out", "few.yaml")
    assert few.returncode == 0 and RateLimits.from_yaml(tmp_path / "few.yaml").names == ("left_ankle_joint",)


def test_limits_for_ros2(slewrl, tmp_path):
    result = slewrl("limits", URDF, "--dt", "0.02", "--safety", "0.9", "--format", "ros2")
    assert result.returncode == 0, result.stderr
    shown = " ".join(result.stdout.split())
    assert 'joint_limits.yaml; in Python: RateLimits.from_joint_limits_yaml("joint_limits.yaml", dt=0.02)' in shown
    back = RateLimits.from_joint_limits_yaml(tmp_path / "joint_limits.yaml", dt=0.02)
    limits = RateLimits.from_urdf(URDF, dt=0.02, safety=0.9)
    assert (back.delta <= limits.delta).all() and back.delta.tolist() == pytest.approx(limits.delta.tolist(), rel=1e-15)
    without = slewrl("limits", "HalfCheetah-v5:tight", "--format", "ros2", "--out", "x.yaml")
    assert without.returncode == 2 and "error: these limits have no dt" in without.stderr
    assert not (tmp_path / "x.yaml").exists()


PANDA = URDF.parent / "panda_joint_limits.yaml"


def test_limits_of_an_arm_with_accelerations(slewrl, tmp_path):
    result = slewrl("limits", PANDA, "--dt", "0.02", "--safety", "0.5", "--out", "arm.yaml")
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if "panda_joint4" in line).split()
    assert row[2:6] == ["1.087", "0.02175", "6.25", "0.0025"]  # after joint and group; safety halves both
    assert "acc/s²" in result.stdout and "lost of the" not in result.stdout and "volume" not in result.stdout
    limits = RateLimits.from_yaml(tmp_path / "arm.yaml")
    assert limits == RateLimits.from_joint_limits_yaml(PANDA, dt=0.02, safety=0.5) and limits.grid is not None
    again = slewrl("limits", "arm.yaml", "--format", "ros2")
    assert again.returncode == 0
    back = RateLimits.from_joint_limits_yaml(tmp_path / "joint_limits.yaml", dt=0.02)
    assert (back.acceleration <= limits.acceleration).all() and back.acceleration == pytest.approx(limits.acceleration)


def test_accelerations_from_the_command_line(slewrl, tmp_path):
    said = ("--acceleration", "100", "left_knee_joint=200", "left_hip_*=none", "--deceleration", "left_knee_joint=250")
    result = slewrl("limits", URDF, "--dt", "0.02", *said)
    assert result.returncode == 0, result.stderr
    limits, shown = RateLimits.from_yaml(tmp_path / "limits.yaml"), " ".join(result.stdout.split())
    assert limits.acceleration[3:].tolist() == pytest.approx([0.08, 0.04])
    assert limits.deceleration[3] == pytest.approx(0.1) and "+200 -250 +0.08 -0.1" in shown
    free = "left_hip_yaw_joint, left_hip_roll_joint, left_hip_pitch_joint"
    assert f"acceleration never binding, at twice the rate per step or more: {free} " in shown


def test_what_the_grid_takes_is_said(slewrl):
    result = slewrl("limits", PANDA, "--dt", "0.001")  # A = 1.5e-5 rad is 31 units of 2^-21 rad
    assert result.returncode == 0, result.stderr
    shown = " ".join(result.stdout.split())
    assert "lost of the acceleration to the grid of commands: panda_joint1 4.6%, panda_joint2 " in shown
    assert "lost of the deceleration" not in shown


def test_a_table_of_accelerations_without_a_period(slewrl):
    result = slewrl("limits", "Hopper-v5:tight_acceleration")
    row = next(line for line in result.stdout.splitlines() if "thigh" in line).split()
    assert row == ["thigh", "thigh", "-", "0.2", "-", "0.05", "-1", "1", "10.0%"]


def test_limits_of_a_preset(slewrl, tmp_path):
    result = slewrl("limits", "G1:paper", "--out", "g1.yaml")
    assert result.returncode == 0 and "kappa = 4 " in result.stdout
    assert RateLimits.from_yaml(tmp_path / "g1.yaml") == RateLimits.preset("G1", "paper")


def test_limits_of_a_file_get_an_acceleration(slewrl, tmp_path):
    """Added to limits that have none, replaced in those that have one, and taken away; the rates stay, to the bit."""
    plain = RateLimits([0.1, 0.3], -1, 1, names=["hip", "knee"], dt=0.02, units="rad")
    plain.to_yaml(tmp_path / "a.yaml")
    assert slewrl("limits", "a.yaml", "--acceleration", "20", "knee=30", "--out", "b.yaml").returncode == 0
    with_one = RateLimits.from_yaml(tmp_path / "b.yaml")
    assert with_one == RateLimits([0.1, 0.3], -1, 1, names=["hip", "knee"], dt=0.02, units="rad", acceleration=[20, 30])
    arguments = ("--acceleration", "hip=40", "--deceleration", "knee=60", "--out", "c.yaml")
    assert slewrl("limits", "b.yaml", *arguments).returncode == 0
    other = RateLimits.from_yaml(tmp_path / "c.yaml")
    assert (other.acceleration / 0.02**2).tolist() == pytest.approx([40, 30])
    assert (other.deceleration / 0.02**2).tolist() == pytest.approx([40, 60])
    assert other.acceleration[1] == with_one.acceleration[1]
    assert slewrl("limits", "c.yaml", "--acceleration", "none", "--out", "d.yaml").returncode == 0
    assert RateLimits.from_yaml(tmp_path / "d.yaml") == plain
    said = slewrl("limits", "a.yaml", "--acceleration", "elbow=5", "--out", "e.yaml").stderr
    assert "no movable joint 'elbow'; it has: hip, knee" in said and not (tmp_path / "e.yaml").exists()


@pytest.mark.parametrize("width", [80, 100])
def test_joint_names_stay_whole_in_a_narrow_table(slewrl, monkeypatch, width):
    """The widest rows: a Franka at 1 kHz that brakes harder than it speeds up."""
    panda = Path(__file__).parents[2] / "examples" / "panda_joint_limits.yaml"
    monkeypatch.setenv("COLUMNS", str(width))
    shown = slewrl("limits", panda, "--dt", "0.001", "--deceleration", "12.345").stdout
    assert max(map(len, shown.splitlines())) <= width
    for name in RateLimits.from_joint_limits_yaml(panda, dt=0.001).names:
        assert any(name in line.split() and "12.35" in line for line in shown.splitlines()), shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.urdf"], "error: no file 'nowhere.urdf'"),
        ([URDF], "error: --dt is missing"),
        ([URDF, "--dt", "0.02", "--safety", "2"], "error: safety is 2.0, expected a share"),
        ([URDF, "--dt", "0.02", "--joints", "elbow"], "error: "),
        (["H1:paper", "--safety", "0.5"], "error: --safety is for a datasheet; H1:paper has its limits"),
        (["H1:paper", "--acceleration", "left_knee=5"], "error: the limits: 9 of 10 joints cannot be used"),
        (
            [URDF, "--dt", "0.02", "--bounds", "left_ankle_joint"],
            "error: --bounds is 'left_ankle_joint', expected NAME=",
        ),
        (["H1:paper", "--out", "nodir/x.yaml"], "error: no folder 'nodir'"),
        (["H1:papr"], "error: H1 has no preset 'papr'; it has: paper"),
    ],
)
def test_mistakes_get_one_line_and_no_traceback(slewrl, arguments, message, tmp_path):
    result = slewrl("limits", *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert "Traceback" not in result.stderr and not (tmp_path / "limits.yaml").exists()


def test_demo_trains_checks_and_writes_a_page(slewrl, tmp_path, monkeypatch, capsys):
    """In two parts, as if it had been stopped after the training, and over the files of an earlier one."""
    with monkeypatch.context() as one_process:
        one_process.setattr("slewrl.campaign.runner.start", InProcess)
        demo.train(tmp_path / "demo", 1_050, Console())
    trained = capsys.readouterr().out
    (tmp_path / "demo" / "policy.bundle").write_text("an older one")
    result = slewrl("demo", "--cases", "2000", "--steps", "1050")
    assert result.returncode == 0, result.stderr
    assert "already" not in trained and "both runs are in demo already" in result.stdout
    shown = " ".join(result.stdout.split())
    actions = 2_000 * (len(LAYERS) + 2) + 2 * 2 * (1_050 + 2 * 20 * 50 + 10 * 50)  # audit, training, evaluations
    actions += 2 * 1_000  # the trial of the exported policy
    assert f"{actions:,} actions checked in exact arithmetic, 0 broke a limit through a hard layer" in shown
    assert (tmp_path / "demo" / "reachable.png").read_bytes().startswith(b"\x89PNG")
    certificate = json.loads((tmp_path / "demo" / "check" / "certificate.json").read_text())
    assert certificate["passed"] and certificate["trial"]["steps"] == 1_000
    page = (tmp_path / "demo" / "index.html").read_text()
    assert "DD-SRad" in page and "Reacher-v5" in page and len(page) < 5e6
    (told,) = re.findall(r"(?:The commands of|DD-SRad and Clip) .*shake.*", result.stdout)
    assert f"<h2>{told.rstrip('. ')}</h2>" in page and "played-1-1" in page
    assert "holds another run" in slewrl("demo", "--steps", "1300").stderr


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # imageio's
def test_play_records_or_says_what_is_missing(slewrl, tmp_path):
    options = (
        "--task",
        "Reacher-v5",
        "--steps",
        "60",
        "--learning-starts",
        "50",
        "--evaluate-every",
        "60",
        "--out",
        "r",
    )
    assert slewrl("train", *options).returncode == 0
    assert "expected a name that ends in .mp4 or .gif" in slewrl("play", "r", "--video", "film.avi").stderr
    result = slewrl("play", "r", "--video", "film.mp4")
    if result.returncode:
        assert "A picture needs a GL library" in result.stderr and "Traceback" not in result.stderr
        pytest.skip("no GL library on this machine: Debian's libegl1 and libgl1-mesa-dri")
    assert "wrote film.mp4: 50 frames" in result.stdout and "0 violations" in result.stdout
    import imageio.v3 as iio

    frames = iio.imread(tmp_path / "film.mp4")
    assert len(frames) == 50 and frames.std() > 1  # something is to be seen


def test_bounds_from_the_command_line(slewrl, tmp_path):
    path = tmp_path / "wheel.urdf"
    path.write_text('<robot><joint name="wheel" type="continuous"><limit velocity="9"/></joint></robot>')
    missing = slewrl("limits", path, "--dt", "0.02")
    assert missing.returncode == 2 and "--continuous wheel, or --bounds wheel=LOW,HIGH" in missing.stderr
    result = slewrl("limits", path, "--dt", "0.02", "--bounds", "wheel=-100,100")
    assert result.returncode == 0 and RateLimits.from_yaml(tmp_path / "limits.yaml").high[0] == 100


def robot(tmp_path, *joints, name="robot.urdf"):
    """A URDF of (name, type, attributes of its limit, more XML)."""
    made = (f'<joint name="{n}" type="{kind}"><limit {said}/>{more}</joint>' for n, kind, said, more in joints)
    (tmp_path / name).write_text(f"<robot>{''.join(made)}</robot>")
    return name


HINGE = 'lower="-1.23456" upper="1.23456" velocity="12.345"'


def test_limits_of_a_robot_with_everything(slewrl, tmp_path):
    """Wheels, a rail, a finger that follows, and joints that nobody drives."""
    path = robot(
        tmp_path,
        ("[/]left[bold]:smile:_hip_joint", "revolute", HINGE, ""),
        ("knee", "revolute", HINGE.replace("12.345", "1.2345"), ""),
        ("rail", "prismatic", 'lower="0" upper="1" velocity="0.1" acceleration="3" jerk="9"', ""),
        ("wheel", "continuous", 'velocity="10"', ""),
        ("caster_1", "continuous", "", ""),
        ("caster_2", "continuous", "", ""),
        ("finger", "revolute", HINGE, '<mimic joint="knee"/>'),
    )
    refused = slewrl("limits", path, "--dt", "0.02", "--acceleration", "none")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr and not (tmp_path / "limits.yaml").exists()
    for part in ("3 of 6 joints", "Perhaps: --continuous wheel --exclude caster_1 caster_2"):
        assert part in refused.stderr
    mended = ("--continuous", "wheel", "--exclude", "caster_*")
    mixed = slewrl("limits", path, "--dt", "0.02", *mended)
    assert mixed.returncode == 2 and "'knee', 'wheel' have no acceleration limit" in mixed.stderr
    result = slewrl("limits", path, "--dt", "0.02", *mended, "--acceleration", "none")
    shown = " ".join(result.stdout.split())
    assert result.returncode == 0, result.stderr
    for part in (
        "[/]left[bold]:smile:_hip_joint",
        "left out: mimic joints finger",
        "left out: jerk limits of rail",
        "continuous, kept within ±32768 rad, where float32 resolves a step: wheel",
        "m: kappa = 1 (all joints alike); rad: kappa = 10 ([/]left[bold]:smile:_hip_joint against knee)",
    ):
        assert part in shown
    again = slewrl("limits", "limits.yaml", "--exclude", "rail", "knee", "--out", "few.yaml")
    assert "kappa is not given: the joints are in m/rad" in " ".join(again.stdout.split())
    assert RateLimits.from_yaml(tmp_path / "few.yaml").dim == 2


def test_limits_of_an_mjcf(slewrl, tmp_path):
    (tmp_path / "arm.xml").write_text(
        '<mujoco><worldbody><body><geom size="1"/><joint name="hip" range="-90 90"/></body></worldbody></mujoco>'
    )
    refused = slewrl("limits", "arm.xml", "--dt", "0.02")
    assert "'hip' has no velocity limit (an MJCF has no place for it)" in refused.stderr
    result = slewrl("limits", "arm.xml", "--dt", "0.02", "--speeds", "hip=5")
    assert result.returncode == 0 and "-1.571" in result.stdout


def test_a_table_of_80_columns_cuts_no_digit(slewrl, tmp_path, monkeypatch):
    """The group goes first, then a long name is folded."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("left_front_shoulder_pitch_joint", "left_" + "very_" * 12 + "long_name_joint"):
        path = robot(tmp_path, (name, "revolute", HINGE, ""))
        result = slewrl("limits", path, "--dt", "0.01", "--safety", "0.9", "--force")
        for digits in (" 11.11 ", " 0.1111 ", " -1.235 ", " 1.235 ", " 4.5%"):
            assert digits in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 80 and "…" not in result.stdout
        assert "group" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", ""], "error: --out is empty, expected a value"),
        (["--out", "."], "error: --out is the folder '.', expected the name of a file"),
        (["--speeds", "hip"], "error: --speeds is 'hip', expected NAME=SPEED"),
        (["--acceleration", "hip="], "error: --acceleration is 'hip=', expected NAME=VALUE"),
        (["--acceleration", "5", "6"], "error: --acceleration has 5 and 6 for all joints, expected one number"),
        (["--acceleration", "fast"], "have acceleration limit 'fast', expected a finite number"),
        (["--acceleration", "5", "elbow=6"], "no movable joint 'elbow'"),
        (["--deceleration", "5"], "have deceleration limit 5 but no acceleration limit; give --acceleration"),
        (["--urdf", URDF], "error: --urdf is for a joint_limits.yaml"),
        (["--exclude", "*"], "no joint is left"),
    ],
)
def test_options_of_limits_that_make_no_sense(slewrl, arguments, message):
    result = slewrl("limits", URDF, "--dt", "0.02", *arguments)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
    empty = slewrl("limits", "", "--dt", "0.02")
    assert empty.returncode == 2 and "error: an argument is empty, expected a value" in empty.stderr


def test_a_limit_that_never_binds_is_pointed_out(slewrl):
    result = slewrl("limits", URDF, "--dt", "20")
    assert "never binding: left_hip_yaw_joint" in result.stdout


def test_small_things(slewrl):
    assert slewrl("--version").stdout.strip() == __version__
    assert slewrl("demo", "--cases", "0").stderr.startswith("error: --cases is 0")
    by_module = subprocess.run(
        [sys.executable, "-m", "slewrl", "--version"], capture_output=True, text=True, check=True
    )
    assert by_module.stdout.strip() == __version__


def test_a_full_disk_is_named_and_nothing_is_lost(slewrl, monkeypatch):
    """The second checkpoint finds no room; what went before it is there to go on from."""
    options = ("--task", "Pendulum-v1", "--agent", "ppo", "--steps", "600", "--set", "agent.rollout=100")
    often = ("--evaluate-every", "200", "--evaluate-episodes", "1", "--no-tensorboard")
    write, written = checkpoint.save, []

    def full(*arguments, **more):
        written.append(1)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments, **more)

    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "save", full)
        stopped = slewrl("train", *options, *often, "--out", "run")
    assert stopped.returncode == 2
    assert "No space left on device for run: make room, then go on" in stopped.stderr.replace("\n", " ")
    assert slewrl("train", "--resume", "run", "--no-tensorboard").returncode == 0
    assert slewrl("train", *options, *often, "--out", "whole").returncode == 0
    assert Path("run/train.csv").read_bytes() == Path("whole/train.csv").read_bytes()
    assert Path("run/eval.csv").read_bytes() == Path("whole/eval.csv").read_bytes()


def test_a_disk_that_is_full_from_the_start_promises_no_checkpoint(slewrl):
    """The system itself refuses the replay's space: no file may grow beyond 100 kB here."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        stopped = slewrl("train", "--task", "Pendulum-v1", "--steps", "20000", "--out", "run", "--no-tensorboard")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert stopped.returncode == 2 and "File too large" in stopped.stderr
    assert "begin it (there is no checkpoint yet) with slewrl train --resume run" in stopped.stderr
    assert not list(Path("run").rglob("*.tmp"))


def test_train_evaluate_and_refuse(slewrl, tmp_path):
    options = ("--task", "Pendulum-v1", "--steps", "1000", "--learning-starts", "990", "--out", "run")
    first = slewrl("train", *options)
    assert first.returncode == 0 and "finished" in first.stdout and "violations 0" in first.stdout
    shown = slewrl("evaluate", "run", "--episodes", "2")
    assert shown.returncode == 0 and "return_mean" in shown.stdout and "step 1,000, 2 episodes" in shown.stdout
    episodes = np.genfromtxt(tmp_path / "run/evaluation/episodes.csv", delimiter=",", names=True)
    assert len(episodes) == 2 and (episodes["violations"] == 0).all() and (episodes["length"] == 200).all()
    density = np.genfromtxt(tmp_path / "run/evaluation/density.csv", delimiter=",", names=True)
    assert (density["pivot"] * (density["to"] - density["from"])).sum() == pytest.approx(1)
    assert "already holds a run: resume it" in slewrl("train", *options).stderr
    assert slewrl("train", "--resume", "run").returncode == 0  # finished already
    for arguments, message in (
        (["--task", "CartPole-v1"], "error: CartPole-v1: action space is Discrete(2), expected a flat Box"),
        (["--task", "Nothing-v9"], "error: task 'Nothing-v9'"),
        (["--task", "Pendulum-v1", "--layer", "ddsrat"], "Did you mean 'ddsrad'"),
        (["--task", "Pendulum-v1", "--agent", "dqn"], "unknown agent 'dqn'"),
        (["--task", "Pendulum-v1", "--set", "rate=1"], "--set is 'rate=1', expected agent.NAME=VALUE"),
        (
            ["--task", "Pendulum-v1", "--set", "agent.tempo=1"],
            "agent.tempo: the agent has no such option; it has: hid",
        ),
        (
            ["--task", "Pendulum-v1", "--set", "agent.discount=1", "--set", "layer.penalty_weight=0"],
            "--set is there twice",
        ),
        (["--task", "Pendulum-v1", "--environments", "0"], "environments is 0, expected at least 1"),
        (["--resume", "nowhere"], "error: nowhere holds no run"),
        ([], "error: --task is missing"),
        (["--resume", "run", "--seed", "2000"], "error: --resume takes everything but --steps from run"),
        (["--task", "Pendulum-v1", "--seed", "-1"], "seed is -1, expected at least 0"),
        (["--task", "Pendulum-v1", "--seed", "1" + 29 * "0"], "seed is 1" + 29 * "0" + ", expected less than 2**63"),
        (
            ["--task", "Pendulum-v1", "--set", "agent.learning_rate=abc"],
            "learning_rate is 'abc', expected a number > 0",
        ),
        (["--task", "Pendulum-v1", "--set", "agent.hidden=[]"], "hidden is (), expected widths such as"),
    ):
        refused = slewrl("train", *arguments)
        assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert not (tmp_path / "runs").exists()
    chosen = slewrl(
        "train", *options[:-1], "set", "--set", "agent.hidden=[8,8]", "agent.learning_rate=1e-3", "--paper-mode"
    )
    assert chosen.returncode == 0
    spec = RunFolder(tmp_path / "set").spec()
    assert spec.agent_options == {"hidden": [8, 8], "learning_rate": 1e-3, "mean_bound": "tanh"}
    assert spec.density == "action"


def test_values_as_people_write_them():
    texts = {".9": 0.9, "1e-3": 1e-3, "[8, 8]": [8, 8], "(8,8)": [8, 8], "tanh": "tanh", "true": True, "3": 3}
    assert {text: _value(text) for text in texts} == texts
    with pytest.raises(ValueError, match=r"nested too deeply: '.{39}\.\.\. .\d+ characters"):
        _value("[" * 100_000)
    refuse_repeats(["train", "--set", "a=1", "b=2", "--out", "x"])
    with pytest.raises(ValueError, match="--out is there twice"):
        refuse_repeats(["--out=a", "--set", "a=1", "--out", "b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 200}, "steps is 200, but the first 10000 only fill the replay"),
        ({"agent": "td3", "density": "action"}, "density is 'action', but td3 measures no entropy"),
        ({"task": "no_such_module:Arm-v0"}, "No module named 'no_such_module'.*on PYTHONPATH"),
        ({"limits": "nowhere.yaml"}, "there is no file 'nowhere.yaml'"),
        ({"layer_options": {"weight": 1}}, "--set layer.weight: the layer has no such option; it has: penalty_weight"),
        ({"layer_options": {"penalty_weight": "much"}}, "penalty_weight is 'much', expected a finite number"),
        ({"agent_options": {"hidden": 5}}, "hidden is 5, expected widths"),
        ({"agent_options": {"log_std_range": [2, -20]}}, "log_std_range is .2, -20., expected .low, high."),
        ({"layer": "os.path:join"}, "expected a class that subclasses ActionLayer"),
    ],
)
def test_runs_that_could_not_begin(changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        check_spec(replace(RunSpec("Pendulum-v1"), **changes))


def test_paper_mode_and_another_density():
    with pytest.raises(ValueError, match="--paper-mode means --density action"):
        Train(RunSpec("Pendulum-v1", density="action_scaled"), paper_mode=True)._chosen()
    assert Train(RunSpec("Pendulum-v1", agent="td3"), paper_mode=True)._chosen().density == "normalized"


def test_an_environment_of_ones_own(slewrl, tmp_path):
    """In a module beside the user, without a word about rendering."""
    (tmp_path / "arm.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import PendulumEnv\n"
        "class Arm(PendulumEnv):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "gym.register('Arm-v0', Arm, max_episode_steps=50)\n"
    )
    RateLimits(0.5, -2.0, 2.0, names=["pivot"], reset=0).to_yaml(tmp_path / "arm.yaml")
    options = ("--task", "arm:Arm-v0", "--limits", "arm.yaml", "--steps", "60", "--learning-starts", "50", "--out", "r")
    assert slewrl("train", *options).returncode == 0
    assert "step 60, 1 episodes" in slewrl("evaluate", "r", "--episodes", "1", "--trust").stdout
    refused = slewrl("play", "r", "--trust")
    assert (
        refused.returncode == 2 and "cannot be made to render" in refused.stderr and "Traceback" not in refused.stderr
    )


def test_a_check_without_onnx_runtime_says_what_to_install(slewrl, monkeypatch):
    for name in ("slewrl.deploy.check", "slewrl.deploy.controller"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    told = slewrl("check", "some.bundle")
    assert told.returncode and 'pip install "slewrl[onnx]"' in " ".join(told.stderr.split())
