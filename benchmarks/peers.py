"""Stable-Baselines3's own SAC or TD3, evaluated as ours is: the other half of ``results/backbones``.

    python benchmarks/peers.py --agent sac --seed 12345 --out results/backbones/sb3-sac-s12345.csv

Same networks, batch, learning rate, warm-up, evaluation seeds and episodes as `slewrl train --layer none`.
"""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise

from slewrl import RateLimits
from slewrl.envs.augment import Augment
from slewrl.training.spec import EVALUATION_SEED


@dataclass(frozen=True)
class Peer:
    """One run of Stable-Baselines3."""

    out: Path
    """CSV to write: step, return_mean, return_std."""
    agent: Literal["sac", "td3"] = "sac"
    task: str = "HalfCheetah-v5"
    seed: int = 12345
    steps: int = 50_000
    learning_starts: int = 5_000
    evaluate_every: int = 5_000
    evaluate_episodes: int = 5
    previous_action: bool = False
    """Show it the previous action, as our agents see it."""
    exploration_noise: float = 0.1
    """TD3 only: standard deviation on the action."""


def make(peer: Peer, env: gym.Env[Any, Any]) -> SAC | TD3:
    """SB3's agent with the hyperparameters of ours."""
    common = {
        "learning_rate": 3e-4,
        "buffer_size": 1_000_000,
        "learning_starts": peer.learning_starts,
        "batch_size": 256,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [256, 256], "activation_fn": torch.nn.ReLU},
        "seed": peer.seed,
        "device": "cpu",
    }
    if peer.agent == "sac":
        return SAC("MlpPolicy", env, **common)  # type: ignore[arg-type]
    d = env.action_space.shape[0]  # type: ignore[index]
    noise = NormalActionNoise(np.zeros(d), peer.exploration_noise * np.ones(d))
    return TD3("MlpPolicy", env, action_noise=noise, **common)  # type: ignore[arg-type]


def environment(peer: Peer) -> gym.Env[Any, Any]:
    """The task, unlimited."""
    env = gym.make(peer.task)
    return Augment(env, RateLimits.preset(peer.task, "tight")) if peer.previous_action else env


class Evaluations(BaseCallback):
    """Writes a row every ``evaluate_every`` steps; episode k is reset with EVALUATION_SEED + k, as ours."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer, self.env = peer, environment(peer)

    def _on_step(self) -> bool:
        if self.num_timesteps % self.peer.evaluate_every == 0:
            self.write(np.array([self.episode(k) for k in range(self.peer.evaluate_episodes)]))
        return True

    def episode(self, k: int) -> float:
        observation, _ = self.env.reset(seed=EVALUATION_SEED + k)
        total, done = 0.0, False
        while not done:
            action, _ = self.model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = self.env.step(action)
            total, done = total + float(reward), terminated or truncated
        return total

    def write(self, returns: np.ndarray) -> None:
        new = not self.peer.out.exists()
        with open(self.peer.out, "a", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            if new:
                rows.writerow(["step", "return_mean", "return_std"])
            rows.writerow([self.num_timesteps, returns.mean(), returns.std()])


if __name__ == "__main__":
    torch.set_num_threads(1)
    peer = tyro.cli(Peer, description=__doc__)
    peer.out.parent.mkdir(parents=True, exist_ok=True)
    aside = replace(peer, out=peer.out.with_suffix(".part"))  # a CSV is there when the run is finished
    aside.out.unlink(missing_ok=True)
    make(peer, environment(peer)).learn(peer.steps, callback=Evaluations(aside))
    aside.out.rename(peer.out)
