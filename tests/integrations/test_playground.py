"""Brax and MuJoCo Playground themselves under limits, by their own training wrappers: `make test-jax`; slow."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("brax", reason="needs Brax: make test-jax")
pytest.importorskip("mujoco_playground", reason="needs MuJoCo Playground: make test-jax")

import jax
from brax import envs
from brax.envs.wrappers import training
from jax import lax
from mujoco_playground import dm_control_suite, wrapper
from test_jax_env import prevs

from slewrl import RateLimits
from slewrl.integrations.jax import RateLimitWrapper

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
COUNT, STEPS = 100, 1000
EXAMPLE = Path(__file__).parents[2] / "examples" / "09_playground.py"


class Ledger:
    """Keeps what reaches the environment itself."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self, rng):
        state = self.env.reset(rng)
        return state.replace(info={**state.info, "got": jax.numpy.zeros(self.env.action_size)})

    def step(self, state, action):
        state = self.env.step(state, action)
        return state.replace(info={**state.info, "got": action})


def brax_task(wrap):
    env = wrap(envs.get_environment("inverted_pendulum", backend="generalized"))
    return training.wrap(env, episode_length=100, action_repeat=1)


def playground_task(wrap):
    env = wrap(dm_control_suite.load("CartpoleBalance", config_overrides={"impl": "jax"}))
    return wrapper.wrap_for_brax_training(env, episode_length=100)


@pytest.mark.parametrize("task", [brax_task, playground_task])
def test_a_hundred_thousand_steps(task):
    limits = RateLimits([0.1], [-1.0], [1.0])
    env = task(lambda inner: RateLimitWrapper(Ledger(inner), limits, bound=np.inf))
    state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), COUNT))

    def step(state, key):
        state = env.step(state, 3 * jax.random.normal(key, (COUNT, 1)))
        return state, (state.info["got"], state.done)

    keys = jax.random.split(jax.random.PRNGKey(1), STEPS)
    _, (got, done) = jax.jit(lambda s: lax.scan(step, s, keys))(state)
    got, over = np.asarray(got), np.asarray(done) > 0
    assert got.size == 100_000 and over.sum() >= 1000
    assert not limits.outside(got, prevs(got, over, np.zeros((COUNT, 1), np.float32))).any()
    assert np.isfinite(got).all() and np.abs(got).max() > 0.3


def test_the_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "\n0 of 25,600 steps beyond the limit" in capsys.readouterr().out


def test_the_page_is_code_that_runs(monkeypatch):
    """The environments of the page's quick starts, as they stand there."""
    page = (Path(__file__).parents[2] / "docs" / "integrations" / "jax.md").read_text(encoding="utf-8")
    found = re.findall(r"^```diff\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for diff in found[:2]:
        lines = [line[1:] for line in diff.splitlines() if line[:1] != "-"]
        scope = {}
        exec("\n".join(line for line in lines if "train(" not in line), scope)
        assert isinstance(scope["env"], RateLimitWrapper)
