"""From a task's name to worlds of it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from test_own_robot import biped

from slewrl import RateLimits
from slewrl.envs.tasks import check_simulator, is_gymnasium, make_worlds, task_preset
from slewrl.layers import make_layer


def slewrl(*arguments, cwd):
    command = [sys.executable, "-m", "slewrl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


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
    worlds = make_worlds(task, limits, 4, {"push": 1.0, "delay": 1})
    worlds.reset(0)
    generator, layer, episodes = torch.Generator().manual_seed(0), make_layer("ddsrad"), 0
    for _ in range(150):
        box = limits.box(torch.from_numpy(worlds.observations[:, -4:].copy()), check=False)
        moved = worlds.step(layer(3 * torch.randn(4, 4, generator=generator), box).executed.numpy())
        assert np.isfinite(moved.following).all()
        episodes += len(worlds.episodes)
        for episode in worlds.episodes:
            assert not limits.outside(episode.chain[1:], episode.chain[:-1]).any()
    assert worlds.violations() == 0 and episodes > 0


def test_the_robot_command(tmp_path):
    (tmp_path / "biped.urdf").write_text(biped())
    said = slewrl("robot", "biped.urdf", "--safety", "0.5", "--xml", "out.xml", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "16.60 kg, 4 joints" in said.stdout and "l_foot and r_foot" in said.stdout
    assert "0.125" in said.stdout  # 12.5 rad/s x .02 s x .5
    assert (tmp_path / "out.xml").read_text().lstrip().startswith(("<?xml", "<mujoco", "<!--"))
    missing = slewrl("robot", "g2", cwd=tmp_path)
    assert missing.returncode == 2 and "no robot of that name; there are: h1, g1" in missing.stderr


def test_limits_of_a_simulators_robot():
    assert task_preset("mjlab:Mjlab-Velocity-Flat-Unitree-G1", "paper") == RateLimits.preset("G1", "paper")
    assert task_preset("isaaclab:Isaac-Velocity-Rough-H1-v0", "tight") == RateLimits.preset("H1", "tight")
    with pytest.raises(KeyError, match="no presets for the robot of 'mjlab:Go2'"):
        task_preset("mjlab:Go2", "paper")


def test_a_simulator_that_is_not_there():
    with pytest.raises(ValueError, match="isaaclab is not installed"):
        check_simulator("isaaclab:Isaac-Velocity-Rough-H1-v0")


def test_a_misspelt_robot_task_lists_ours(tmp_path):
    said = slewrl("train", "--task", "G1-flatt", "--steps", "20000", cwd=tmp_path)
    assert said.returncode == 2 and "walking tasks are H1-rough, H1-flat, G1-flat, G1-rough" in said.stderr
    said = slewrl("train", "--task", "G1-flat", "--limits", "paper", "--set", "task.fricton=1", cwd=tmp_path)
    assert said.returncode == 2 and "--set task.fricton: the task has no such option" in said.stderr
