"""slewrl.RateLimit under acceleration limits: every mode, from the first step of every episode, by rational numbers."""

from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_layer import Toy

from slewrl import LAYERS, RateLimit, RateLimits, RateLimitVector, make_layer
from slewrl.layers.arrays import ArrayLayer

LIMITS = RateLimits(
    up=[0.5, 0.9, 0.2], down=[0.6, 0.4, 0.2], low=[-1, -2, 0.5], high=[1, 2, 1.5], names=["a", "b", "c"],
    acceleration=[0.2, 0.11, 0.03], deceleration=[0.1, 0.3, 0.03], reset=[0.1, -1.3, 0.77],
)  # fmt: skip
HARD = [name for name in LAYERS if name not in ("none", "budget")]
NASTY = np.float32([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0])
MODES = {
    "shares": {},
    "latents": {"bound": 4.0},
    "unbounded": {"bound": np.inf, "layer": "interval_tanh"},
    "clip layer": {"bound": 4.0, "layer": "boxpro"},
    "custom layer": {"layer": Toy()},
    "absolute": {"mode": "absolute"},
}


class Arm(gym.Env):
    """Three joints that go where they are told; episodes of 40 steps, or fewer."""

    def __init__(self, dtype=np.float32, dicts=False):
        self.action_space = gym.spaces.Box(LIMITS.low.astype(dtype), LIMITS.high.astype(dtype), dtype=dtype)
        place = gym.spaces.Box(-np.inf, np.inf, (2,), dtype)
        self.observation_space = gym.spaces.Dict({"place": place}) if dicts else place
        self.dicts, self.dtype, self.episodes = dicts, dtype, []

    def _seen(self):
        place = np.zeros(2, self.dtype)
        return {"place": place} if self.dicts else place

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes.append([])
        return self._seen(), {}

    def step(self, action):
        self.episodes[-1].append(np.array(action))
        over = len(self.episodes[-1])
        return self._seen(), 0.0, over == 33, over == 40, {}


def judged(episodes, limits, start):
    """Joint steps beyond rate or range, and beyond the acceleration, by rational numbers and nothing of ours."""
    beyond, sharp = 0, 0
    for episode in episodes:
        for i in range(limits.dim):
            path = [Fraction(float(x)) for x in (start[i], start[i], *(action[i] for action in episode))]
            low, high, up, down, faster, slower = (
                Fraction(float(getattr(limits, key)[i]))
                for key in ("low", "high", "up", "down", "acceleration", "deceleration")
            )
            for last, prev, now in zip(path, path[1:], path[2:], strict=False):
                before, step = prev - last, now - prev
                beyond += not (low <= now <= high and -down <= step <= up)
                most = before + faster if before >= 0 else min(before + slower, faster)
                least = before - faster if before <= 0 else max(before - slower, -faster)
                sharp += not least <= step <= most
    return beyond, sharp


def wild(rng, shape, t):
    """Drifting actions, so that joints gather speed, with nasty ones among them."""
    drift = np.sign(np.sin(t / 7 + np.arange(shape[-1])))
    action = (2 * drift + rng.standard_normal(shape)).astype(np.float32)
    return np.where(rng.random(shape) < 0.1, rng.choice(NASTY, shape), action)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dicts", [False, True], ids=["flat", "dict"])
@pytest.mark.parametrize("mode", MODES)
def test_nothing_gets_past_the_wrapper(mode, dicts, dtype):
    inner = Arm(dtype, dicts)
    env, rng = RateLimit(inner, LIMITS, **MODES[mode]), np.random.default_rng(0)
    before, fastest = env.reset_action, 0.0
    for t in range(120):
        if t % 40 in (0, 33):
            seen, _ = env.reset()
            before = env.reset_action
            assert seen in env.observation_space
        last = seen["previous_action"] if dicts else seen[-3:]
        increment = seen["previous_velocity"] if dicts else seen[-6:-3]
        assert np.array_equal(increment, last - before) and seen in env.observation_space
        before = last
        seen, _, terminated, truncated, info = env.step(wild(rng, (3,), t))
        assert np.array_equal(info["applied_action"], inner.episodes[-1][-1])
        fastest = np.maximum(fastest, np.abs(inner.episodes[-1][-1] - last))
        if terminated or truncated:
            assert info["rate_use"].violations == info["rate_use"].acceleration_violations == 0
    assert judged(inner.episodes, LIMITS, env.reset_action) == (0, 0)
    assert (fastest > 1.5 * LIMITS.acceleration).all() or "layer" in mode  # it did gather speed


