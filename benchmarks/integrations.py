"""Exact violations at `env.step`, of every integration and of the same library's stock code with a clip by hand.

    python benchmarks/integrations.py --steps 100000             # of each; minutes

Every action is recorded where it enters HalfCheetah-v5 itself, inside all wrappers, and judged in exact arithmetic.
A run has warm-up, exploration and updates (seldom ones: this is about actions, not about learning), resets, saving and
loading half-way, and evaluation. The hand-written clip is the usual float32 one: clip(a, prev - delta, prev + delta).
TorchRL's row needs `pip install "slewrl[torchrl]"`, rsl_rl's is examples/05_rsl_rl.py in mjlab's own environment.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
import tyro
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.noise import NormalActionNoise

from slewrl import RateLimit, RateLimits, RateLimitVector
from slewrl.integrations import sb3 as limited

TASK = "HalfCheetah-v5"
LIMITS = RateLimits.preset(TASK, "tight")
DELTA = LIMITS.delta.astype(np.float32)
SELDOM = {"train_freq": 64, "gradient_steps": 1, "learning_starts": 5_000, "policy_kwargs": {"net_arch": [64, 64]}}


@dataclass(frozen=True)
class Bench:
    """What to run."""

    steps: int = 100_000
    """Of each run."""
    only: tuple[str, ...] = ()
    """Rows whose name holds one of these; all by default."""


class Ledger(gym.Wrapper):
    """Judges what reaches the environment."""

    steps = violations = 0

    def reset(self, **options):
        self.prev = np.zeros(6, np.float32)
        return self.env.reset(**options)

    def step(self, action):
        Ledger.steps += 1
        Ledger.violations += int(LIMITS.outside(action, self.prev).any())
        self.prev = np.array(action)
        return self.env.step(action)


class ByHand(gym.Wrapper):
    """The clip people write."""

    def reset(self, **options):
        self.prev = np.zeros(6, np.float32)
        return self.env.reset(**options)

    def step(self, action):
        self.prev = np.clip(np.clip(action, self.prev - DELTA, self.prev + DELTA), -1, 1)
        return self.env.step(self.prev)


def base() -> gym.Env[Any, Any]:
    return Ledger(gym.make(TASK))


def noise() -> NormalActionNoise:
    return NormalActionNoise(np.zeros(6), np.ones(6))


def halves(make: Callable[[], Any], load: Callable[[Path], Any], steps: int) -> None:
    """Learn, save, load, learn on."""
    with tempfile.TemporaryDirectory() as folder:
        model = make().learn(steps // 2)
        model.save(Path(folder) / "model.zip")
        model = load(Path(folder) / "model.zip")
        model.learn(steps - steps // 2, reset_num_timesteps=False)


def off_policy(kind: Any, wrap: Callable[[Any], Any], steps: int, **options: Any) -> None:
    env = wrap(base())
    made = {**SELDOM, "policy_kwargs": dict(SELDOM["policy_kwargs"]), **options}
    halves(lambda: kind("MlpPolicy", env, seed=0, **made), lambda path: kind.load(path, env=env), steps)


def on_policy(wrap: Callable[[Any], Any], steps: int) -> None:
    env = wrap(base())
    options = {"n_steps": 2048, "n_epochs": 1, "batch_size": 512, "policy_kwargs": {"net_arch": [64, 64]}}
    halves(lambda: sb3.PPO("MlpPolicy", env, seed=0, **options), lambda path: sb3.PPO.load(path, env=env), steps)


def drawn(wrap: Callable[[Any], Any], steps: int) -> None:
    """No agent at all: actions far outside, NaN and infinities among them."""
    env, rng = wrap(base()), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(steps):
        action = 3 * rng.standard_normal(6).astype(np.float32)
        action[rng.random(6) < 0.01] = np.nan if rng.random() < 0.5 else np.inf
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()


def vector(steps: int) -> None:
    venv = gym.vector.SyncVectorEnv([base] * 8)
    env, rng = RateLimitVector(venv, LIMITS), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(steps // 8):
        env.step(rng.standard_normal((8, 6)).astype(np.float32))


def absolute(env: Any) -> RateLimit:
    return RateLimit(env, LIMITS, mode="absolute")


ROWS: dict[str, Callable[[int], None]] = {
    "Gymnasium, latent, wild actions": lambda n: drawn(lambda env: RateLimit(env, LIMITS), n),
    "Gymnasium, absolute, wild actions": lambda n: drawn(absolute, n),
    "  by hand, the same actions": lambda n: drawn(ByHand, n),
    "Gymnasium, 8 environments": vector,
    "SB3 PPO, latent wrapper": lambda n: on_policy(lambda env: RateLimit(env, LIMITS, bound=4.0), n),
    "  stock PPO, clip by hand": lambda n: on_policy(ByHand, n),
    "SB3 SAC, our policy": lambda n: off_policy(limited.SAC, absolute, n),
    "  stock SAC, clip by hand": lambda n: off_policy(sb3.SAC, ByHand, n),
    "SB3 TD3, our policy, noise": lambda n: off_policy(limited.TD3, absolute, n, action_noise=noise()),
    "  stock TD3, noise, clip by hand": lambda n: off_policy(sb3.TD3, ByHand, n, action_noise=noise()),
}


def main(bench: Bench) -> None:
    torch.set_num_threads(1)
    table = Table(title=f"Steps of {TASK} (tight) outside the limits, counted exactly at env.step")
    for column in ("", "steps", "outside", "CPU s"):
        table.add_column(column, justify="right" if column else "left")
    for name, run in ROWS.items():
        if bench.only and not any(part in name for part in bench.only):
            continue
        Ledger.steps = Ledger.violations = 0
        begun = time.process_time()
        run(bench.steps)
        spent = time.process_time() - begun
        table.add_row(name, f"{Ledger.steps:,}", f"{Ledger.violations:,}", f"{spent:,.0f}")
    Console(width=110).print(table)
    if importlib.util.find_spec("torchrl") is None:
        print("TorchRL is not installed: no row of it")


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
