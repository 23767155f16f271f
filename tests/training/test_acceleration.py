"""Training under acceleration limits: every agent keeps them from the first step on, and resumes bit for bit."""

import shutil
from dataclasses import replace
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import torch

from slewrl import RateLimits
from slewrl.envs.augment import Augment
from slewrl.envs.vec_env import Layout
from slewrl.layers.base import Decision
from slewrl.metrics import rate_use
from slewrl.training import checkpoint, setup
from slewrl.training.checks import check_spec
from slewrl.training.evaluate import Evaluation, evaluate
from slewrl.training.policy import evaluate_run
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

REACHER = RateLimits(0.3, -1, 1, names=["shoulder", "elbow"], acceleration=[0.11, 0.04], deceleration=[0.05, 0.07])
SPEC = RunSpec(
    task="Reacher-v5", limits="tight", steps=360, learning_starts=60, batch_size=16, capacity=200, evaluate_every=120,
    evaluate_episodes=1, seed=3, agent_options={"hidden": [16]},
)  # fmt: skip
ROLLOUT = {"hidden": [8], "rollout": 40, "minibatch": 20, "epochs": 2}
AGENTS = {
    "sac": {},
    "td3": {},
    "ppo": {"agent_options": {**ROLLOUT, "normalize": True}, "layer_options": {"penalty_weight": 0.01}},
    "ppo, action": {"agent_options": {**ROLLOUT, "advantage": "action", "normalize": True, "q_hidden": [8]}},
    "ppo_lag": {"agent_options": {**ROLLOUT, "normalize": True}, "layer": "none"},
    "fastsac": {
        "agent_options": {"actor_hidden": [8], "critic_hidden": [8], "n_steps": 2, "updates": 1},
        "environments": 3,
    },
}


@pytest.fixture
def under(monkeypatch):
    """Let runs have these limits, whatever their spec says."""
    return lambda limits: monkeypatch.setattr(setup, "resolve_limits", lambda *_, **__: limits)


def spec_of(name, **changes):
    return replace(SPEC, **{"agent": name.partition(",")[0], **AGENTS[name]}, **changes)


def sharp(actions, limits):
    """Joint steps of an episode (T + 1, d) beyond its acceleration, by rational numbers and nothing of ours."""
    count = 0
    for i in range(limits.dim):
        path = [Fraction(float(x)) for x in actions[:, i]]
        faster, slower = Fraction(float(limits.acceleration[i])), Fraction(float(limits.deceleration[i]))
        for last, prev, now in zip(path[:1] + path, path, path[1:], strict=False):
            before, step = prev - last, now - prev
            up = before + faster if before >= 0 else min(before + slower, faster)
            down = before - faster if before <= 0 else max(before - slower, -faster)
            count += not down <= step <= up
    return count


def parts(spec, folder, stops):
    """Train in a process after the other, each stopped in the middle of an episode; returns the actions of episodes."""
    seen = []
    for stop in stops:
        trainer = Trainer(spec, folder)
        if checkpoint.checkpoints(folder.checkpoints):
            assert trainer.restore(checkpoint.use_newest(folder.checkpoints, dict)[0]) == []
        while trainer.step < stop:
            trainer.advance()
            seen += [episode.actions for episode in trainer.vec_env.episodes]
        trainer.save()
    return seen


def state_of(folder):
    """The agent and the environments of the last checkpoint, as (path, bytes or number)."""
    state = checkpoint.use_newest(folder.checkpoints, dict)[0]
    return dict(_leaves({key: state[key] for key in ("agent", "worlds", "violations", "last_return", "rng")}))


def _leaves(tree, path=""):
    if isinstance(tree, dict | list | tuple):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, f"{path}/{key}")
    else:
        yield path, tree.numpy().tobytes() if isinstance(tree, torch.Tensor) else tree


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_keeps_the_limits_and_resumes_bit_for_bit(name, tmp_path, under):
    under(REACHER)
    spec = spec_of(name)
    check_spec(spec)
    folder = RunFolder(tmp_path / "whole")
    folder.create(spec)
    assert train(spec, folder)
    other = RunFolder(tmp_path / "parts")
    other.create(spec)
    episodes = parts(spec, other, (90, 201))
    assert train(spec, other)
    assert state_of(other) == state_of(folder)
    rows = np.atleast_1d(np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True))
    found = sum(sharp(actions, REACHER) for actions in episodes)
    assert len(episodes) >= 3
    if name == "ppo_lag":
        assert found > 10 and rows["violations"][-1] > 10 and rows["cost"][-1] > 0
        return
    assert found == 0 and rows["violations"][-1] == 0
    fastest = np.max([np.abs(np.diff(actions, axis=0)).max(0) for actions in episodes], 0)
    assert (fastest > 1.5 * REACHER.acceleration).all()  # it was the acceleration that limited, step after step


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_fastsac_compiled_keeps_the_limits(tmp_path, under):
    """A run whose updates are compiled: the box is traced, and no command breaks a limit."""
    if shutil.which("g++") is None:
        pytest.skip("torch.compile's default backend needs g++, which this machine does not have")
    under(REACHER)
    options = AGENTS["fastsac"]["agent_options"] | {"compile": True}
    spec, folder = replace(spec_of("fastsac", steps=240), agent_options=options), RunFolder(tmp_path / "run")
    check_spec(spec)
    folder.create(spec)
    assert train(spec, folder)
    rows = np.atleast_1d(np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True))
    found = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    assert rows["violations"][-1] == 0 and (found["acceleration_violations"] == 0).all()
    assert np.isfinite(rows["critic_loss"]).all() and (found["acceleration_utilisation"] > 0).all()
    torch._dynamo.reset()