@pytest.mark.parametrize("dicts", [False, True], ids=["flat", "dict"])
@pytest.mark.parametrize("autoreset", AutoresetMode)
@pytest.mark.parametrize("mode", ["shares", "clip layer", "absolute"])
def test_nothing_gets_past_the_vector_wrapper(mode, autoreset, dicts):
    arms = [Arm(dicts=dicts) for _ in range(3)]
    vector = SyncVectorEnv([lambda arm=arm: arm for arm in arms], autoreset_mode=autoreset)
    env, rng = RateLimitVector(vector, LIMITS, **MODES[mode]), np.random.default_rng(1)
    seen, _ = env.reset(seed=0)
    for t in range(100):
        velocity = seen["previous_velocity"] if dicts else seen[:, -6:-3]
        assert all(len(arm.episodes[-1]) or not row.any() for arm, row in zip(arms, velocity, strict=True))
        seen, _, terminated, truncated, info = env.step(wild(rng, (3, 3), t))
        ended = terminated | truncated
        if ended.any():
            assert all(use.violations == use.acceleration_violations == 0 for use in info["rate_use"][ended])
        if ended.any() and autoreset == AutoresetMode.DISABLED:
            seen, _ = env.reset(options={"reset_mask": ended})
    start = env.reset_actions[0]
    assert all(judged(arm.episodes, LIMITS, start) == (0, 0) and len(arm.episodes) >= 3 for arm in arms)


def test_the_same_under_the_rate_alone_is_too_sharp():
    """The contrast, so that the count above could have been other than 0."""
    plain = RateLimits(**{key: value for key, value in LIMITS._parts().items() if "celeration" not in key})
    inner = Arm()
    env, rng = RateLimit(inner, plain), np.random.default_rng(0)
    env.reset()
    for t in range(33):
        env.step(wild(rng, (3,), t))
    beyond, sharp = judged(inner.episodes, LIMITS, env.reset_action)
    assert beyond == 0 and sharp > 20


