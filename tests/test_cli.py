"""The command line as a person meets it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from slewrl import LAYERS, RateLimits, __version__
from slewrl.cli import main

URDF = Path(__file__).parents[1] / "examples" / "leg.urdf"


@pytest.fixture
def slewrl(monkeypatch, tmp_path, capsys):
    """Run the command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slewrl", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        streams = capsys.readouterr()
        return SimpleNamespace(returncode=stop.value.code or 0, stdout=streams.out, stderr=streams.err)

    return run


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


def test_limits_of_a_preset(slewrl, tmp_path):
    result = slewrl("limits", "G1:paper", "--out", "g1.yaml")
    assert result.returncode == 0 and "kappa = 4 " in result.stdout
    assert RateLimits.from_yaml(tmp_path / "g1.yaml") == RateLimits.preset("G1", "paper")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.urdf"], "error: no file 'nowhere.urdf'"),
        ([URDF], "error: --dt is missing"),
        ([URDF, "--dt", "0.02", "--safety", "2"], "error: safety is 2.0, expected a share"),
        ([URDF, "--dt", "0.02", "--joints", "elbow"], "error: "),
        (["H1:paper", "--safety", "0.5"], "error: --dt, --safety, --bounds and --urdf are for a datasheet"),
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


def test_demo_draws_and_checks(slewrl, tmp_path):
    result = slewrl("demo", "--cases", "20000")
    assert result.returncode == 0, result.stderr
    assert f"{20_000 * (len(LAYERS) + 2):,} actions checked in exact arithmetic" in result.stdout
    assert "0 broke a limit through a hard layer" in result.stdout.replace("\n", " ")
    png = (tmp_path / "demo" / "reachable.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 50_000


def test_bounds_from_the_command_line(slewrl, tmp_path):
    path = tmp_path / "wheel.urdf"
    path.write_text('<robot><joint name="wheel" type="continuous"><limit velocity="9"/></joint></robot>')
    missing = slewrl("limits", path, "--dt", "0.02")
    assert missing.returncode == 2 and "--bounds name=low,high" in missing.stderr
    result = slewrl("limits", path, "--dt", "0.02", "--bounds", "wheel=-100,100")
    assert result.returncode == 0 and RateLimits.from_yaml(tmp_path / "limits.yaml").high[0] == 100


def test_a_limit_that_never_binds_is_pointed_out(slewrl):
    result = slewrl("limits", URDF, "--dt", "20")
    assert "never binding: left_hip_yaw_joint" in result.stdout


def test_small_things(slewrl):
    assert slewrl("--version").stdout.strip() == __version__
    assert slewrl("demo", "--cases", "0").stderr.startswith("error: --cases is 0")


def test_train_evaluate_and_refuse(slewrl, tmp_path):
    options = ("--task", "Pendulum-v1", "--steps", "1000", "--learning-starts", "990", "--out", "run")
    first = slewrl("train", *options)
    assert first.returncode == 0 and "finished" in first.stdout and "violations 0" in first.stdout
    shown = slewrl("evaluate", "run", "--episodes", "2")
    assert shown.returncode == 0 and "return_mean" in shown.stdout and "step 1,000, 2 episodes" in shown.stdout
    assert "already holds a run: resume it" in slewrl("train", *options).stderr
    assert slewrl("train", "--resume", "run").returncode == 0  # finished already
    for arguments, message in (
        (["--task", "CartPole-v1"], "error: no presets for 'CartPole-v1'"),
        (["--task", "Nothing-v9"], "error: task 'Nothing-v9'"),
        (["--task", "Pendulum-v1", "--layer", "ddsrat"], "Did you mean 'ddsrad'"),
        (["--task", "Pendulum-v1", "--agent", "ppo"], "unknown agent 'ppo'"),
        (["--resume", "nowhere"], "error: nowhere holds no run"),
        ([], "error: --task is missing"),
    ):
        refused = slewrl("train", *arguments)
        assert refused.returncode == 2 and message in refused.stderr, refused.stderr
    assert not (tmp_path / "runs").exists()
