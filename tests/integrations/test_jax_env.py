"""The wrapper for Brax and Playground, around a small environment in their form: what reaches it, resets included."""

from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax", reason='JAX is not installed: pip install "slewrl[jax]"')

import jax
import jax.numpy as jnp
from jax import lax

from slewrl import RateLimits
from slewrl.integrations.jax import RateLimitWrapper

NAN = float("nan")
LIMITS = RateLimits([0.1, 0.3], -1, 1)
COUNT = 16


class State(NamedTuple):
    """As Brax and Playground have it."""

    x: Any
    obs: Any
    done: Any
    info: Any

    def replace(self, **parts):
        return self._replace(**parts)


class Points:
    """Two joints that go where they are told; the observation is a dict, or an array."""

    action_size = 2
    name = "points"

    def __init__(self, dicts=False):
        self.dicts = dicts

    def seen(self, x):
        return {"state": x, "privileged": jnp.concatenate([x, x], -1)} if self.dicts else x

    def reset(self, rng):
        x = jax.random.uniform(rng, (2,), minval=-1.0)
        return State(x, self.seen(x), jnp.zeros(()), {"got": jnp.zeros(2)})

    def step(self, state, action):
        assert jax.tree.leaves(state.obs)[-1].shape[-1] == 2  # what it knows
        x = state.x + 0.1 * action
        return state.replace(
            x=x, obs=self.seen(x), done=(jnp.abs(x) > 1.5).any().astype(float), info={**state.info, "got": action}
        )


class Trainer:
    """What trainers put around an environment: vmap, a time limit, and a reset from outside that leaves info alone."""

    def __init__(self, env, length=17):
        self.env, self.length = env, length

    def reset(self, rng):
        state = jax.vmap(self.env.reset)(rng)
        return state.replace(info={**state.info, "first": (state.x, state.obs), "steps": jnp.zeros(len(rng))})

    def step(self, state, action):
        state = state.replace(done=jnp.zeros_like(state.done))
        inner = {key: value for key, value in state.info.items() if key not in ("first", "steps")}
        first, steps = state.info["first"], state.info["steps"] + 1
        state = jax.vmap(self.env.step)(state.replace(info=inner), action)
        over = (state.done > 0) | (steps >= self.length)
        x, obs = jax.tree.map(lambda a, b: jnp.where(over[:, None], a, b), first, (state.x, state.obs))
        info = {**state.info, "first": first, "steps": jnp.where(over, 0, steps)}
        return state.replace(x=x, obs=obs, done=over.astype(float), info=info)


def rollout(env, act, steps=300, seed=0):
    """(what the environments got (T, N, 2), where their episodes ended (T, N), reset actions (N, 2), last state)."""
    trainer = Trainer(env)
    state = jax.jit(trainer.reset)(jax.random.split(jax.random.PRNGKey(seed), COUNT))

    def step(state, key):
        state = trainer.step(state, act(key))
        return state, (state.info["got"], state.done > 0, state.obs)

    keys = jax.random.split(jax.random.PRNGKey(seed + 1), steps)
    last, (got, over, obs) = jax.jit(lambda s: lax.scan(step, s, keys))(state)
    return np.asarray(got), np.asarray(over), np.asarray(state.info["reset_action"]), last, obs


def prevs(got, over, start):
    """The previous action of each step, with the reset action after an episode's end."""
    prev = [start]
    for action, ended in zip(got[:-1], over[:-1], strict=True):
        prev.append(np.where(ended[:, None], start, action))
    return np.stack(prev)


def wild(key):
    """Far outside, with NaN and infinities among them."""
    action, kind = 3 * jax.random.normal(key, (COUNT, 2)), jax.random.uniform(key, (COUNT, 2))
    return jnp.where(kind < 0.02, NAN, jnp.where(kind < 0.04, jnp.inf, action))


OPTIONS = {
    "latent": {}, "latent, bounded": {"bound": 4.0}, "absolute": {"mode": "absolute"},
    "a layer": {"layer": "interval_tanh"}, "a pose": {"reset_action": [0.5, -0.25]},
    "its own pose": {"reset_action": lambda state: state.x},
}  # fmt: skip


@pytest.mark.parametrize(("options", "dicts"), [*((name, False) for name in OPTIONS), ("latent", True)])
def test_zero_violations_across_resets(options, dicts):
    env = RateLimitWrapper(Points(dicts), LIMITS, **OPTIONS[options])
    got, over, start, last, obs = rollout(env, wild)
    assert 300 > over.sum(0).min() > 10
    assert not LIMITS.outside(got, prevs(got, over, start)).any()
    for seen in jax.tree.leaves(obs):  # the policy sees it to the bit
        np.testing.assert_array_equal(np.asarray(seen)[..., -2:], np.where(over[..., None], start, got))
    np.testing.assert_array_equal(last.info["previous_action"], got[-1])
    if options == "a pose":
        assert (start == np.float32([0.5, -0.25])).all()
    if options == "its own pose":
        assert len(np.unique(start)) == 2 * COUNT