def moving(dtype, rows=100, steps=30):
    """Commands and last increments of joints on their way, most of them into a bound."""
    layer, generator = make_layer("interval_srad"), torch.Generator().manual_seed(0)
    prev = LIMITS.clamp(torch.from_numpy(np.tile(LIMITS.reset, (rows, 1)).astype(dtype)))
    seen = [(prev, torch.zeros_like(prev))]
    for _ in range(steps):
        latent = torch.randn(rows, 3, generator=generator) + torch.linspace(-1e4, 1e4, rows)[:, None]
        prev, velocity = seen[-1]
        executed = layer.execute(latent, LIMITS.box(prev, velocity=velocity))
        seen.append((executed, executed - prev))
    return (torch.cat(column) for column in zip(*seen, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD)
def test_array_layers_are_the_layers(name, dtype):
    prev, velocity = moving(dtype)
    box, layer = LIMITS.box(prev, velocity=velocity), make_layer(name)
    assert (box.low == box.high).any() and velocity.abs().min() < 0.01 < velocity.abs().max()
    latent = np.random.default_rng(1).standard_cauchy(tuple(prev.shape)).astype(dtype)
    arrays, history = ArrayLayer(layer, LIMITS, dtype), (prev.numpy(), velocity.numpy())
    tolerance = 2 * LIMITS.grid.unit.max()  # rounding to the grid may fall on either side
    for given in (latent, 1e30 * latent, np.full_like(latent, np.nan), np.where(latent > 0, np.nan, latent)):
        expected = layer.execute(torch.from_numpy(given), box).numpy()
        found = arrays.execute(given, *history)
        assert found.dtype == dtype and box.contains(torch.from_numpy(found)).all()
        assert np.abs(found - expected).max() <= tolerance
        for other in (arrays.execute_bounded(given, *history), arrays.clip(given, *history)):
            assert other.dtype == dtype and box.contains(torch.from_numpy(other)).all()
    assert np.array_equal(arrays.clip(latent, *history), box.clamp(torch.from_numpy(latent)).numpy())
    assert np.array_equal(arrays.clip(np.full_like(latent, np.nan), *history), box.anchor.numpy())


def test_our_layers_never_call_torch(monkeypatch):
    monkeypatch.setattr(ArrayLayer, "_by_torch", lambda *_: pytest.fail("went through torch"))
    zero = np.zeros(3, np.float32)
    start = LIMITS.clamp(torch.tensor([0.1, -1.3, 0.77])).numpy()
    for name in HARD:
        ArrayLayer(make_layer(name), LIMITS, np.float32).execute(zero, start, zero)


def test_a_command_that_stays_is_reached_without_overshoot():
    env, target = RateLimit(Arm(np.float64), LIMITS, mode="absolute"), np.array([0.9, 1.7, 1.2])
    env.reset()
    path = [env.step(target)[-1]["applied_action"] for _ in range(40)]
    assert (np.stack(path) <= target + LIMITS.grid.unit).all() and (np.diff(path, axis=0) >= 0).all()
    assert path[-1] == pytest.approx(target, abs=LIMITS.grid.unit.max())
    for _ in range(5):  # NaN comes to rest and stays
        held = env.step(np.full(3, np.nan))[-1]["applied_action"]
    assert np.array_equal(held, path[-1])


def test_a_share_of_0_comes_to_rest():
    env = RateLimit(Arm(np.float64), LIMITS)
    env.reset()
    for _ in range(3):
        env.step(np.full(3, 1.0))
    assert (env.previous_velocity > 0).all()
    for _ in range(10):
        env.step(np.zeros(3))
    assert not env.previous_velocity.any()


def test_without_an_acceleration_no_increment_is_computed(monkeypatch):
    monkeypatch.setattr("slewrl.envs.history.ActionHistory.velocity", property(lambda _: pytest.fail("computed")))
    env = RateLimit(gym.make("Pendulum-v1"), 0.5)
    assert env.observation_space.shape == (4,)
    env.reset()
    env.step(np.ones(1, np.float32))
    assert env.previous_velocity is None


@pytest.mark.filterwarnings("ignore")  # it has no spec, and its observations no bounds
def test_gymnasium_accepts_it():
    check_env(RateLimit(Arm(), LIMITS), skip_render_check=True)


def test_a_budget_is_refused():
    with pytest.raises(ValueError, match="budget"):
        RateLimit(Arm(), LIMITS, layer="budget")


class Follow(RateLimit):
    """Commands in F_t pass unchanged."""

    follows = True


def test_a_limit_around_another_sees_what_is_executed():
    """Braking for a command would change what the outer, stricter limit allows, behind its back."""
    halves = {key: getattr(LIMITS, key) / 2 for key in ("up", "down", "acceleration", "deceleration")}
    stricter = RateLimits(**LIMITS._parts() | halves)
    with pytest.raises(ValueError, match="mode 'absolute' with an acceleration is inside"):
        RateLimit(gym.wrappers.TimeLimit(RateLimit(Arm(), LIMITS, mode="absolute"), 50), stricter)
    arm, rng = Arm(), np.random.default_rng(5)
    env = RateLimit(Follow(arm, LIMITS, mode="absolute"), stricter, mode="absolute")
    env.reset(seed=0)
    for t in range(300):
        _, _, terminated, truncated, _ = env.step(wild(rng, (3,), t))
        np.testing.assert_array_equal(env.previous, arm.episodes[-1][-1])
        if terminated or truncated:
            env.reset()
    assert judged(arm.episodes, stricter, env.reset_action) == (0, 0)
