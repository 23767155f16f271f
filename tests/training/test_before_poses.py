"""Runs, campaigns and bundles from before robots had a choice of default poses stand as they did: G1 straighter."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from slewrl.campaign.store import Store
from slewrl.envs.tasks import make_vec_env
from slewrl.limits import RateLimits
from slewrl.robots import ROBOTS
from slewrl.training.checkpoint import CheckpointError, of_run
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import FORMER_POSE, RunSpec
from slewrl.training.start import check_start

RESULTS = Path(__file__).parents[2] / "results"
PAPER = RateLimits.preset("G1", "paper")


def knee(limits=PAPER, **options):
    made = make_vec_env("G1-flat", limits, 1, options)
    made.reset(0)
    assert np.array_equal(made.robot.default_pose, made.reset_action)
    return made.reset_action[3]


def test_the_pose_is_the_options_the_limits_or_the_robots():
    assert knee() == np.float32(0.669) and knee(pose="rl_gym") == np.float32(0.3)
    former = ROBOTS["g1"].in_pose("rl_gym")
    assert knee(PAPER.with_reset(former.default_pose)) == np.float32(0.3)
    assert knee(PAPER.with_reset(None)) == np.float32(0.669)
    bent = {name: 0.5 if "knee" in name else 0.0 for name in PAPER.names}
    assert knee(PAPER.with_reset(bent)) == 0.5 and knee(PAPER.with_reset(bent), pose="rl_gym") == np.float32(0.3)
    with pytest.raises(ValueError, match="G1 has no pose 'stork'; it has: rl_gym"):
        knee(pose="stork")
    with pytest.raises(ValueError, match="H1 has no pose 'rl_gym'; it has: its own only"):
        ROBOTS["h1"].in_pose("rl_gym")


def test_a_robot_stands_on_the_ground_in_every_pose():
    for robot in (ROBOTS["g1"], ROBOTS["g1"].in_pose("rl_gym"), ROBOTS["g1"].posed(np.linspace(0, 0.2, 13))):
        frames = robot.frames()
        soles = [frames[foot][0] + frames[foot][1] @ np.array(robot.sole(foot)[0]) for foot in robot.feet]
        assert min(sole[2] for sole in soles) == pytest.approx(-robot.base_height)
    assert ROBOTS["g1"].posed(ROBOTS["g1"].default_pose) is ROBOTS["g1"]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_run_says_by_its_version_which_pose_it_had(tmp_path, version):
    for task, former in (("G1-flat", True), ("G1-rough", True), ("H1-flat", False), ("Pendulum-v1", False)):
        (tmp_path / "run.json").write_text(json.dumps({"version": version, "spec": {"task": task, "agent": "ppo"}}))
        there = RunFolder(tmp_path).spec().task_options
        assert there == (FORMER_POSE if former and version < 4 else {})


def test_a_pose_of_its_own_stays(tmp_path):
    spec = {"task": "G1-flat", "task_options": {"pose": "", "push": 1.0}}
    (tmp_path / "run.json").write_text(json.dumps({"version": 3, "spec": spec}))
    assert RunFolder(tmp_path).spec().task_options == spec["task_options"]


def test_the_campaign_of_the_first_walk_is_found_in_its_folders():
    store = Store(RESULTS / "walk")
    runs = [spec for spec in store.campaign().runs if spec.task == "G1-flat"]
    assert len(runs) == 3 and all(spec.task_options == FORMER_POSE for spec in runs)
    assert all((store.folder(spec.key).path / "final").is_dir() for spec in runs)


def test_a_checkpoint_of_such_a_run_is_its_own(tmp_path):
    there = dataclasses.asdict(RunSpec("G1-flat", agent="ppo"))
    state = {"spec": there, "agent": {}, "step": 10}
    assert of_run(state, RunSpec("G1-flat", agent="ppo", task_options=FORMER_POSE), RunFolder(tmp_path)) is state
    with pytest.raises(CheckpointError, match="task_options"):
        of_run(state, RunSpec("G1-flat", agent="ppo", task_options={"pose": "other"}), RunFolder(tmp_path))


def test_the_weights_of_such_a_run_are_for_its_pose(tmp_path):
    """A run of today's in the new pose would see every angle of the knee .37 rad off."""
    (tmp_path / "run.json").write_text(json.dumps({"version": 3, "spec": {"task": "G1-flat", "agent": "ppo"}}))
    spec = RunSpec("G1-flat", "paper", agent="ppo", start=str(tmp_path))
    with pytest.raises(ValueError, match=r"the default pose is rl_gym there, the robot's own here \(--set task.pose"):
        check_start(spec, None, PAPER, None)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):  # which is looked for next
        check_start(dataclasses.replace(spec, task_options=FORMER_POSE), None, PAPER, None)
