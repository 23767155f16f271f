"""Stable-Baselines3's SAC with our policy beside our own SAC: the same task, limits, layer, steps and seeds.

    python benchmarks/sb3.py                                     # Pendulum-v1, minutes
    python benchmarks/sb3.py --task HalfCheetah-v5 --steps 60000 # hours

Both with the same networks, batch, warm-up, learning rate, discount and target rate; the return is that of the mean
latent over the same seeded episodes. Prints one row a seed, and whether the means are within the seeds' spread.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from slewrl import RateLimit, RateLimits
from slewrl.envs.augment import Augment
from slewrl.integrations.sb3 import SAC
from slewrl.layers.base import Decision
from slewrl.training.evaluate import evaluate
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import EVALUATION_SEED, RunSpec, with_recipe
from slewrl.training.trainer import train

EPISODES = 10


@dataclass(frozen=True)
class Bench:
    """What to run."""

    task: str = "Pendulum-v1"
    """Of Gymnasium, with a preset."""
    limits: str = "tight"
    """The preset."""
    layer: str = "ddsrad"
    """Of both."""
    steps: int = 8_000
    """Of each run."""
    warm_up: int = 1_000
    """Steps before the first update."""
    seeds: tuple[int, ...] = (12345, 22345, 32345)
    """Of each side."""
    csv: Path | None = None
    """Where to write the rows to."""


def ours(bench: Bench, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        spec = with_recipe(RunSpec(
            task=bench.task, limits=bench.limits, layer=bench.layer, recipe="paper", seed=seed, steps=bench.steps,
            learning_starts=bench.warm_up, evaluate_every=bench.steps, evaluate_episodes=1,
        ))  # fmt: skip
        RunFolder(run).create(spec)
        train(spec, RunFolder(run))
        return float(np.mean(load_policy(run).evaluate(EPISODES).returns))


def theirs(bench: Bench, seed: int) -> float:
    limits = RateLimits.preset(bench.task, bench.limits)
    env = RateLimit(gym.make(bench.task), limits, mode="absolute")
    model = SAC("MlpPolicy", env, policy_kwargs={"layer": bench.layer}, learning_starts=bench.warm_up, seed=seed)
    model.learn(bench.steps)

    def act(observation):
        action = torch.from_numpy(model.predict(observation.numpy(), deterministic=True)[0])
        return Decision(action, action)

    return float(np.mean(evaluate(act, Augment(gym.make(bench.task), limits), EPISODES, EVALUATION_SEED).returns))


def main(bench: Bench) -> None:
    torch.set_num_threads(1)
    sides = {"slewrl": ours, "Stable-Baselines3": theirs}
    found = {name: [side(bench, seed) for seed in bench.seeds] for name, side in sides.items()}
    title = (
        f"{bench.task} {bench.limits}, SAC with {bench.layer}, {bench.steps:,} steps: return over {EPISODES} episodes"
    )
    table = Table(title=title)
    for column in ("seed", *sides):
        table.add_column(column, justify="right")
    for i, seed in enumerate(bench.seeds):
        table.add_row(str(seed), *(f"{returns[i]:,.1f}" for returns in found.values()))
    spread = {name: (np.mean(r), np.std(r, ddof=1)) for name, r in found.items()}
    table.add_row("mean", *(f"{mean:,.1f} ± {std:,.1f}" for mean, std in spread.values()))
    console = Console(width=110)
    console.print(table)
    (a, s), (b, t) = spread.values()
    verdict = "within" if abs(a - b) <= max(s, t) else "NOT within"
    console.print(f"the means differ by {abs(a - b):,.1f}, {verdict} the larger spread over seeds, {max(s, t):,.1f}")
    if bench.csv:
        rows = ["seed," + ",".join(sides)]
        rows += [f"{seed}," + ",".join(str(r[i]) for r in found.values()) for i, seed in enumerate(bench.seeds)]
        bench.csv.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
