"""SBX itself under limits: what reaches env.step, what critics see, saving, refusals. `make test-jax`."""

import re
import runpy
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("sbx", reason='needs SBX: make test-jax, or pip install "slewrl[sbx]"')

import jax
import jax.numpy as jnp
import sbx
from stable_baselines3.common.noise import NormalActionNoise

from slewrl import RateLimit, RateLimits
from slewrl.integrations import jax as limited
from slewrl.integrations.sbx import SAC, CrossQ, LimitedGaussian, shares

pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]
TASK = "HalfCheetah-v5"
LIMITS = RateLimits.preset(TASK, "tight")
FEW = {"learning_starts": 100, "train_freq": 16, "gradient_steps": 1, "policy_kwargs": {"net_arch": [16, 16]}}


class Ledger(gym.Wrapper):
    """Judges what reaches the environment."""

    def __init__(self, env):
        super().__init__(env)
        self.steps = self.outside = 0

    def reset(self, **options):
        self.prev = np.zeros(6, np.float32)
        return self.env.reset(**options)

    def step(self, action):
        self.steps += 1
        self.outside += int(LIMITS.outside(action, self.prev).any())
        self.prev = np.array(action)
        return self.env.step(action)


def limited_env():
    ledger = Ledger(gym.make(TASK))
    return RateLimit(ledger, LIMITS, mode="absolute"), ledger


@pytest.mark.parametrize("layer", ["ddsrad", "boxpro"])
@pytest.mark.parametrize("kind", [SAC, CrossQ])
def test_zero_violations(kind, layer, tmp_path):
    """Warm-up, exploration with action noise, updates, resets, saving, loading, going on, evaluation."""
    env, ledger = limited_env()
    noise = NormalActionNoise(np.zeros(6), np.full(6, 2.0))
    made = FEW | {"policy_kwargs": {"net_arch": [16, 16], "layer": layer}}
    model = kind("MlpPolicy", env, seed=0, action_noise=noise, **made).learn(300)
    model.save(tmp_path / "model.zip")
    again = kind.load(tmp_path / "model.zip", env=env)
    seen = env.reset(seed=0)[0]
    np.testing.assert_array_equal(again.predict(seen, True)[0], model.predict(seen, True)[0])
    again.learn(200, reset_num_timesteps=False)
    assert ledger.steps >= 500 and ledger.outside == 0
    assert again.target_entropy == -6
    stored = again.replay_buffer.actions[: again.replay_buffer.size()]
    np.testing.assert_allclose(stored[-1, 0], env.previous, atol=1e-6)  # shares of the range, which is [-1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SAC, CrossQ])
def test_zero_violations_in_a_hundred_thousand_steps(kind):
    env, ledger = limited_env()
    kind("MlpPolicy", env, seed=0, **FEW | {"train_freq": 128}).learn(100_000)
    assert ledger.steps >= 100_000 and ledger.outside == 0


def test_the_distribution_is_the_layers():
    prev = jnp.zeros((5, 6)).at[0].set(0.9)
    mean, std = jnp.full((5, 6), 0.3), jnp.full((5, 6), 0.7)
    box = limited.box(LIMITS, prev)
    dist = LimitedGaussian(mean, std, box, "ddsrad")
    drawn = dist.sample(seed=jax.random.PRNGKey(0))
    noise = jax.random.normal(jax.random.PRNGKey(0), (5, 6))
    action, log_prob = limited.sample("ddsrad", mean, std, noise, box)
    np.testing.assert_array_equal(drawn, shares(action.judged, LIMITS))
    np.testing.assert_array_equal(dist.log_prob(drawn), log_prob)
    np.testing.assert_array_equal(dist.mode(), shares(dist.executed(jnp.zeros((5, 6))), LIMITS))
    with pytest.raises(ValueError, match="not those drawn last"):
        dist.log_prob(drawn + 0)


def test_the_actor_pays_the_penalty():
    """As SBX's loss has no place for it, its gradient comes back through the action."""
    box, noise = limited.box(LIMITS, jnp.zeros((4, 6))), jax.random.normal(jax.random.PRNGKey(0), (4, 6))

    def stock(mean):
        return LimitedGaussian(mean, jnp.ones((4, 6)), box, "ddsrad").sample(jax.random.PRNGKey(0)).mean()

    def ours(mean):
        action, _ = limited.sample("ddsrad", mean, jnp.ones((4, 6)), noise, box)
        return shares(action.judged, LIMITS).mean() + 0.005 * action.penalty.mean()

    mean = jnp.full((4, 6), 0.5)
    np.testing.assert_allclose(jax.grad(stock)(mean), jax.grad(ours)(mean), rtol=1e-5)


def test_what_is_refused():
    env, _ = limited_env()
    with pytest.raises(ValueError, match="the environment has no rate limits"):
        SAC("MlpPolicy", gym.make(TASK))
    with pytest.raises(ValueError, match="but here the policy has the layer"):
        SAC("MlpPolicy", RateLimit(gym.make(TASK), LIMITS))
    with pytest.raises(ValueError, match="use_sde is True"):
        SAC("MlpPolicy", env, use_sde=True)
    with pytest.raises(ValueError, match="layer is 'srad_qp', expected one that is written for JAX"):
        SAC("MlpPolicy", env, policy_kwargs={"layer": "srad_qp"})
    model = SAC("MlpPolicy", env, **FEW)
    with pytest.raises(ValueError, match="the policy sees 3.0 as the previous action"):
        model.predict(np.full(23, 3.0, np.float32))
    assert isinstance(model, sbx.SAC)


def test_the_example_and_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = ROOT / "examples" / "10_sbx.py"
    monkeypatch.setattr(sys, "argv", [str(example), "600"])
    runpy.run_path(str(example), run_name="__main__")
    assert re.search(r" 0 of its 200 steps beyond it", capsys.readouterr().out)
    page = (ROOT / "docs" / "integrations" / "jax.md").read_text(encoding="utf-8")
    (diff,) = (x for x in re.findall(r"^```diff\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "sbx" in x)
    code = "\n".join(line[1:] for line in diff.splitlines() if line[:1] != "-")
    assert "60_000" in code
    scope: dict = {}
    exec(code.replace("60_000", "120"), scope)
    assert isinstance(scope["env"], RateLimit)
