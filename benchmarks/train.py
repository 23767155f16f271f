"""Environment steps per CPU-second: slewrl against Stable-Baselines3 and SBX, and against its own matrix products.

    python benchmarks/train.py

Same task, observations, networks (2 x 256, ReLU), batch (256) and one update per step; one core, a process for each,
which take turns, so that a machine's mood falls on all of them. Measured after 3 000 steps, as most of a run is: by
then some units have died, and an Adam that lets their moments decay into subnormal numbers has become slow.
Peers get the limit as people write it by hand, a clip in a wrapper. CPU time, not wall time; no evaluation, logging
or checkpoints in it. "products" times the matrix products of one update alone, in the same shapes and through the
same library.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import importlib.util
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from slewrl import RateLimits
from slewrl.agents.nets import product
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, with_recipe
from slewrl.training.trainer import Trainer

Advance = Callable[[int], None]
"""Takes a number of steps and makes them."""


@dataclass(frozen=True)
class Bench:
    """What to run."""

    tasks: tuple[str, ...] = ("HalfCheetah-v5", "Humanoid-v5")
    agents: tuple[str, ...] = ("sac", "td3")
    before: int = 3_000
    """Steps before the first turn: past the warm-up (1 000) and past compilation."""
    rounds: int = 12
    """Turns each contender gets."""
    steps: int = 100
    """Environment steps in a turn."""
    write: Path | None = None
    """Markdown file to write the table to."""


class HandClip(gym.Wrapper[Any, Any, Any, Any]):
    """The rate limit as people write it by hand, with the previous action in the observation."""

    def __init__(self, env: gym.Env[Any, Any], limits: RateLimits) -> None:
        super().__init__(env)
        self.up, self.down = limits.up.astype(np.float32), limits.down.astype(np.float32)
        bounds = [
            np.concatenate([getattr(s, k) for s in (env.observation_space, env.action_space)]) for k in ("low", "high")
        ]
        self.observation_space = gym.spaces.Box(*(b.astype(np.float32) for b in bounds))

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        self.prev = np.zeros(self.env.action_space.shape, np.float32)  # type: ignore[arg-type]
        return np.concatenate([observation, self.prev]).astype(np.float32), info

    def step(self, action: Any) -> Any:
        self.prev = np.clip(action, self.prev - self.down, self.prev + self.up)
        observation, *rest = self.env.step(self.prev)
        return np.concatenate([observation, self.prev]).astype(np.float32), *rest


def slewrl_advance(task: str, agent: str, folder: Path) -> Advance:
    """Our own training loop, without its evaluations."""
    # The paper's recipe has the peers' networks; ours has layer norm besides.
    spec = with_recipe(RunSpec(task, agent=agent, recipe="paper", learning_starts=1_000, capacity=100_000))
    trainer = Trainer(spec, RunFolder(folder))

    def advance(steps: int) -> None:
        for _ in range(steps):
            trainer.advance()

    return advance


def peer_advance(library: str, task: str, agent: str) -> Advance:
    """Stable-Baselines3 or SBX."""
    module = __import__({"SB3": "stable_baselines3", "SBX": "sbx"}[library])
    env = HandClip(gym.make(task), RateLimits.preset(task, "tight"))
    shape = {"net_arch": [256, 256]}
    options: dict[str, Any] = {"learning_rate": 3e-4, "batch_size": 256, "learning_starts": 1_000, "seed": 0}
    model = getattr(module, agent.upper())(
        "MlpPolicy", env, buffer_size=100_000, train_freq=1, gradient_steps=1, policy_kwargs=shape, **options
    )

    def advance(steps: int) -> None:
        model.learn(steps, reset_num_timesteps=False, log_interval=None)

    return advance


# ---------------------------------------------------------------------- the limit: matrix products alone


def products(task: str, agent: str) -> Advance:
    """The matrix products of one update per step: what no library on this machine can avoid."""
    env = gym.make(task)
    d = env.action_space.shape[0]  # type: ignore[index]
    n = env.observation_space.shape[0] + d  # type: ignore[index]
    actor, critic = (n, 256, 256, 2 * d if agent == "sac" else d), (n + d, 256, 256, 1)
    # Of each: forward passes, gradients of the weights, gradients of the hidden units, and of the action.
    half = 0.5 if agent == "td3" else 1.0  # TD3 updates the actor every other time, against one critic
    work = _gemms(actor, forward=1 + half, weights=half, hidden=half)
    judged, through = (
        (half, half) if agent == "td3" else (2.0, 1.0)
    )  # SAC's min Q passes through one critic in each row
    work += _gemms(critic, forward=4 + judged, weights=2, hidden=2 + through)
    work.append((256, 256, d, through))  # the gradient of the action
    buffers = [(torch.randn(a, b), torch.randn(b, c), torch.empty(a, c), times) for a, b, c, times in work]

    def advance(steps: int) -> None:
        for left, right, out, times in buffers:
            for _ in range(round(times * steps)):
                product(left, right, out)

    return advance


def _gemms(sizes: tuple[int, ...], forward: float, weights: float, hidden: float) -> list[tuple[int, int, int, float]]:
    """(rows, inner, columns, how often) of a network's products on a batch of 256."""
    gemms = []
    for k, (i, o) in enumerate(pairwise(sizes)):
        gemms += [(256, i, o, forward), (i, 256, o, weights)]
        if k > 0:
            gemms.append((256, o, i, hidden))
    return gemms


