"""What is asked of every agent, ours and a user's own: the Protocol of `agents/base.py`, checks on config fields."""

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import slewrl
from slewrl import RateLimits, make_layer
from slewrl.agents import AGENTS, agent_class
from slewrl.agents.base import Agent
from slewrl.agents.replay import Replay
from slewrl.envs.vec_env import Layout

LIMITS = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
N = 5
EVERY = [*AGENTS, "toy_agent:Toy"]
SMALL = {"hidden": (8, 8), "actor_hidden": (8,), "critic_hidden": (8,), "atoms": 5, "rollout": 4, "minibatch": 4}


def agent(name, seed=0, **options):
    kind = agent_class(name)
    fields = {field.name for field in dataclasses.fields(kind.Config)}
    config = kind.Config(**{key: value for key, value in SMALL.items() if key in fields}, **options)
    return kind.make(config, LIMITS, make_layer("none" if name == "ppo_lag" else "ddsrad"), Layout(N), seed)


def learned(made, steps=8):
    """The agent after so many steps of two made-up environments, and what it logged last."""
    rng, log = np.random.default_rng(0), {}
    replay = Replay(64, 0, 2, N, 2)
    for _ in range(steps):
        seen = (0.1 * rng.normal(size=(2, N))).astype(np.float32)
        action = made.act(torch.from_numpy(seen))
        following = np.concatenate([seen[:, :-2] + 1, action.executed.numpy()], -1)
        ends = np.zeros(2, bool)
        replay.add_many(seen, action.judged.numpy(), seen[:, 0], following, ends, ends)
        if made.record(seen[:, 0], following, ends, ends):
            log = made.improve(lambda: made.sample(replay, 8, rng), 2, True)
    return made, log


def flat(tree):
    """Every number of a state, in order."""
    if isinstance(tree, dict):
        return [x for value in tree.values() for x in flat(value)]
    if isinstance(tree, list | tuple):
        return [x for value in tree for x in flat(value)]
    return [tree.double().ravel().tolist()] if isinstance(tree, torch.Tensor) else [tree]


@pytest.mark.parametrize("name", EVERY)
def test_it_acts_learns_and_goes_on_where_it_was_saved(name):
    made, log = learned(agent(name))
    assert Agent in type(made).__mro__ and set(log) <= set(made.columns) and log
    state, other = made.state_dict(), agent(name, seed=1)
    other.load_state_dict(state)
    assert flat(other.state_dict()) == flat(state)
    seen = 0.1 * torch.randn(2, N, generator=torch.Generator().manual_seed(0))
    assert torch.equal(made.act(seen).executed, other.act(seen).executed)


@pytest.mark.parametrize("name", EVERY)
def test_what_is_exported_is_what_is_evaluated(name):
    made, _ = learned(agent(name))
    seen = 0.1 * torch.randn(7, N, generator=torch.Generator().manual_seed(0))
    box = LIMITS.box(seen[:, -2:], check=False)
    executed = made.layer.execute(made.latent_module()(seen[:, made.privileged :]), box)
    assert torch.allclose(executed, made.act(seen, explore=False).executed, atol=1e-6)


def test_ones_own_agent_is_trained_by_its_dotted_path(slewrl, tmp_path):
    """Named on the command line it runs as it is; of the run it leaves, only with --trust, as a layer does."""
    shutil.copy(Path(__file__).parents[1] / "toy_agent.py", tmp_path / "my_agent.py")
    budget = ("--steps", 60, "--learning-starts", 50, "--evaluate-every", 60, "--evaluate-episodes", 1)
    words = ("train", "--task", "Pendulum-v1", "--agent", "my_agent:Toy", *budget, "--no-tensorboard")
    made = slewrl(*words, "--set", "agent.step=0.2", "--out", "r")
    assert made.returncode == 0 and "slewrl evaluate r --trust" in " ".join(made.stdout.split())
    header, row = (tmp_path / "r" / "train.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["batch_reward"] not in ("", "nan")
    refused = slewrl("evaluate", "r", "--episodes", 1)
    assert refused.returncode == 2 and "agent 'my_agent:Toy' (imports my_agent)" in refused.stderr
    assert slewrl("evaluate", "r", "--episodes", 1, "--trust").returncode == 0
    assert slewrl("train", "--resume", "r", "--steps", 80, "--trust").returncode == 0
    wrong = slewrl(*words, "--set", "agent.step=0", "--out", "s")
    assert wrong.returncode == 2 and "step is 0, expected a number > 0" in wrong.stderr
    unfinished = slewrl(*words[:4], "my_agent:Unfinished", *budget, "--out", "s")
    assert unfinished.returncode == 2 and "lacks what slewrl.agents.base.Agent asks for: act" in unfinished.stderr
    assert not (tmp_path / "s").exists()


def test_a_class_that_is_no_agent_is_refused_in_words():
    with pytest.raises(ValueError, match="agent 'toy_agent:Lookalike' is .*, expected a class that subclasses .*Agent"):
        agent_class("toy_agent:Lookalike")
    with pytest.raises(ValueError, match="agent 'torch.hub:load' is .*, expected a class that subclasses .*Agent"):
        agent_class("torch.hub:load")
    with pytest.raises(ValueError, match="'toy_agent:Unfinished' lacks what .*Agent asks for: act, latent_module"):
        agent_class("toy_agent:Unfinished")
    with pytest.raises(KeyError, match="unknown agent 'sak'. Did you mean 'sac'"):
        agent_class("sak")


@pytest.mark.parametrize("name", EVERY)
def test_every_field_of_a_config_carries_its_own_check(name):
    """A value of no kind that any field has is refused, and the message begins with the field's name."""
    kind = agent_class(name).Config
    for field in dataclasses.fields(kind):
        if field.name == "device":  # torch says what it knows
            continue
        with pytest.raises(ValueError, match=f"^{field.name} is <object.*>, expected "):
            kind(**{field.name: object()})


def test_nobody_asks_an_agent_what_it_has():
    """The Protocol says what there is: no getattr, no hasattr, and no type that could be anything."""
    src = Path(slewrl.__file__).parent
    asked = re.compile(r"(?:get|has)attr\((?:\w+\.)*(?:agent|AGENTS\S*)\b[^)]*\)|agent\w*: Any\b")
    for path in [*(src / "training").glob("*.py"), *(src / "deploy").glob("*.py"), *(src / "paper").glob("*.py")]:
        assert asked.findall(path.read_text()) == [], path.name
