"""slewrl.RateLimit: what reaches env.step is in F_t whatever comes in, and the wrapper fits Gymnasium's ways."""

import copy
import importlib
import re
from fractions import Fraction
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from slewrl import LAYERS, RateLimit, RateLimits, RateLimitVector, make_layer
from slewrl.layers.arrays import ArrayLayer

TASK = "HalfCheetah-v5"
HARD = [name for name in LAYERS if name != "none"]
NASTY = np.float32([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0])


class Recorder(gym.Wrapper):
    """Keeps what reaches ``env.step``, one list an episode."""

    def __init__(self, env):
        super().__init__(env)
        self.episodes = []

    def reset(self, **options):
        self.episodes.append([])
        return self.env.reset(**options)

    def step(self, action):
        self.episodes[-1].append(np.array(action))
        return self.env.step(action)


def broken(episodes, limits, start):
    """Joint steps outside F_t, by rational numbers and nothing of ours."""
    count = 0
    for episode in episodes:
        prev = [Fraction(float(x)) for x in start]
        for action in episode:
            now = [Fraction(float(x)) for x in action]
            for i, (a, b) in enumerate(zip(now, prev, strict=True)):
                inside = Fraction(limits.low[i]) <= a <= Fraction(limits.high[i])
                count += not (inside and -Fraction(limits.down[i]) <= a - b <= Fraction(limits.up[i]))
            prev = now
    return count


@pytest.mark.parametrize("options", [{}, {"bound": 4.0}, {"bound": np.inf}, {"mode": "absolute"}])
def test_nothing_gets_past_the_wrapper(options):
    inner = Recorder(gym.make(TASK, max_episode_steps=60))
    env = RateLimit(inner, "tight", **options)
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.reset(seed=0)
        for t in range(60):
            action = rng.choice(NASTY, 6) if t % 3 else (3 * rng.standard_normal(6)).astype(np.float32)
            info = env.step(action)[-1]
            assert np.array_equal(info["applied_action"], inner.episodes[-1][-1])
        assert info["rate_use"].violations == 0 and info["rate_use"].steps == 60
    assert broken(inner.episodes, env.limits, env.reset_action) == 0
    assert np.ptp(np.concatenate(inner.episodes), axis=0).min() > 0.5  # it did move


def test_the_same_with_the_clip_people_write_breaks_the_limit():
    """The contrast, so that the count above could have been other than 0."""
    limits, prev, rng = RateLimits.preset(TASK, "tight"), np.zeros(6, np.float32), np.random.default_rng(0)
    delta, episode = limits.delta.astype(np.float32), []
    for _ in range(300):
        prev = np.clip(np.clip(3 * rng.standard_normal(6).astype(np.float32), prev - delta, prev + delta), -1, 1)
        episode.append(prev)
    assert broken([episode], limits, np.zeros(6)) > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD)
def test_array_layers_are_the_layers(name, dtype):
    limits = RateLimits(up=[0.3, 0.1, 0.7], down=[0.2, 0.4, 0.7], low=[-1, -0.5, 0], high=[1, 0.25, 3])
    rng = np.random.default_rng(1)
    latent = rng.standard_cauchy((2000, 3)).astype(dtype)
    prev = limits.clamp(torch.from_numpy(rng.uniform(-2, 4, (2000, 3)).astype(dtype))).numpy()
    layer = make_layer(name)
    arrays = ArrayLayer(layer, limits, dtype)
    box = limits.box(torch.from_numpy(prev))
    # The torch layers may differ in the last places: theirs is another order of the same operations.
    tolerance = 1e-12 if dtype is np.float64 else 2e-6
    expected = layer.execute(torch.from_numpy(latent), box).numpy()
    assert np.allclose(arrays.execute(latent, prev), expected, atol=tolerance)
    w = latent / np.sqrt(1 + latent**2)
    assert np.allclose(arrays.execute_bounded(w, prev), expected, atol=3e-3)  # w near 1 has lost u's digits
    for given in (latent, 1e30 * latent, np.full_like(latent, np.nan), np.full_like(latent, -np.inf)):
        for executed in (arrays.execute(given, prev), arrays.execute_bounded(given, prev), arrays.clip(given, prev)):
            assert executed.dtype == dtype and not limits.outside(executed, prev).any()
    assert np.array_equal(arrays.execute(np.full_like(latent, np.nan), prev), prev)
    assert np.array_equal(arrays.clip(np.full_like(latent, np.nan), prev), prev)


