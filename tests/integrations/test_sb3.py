"""Stable-Baselines3 itself, under limits: what reaches env.step, what critics see, gradients, saving, refusals."""

import base64
import functools
import io
import json
import os
import pickle
import shutil
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason='needs Stable-Baselines3: pip install "slewrl[sb3]"')

import stable_baselines3
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack
from stable_baselines3.common.vec_env import VecNormalize as StockVecNormalize
from test_rate_limit import Eyes, Recorder, broken

from slewrl import RateLimit, RateLimits, make_layer
from slewrl.calm.metrics import calm
from slewrl.deploy import bundle
from slewrl.deploy.sb3_model import deployable_model
from slewrl.errors import UserFacingError
from slewrl.integrations.sb3 import SAC, TD3, SACActor, SACPolicy, VecNormalize, load
from slewrl.limits.augmented import previous_action

TASK = "HalfCheetah-v5"
LIMITS = RateLimits.preset(TASK, "tight")
NET = [16, 16]
NOISE = NormalActionNoise(np.zeros(6), np.full(6, 5.0))

pytestmark = pytest.mark.filterwarnings("ignore:.*not wrapped with a ``Monitor``.*:UserWarning")


def make(inner=None, mode="absolute", **options):
    return RateLimit(inner or gym.make(TASK, max_episode_steps=40), LIMITS, mode=mode, **options)


def model(kind=SAC, env=None, layer="ddsrad", **options):
    options = {"learning_starts": 60, "batch_size": 16, "seed": 0, "buffer_size": 2000, **options}
    return kind("MlpPolicy", env or make(), policy_kwargs={"net_arch": NET, "layer": layer}, **options)


@pytest.mark.parametrize("layer", ["ddsrad", "post"])
@pytest.mark.parametrize(("kind", "noise"), [(SAC, None), (SAC, NOISE), (TD3, NOISE)])
def test_nothing_outside_the_limits_reaches_the_environment(kind, noise, layer, tmp_path):
    """Warm-up, exploration with noise, updates, resets, evaluation, loading and going on; judged by rationals."""
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    agent = model(kind, make(inner), layer, action_noise=noise).learn(130)
    agent.save(tmp_path / "model")
    agent = kind.load(tmp_path / "model", env=agent.env)
    agent.learn(60, reset_num_timesteps=False)
    evaluate_policy(agent, agent.env, 1)
    assert sum(map(len, inner.episodes)) >= 230 and len(inner.episodes) >= 6
    assert broken(inner.episodes, LIMITS, np.zeros(6)) == 0


@pytest.mark.parametrize("stock", [stable_baselines3.SAC, stable_baselines3.TD3])
def test_stock_code_and_the_clip_by_hand_do_not(stock):
    """The contrast: the same runs without slewrl, each action clipped to prev +- delta in float32."""

    class Clip(gym.Wrapper):
        def reset(self, **options):
            self.prev = np.zeros(6, np.float32)
            return self.env.reset(**options)

        def step(self, action):
            delta = LIMITS.delta.astype(np.float32)
            self.prev = np.clip(action, self.prev - delta, self.prev + delta)
            return self.env.step(self.prev)

    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    stock("MlpPolicy", Clip(inner), learning_starts=60, batch_size=16, seed=0, policy_kwargs={"net_arch": NET}).learn(
        150
    )
    assert broken(inner.episodes, LIMITS, np.zeros(6)) > 0


