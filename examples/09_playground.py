"""A task of MuJoCo Playground under a rate limit: rollouts of a whole population in one compiled scan.

pip install "slewrl[playground]"
python examples/09_playground.py [GENERATIONS]

The cross-entropy method looks for a linear policy; Brax's PPO would take the same environment.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from mujoco_playground import dm_control_suite

from slewrl.integrations.jax import RateLimitWrapper

generations = int(sys.argv[1]) if len(sys.argv) > 1 else 10
env = dm_control_suite.load("CartpoleBalance", config_overrides={"impl": "jax"})
env = RateLimitWrapper(env, [0.1])  # of the range [-1, 1], per control step
steps, count, elite = 200, 64, 8


def rollout(weights, key):
    """The return of a policy tanh(W obs), and the actions that the cart got, the reset action first."""

    def step(state, _):
        state = env.step(state, jnp.tanh(weights @ state.obs))
        return state, (state.reward, state.info["previous_action"])

    start = env.reset(key)
    _, (reward, actions) = jax.lax.scan(step, start, length=steps)
    return reward.sum(), jnp.concatenate([start.info["reset_action"][None], actions])


population = jax.jit(jax.vmap(rollout))
key, mean, spread, outside = jax.random.PRNGKey(0), np.zeros((1, env.observation_size)), 1.0, 0
for generation in range(generations):
    key, draw, start = jax.random.split(key, 3)
    weights = mean + spread * jax.random.normal(draw, (count, *mean.shape))
    returns, actions = population(weights, jax.random.split(start, count))
    best = np.asarray(weights)[np.argsort(-returns)[:elite]]
    mean, spread = best.mean(0), best.std(0)
    outside += env.limits.outside(actions[:, 1:], actions[:, :-1]).sum()
    print(f"generation {generation}: mean return {returns.mean():.0f} of {steps}")
print(f"{outside} of {generations * count * steps:,} steps beyond the limit")