def test_our_layers_never_call_torch_and_yours_do(monkeypatch):
    limits, one, zero = RateLimits([0.1, 0.2], low=-1, high=1), np.ones(2, np.float32), np.zeros(2, np.float32)
    expected = make_layer("toy_layer:Toy").execute(torch.from_numpy(one), limits.box(torch.from_numpy(zero)))
    assert np.array_equal(ArrayLayer(make_layer("toy_layer:Toy"), limits, np.float32).execute(one, zero), expected)
    monkeypatch.setattr(ArrayLayer, "_by_torch", lambda *_: pytest.fail("went through torch"))
    for name in set(HARD) - {"budget"}:  # that one couples joints, and its guard is torch's
        ArrayLayer(make_layer(name), limits, np.float32).execute(one, zero)


@pytest.mark.parametrize("name", HARD)
def test_a_nan_holds_its_own_joint_and_counts_as_zero_for_the_others(name):
    """As torch's layers have it, also where joints share a norm."""
    limits = RateLimits([0.3, 0.1, 0.7], low=-1, high=1)
    latent, prev = np.float64([[np.nan, 2.0, -0.5], [0.3, np.inf, np.nan]]), np.float64([[0.2, 0.9, -0.4]] * 2)
    layer = make_layer(name)
    found = ArrayLayer(layer, limits, np.float64).execute(latent, prev)
    box = limits.box(torch.from_numpy(prev))
    assert np.allclose(found, layer.execute(torch.from_numpy(latent), box).numpy(), atol=1e-12)
    assert found[0, 0] == 0.2 and found[1, 2] == -0.4


def test_the_policys_action_space():
    for options, reach in (({}, 1), ({"bound": 4.0}, 4), ({"bound": np.inf}, np.inf), ({"mode": "absolute"}, 2)):
        space = RateLimit(gym.make("Pendulum-v1"), 0.5, **options).action_space
        assert (space.low, space.high, space.dtype) == ([-reach], [reach], np.float32)
        vector = RateLimitVector(gym.make_vec("Pendulum-v1", 3), 0.5, **options)
        assert vector.single_action_space == space and vector.action_space.high.tolist() == [[reach]] * 3


def test_values_by_hand():
    env = RateLimit(gym.make("Pendulum-v1"), {"motor": 0.5})
    assert env.limits.names == ("motor",) and env.limits.high.tolist() == [2.0]
    env.reset(seed=0)
    applied = [float(env.step(np.float32([w]))[-1]["applied_action"][0]) for w in (1.0, 0.5, -1.0, 0.0, -0.2)]
    assert applied == pytest.approx([0.5, 0.75, 0.25, 0.25, 0.15], abs=1e-6)
    env = RateLimit(gym.make("Pendulum-v1"), 0.5, mode="absolute")
    env.reset(seed=0)
    applied = [float(env.step(np.float32([a]))[-1]["applied_action"][0]) for a in (2.0, 0.6, -2.0)]
    assert applied == pytest.approx([0.5, 0.6, 0.1], abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"bound": 4.0}, {"mode": "absolute"}])
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space.*:UserWarning")
def test_the_checkers_pass(options):
    env = RateLimit(gym.make(TASK), "tight", **options)
    check_env(env, skip_render_check=True)
    sb3 = pytest.importorskip("stable_baselines3.common.env_checker")
    sb3.check_env(env, warn=False)


def test_limits_in_every_form(tmp_path):
    expected = RateLimits([0.25] * 6, low=-1, high=1)
    expected.to_yaml(tmp_path / "limits.yaml")
    names = {f"joint{i}": 0.25 for i in range(6)}
    for given in (expected, 0.25, [0.25] * 6, np.full(6, 0.25), names, str(tmp_path / "limits.yaml")):
        limits = RateLimit(gym.make(TASK), given).limits
        assert limits.delta.tolist() == [0.25] * 6 and limits.low.tolist() == [-1] * 6
    assert RateLimit(gym.make(TASK), "tight").limits == RateLimits.preset(TASK, "tight")