@pytest.mark.parametrize("algorithm", ["PPO", "SAC", "TD3"])
def test_stock_algorithms_take_the_latent_wrapper(algorithm):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    env = make(inner, "latent", bound=4.0 if algorithm == "PPO" else None)
    options = {"n_steps": 64, "batch_size": 32} if algorithm == "PPO" else {"learning_starts": 60, "batch_size": 16}
    getattr(stable_baselines3, algorithm)("MlpPolicy", env, seed=0, policy_kwargs={"net_arch": NET}, **options).learn(
        128
    )
    assert sum(map(len, inner.episodes)) >= 128 and broken(inner.episodes, LIMITS, np.zeros(6)) == 0


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_the_replay_holds_what_was_executed(kind):
    """As shares of the range, with observations whose last entries are the action before."""
    inner = Recorder(gym.make("Pendulum-v1"))
    agent = kind(
        "MlpPolicy", RateLimit(inner, 0.5, mode="absolute"), learning_starts=50, policy_kwargs={"net_arch": NET}, seed=0
    )
    agent.learn(120)
    taken, replay = np.concatenate(inner.episodes)[:120], agent.replay_buffer
    assert np.allclose(replay.actions[:120, 0], taken / 2, atol=1e-6)
    assert np.array_equal(previous_action(replay.next_observations[:120, 0], 1), taken)


def test_with_boxpre_the_replay_holds_the_command_the_critic_judges():
    inner = Recorder(gym.make("Pendulum-v1"))
    env = RateLimit(inner, 0.1, mode="absolute")
    agent = SAC("MlpPolicy", env, learning_starts=10, policy_kwargs={"net_arch": NET, "layer": "boxpre"}, seed=0)
    agent.learn(60)
    judged, taken = 2 * agent.replay_buffer.actions[10:60, 0], np.concatenate(inner.episodes)[10:60]
    assert np.abs(judged).max() > 1 and np.abs(judged - taken).max() > 0.5  # executed: .1 a step


def pushed(kind, **options):
    """The first two increments of an agent whose latent is 100 more than its network says, by bias or by noise."""
    inner = Recorder(gym.make(TASK))
    agent = model(kind, make(inner), train_freq=1000, **options)
    if "action_noise" not in options:
        agent.actor.mu.bias.data.fill_(100.0)
    agent.learn(2)
    return np.diff(inner.episodes[0][:2], axis=0, prepend=0)


def test_warm_up_is_the_layers_and_not_the_policys():
    increments = pushed(SAC, learning_starts=0)
    assert (increments > 0.98 * LIMITS.delta).all()  # the policy goes up as fast as it may
    increments = pushed(SAC, learning_starts=10) / LIMITS.delta
    assert (increments < 0).any() and (increments > 0).any() and 0.2 < np.abs(increments).mean() < 0.8


def test_action_noise_is_on_the_latent():
    noise = NormalActionNoise(np.full(6, 100.0), np.zeros(6))
    assert (pushed(TD3, learning_starts=0, action_noise=noise) > 0.98 * LIMITS.delta).all()


def test_log_probabilities_and_gradients_are_the_papers():
    """Of alpha log pi - Q + lambda |u|^2, written out; Stable-Baselines3's own loss has no place for lambda."""
    agent = model(layer=make_layer("ddsrad", penalty_weight=0.3))
    actor, obs = agent.actor, torch.randn(32, 23)
    obs[:, -6:] = obs[:, -6:].clamp(-0.9, 0.9)
    mean, log_std, _ = actor.get_action_dist_params(obs)
    torch.manual_seed(1)
    noise = torch.randn_like(mean)
    action, log_prob = actor.layer.sample(mean, log_std.exp(), noise, LIMITS.box(obs[:, -6:]))
    q = torch.cat(agent.critic(obs, action.judged), 1).min(1).values
    expected = torch.autograd.grad((0.2 * log_prob - q + 0.3 * action.penalty).mean(), list(actor.parameters()))
    torch.manual_seed(1)
    actions_pi, theirs = actor.action_log_prob(obs)
    assert torch.allclose(theirs, log_prob) and torch.equal(actions_pi, action.judged)  # the range is [-1, 1]
    q = torch.cat(agent.critic(obs, actions_pi), 1).min(1).values
    found = torch.autograd.grad((0.2 * theirs - q).mean(), list(actor.parameters()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))
    assert agent.target_entropy == -6
    scaled = make_layer("ddsrad", density="action_scaled")
    assert model(layer=scaled).target_entropy == scaled.target_entropy(LIMITS) != -6


