"""From a task's name to its environments."""

import sys

import numpy as np
import pytest
import torch
from test_custom_robot import biped

from slewrl import RateLimits
from slewrl.campaign.grids import CAMPAIGNS
from slewrl.cli import main
from slewrl.envs.tasks import check_simulator, is_gymnasium, make_vec_env, task_preset, threads
from slewrl.layers import make_layer
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.setup import on_any_machine
from slewrl.training.spec import RunSpec, with_recipe
from slewrl.training.trainer import train


@pytest.fixture
def slewrl(tmp_path, monkeypatch, capsys):
    """The command, in this process and in a folder of its own: its exit code and what it said."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slewrl", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, " ".join(said.out.split()), said.err

    return run


@pytest.mark.parametrize(
    ("task", "single"),
    [("HalfCheetah-v5", True), ("leg:Leg-v0", True), ("G1-flat", False), ("robot:x.urdf", False), ("mjlab:A", False)],
)
def test_which_tasks_are_gymnasiums(task, single):
    assert is_gymnasium(task) == single


def test_a_robot_of_ones_own_walks_in_the_same_task(tmp_path):
    """Or falls: under its own limits, without a violation, whatever the latent."""
    path = tmp_path / "biped.urdf"
    path.write_text(biped())
    task = f"robot:{path}"
    limits = task_preset(task, "tight")
    assert limits.delta == pytest.approx([0.25 * 12.5 * 0.02] * 4)
    vec_env = make_vec_env(task, limits, 4, {"push": 1.0, "delay": 1})
    vec_env.reset(0)
    generator, layer, episodes = torch.Generator().manual_seed(0), make_layer("ddsrad"), 0
    for _ in range(150):
        box = limits.box(torch.from_numpy(vec_env.observations[:, -4:].copy()), check=False)
        moved = vec_env.step(layer(3 * torch.randn(4, 4, generator=generator), box).executed.numpy())
        assert np.isfinite(moved.next_obs).all()
        episodes += len(vec_env.episodes)
        for episode in vec_env.episodes:
            assert not limits.outside(episode.actions[1:], episode.actions[:-1]).any()
    assert vec_env.violations() == 0 and episodes > 0


def test_the_robot_command(slewrl, tmp_path):
    (tmp_path / "biped.urdf").write_text(biped())
    code, out, error = slewrl("robot", "biped.urdf", "--safety", "0.5", "--xml", "out.xml")
    assert code == 0, error
    assert "16.60 kg, 4 joints" in out and "l_foot and r_foot" in out
    assert "0.125" in out  # 12.5 rad/s x .02 s x .5
    assert (tmp_path / "out.xml").read_text().startswith("<mujoco")
    assert "note:" not in out
    (tmp_path / "odd.urdf").write_text(biped(**{"l_hip_joint": "l_[/]_hip", "l_foot": "l_[/foot]", "box": "mesh"}))
    code, out, error = slewrl("robot", "odd.urdf")
    assert code == 0, error
    assert "l_[/]_hip" in out and "l_[/foot]" in out and "note: standing on boxes" in out
    assert "…" not in out  # nothing is cut off at 80 columns
    code, _, error = slewrl("robot", "g2")
    assert code == 2 and "no robot of that name; there are: h1, g1" in error


def test_limits_of_a_simulators_robot():
    assert task_preset("mjlab:Mjlab-Velocity-Flat-Unitree-G1", "paper") == RateLimits.preset("G1", "paper")
    assert task_preset("isaaclab:Isaac-Velocity-Rough-H1-v0", "tight") == RateLimits.preset("H1", "tight")
    with pytest.raises(KeyError, match="no presets for the robot of 'mjlab:Go2'"):
        task_preset("mjlab:Go2", "paper")


def test_a_simulator_that_is_not_there():
    with pytest.raises(ValueError, match="isaaclab is not installed"):
        check_simulator("isaaclab:Isaac-Velocity-Rough-H1-v0")


def test_a_misspelt_robot_task_lists_ours(slewrl):
    code, _, error = slewrl("train", "--task", "G1-flatt", "--steps", "20000")
    assert code == 2 and "walking tasks are H1-rough, H1-flat, G1-flat, G1-rough" in error
    code, _, error = slewrl("train", "--task", "G1-flat", "--limits", "paper", "--set", "task.fricton=1")
    assert code == 2 and "--set task.fricton: the task has no such option" in error
    code, _, error = slewrl("train", "--task", "robot:nowhere.urdf", "--agent", "fastsac")
    assert code == 2 and "there is no file 'nowhere.urdf'" in error


def test_a_run_keeps_its_own_copy_of_a_robot(tmp_path):
    """What the file says later, or where one stands, is no part of the run."""
    path = tmp_path / "biped.urdf"
    path.write_text(biped())
    spec = RunSpec(
        f"robot:{path}", limits="tight", agent="fastsac", environments=2, steps=40, learning_starts=10, batch_size=4,
        evaluate_every=40, evaluate_episodes=1, task_options={"seconds": 0.5},
        agent_options={"actor_hidden": [8], "critic_hidden": [8]},
    )  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    path.write_text(biped(**{'mass value="10.0"': 'mass value="310.0"'}))
    assert train(spec, folder)
    path.unlink()
    assert load_policy(folder.path).robot.mass == pytest.approx(16.6)


def test_a_robot_without_speeds_is_trained_under_a_file_of_limits(slewrl, tmp_path):
    """An MJCF has no speeds: limits must come from elsewhere."""
    code, _, error = slewrl("robot", "g1", "--xml", "g1.xml")
    assert code == 0, error
    assert "Unitree" in (tmp_path / "g1.xml").read_text()[:2000]
    code, out, error = slewrl("robot", "g1.xml")
    assert code == 0 and "write the missing speeds, rad/s, to g1.robot.yaml" in out, out + error
    RateLimits.preset("G1", "paper").to_yaml("limits.yaml")
    vec_env = make_vec_env("robot:g1.xml", RateLimits.from_yaml("limits.yaml"), 2)
    vec_env.reset(0)
    assert np.isfinite(vec_env.step(vec_env.observations[:, -13:].copy()).next_obs).all()


def test_a_policy_from_a_gpu_acts_without_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    spec = on_any_machine(with_recipe(RunSpec("G1-flat", agent="fastsac", recipe="gpu")))
    assert spec.agent_options == {"device": "cpu", "compile": False, "amp": "off"}
    assert on_any_machine(RunSpec("Pendulum-v1")) == RunSpec("Pendulum-v1")


@pytest.mark.parametrize("campaign", sorted(CAMPAIGNS))
def test_no_campaign_spends_its_time_on_evaluations(campaign):
    """A thousand at most, in each run: 4 096 environments pass a multiple of 5 000 at four of five steps."""
    for run in CAMPAIGNS[campaign]().runs:
        assert run.steps / max(run.evaluate_every, run.environments) <= 1000


def test_threads(monkeypatch):
    monkeypatch.setenv("SLEWRL_THREADS", "3")
    assert threads() == 3
    monkeypatch.setenv("SLEWRL_THREADS", "many")
    with pytest.raises(ValueError, match="SLEWRL_THREADS is 'many'"):
        threads()