def test_it_is_made_again_from_its_spec():
    """gym.make(spec), as Ray and subprocesses do it, and additional_wrappers, as a config file would have it."""
    env = RateLimit(gym.make(TASK), "tight", layer="interval_srad")
    again = gym.make(env.spec)
    assert (
        isinstance(again, RateLimit) and again.limits == env.limits and again.map.arrays.layer == env.map.arrays.layer
    )
    spec = copy.deepcopy(gym.spec(TASK))
    spec.additional_wrappers = (RateLimit.wrapper_spec(limits="tight"),)
    assert isinstance(gym.make(spec), RateLimit)
    gym.register(
        "Limited-v0",
        "gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv",
        additional_wrappers=(RateLimit.wrapper_spec(limits=[0.1] * 6, mode="absolute"),),
    )
    made = gym.make("Limited-v0")
    made.reset(seed=0)
    assert made.step(np.ones(6, np.float32))[-1]["applied_action"] == pytest.approx([0.1] * 6)


def zoo_wrapper(hyperparameters):
    """RL Baselines3 Zoo's own reading of them, where it is installed; else the import it comes down to."""
    try:
        from rl_zoo3.utils import get_wrapper_class
    except ImportError:
        (name, options), *_ = hyperparameters["env_wrapper"][0].items()
        module, _, attribute = name.rpartition(".")
        return lambda env: getattr(importlib.import_module(module), attribute)(env, **options)
    return get_wrapper_class(hyperparameters)


@pytest.mark.filterwarnings("ignore")  # rl_zoo3 imports the old gym where that is there
def test_rl_zoo_makes_it_from_its_yaml():
    """The line of the page, from YAML."""
    page = (Path(__file__).parents[2] / "docs" / "integrations" / "gymnasium.md").read_text()
    line = re.search(r"`(env_wrapper: .*?)`", page)[1]
    env = zoo_wrapper(yaml.safe_load(line))(gym.make(TASK))
    assert type(env) is RateLimit and env.limits == RateLimits.preset(TASK, "tight") and env.mode == "latent"


