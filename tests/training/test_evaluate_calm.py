"""Evaluations measure calm: in eval.csv, by episode and by joint, and the commands that `slewrl calm` can read."""

import csv
import math

import gymnasium as gym
import numpy as np
import pytest
import torch

from slewrl import RateLimits
from slewrl.calm.metrics import calm, effort
from slewrl.envs.augment import Augment
from slewrl.layers.base import Decision
from slewrl.training.evaluate import evaluate
from slewrl.training.policy import evaluate_run
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

REACHER = RateLimits(0.3, -1, 1, names=["shoulder", "elbow"])
NAMES = REACHER.names
CALM = ("at_limit", "reversals", "second_difference", "second_difference_rms", "high_frequency", "smoothness")
EFFORT = ("work", "torque_rms", "torque_rate")


def shaking(observation: torch.Tensor) -> Decision:
    """The shoulder goes up and down by its limit, the elbow holds."""
    prev = observation[:, -2:]
    shoulder = torch.where(prev[:, :1] > 0.1, prev[:, :1] - 0.3, prev[:, :1] + 0.3)
    return Decision(*2 * (torch.cat([shoulder, prev[:, 1:]], -1),))


def test_an_evaluation_measures_its_commands():
    result = evaluate(shaking, Augment(gym.make("Reacher-v5"), REACHER), 2, 0)
    row = result.row()
    assert row["at_limit"] == 0.5 and row["reversals"] == 0.5
    assert row["second_difference"] == pytest.approx(1) and row["second_difference_rms"] == pytest.approx(math.sqrt(2))
    assert result.row()["high_frequency"] == pytest.approx(0.5, abs=0.01)  # of the shoulder all, of the elbow nothing
    whole, shoulder, elbow = result.by_joint(NAMES)
    assert [whole["joint"], shoulder["joint"], elbow["joint"]] == ["all", *NAMES]
    assert {name: row[name] for name in CALM + EFFORT} == {name: whole[name] for name in CALM + EFFORT}
    assert shoulder["second_difference"] == pytest.approx(2) and elbow["second_difference"] == 0
    assert all(set(CALM + EFFORT) < set(episode) for episode in result.episodes())
    assert result.commands.shape == (51, 2) and result.commands[:3, 0].tolist() == pytest.approx([0, 0.3, 0])


def test_the_effort_is_that_of_the_simulator():
    """Step by step in another environment; a gear of 200 makes a command of .3 a torque of 60 N m."""
    result = evaluate(shaking, Augment(gym.make("Reacher-v5"), REACHER), 1, 7)
    env = gym.make("Reacher-v5")
    env.reset(seed=7)
    inner, torques, speeds = env.unwrapped, [], []
    for command in result.commands[1:]:
        env.step(command)
        torques.append(200 * command.astype(np.float64))
        speeds.append(inner.data.qvel[:2].copy())
    assert inner.model.actuator_gear[0, 0] == 200 and np.ptp(torques) == pytest.approx(60)
    expected = effort(np.array(torques), np.array(speeds), inner.dt).together()
    assert {name: result.row()[name] for name in EFFORT} == pytest.approx(expected, rel=1e-6)


def test_an_environment_without_actuators_has_no_such_columns():
    def act(observation: torch.Tensor) -> Decision:
        return Decision(*2 * (observation[:, -1:],))

    result = evaluate(act, Augment(gym.make("Pendulum-v1"), RateLimits(0.3, -2, 2)), 1, 0)
    assert result.efforts == () and "work" not in result.row() and result.row()["second_difference"] == 0


def test_a_run_writes_them(tmp_path):
    options = {"steps": 80, "learning_starts": 40, "batch_size": 8, "evaluate_every": 40, "evaluate_episodes": 1}
    spec = RunSpec("Reacher-v5", "tight", capacity=100, agent_options={"hidden": [8]}, **options)
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    header = (folder.path / "eval.csv").read_text().splitlines()[0].split(",")
    assert set(CALM + EFFORT) < set(header)
    policy, result = evaluate_run(folder.path, 2)
    with open(folder.path / "evaluation" / "calm.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["joint"] for row in rows] == ["all", *policy.limits.names]
    assert float(rows[0]["smoothness"]) == result.row()["smoothness"]
    commands = np.genfromtxt(folder.path / "evaluation" / "commands.csv", delimiter=",", names=True)
    assert commands.dtype.names == policy.limits.names
    table = np.stack([commands[name] for name in policy.limits.names], 1)
    assert np.array_equal(table.astype(np.float32), result.commands)
    again = calm(table, policy.dt, policy.limits)
    assert again.second_difference == pytest.approx(result.calms[0].second_difference)