def test_a_share_of_the_limit():
    """In mode latent the action of a tanh policy is the share of the limit to use, with DD-SRad."""
    env = RateLimitWrapper(Points(), LIMITS)
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    for share in (0.5, -1.0):
        before = state.info["previous_action"]
        state = jax.jit(env.step)(state, jnp.full(2, share))
        np.testing.assert_allclose(state.info["got"] - before, share * LIMITS.delta, atol=1e-6)
    assert env.observation_size == 4 and env.name == "points" and env.action_size == 2
    assert RateLimitWrapper(Points(dicts=True), 0.1).observation_size == {"state": (4,), "privileged": (6,)}


def test_a_command_that_is_allowed_passes_to_the_bit():
    env = RateLimitWrapper(Points(), LIMITS, mode="absolute")
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    state = jax.jit(env.step)(state, jnp.asarray([0.0625, -0.123]))
    np.testing.assert_array_equal(state.info["got"], np.float32([0.0625, -0.123]))


def test_an_episode_that_begins_where_the_last_command_was_is_none():
    """A joint that stands at the reset action in the middle of an episode changes nothing."""
    env = RateLimitWrapper(Points(), LIMITS)
    got, _, start, *_ = rollout(env, lambda key: jnp.zeros((COUNT, 2)))
    assert (got == 0).all() and (start == 0).all()


def test_acceleration_limits():
    with jax.enable_x64(True):
        limits = RateLimits([0.1, 0.3], -1, 1, acceleration=[0.02, 0.1])
        env = RateLimitWrapper(Points(), limits)
        got, over, start, _, obs = rollout(env, wild)
        prev = prevs(got, over, start)
        again = np.concatenate([np.ones((1, COUNT), bool), over[:-1]])[..., None]
        before = np.where(again, prev, np.concatenate([prev[:1], prev[:-1]]))
        assert not limits.outside(got, prev, before).any()
        assert obs.shape[-1] == 6


def test_an_episode_begins_at_rest_though_the_last_one_passed_the_reset_action_as_it_ended():
    with jax.enable_x64(True):
        limits = RateLimits([0.1, 0.3], -1, 1, acceleration=[0.02, 0.1])
        env = RateLimitWrapper(Points(), limits, bound=np.inf)
        first = state = jax.jit(env.reset)(jax.random.PRNGKey(0))
        for latent in (np.inf, -np.inf, -np.inf):  # there, a stop, and back
            state = jax.jit(env.step)(state, jnp.full(2, latent))
        assert (state.info["got"] == 0).all() and (state.info["previous_velocity"] < 0).all()
        again = jax.jit(env.step)(state.replace(x=first.x, obs=first.obs), jnp.full(2, -np.inf)).info["got"]
        assert (again < 0).all() and not limits.outside(again, np.zeros(2), np.zeros(2)).any()
        on = jax.jit(env.step)(state, jnp.full(2, -np.inf)).info["got"]
        assert (on < again).all()


def test_an_action_of_the_wrong_size_is_refused():
    """One entry would move all joints."""
    for mode in ("latent", "absolute"):
        env = RateLimitWrapper(Points(), LIMITS, mode=mode)
        state = env.reset(jax.random.PRNGKey(0))
        for action in (jnp.ones(1), jnp.ones(()), jnp.ones(3)):
            with pytest.raises(ValueError, match=r"has shape .*, expected \(..., 2\): one entry per joint"):
                env.step(state, action)


def test_what_is_refused():
    for options, said in (
        ({"limits": [0.1, 0.1, 0.1]}, "3"),
        ({"limits": RateLimits([0.1] * 3, -1, 1)}, "Points has 2 actions, but limits for 3"),
        ({"limits": "tight"}, "limits is 'tight', expected a limits.yaml"),
        ({"mode": "relative"}, "mode is 'relative', expected one of latent, absolute"),
        ({"bound": -1.0}, "bound is -1.0, expected a positive number"),
    ):
        with pytest.raises(ValueError, match=said):
            RateLimitWrapper(Points(), **{"limits": LIMITS, **options})
    with pytest.raises(KeyError, match="layer 'srad_qp' is not written for JAX"):
        RateLimitWrapper(Points(), LIMITS, layer="srad_qp")
    with pytest.raises(ValueError, match=r"reset_action of the state has shape \(1,\), expected \(..., 2\)"):
        RateLimitWrapper(Points(), LIMITS, reset_action=lambda state: state.x[:1]).reset(jax.random.PRNGKey(0))
    arm = RateLimits([0.1, 0.1], -3, 3, units="rad")
    with pytest.raises(ValueError, match="the limits are in rad"):
        RateLimitWrapper(Points(), arm, mode="absolute")
    with pytest.warns(UserWarning, match="the limits are in rad"):
        RateLimitWrapper(Points(), arm)