def test_a_run_has_a_column_for_violations_of_the_acceleration(tmp_path, under):
    under(REACHER)
    spec, folder = spec_of("sac", steps=120), RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    evaluate_run(folder.path, 2)
    for name in ("eval.csv", "evaluation/episodes.csv"):
        table = np.genfromtxt(folder.path / name, delimiter=",", names=True)
        assert (table["acceleration_violations"] == 0).all() and (table["violations"] == 0).all()


def test_evaluations_count_acceleration_apart():
    """From side to side within the rate: each increment but the first, from rest, is too sharp for the shoulder."""
    env, side = Augment(gym.make("Reacher-v5"), REACHER), torch.tensor([[0.1, 0.0]])

    def act(seen):
        return Decision(*(2 * (side - seen[:, -2:],)))

    result = evaluate(act, env, 2, 0)
    assert [use.violations for use in result.uses] == [use.acceleration_violations for use in result.uses] == [49, 49]
    assert result.raw_violations == result.row()["violations"] == result.row()["acceleration_violations"] == 98
    assert [row["acceleration_violations"] for row in result.episodes()] == [49, 49]


def test_the_utilisation_of_the_acceleration_by_hand():
    """A ratio of sums, as the rate's: |change of the increment| over what the limits allow in its direction."""
    limits = RateLimits(1, -4, 4, names=["a", "b"], acceleration=[0.5, 0.5], deceleration=[0.25, 1])
    path = np.array([[0, 0], [0.5, 0.25], [0.75, 0.5], [0.875, 0.125]])
    # increments .5 .25 .125 and .25 .25 -.375; from rest, then slowing a by D = .25, and turning b, by v + A at most
    changes, allowed = [[0.5, 0.25], [0.25, 0], [0.125, 0.625]], [[0.5, 0.5], [0.25, 0.5], [0.25, 0.75]]
    use = rate_use(path, limits)
    assert use.acceleration_violations == 0
    assert use.acceleration_utilisation == pytest.approx(np.mean(np.sum(changes, -1) / np.sum(allowed, -1)))
    assert use.acceleration_utilisation_max == 1.0
    slack = rate_use(path / 2, limits)
    assert 0 < slack.acceleration_utilisation_max < 1
    assert np.isnan(rate_use(path, RateLimits(1, [-4, -4], 4)).acceleration_utilisation)


def test_the_utilisation_of_the_acceleration_has_columns(tmp_path, under, slewrl):
    under(REACHER)
    spec, folder = spec_of("sac", steps=120), RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    shown = slewrl("evaluate", folder.path, "--episodes", 2).stdout
    assert "acceleration_violations" in shown and "acceleration_utilisation" in shown
    for name in ("eval.csv", "evaluation/episodes.csv"):
        table = np.genfromtxt(folder.path / name, delimiter=",", names=True)
        assert (table["acceleration_utilisation"] > 0).all()
        assert (table["acceleration_utilisation"] <= table["acceleration_utilisation_max"]).all()
        assert (table["acceleration_utilisation_max"] <= 1).all()


def test_without_an_acceleration_there_is_no_such_column():
    use = rate_use(np.zeros((3, 2)), RateLimits(0.3, -1, 1, names=["shoulder", "elbow"]))
    plain = Evaluation(np.zeros(1), np.array([2]), (use,), 0, np.zeros((2, 2)), ({},))
    assert not [name for name in {**plain.row(), **plain.episodes()[0]} if "acceleration" in name]


@pytest.mark.parametrize("name", ["ppo", "ppo, action", "ppo_lag", "fastsac"])
def test_the_history_of_actions_is_not_normalised(name):
    agent = setup.make_agent(spec_of(name), REACHER, Layout(9))
    seen = torch.randn(50, 9)
    agent.normalizer.update(seen)
    changed = agent.normalizer(seen) != seen
    assert changed[:, :5].any(0).all() and not changed[:, 5:].any()


def test_a_walking_run_keeps_the_limits_and_resumes_bit_for_bit(tmp_path, under):
    """With delays, pushes, the curriculum and mirror images."""
    plain = RateLimits.preset("G1-flat", "paper")
    limits = RateLimits(**plain._parts() | {"acceleration": 0.3 * plain.delta / plain.dt**2})
    under(limits)
    spec = replace(
        SPEC, task="G1-flat", agent="fastsac", environments=4, steps=400, learning_starts=100, evaluate_every=200,
        task_options={"seconds": 0.6, "push": 1.0, "delay": 1},
        agent_options={"actor_hidden": [16], "critic_hidden": [16], "n_steps": 2, "updates": 1},
    )  # fmt: skip
    folders = [RunFolder(tmp_path / name) for name in ("whole", "parts")]
    for folder in folders:
        folder.create(spec)
    episodes = parts(spec, folders[1], (128, 260))
    assert all(train(spec, folder) for folder in folders)
    assert state_of(folders[0]) == state_of(folders[1])
    assert sum(sharp(actions, limits) for actions in episodes) == 0 and len(episodes) > 3
    table = np.genfromtxt(folders[0].path / "eval.csv", delimiter=",", names=True)
    assert (table["acceleration_violations"] == 0).all() and (table["violations"] == 0).all()
