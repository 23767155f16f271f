"""Your own environment, limited: a cart that any policy may push, but no faster than its motor can change.

python examples/02_own_env.py
"""

import gymnasium as gym
import numpy as np

import slewrl


class Cart(gym.Env):
    """Position and speed; push it to 0."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Somewhere near 0."""
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2)
        return self.state.copy(), {}

    def step(self, action):
        """A twentieth of a second."""
        self.state += 0.05 * np.array([self.state[1], action[0]])
        return self.state.copy(), -float(self.state @ self.state), False, False, {}


# The motor's force may change by .1 N a step. Before: force = np.clip(force, last - 0.1, last + 0.1)
env = gym.wrappers.TimeLimit(Cart(), 200)
env = slewrl.RateLimit(env, {"motor": 0.1}, mode="absolute", reset_action=0)  # no force before the first step

observation, _ = env.reset(seed=0)
print("what the policy sees:", observation.round(3), "(position, speed, and the force applied last)")
ended = False
while not ended:
    wanted = np.float32([-3 * observation[0] - 2 * observation[1]])
    observation, _, _, ended, info = env.step(wanted)
use = info["rate_use"]
print(f"{use.steps} steps, {use.violations} beyond the limit, {use.utilisation:.0%} of it used; it ends at", end=" ")
print(observation[:2].round(3))
