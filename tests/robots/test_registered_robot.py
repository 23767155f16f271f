"""A robot declares itself: one file and one line of the registry, and everything that asks for robots finds it."""

import subprocess
import sys

import numpy as np
import pytest

from slewrl import RateLimits
from slewrl.envs.tasks import check_gymnasium_task, is_locomotion, make_vec_env, task_preset
from slewrl.integrations.simulator import default_limits
from slewrl.locomotion.tasks import NOISE, TASKS
from slewrl.report.figures import increments
from slewrl.robots import ROBOTS, find_robot, groups_of
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(ROBOTS, "_entries", dict(ROBOTS._entries))
    ROBOTS.register("toy", "toy_robot:TOY")
    return ROBOTS["toy"]


def test_it_has_tasks_presets_groups_and_a_pair(toy):
    assert [*TASKS] == ["H1-rough", "H1-flat", "G1-flat", "G1-rough", "Toy-flat"]
    task = TASKS["Toy-flat"]
    assert (task.options.seconds, task.options.heading, task.gait) == (0.2, False, False)
    assert task.noise == {**NOISE, "gyroscope": 0.1}
    assert not is_locomotion("mjlab:Toy-flat")
    assert is_locomotion("Toy-flat") and not is_locomotion("Toy-rough") and not is_locomotion("toy-flat")
    for name in ("gentle", "spec", "tight"):
        assert RateLimits.preset("Toy", name) == task_preset("Toy-flat", name) == toy.rate_limits(name)
    assert RateLimits.preset("Toy", "gentle").delta == pytest.approx(0.1)
    with pytest.raises(KeyError, match="Toy-flat has no preset 'paper'; it has: gentle, spec, tight"):
        RateLimits.preset("Toy-flat", "paper")
    with pytest.raises(KeyError, match="Did you mean 'Toy-flat'"):
        RateLimits.preset("Toy-flt", "tight")
    with pytest.raises(ValueError, match="walking tasks are H1-rough, .*Toy-flat"):
        check_gymnasium_task("Toy-hilly")
    names = [joint.name for joint in toy.joints]
    _, distal = groups_of("mjlab:Mjlab-Velocity-Toy", [f"{name}_joint" for name in names])
    assert [names[i] for i in distal] == ["left_knee", "right_knee"]
    assert find_robot("Toy-flat") is toy and toy.pair == ("left_hip_yaw", "left_knee")
    result = type("Result", (), {"cell": type("Cell", (), {"task": "Toy-flat"}), "joints": names})
    assert increments.pair_of(result) == toy.pair
    assert default_limits("x", [f"{name}_joint" for name in names]) == RateLimits.preset("H1", "paper")


def test_it_is_trained(toy, tmp_path):
    spec = RunSpec(
        "Toy-flat",
        limits="gentle",
        agent="fastsac",
        steps=48,
        environments=4,
        learning_starts=16,
        batch_size=8,
        evaluate_every=48,
        evaluate_episodes=2,
        agent_options={"actor_hidden": (8,), "critic_hidden": (8,)},
    )
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    result = load_policy(folder.path).evaluate(2)
    assert sum(use.violations for use in result.uses) == 0 and (result.lengths <= 10).all()


def test_worlds_of_it_step(toy):
    made = make_vec_env("Toy-flat", RateLimits.preset("Toy", "gentle"), 2)
    made.reset(0)
    assert made.step(np.tile(made.reset_action, (2, 1))).reward.shape == (2,)
    assert made.limits.dim == 10 and made.robot is toy


def test_a_robots_facts_are_read_without_torch():
    code = "import sys; from slewrl.robots import find_robot as f; f('G1-flat').pair; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"