class Eyes(gym.ObservationWrapper):
    """A Dict observation."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"state": env.observation_space})

    def observation(self, observation):
        return {"state": observation}


def test_a_dict_observation_gets_an_entry():
    env = RateLimit(Eyes(gym.make("Pendulum-v1")), 0.5)
    observation, _ = env.reset(seed=0)
    assert observation["previous_action"].tolist() == [0.0]
    observation, *_, info = env.step(np.float32([1.0]))
    assert np.array_equal(observation["previous_action"], info["applied_action"])
    assert env.observation_space.contains(observation)
    with pytest.raises(ValueError, match="have a 'previous_action' already: is it wrapped twice"):
        RateLimit(env, 0.5, mode="absolute")


class InPlace(gym.Wrapper):
    """An environment that scales its action where it lies, as many do."""

    def step(self, action):
        action *= 3
        return self.env.step(action)


@pytest.mark.parametrize("vector", [False, True])
def test_nobody_can_change_what_counts_as_applied(vector):
    """Neither the environment nor who reads info and observation: the next step is limited by what was handed over."""
    recorder = Recorder(Eyes(InPlace(gym.make("Pendulum-v1"))))
    env = RateLimitVector(SyncVectorEnv([lambda: recorder]), 0.5) if vector else RateLimit(recorder, 0.5)
    env.reset(seed=0)
    for _ in range(20):
        observation, *_, info = env.step(np.ones(env.action_space.shape, np.float32))
        info["applied_action"] += 1
        observation["previous_action"] -= 1
    assert np.concatenate(recorder.episodes[-1])[:5] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    assert broken(recorder.episodes, RateLimits([0.5], -2.0, 2.0), [0.0]) == 0


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_vector_twin_does_what_single_wrappers_do(mode):
    makers = [lambda n=n: gym.make("Pendulum-v1", max_episode_steps=n) for n in (3, 5)]
    env = RateLimitVector(SyncVectorEnv(makers, autoreset_mode=mode), 0.5)
    singles = [RateLimit(make(), 0.5) for make in makers]
    observations, _ = env.reset(seed=[10, 11])
    expected = [single.reset(seed=10 + k)[0] for k, single in enumerate(singles)]
    over, rng, ends = [False, False], np.random.default_rng(0), 0
    for _ in range(20):
        assert np.array_equal(observations, np.stack(expected))
        actions = rng.uniform(-2, 2, (2, 1)).astype(np.float32)
        observations, _, _, truncated, info = env.step(actions)
        for k, single in enumerate(singles):
            if over[k]:
                expected[k], over[k] = single.reset()[0], False
                continue
            expected[k], _, _, ended, alone = single.step(actions[k])
            assert ended == truncated[k] and np.array_equal(info["applied_action"][k], alone["applied_action"])
            if ended:
                ends += 1
                assert info["rate_use"][k].violations == 0
                if mode == AutoresetMode.SAME_STEP:
                    assert np.array_equal(info["final_obs"][k], expected[k])
                    expected[k] = single.reset()[0]
                over[k] = mode == AutoresetMode.NEXT_STEP
    assert ends >= 8


@pytest.mark.parametrize("options", [{}, {"bound": np.inf}, {"mode": "absolute"}])
def test_a_budget_holds_in_every_mode(options):
    """Sums of |da| / delta in rational numbers; commands over the whole range would spend six."""
    inner = Recorder(gym.make(TASK, max_episode_steps=40))
    env = RateLimit(inner, "tight", make_layer("budget", budget=1.25), **options)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(40):
        action = rng.uniform(-2, 2, 6).astype(np.float32)
        env.step(np.where(rng.random(6) < 0.1, rng.choice(NASTY, 6), action))
    steps = [np.zeros(6), *inner.episodes[0]]
    spent = [
        sum(abs(Fraction(float(b)) - Fraction(float(a))) / Fraction(d) for a, b, d in zip(*pair, strict=True))
        for pair in zip(steps, steps[1:], [env.limits.delta] * 40, strict=False)
    ]
    assert broken(inner.episodes, env.limits, np.zeros(6)) == 0
    assert max(spent) <= Fraction(5, 4) and max(spent) > 1.2


@pytest.mark.parametrize(
    ("task", "limits", "options", "message"),
    [
        (
            "CartPole-v1",
            0.1,
            {},
            r"CartPole-v1: action space is Discrete\(2\), expected a flat Box.* choose a",
        ),
        (TASK, [0.1] * 5, {}, "6 actions, but limits for 5; give one per action, in their order, or one number"),
        (TASK, {"hip": 0.1}, {}, "6 actions, but limits for 1; give one per action"),
        (TASK, RateLimits([0.1] * 5, low=-1, high=1), {}, "6 actions, but limits for 5.*; give one per action"),
        (TASK, 0.0, {}, "expected|positive"),
        (TASK, float("nan"), {}, "nan"),
        (TASK, 0.1, {"mode": "relative"}, "mode is 'relative', expected one of latent, absolute"),
        (TASK, 0.1, {"bound": -1.0}, "bound is -1.0, expected a positive number"),
        (TASK, 0.1, {"layer": "none"}, "layer 'none' limits nothing: leave it out"),
        (TASK, 0.1, {"layer": "aram"}, "layer 'aram' stores what it rejects, as slewrl's own SAC"),
        (TASK, 0.1, {"layer": make_layer("budget", budget=50.0)}, "budget is 50, expected at most 6"),
    ],
)
def test_bad_input_is_refused(task, limits, options, message):
    with pytest.raises(ValueError, match=message):
        RateLimit(gym.make(task), limits, **options)


def test_unknown_names_are_refused():
    with pytest.raises(KeyError, match="HalfCheetah-v5 has no preset 'tigth'; it has: "):
        RateLimit(gym.make(TASK), "tigth")
    env = gym.make(TASK)
    env.action_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    with pytest.raises(ValueError, match=r"is unbounded, expected finite bounds: gymnasium.wrappers.TransformAction\("):
        RateLimit(env, 0.1)
    bounded = gym.wrappers.TransformAction(env, lambda a: a, gym.spaces.Box(-1, 1, (6,), np.float32))
    assert RateLimit(bounded, 0.1).limits.dim == 6  # as it says
    with pytest.raises(TypeError, match=r"is a vector environment: wrap it in slewrl.RateLimitVector"):
        RateLimit(gym.make_vec(TASK, 2), 0.1)
    env = RateLimit(gym.make(TASK), 0.1)
    env.reset()
    with pytest.raises(ValueError, match=r"action has shape \(5,\), expected \(6,\)"):
        env.step(np.zeros(5))