# ---------------------------------------------------------------------- the table


def contender(pipe: Any, make: str, arguments: tuple[str, ...]) -> None:
    """A process that makes as many steps as it is told to, and answers with the CPU time they took."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    with tempfile.TemporaryDirectory() as folder:
        advance = globals()[make](*arguments, *([Path(folder)] if make == "slewrl_advance" else []))
        while steps := pipe.recv():
            begun = time.process_time()
            advance(steps)
            pipe.send(time.process_time() - begun)


def measure(task: str, agent: str, bench: Bench) -> dict[str, float]:
    """Milliseconds of CPU time per step: the median over turns."""
    makers = {
        "slewrl": ("slewrl_advance", (task, agent)),
        "SB3": ("peer_advance", ("SB3", task, agent)),
        "SBX": ("peer_advance", ("SBX", task, agent)),
        "products": ("products", (task, agent)),
    }
    context, pipes = multiprocessing.get_context("spawn"), {}
    for name, (make, arguments) in makers.items():
        pipes[name], theirs = context.Pipe()
        context.Process(target=contender, args=(theirs, make, arguments), daemon=True).start()

    def turn(name: str, steps: int) -> float:
        pipes[name].send(steps)
        return float(pipes[name].recv())

    for name in pipes:
        turn(name, bench.before)
    turns: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in track(range(bench.rounds), description=f"{task} {agent}: taking turns", transient=True):
        for name in pipes:
            turns[name].append(1e3 * turn(name, bench.steps) / bench.steps)
    for pipe in pipes.values():
        pipe.send(0)
    return {name: median(values) for name, values in turns.items()}


def main(bench: Bench) -> None:
    """Run, print, and write if asked."""
    missing = [name for name in ("stable_baselines3", "sbx") if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f'{missing[0]} is not installed: pip install -e ".[bench]", or make bench')
    rows = []
    for task in bench.tasks:
        for agent in bench.agents:
            ms = measure(task, agent, bench)
            rates = [f"{1e3 / ms[name]:.0f}" for name in ("slewrl", "SB3", "SBX")]
            ratios = [f"{ms[name] / ms['slewrl']:.2f}x" for name in ("SB3", "SBX")]
            limit = [f"{ms['products']:.2f}", f"{ms['products'] / ms['slewrl']:.0%}"]
            rows.append([task, agent.upper(), *rates, *ratios, *limit])
    show(rows, bench)


HEAD = ["task", "agent", "slewrl", "SB3", "SBX", "vs SB3", "vs SBX", "products [ms]", "products / step"]


def show(rows: list[list[str]], bench: Bench) -> None:
    table = Table(*HEAD, title="environment steps per CPU-second, one update each")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if bench.write:
        lines = ["| " + " | ".join(cells) + " |" for cells in [HEAD, ["---"] * len(HEAD), *rows]]
        bench.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(tyro.cli(Bench, description=__doc__))
