"""SAC of SBX (Stable-Baselines3 in JAX) under rate limits, saved, loaded and evaluated. CrossQ the same.

pip install "slewrl[sbx]"
python examples/10_sbx.py [STEPS]
"""

import sys

import gymnasium as gym
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import slewrl
from slewrl.integrations.sbx import SAC  # instead of: from sbx import SAC

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
env = Monitor(slewrl.RateLimit(gym.make("Pendulum-v1"), 0.3, mode="absolute"))  # Nm per step

model = SAC("MlpPolicy", env, policy_kwargs={"layer": "ddsrad"}, learning_starts=500, seed=0)
model.learn(steps)
model.save("pendulum.zip")

model = SAC.load("pendulum.zip", env=env)
mean, spread = evaluate_policy(model, env, n_eval_episodes=5)
(observation, _), ended = env.reset(seed=0), False
while not ended:
    observation, _, _, ended, info = env.step(model.predict(observation, deterministic=True)[0])
use = info["rate_use"]
print(f"return {mean:.0f} +- {spread:.0f}; an episode used {use.utilisation:.0%} of the limit,", end=" ")
print(f"{use.violations} of its {use.steps} steps beyond it")