def test_the_smoothed_target_of_td3_is_in_the_box():
    agent = model(TD3)
    obs, bound = torch.randn(500, 23), torch.tensor(LIMITS.delta, dtype=torch.float32)
    obs[:, -6:] = obs[:, -6:].clamp(-0.9, 0.9)
    steady = agent.actor_target(obs)
    agent.actor_target.smoothing = (2.0, 5.0)
    smoothed = agent.actor_target(obs).detach()
    assert not torch.equal(smoothed, steady)
    assert ((smoothed - obs[:, -6:]).abs() <= bound + 1e-6).all() and (smoothed.abs() <= 1).all()
    agent.learn(120)  # training sets it, and gives target_policy_noise back
    assert agent.actor_target.smoothing == (0.2, 0.5) and agent.target_policy_noise == 0.2


def test_while_td3_learns_its_own_noise_on_the_target_is_off(monkeypatch):
    agent, seen = model(TD3), []
    monkeypatch.setattr(
        stable_baselines3.TD3,
        "train",
        lambda td3, *_: seen.append((td3.target_policy_noise, td3.actor_target.smoothing)),
    )
    agent.train(1)
    assert seen == [(0.0, (0.2, 0.5))]


def test_vecnormalize_leaves_the_previous_action_alone(tmp_path):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    venv = VecNormalize(DummyVecEnv([lambda: Monitor(make(inner))]))
    agent = model(env=venv).learn(100)
    obs = venv.reset()
    for _ in range(20):
        obs, *_ = venv.step(agent.predict(obs)[0])
        assert np.array_equal(previous_action(obs[0], 6), inner.episodes[-1][-1])
        assert np.array_equal(previous_action(venv.unnormalize_obs(obs)[0], 6), inner.episodes[-1][-1])
    assert not np.allclose(obs[0, :17], venv.get_original_obs()[0, :17])
    assert broken(inner.episodes, LIMITS, np.zeros(6)) == 0
    venv.save(tmp_path / "stats.pkl")
    assert VecNormalize.load(tmp_path / "stats.pkl", venv.venv).joints == 6


def test_callbacks_and_many_environments(tmp_path):
    wrapper = {"limits": LIMITS, "mode": "absolute"}
    venv, test = (make_vec_env(TASK, n, wrapper_class=RateLimit, wrapper_kwargs=wrapper) for n in (3, 1))
    callbacks = [
        EvalCallback(test, n_eval_episodes=1, eval_freq=60, log_path=str(tmp_path), verbose=0),
        CheckpointCallback(60, str(tmp_path)),
    ]
    test.env_method("reset")
    model(env=venv).learn(360, callback=callbacks)
    assert (tmp_path / "evaluations.npz").exists() and len(list(tmp_path.glob("*.zip"))) == 2


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_dict_observations(kind, tmp_path):
    """Under limits as flat ones are, and of every entry the policy sees all; a bundle takes flat ones only."""
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    agent = kind("MultiInputPolicy", make(Eyes(inner)), learning_starts=30, policy_kwargs={"net_arch": NET}).learn(60)
    assert agent.actor.features_dim == 17 + 6 and broken(inner.episodes, LIMITS, np.zeros(6)) == 0
    agent.save(tmp_path / "model")
    again = load(tmp_path / "model.zip")
    observation = agent.env.reset()
    action, _ = agent.predict(observation, deterministic=True)
    assert type(again) is kind and np.array_equal(action, again.predict(observation, deterministic=True)[0])
    with pytest.raises(UserFacingError, match="a bundle's observations are flat"):
        deployable_model(tmp_path / "model.zip")


