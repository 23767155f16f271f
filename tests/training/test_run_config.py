"""run.json holds every value of the agent's config, so a default that changes later changes no run that has begun."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from slewrl.agents import recipes
from slewrl.agents.sac import SAC, SACConfig
from slewrl.deploy.export import deployable
from slewrl.errors import UserFacingError
from slewrl.training import checkpoint
from slewrl.training.extend import extend
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.setup import make_config, settings
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

SPEC = RunSpec(
    "Pendulum-v1", steps=24, learning_starts=8, batch_size=4, evaluate_every=24, evaluate_episodes=1,
    agent_options={"hidden": [8]},
)  # fmt: skip
OLD = Path(__file__).parents[1] / "data" / "before_the_move" / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    folder.create(SPEC)
    assert folder.config() == {}  # of a run that has not begun
    train(SPEC, folder)
    return folder.path


@pytest.fixture
def later(trained, tmp_path, monkeypatch):
    """The run in a later slewrl, whose recipe has another mean and another discount."""
    monkeypatch.setitem(recipes.RECIPES["sac"], "ours", recipes.Recipe({}, {"mean_bound": "tanh", "discount": 0.5}))
    return RunFolder(Path(shutil.copytree(trained, tmp_path / "run")))


def test_every_value_is_there(trained):
    data = json.loads((trained / "run.json").read_text(encoding="utf-8"))
    assert data["version"] == 4 and list(data["config"]) == list(SACConfig.__dataclass_fields__)
    assert make_config(SPEC, data["config"]) == make_config(SPEC) == SACConfig(hidden=(8,))


def test_a_run_goes_on_with_its_own_values(later):
    expected = SACConfig(hidden=(8,))
    assert make_config(SPEC) == replace(expected, mean_bound="tanh", discount=0.5)  # what a new run would get
    assert load_policy(later.path).agent.config == expected
    assert not any(isinstance(part, torch.nn.Tanh) for part in deployable(later.path).module.modules())
    spec = extend(later, 48)
    assert later.config() == settings(expected)
    assert Trainer(spec, later).agent.config == expected
    assert train(spec, later) and later.config() == settings(expected)


def test_a_new_run_may_begin_with_its_weights(later, tmp_path):
    spec = replace(SPEC, start=str(later.path), agent_options={"hidden": [8], "mean_bound": "linear"})
    folder = RunFolder(tmp_path / "new")
    folder.create(spec)
    assert Trainer(spec, folder).agent.config == SACConfig(hidden=(8,), discount=0.5)


def test_an_older_run_takes_todays_values_and_keeps_them(tmp_path):
    folder = RunFolder(Path(shutil.copytree(OLD, tmp_path / "run")))
    assert json.loads((folder.path / "run.json").read_text())["version"] == 3 and folder.config() == {}
    assert load_policy(folder.path).agent.config == make_config(folder.spec())
    spec = extend(folder, 402)
    assert train(spec, folder)
    assert folder.config() == settings(make_config(spec)) and folder.spec() == spec


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([1], r"run.json: config is \[1\], expected names and values"),
        ({"hidde": 3}, "run.json has 'hidde' in the config of its agent, which this slewrl does not know"),
        ({"discount": 3}, "discount is 3, expected a number in"),
    ],
)
def test_a_config_that_is_wrong_is_named(trained, tmp_path, config, message):
    folder = RunFolder(Path(shutil.copytree(trained, tmp_path / "run")))
    folder.describe(SPEC, config)
    with pytest.raises((ValueError, UserFacingError, checkpoint.CheckpointError), match=message):
        load_policy(folder.path)


def test_what_json_cannot_hold_is_left_out():
    @dataclass(frozen=True)
    class Config:
        rate: float = 0.5
        kind: type = SAC

    assert settings(Config()) == {"rate": 0.5}
