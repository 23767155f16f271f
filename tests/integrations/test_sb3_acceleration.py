"""Stable-Baselines3 under acceleration limits: what reaches env.step, what the policy sees, saving, refusals."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason='needs Stable-Baselines3: pip install "slewrl[sb3]"')

from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from stable_baselines3.common.vec_env import VecNormalize as StockVecNormalize
from test_rate_limit import Eyes, Recorder

from slewrl import RateLimit, RateLimits, make_layer
from slewrl.deploy.sb3_model import deployable_model, read_limits
from slewrl.envs.augment import Augment
from slewrl.integrations.sb3 import SAC, TD3, PolicyLimit, VecNormalize, load
from slewrl.metrics import rate_use

TASK = "HalfCheetah-v5"
PLAIN = RateLimits.preset(TASK, "tight")
LIMITS = RateLimits(**PLAIN._parts() | {"acceleration": "0.01", "deceleration": "0.03"})
NET = [16, 16]
NOISE = NormalActionNoise(np.zeros(6), np.full(6, 5.0))

pytestmark = pytest.mark.filterwarnings("ignore:.*not wrapped with a ``Monitor``.*:UserWarning")


class Unlimited(Augment):
    """Shows the history and changes no action: what the policy decides reaches the environment as it is."""

    dicts, narrow, mode, follows = True, False, "absolute", True

    def step(self, action):
        *moved, info = super().step(action)
        return *moved, {**info, "applied_action": self.previous.copy()}


def make(inner=None, kind=PolicyLimit, limits=LIMITS):
    return kind(inner or gym.make(TASK, max_episode_steps=40), limits)


def model(kind=SAC, env=None, layer="ddsrad", policy="MlpPolicy", **options):
    options = {"learning_starts": 60, "batch_size": 16, "seed": 0, "buffer_size": 2000, **options}
    return kind(policy, env or make(), policy_kwargs={"net_arch": NET, "layer": layer}, **options)


def violations(inner, limits=LIMITS):
    chains = (np.concatenate([np.zeros((1, 6)), episode]) for episode in inner.episodes if episode)
    return sum(rate_use(chain, limits).violations for chain in chains)


@pytest.mark.parametrize("layer", ["ddsrad", "post", "interval_tanh"])
@pytest.mark.parametrize(("kind", "noise"), [(SAC, None), (TD3, NOISE)])
def test_nothing_that_the_policy_decides_is_outside_the_limits(kind, noise, layer, tmp_path):
    """Warm-up, exploration, updates, resets, loading, going on and evaluation, with nothing behind the policy."""
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    agent = model(kind, make(inner, Unlimited), layer, action_noise=noise).learn(130)
    agent.save(tmp_path / "model")
    agent = kind.load(tmp_path / "model", env=agent.env)
    assert agent.policy.limits == LIMITS
    agent.learn(60, reset_num_timesteps=False)
    evaluate_policy(agent, agent.env, 1)
    assert sum(map(len, inner.episodes)) >= 230 and violations(inner) == 0
    assert max(np.abs(np.diff(episode, axis=0)).max() for episode in inner.episodes if len(episode) > 1) > 0.03


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_what_the_policy_decides_is_applied_to_the_bit_and_is_what_the_replay_holds(kind):
    inner, decided = Recorder(gym.make(TASK, max_episode_steps=40)), []
    agent = model(kind, make(inner), action_noise=NOISE)
    chosen = agent._sample_action

    def noted(*args):
        decided.append(chosen(*args))
        return decided[-1]

    agent._sample_action = noted
    agent.learn(120)
    taken = np.concatenate([episode for episode in inner.episodes if episode])
    assert np.array_equal(np.concatenate([action for action, _ in decided]), taken) and violations(inner) == 0
    seen = agent.replay_buffer.next_observations[:120, 0]
    assert np.array_equal(seen[:, -6:], taken)
    assert np.array_equal(seen[:, -12:-6], taken - agent.replay_buffer.observations[:120, 0, -6:])


def test_whatever_else_comes_goes_to_the_nearest_action_in_the_limits():
    """Far, infinite and NaN; and a joint at speed gets a command that it cannot stop at, for which RateLimit brakes."""
    inner = Recorder(gym.make(TASK))
    env = make(inner)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for t in range(300):
        action = rng.normal(0, 3, 6).astype(np.float32) + (3 if t % 60 < 30 else -3)
        action[t % 6] = (np.nan, np.inf, -np.inf, 1e30)[t % 4]
        _, _, _, _, info = env.step(action)
        assert np.array_equal(info["applied_action"], inner.episodes[-1][-1])
    assert violations(inner) == 0
    env.reset(seed=0)
    box, layer = LIMITS.box(torch.zeros(6), velocity=torch.zeros(6)), make_layer("ddsrad")
    prev = torch.zeros(6)
    for _ in range(8):
        asked = layer.execute(torch.full((6,), 2.0), box)
        _, _, _, _, info = env.step(asked.numpy())
        assert np.array_equal(info["applied_action"], asked.numpy())
        box, prev = LIMITS.box(asked, velocity=asked - prev), asked
    with pytest.raises(ValueError, match=r"action has shape \(5,\), expected \(6,\)"):
        env.step(np.zeros(5, np.float32))


def test_without_an_acceleration_limit_it_is_the_clip():
    one, other = (Recorder(gym.make(TASK)) for _ in range(2))
    envs = PolicyLimit(one, PLAIN), RateLimit(other, PLAIN, mode="absolute")
    rng = np.random.default_rng(0)
    for env in envs:
        env.reset(seed=0)
    for _ in range(50):
        action = rng.normal(0, 1, 6).astype(np.float32)
        for env in envs:
            env.step(action)
    assert np.array_equal(one.episodes, other.episodes)


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_dict_observations_have_the_last_increment_under_a_key_of_its_own(kind):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    agent = model(kind, make(Eyes(inner)), policy="MultiInputPolicy", learning_starts=30).learn(60)
    assert agent.actor.features_dim == 17 + 12 and violations(inner) == 0
    obs = agent.env.reset()
    for _ in range(10):
        action, _ = agent.predict(obs)
        moved = action - obs["previous_action"]
        obs, *_ = agent.env.step(action)
        assert np.array_equal(obs["previous_action"], action) and np.array_equal(obs["previous_velocity"], moved)


@pytest.mark.parametrize("dicts", [False, True])
def test_vecnormalize_leaves_the_history_alone(dicts):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    venv = VecNormalize(DummyVecEnv([lambda: Monitor(make(Eyes(inner) if dicts else inner))]))
    agent = model(env=venv, policy="MultiInputPolicy" if dicts else "MlpPolicy").learn(100)
    obs = venv.reset()
    for _ in range(20):
        obs, *_ = venv.step(agent.predict(obs)[0])
        last = np.array(inner.episodes[-1][-2:])
        if len(last) < 2:
            continue
        for seen in (obs, venv.unnormalize_obs(obs)):
            parts = [seen["previous_velocity"], seen["previous_action"]] if dicts else [seen[:, -12:-6], seen[:, -6:]]
            assert np.array_equal(np.concatenate(parts), [last[1] - last[0], last[1]])
    assert violations(inner) == 0
    if not dicts:
        assert not np.allclose(obs[0, :17], venv.get_original_obs()[0, :17])


def test_a_saved_model_knows_its_acceleration_exactly(tmp_path):
    per_second = RateLimits(PLAIN.delta, PLAIN.low, PLAIN.high, names=PLAIN.names, dt=0.05, acceleration=[4.1] * 6)
    for limits in (LIMITS, per_second):
        agent = model(env=make(limits=limits))
        assert read_limits(json.loads(json.dumps(agent.described()["limits"]))) == limits
        agent.save(tmp_path / "model.zip")
        assert load(tmp_path / "model.zip").policy.limits == limits


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", [SAC, TD3])
def test_a_saved_model_makes_a_policy_for_the_robot(kind, normalised, tmp_path):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    venv = DummyVecEnv([lambda: Monitor(make(inner))])
    venv = VecNormalize(venv) if normalised else venv
    agent = model(kind, venv).learn(100)
    agent.save(tmp_path / "model.zip")
    made = deployable_model(tmp_path / "model.zip")
    assert made.module.limits == LIMITS and made.manifest["observation"] == [{"name": "observation", "size": 17}]
    assert made.module.net[-1].out_features == 6
    if normalised:
        assert (made.module.net[0].scale[-12:] == 1).all() and (made.module.net[0].shift[-12:] == 0).all()
        venv.training = False
    obs = venv.reset()
    for _ in range(20):
        raw = torch.from_numpy(venv.get_original_obs() if normalised else obs)
        action, _ = agent.predict(obs, deterministic=True)
        latent, box = made.module.net(raw), LIMITS.box_after(raw)
        assert np.allclose(made.module.layer.execute(latent, box).detach(), action, atol=1e-5)
        obs, *_ = venv.step(action)


def test_what_would_break_the_promise_is_refused():
    with pytest.raises(ValueError, match="the limits have an acceleration, under which RateLimit brakes.*PolicyLimit"):
        model(env=RateLimit(gym.make(TASK), LIMITS, mode="absolute"))
    with pytest.raises(ValueError, match="of mode 'latent', but here the policy has the layer"):
        model(env=PolicyLimit(gym.make(TASK), LIMITS, mode="latent"))
    with pytest.raises(ValueError, match="'budget' does not take limits with an acceleration"):
        model(layer="budget")
    seeing = make(Eyes(gym.make(TASK)))
    with pytest.raises(ValueError, match="VecNormalize would normalise the previous action"):
        keys = ["previous_velocity"]
        model(env=StockVecNormalize(DummyVecEnv([lambda: seeing]), norm_obs_keys=keys), policy="MultiInputPolicy")
    shown = [key for key in seeing.observation_space if key != "previous_velocity"]
    with pytest.raises(ValueError, match="expected 'previous_velocity' among them, of 6 entries"):
        model(env=gym.wrappers.FilterObservation(seeing, shown), policy="MultiInputPolicy")
    observation = np.zeros(29, np.float32)
    observation[-7] = 0.9
    with pytest.raises(ValueError, match="sees 0.89.* as the previous velocity of 'ffoot', expected a number in"):
        model().predict(observation)


def doubled(observation):
    """Another increment, and the same previous action."""
    observation = observation.copy()
    observation[-12:-6] *= 2
    return observation


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_a_wrapper_that_changes_the_last_increment_is_refused_at_the_first_step(kind):
    def wrapped():
        env = make()
        return gym.wrappers.TransformObservation(env, doubled, env.observation_space)

    env = kind([wrapped])
    with pytest.raises(
        ValueError, match="the policy sees .* as the previous velocity of 'bthigh'.*RateLimit outermost"
    ):
        model(env=env).learn(50)
    env.close()