def test_a_bundle_of_a_model_with_a_budget_says_so(tmp_path):
    for layer, expected in (("budget", "3"), ("ddsrad", None)):  # half of six joints
        model(layer=layer).save(tmp_path / "model.zip")
        assert deployable_model(tmp_path / "model.zip").manifest["budget"] == expected


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_a_saved_model_is_the_same_and_makes_a_bundle(kind, tmp_path):
    pytest.importorskip("onnxruntime")
    from slewrl.deploy.check import check
    from slewrl.deploy.controller import Controller
    from slewrl.deploy.export import export_bundle

    agent = model(kind).learn(150)
    agent.save(tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    assert type(again) is kind and again.policy.limits == LIMITS
    export_bundle(tmp_path / "model.zip", tmp_path / "policy.bundle")
    controller = Controller(tmp_path / "policy.bundle")
    env = make()
    obs, _ = env.reset(seed=3)
    controller.start(np.zeros(6))
    for _ in range(30):
        action, _ = agent.predict(obs, deterministic=True)
        assert np.array_equal(action, again.predict(obs, deterministic=True)[0])
        assert np.allclose(controller.step(obs[:17]), action, atol=1e-5)
        obs, *_ = env.step(action)
    assert check(tmp_path / "policy.bundle", 1000, 0, lambda line: None)["passed"]


@pytest.mark.parametrize("mode", ["latent", "absolute"])
def test_gsde_keeps_the_limit_and_explores_more_calmly(mode):
    """Stock SAC with noise that is drawn once in 32 steps, beside noise at every step; both limited by the wrapper."""
    found = []
    for gsde in (False, True):
        inner = Recorder(gym.make(TASK, max_episode_steps=40))
        stable_baselines3.SAC(
            "MlpPolicy", make(inner, mode), use_sde=gsde, use_sde_at_warmup=True, train_freq=32, gradient_steps=1,
            learning_starts=31, batch_size=16, seed=0, policy_kwargs={"net_arch": NET},
        ).learn(320)  # fmt: skip
        assert broken(inner.episodes, LIMITS, np.zeros(6)) == 0 and len(inner.episodes) >= 8
        measured = [calm(np.array(episode), limits=LIMITS).together() for episode in inner.episodes[1:8]]
        found.append(np.mean([one["reversals"] for one in measured]))
    assert found[1] < 0.75 * found[0], found


def test_what_would_break_the_promise_is_refused():
    with pytest.raises(ValueError, match="the environment has no rate limits: wrap it, slewrl.RateLimit"):
        model(env=gym.make(TASK))
    with pytest.raises(ValueError, match="of mode 'latent', but here the policy has the layer"):
        model(env=make(mode="latent"))
    with pytest.raises(ValueError, match="VecNormalize would normalise the previous action"):
        model(env=StockVecNormalize(DummyVecEnv([make])))
    with pytest.raises(ValueError, match="use_sde is True, but its noise has no density"):
        model(use_sde=True)
    with pytest.raises(ValueError, match="budget is 50, expected at most"):
        model(TD3, layer=make_layer("budget", budget=50.0))
    stock = stable_baselines3.SAC(
        SACPolicy, make(), policy_kwargs={"net_arch": NET, "limits": LIMITS}, action_noise=NOISE
    )
    with pytest.raises(TypeError, match="adds action noise after the policy, outside the limits"):
        stock.learn(10)
    wide = RateLimit(gym.make(TASK), "wide", mode="absolute")
    with pytest.raises(ValueError, match="the environments differ in their limits, expected the same in all"):
        model(env=DummyVecEnv([make, lambda: wide]))
    with pytest.raises(ValueError, match="but the policy was made for"):
        model().set_env(wide)


@pytest.mark.parametrize("clip", [10.0, 0.5])
def test_a_model_trained_on_normalised_observations_is_exported_with_their_statistics(clip, tmp_path):
    pytest.importorskip("onnxruntime")
    from slewrl.deploy.check import check
    from slewrl.deploy.controller import Controller
    from slewrl.deploy.export import deployable, export_bundle
    from slewrl.deploy.rebuild import rebuilt

    venv = VecNormalize(DummyVecEnv([lambda: Monitor(make())]), clip_obs=clip)
    agent = model(env=venv).learn(150)
    agent.save(tmp_path / "model.zip")
    assert SAC.load(tmp_path / "model.zip", env=DummyVecEnv([make])).normalizer is None  # goes on without, if told so
    found = export_bundle(tmp_path / "model.zip", tmp_path / "policy.bundle")
    controller, venv.training = Controller(tmp_path / "policy.bundle"), False
    obs, reached = venv.reset(), 0
    controller.start(np.zeros(6))
    for _ in range(30):
        action, _ = agent.predict(obs, deterministic=True)
        reached += (np.abs(obs[0, :17]) == clip).sum()
        assert np.allclose(controller.step(venv.get_original_obs()[0, :17]), action[0], atol=1e-5)
        obs, *_ = venv.step(action)
    assert (reached > 0) == (clip < 1)
    if shutil.which("gcc"):
        compare_with_c(found, tmp_path / "c")
    seen, prev = 5 * torch.randn(20, 17), torch.zeros(20, 6)
    assert torch.equal(rebuilt(found)(seen, prev), deployable(tmp_path / "model.zip").module(seen, prev))
    assert check(tmp_path / "policy.bundle", 1000, 0, lambda line: None)["passed"]


def compare_with_c(found, folder):
    from test_c_export import FLAGS, Compiled

    from slewrl.deploy.c_export import policy_header
    from slewrl.deploy.controller import Controller

    c, controller, out = (
        Compiled(folder, policy_header(found), 6, FLAGS[0], control=True),
        Controller(found),
        np.empty(6),
    )
    c.init()
    c.control_start(np.zeros(6), 0)
    controller.start(np.zeros(6))
    for observation in 5 * np.random.default_rng(0).standard_normal((50, 17)).astype(np.float32):
        c.control(observation, out)
        assert np.allclose(out, controller.step(observation), atol=1e-5)


# ---------------------------------------------------------------------- what stands between policy and limits


def halved(observation):
    return observation / 2


def turned(observation):
    """The previous action first instead of last."""
    return np.roll(observation, 6, -1)


def dimmed(observation):
    return {**observation, "previous_action": observation["previous_action"] / 2}


def same(observation):
    return observation


WRAPPERS = {
    "NormalizeObservation": gym.wrappers.NormalizeObservation,
    "RescaleObservation": lambda env: gym.wrappers.RescaleObservation(bounded(env), np.float32(0), np.float32(1)),
    "TransformObservation": lambda env: gym.wrappers.TransformObservation(env, halved, env.observation_space),
    "Monitor over it": lambda env: Monitor(gym.wrappers.NormalizeObservation(env)),
    "turned round": lambda env: gym.wrappers.TransformObservation(env, turned, env.observation_space),
    "DelayObservation": lambda env: gym.wrappers.DelayObservation(env, 1),
    "TimeAwareObservation": gym.wrappers.TimeAwareObservation,
}


def bounded(env):
    """The same with a bounded space, as Gymnasium's rescaling wants it."""
    space = env.observation_space
    low, high = (np.full(space.shape, edge, space.dtype) for edge in (-1e3, 1e3))
    return gym.wrappers.TransformObservation(env, same, gym.spaces.Box(low, high, dtype=space.dtype))


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("kind", [SAC, TD3])
def test_a_wrapper_that_changes_the_previous_action_is_refused_at_the_first_step(kind, wrap):
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    agent = model(kind, wrap(make(inner)))
    with pytest.raises(ValueError, match="the policy sees .* as the previous action of 'bthigh'.*RateLimit outermost"):
        agent.learn(50)
    assert sum(map(len, inner.episodes)) == 1 and broken(inner.episodes, LIMITS, np.zeros(6)) == 0


def test_so_it_is_in_one_of_many_environments_and_in_other_processes():
    wrapped = [make, lambda: gym.wrappers.NormalizeObservation(make())]
    for kind in (DummyVecEnv, SubprocVecEnv):
        env = kind(wrapped)
        with pytest.raises(ValueError, match="environment 1: the policy sees .* as the previous action"):
            model(env=env).learn(50)
        env.close()


def test_a_wrapper_that_begins_to_change_it_later_is_refused_then():
    """At the end of an episode as well, where the observation is in the info."""
    for late in (7, 40):
        calls = []

        def drifting(observation, calls=calls, late=late):
            calls.append(1)
            return observation if len(calls) <= late else observation / 2  # the reset's is the first

        env = make()
        agent = model(env=gym.wrappers.TransformObservation(env, drifting, env.observation_space))
        with pytest.raises(ValueError, match="the policy sees .* as the previous action"):
            agent.learn(200)
        assert agent.num_timesteps == late


def test_dict_observations_are_watched_too():
    env = make(Eyes(gym.make(TASK)))
    changed = gym.wrappers.TransformObservation(env, dimmed, env.observation_space)
    with pytest.raises(ValueError, match="the policy sees .* as the previous action of 'bthigh'"):
        SAC("MultiInputPolicy", changed, learning_starts=30, policy_kwargs={"net_arch": NET}).learn(60)


def test_an_observation_without_a_previous_action_of_the_right_shape_is_refused_before_anything_runs():
    env = make()
    with pytest.raises(ValueError, match=r"observations of shape \(3, 23\), expected flat ones"):
        model(env=gym.wrappers.FrameStackObservation(env, 3))
    with pytest.raises(ValueError, match=r"observations of shape \(1, 23\), expected flat ones"):
        model(env=gym.wrappers.ReshapeObservation(env, (1, 23)))
    seeing = make(Eyes(gym.make(TASK)))
    left = next(key for key in seeing.observation_space if key != "previous_action")
    with pytest.raises(
        ValueError, match=f"observations of {left}, expected 'previous_action' among them, of 6 entries"
    ):
        SAC("MultiInputPolicy", gym.wrappers.FilterObservation(seeing, [left]), policy_kwargs={"net_arch": NET})
    stacked = VecFrameStack(DummyVecEnv([lambda: seeing]), 2)
    with pytest.raises(ValueError, match="expected 'previous_action' among them, of 6 entries"):
        SAC("MultiInputPolicy", stacked, policy_kwargs={"net_arch": NET})
    with pytest.raises(ValueError, match="VecNormalize would normalise the previous action"):
        model(env=VecFrameStack(StockVecNormalize(DummyVecEnv([make])), 2))


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_wrappers_that_leave_the_previous_action_last_are_welcome(kind):
    """Of frames put side by side the newest is last."""
    env = VecFrameStack(kind([lambda: Monitor(gym.wrappers.DtypeObservation(make(), np.float32))] * 2), 3)
    assert model(env=env).learn(120).actor.features_dim == 3 * 23
    env.close()


def test_a_policy_asked_with_a_previous_action_outside_the_range_refuses():
    """Which is all that can be known of an observation without its environment."""
    agent = model()
    observation = np.zeros(23, np.float32)
    agent.predict(observation)
    observation[-1] = 1.5
    with pytest.raises(ValueError, match="previous action.*ffoot"):
        agent.predict(observation)


# ---------------------------------------------------------------------- somebody else's model


class Bomb:
    """Unpickled, it goes off."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def doctored(source, to, change, weights=None):
    """A copy of a model whose ``data`` is changed, and whose weights are others."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                data = json.loads(content)
                change(data)
                content = json.dumps(data).encode()
            new.writestr(name, weights if name == "policy.pth" and weights is not None else content)
    return to


def pickled(thing):
    return {":type:": "<class 'dict'>", ":serialized:": base64.b64encode(pickle.dumps(thing)).decode()}


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_a_model_is_exported_without_unpickling_anything(kind, tmp_path):
    """Of a file whose every pickled part is a trap nothing is sprung, and the policy is the same to the bit."""
    venv = VecNormalize(DummyVecEnv([lambda: Monitor(make())]))
    agent = model(kind, venv, layer=make_layer("ddsrad", penalty_weight=0.25)).learn(100)
    agent.save(tmp_path / "model.zip")
    trap = pickled(Bomb(tmp_path / "sprung"))

    def change(data):
        for name, value in data.items():
            if isinstance(value, dict) and ":serialized:" in value:
                data[name] = trap

    honest = deployable_model(tmp_path / "model.zip")
    strange = deployable_model(doctored(tmp_path / "model.zip", tmp_path / "strange.zip", change))
    assert not (tmp_path / "sprung").exists()
    assert honest.manifest["joints"] == strange.manifest["joints"] == bundle.joint_rows(LIMITS)
    assert honest.module.layer == agent.policy.layer and honest.module.limits == LIMITS
    told = honest.manifest["provenance"]
    assert told["step"] == 100 and told["spec"]["task"] == TASK and told["spec"]["seed"] == 0
    assert told["trained_with"] == {"stable-baselines3": stable_baselines3.__version__}
    venv.training = False
    obs = venv.reset()
    seen = venv.get_original_obs()
    wanted = torch.from_numpy(agent.predict(obs, deterministic=True)[0])
    for module in (honest.module, strange.module):
        assert torch.allclose(module(torch.from_numpy(seen[:, :17]), torch.zeros(1, 6)), wanted, atol=1e-6)


def test_a_model_from_before_is_unpickled_only_with_trust(tmp_path):
    """The refusal names what the pickles name."""
    model().save(tmp_path / "model.zip")

    def change(data):
        del data["deployment"]

    old = doctored(tmp_path / "model.zip", tmp_path / "old.zip", change)
    with pytest.raises(
        UserFacingError, match=r"old.zip .*pickles .*slewrl\.limits\.rate_limits\.RateLimits.*pass --trust"
    ):
        deployable_model(old)
    expected = deployable_model(tmp_path / "model.zip")
    found = deployable_model(old, trust=True)
    assert found.manifest["joints"] == expected.manifest["joints"]
    seen, prev = torch.randn(5, 17), torch.zeros(5, 6)
    assert torch.equal(found.module(seen, prev), expected.module(seen, prev))

    def spring(data):
        del data["deployment"]
        data["seed"] = pickled(Bomb(tmp_path / "sprung"))

    strange = doctored(tmp_path / "model.zip", tmp_path / "strange.zip", spring)
    with pytest.raises(UserFacingError, match=r"posix\.mkdir"):
        deployable_model(strange)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(FileExistsError):  # sprung, and once more
        deployable_model(strange, trust=True)
    assert (tmp_path / "sprung").exists()


def test_the_weights_and_the_layer_of_a_model_run_no_code(tmp_path):
    model().save(tmp_path / "model.zip")
    weights = io.BytesIO()
    torch.save({"actor.mu.weight": Bomb(tmp_path / "sprung")}, weights)
    strange = doctored(tmp_path / "model.zip", tmp_path / "a.zip", lambda data: None, weights.getvalue())
    with pytest.raises(UserFacingError, match="a.zip: policy.pth holds more than tensors"):
        deployable_model(strange)

    def change(data):
        data["deployment"]["layer"] = "torch.hub:load"

    strange = doctored(tmp_path / "model.zip", tmp_path / "b.zip", change)
    with pytest.raises(UserFacingError, match=r"layer 'torch.hub:load' \(imports torch.hub\)"):
        deployable_model(strange)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data["deployment"].update(version=99), "version 99"),
        (lambda data: data["deployment"].update(limits=3), "limits"),
        (lambda data: data["deployment"].update(activation="__import__"), "__import__"),
        (lambda data: data["deployment"].update(algorithm="PPO"), "PPO"),
        (lambda data: data["deployment"].update(layer_options={"no": 1}), "no option 'no'"),
        (lambda data: data["deployment"]["limits"].update(up=[0.1]), "up"),
        (lambda data: data["deployment"].update(normalizer={"mean": [0.0]}), "variance"),
        (lambda data: data["deployment"]["limits"].update({k: [0.1] for k in ("up", "down")}, low=[-1], high=[1],
                                                          names=["a"], groups=[""]), "weights"),
    ],
)  # fmt: skip
def test_a_model_that_contradicts_itself_is_refused_in_a_sentence(change, told, tmp_path):
    model().save(tmp_path / "model.zip")
    with pytest.raises(UserFacingError, match=f"(?s)strange.zip.*{told}"):
        deployable_model(doctored(tmp_path / "model.zip", tmp_path / "strange.zip", change))


def test_what_is_no_model_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK nothing")
    with pytest.raises(UserFacingError, match="x.zip is no model of Stable-Baselines3's"):
        deployable_model(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("data", "[1, 2]")
    with pytest.raises(UserFacingError, match="y.zip is no model of Stable-Baselines3's"):
        deployable_model(tmp_path / "y.zip")
    stable_baselines3.SAC("MlpPolicy", gym.make(TASK), policy_kwargs={"net_arch": NET}).save(tmp_path / "stock.zip")
    with pytest.raises(UserFacingError, match="stock.zip .*stable_baselines3.sac.policies.SACPolicy"):
        deployable_model(tmp_path / "stock.zip")


def test_an_extractor_of_ones_own_is_not_left_out_of_a_bundle_in_silence(tmp_path):
    class Doubled(FlattenExtractor):
        def forward(self, observations):
            return 2 * super().forward(observations)

    SAC("MlpPolicy", make(), policy_kwargs={"net_arch": NET, "features_extractor_class": Doubled}).save(
        tmp_path / "model.zip"
    )
    with pytest.raises(UserFacingError, match="Doubled.*expected .*FlattenExtractor"):
        deployable_model(tmp_path / "model.zip")


class Tanh(torch.nn.Module):
    """Not torch's."""

    def forward(self, x):
        return 3 * x


class LyingExtractor(FlattenExtractor):
    """Of a name that is taken."""

    def forward(self, observations):
        return 2 * super().forward(observations)


LyingExtractor.__name__ = LyingExtractor.__qualname__ = "FlattenExtractor"


class MyActor(SACActor):
    """With another mean."""

    def get_action_dist_params(self, obs):
        mean, log_std, rest = super().get_action_dist_params(obs)
        return mean + 1, log_std, rest


class MyPolicy(SACPolicy):
    """With an actor of one's own."""

    Actor = MyActor


@pytest.mark.parametrize(
    ("policy", "options", "told"),
    [
        ("MlpPolicy", {"activation_fn": Tanh}, "activation is .*test_sb3.Tanh"),
        ("MlpPolicy", {"activation_fn": functools.partial(torch.nn.LeakyReLU, 0.5)}, "activation is .*partial.*0.5"),
        (
            "MlpPolicy",
            {"features_extractor_class": LyingExtractor},
            "features extractor is .*test_sb3.FlattenExtractor",
        ),
        (MyPolicy, {}, "policy is .*test_sb3.MyPolicy"),
    ],
)
def test_what_export_cannot_write_is_saved_all_the_same_and_refused_by_name(policy, options, told, tmp_path):
    """A name of one's own that torch or Stable-Baselines3 has, too, does not pass for theirs."""
    agent = SAC(policy, make(), policy_kwargs={"net_arch": NET, **options}, buffer_size=10)
    agent.save(tmp_path / "model.zip")
    with pytest.raises(UserFacingError, match=f"model.zip: its {told}.*, expected "):
        deployable_model(tmp_path / "model.zip")


def test_a_model_that_cannot_be_described_is_saved_all_the_same(tmp_path):
    venv = make_vec_env(make, 1, vec_env_cls=SubprocVecEnv)
    agent = model(env=venv).learn(3)
    venv.close()  # and nobody can be asked for the reset action any more
    agent.save(tmp_path / "model.zip")
    assert SAC.load(tmp_path / "model.zip").num_timesteps == 3
    with pytest.raises(UserFacingError, match=r"could not be described when it was saved .*OSError"):
        deployable_model(tmp_path / "model.zip")


@pytest.mark.parametrize("shape", [(16,), (), (16, 16, 1)])
def test_weights_that_are_no_matrix_are_refused_in_a_sentence(shape, tmp_path):
    agent = model()
    agent.save(tmp_path / "model.zip")
    weights = io.BytesIO()
    torch.save({**agent.policy.state_dict(), "actor.latent_pi.2.weight": torch.zeros(shape)}, weights)
    strange = doctored(tmp_path / "model.zip", tmp_path / "strange.zip", lambda data: None, weights.getvalue())
    with pytest.raises(UserFacingError, match="strange.zip: its actor has weights .* expected a network"):
        deployable_model(strange)
