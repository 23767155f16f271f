"""Return per CPU-hour under the same limits: ours beside Stable-Baselines3's SAC and SBX's SAC and CrossQ.

    python -W ignore benchmarks/learning.py run               # what is missing; four core-hours in all
    python -W ignore benchmarks/learning.py run --shard 1/2   # every other seed, on a core of its own
    python benchmarks/learning.py table                       # results/learning: README.md and the picture

HalfCheetah-v5 tight, one core. Peers act through ``slewrl.RateLimit`` with DD-SRad, so that nobody can leave the limit
and their critics see the share of the limit that was used; each has its library's own defaults (CrossQ's critics are
1024 wide), with 5 000 steps of warm-up as ours. The contenders of a seed take turns of a CPU-minute on one core. The
clock is CPU time and stands still during evaluations (five episodes, the same for all); compilation counts.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import csv
import importlib
import math
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import tyro

RESULTS = Path(__file__).parent.parent / "results" / "learning"
TASK, LIMITS, LAYER = "HalfCheetah-v5", "tight", "ddsrad"
SEEDS = (12345, 22345, 32345)
WARM_UP, EPISODES, CHUNK = 5_000, 5, 250
TURN, MINUTES = 60.0, 20
"""CPU-seconds between evaluations, and CPU-minutes in all."""
PEERS = {
    "Stable-Baselines3 SAC": ("stable_baselines3", "SAC"),
    "SBX SAC": ("sbx", "SAC"),
    "SBX CrossQ": ("sbx", "CrossQ"),
}
OURS = "slewrl SAC"
MARKS = (2, 5, 10, 20)
"""CPU-minutes of the table."""


class Contender(NamedTuple):
    """Something that learns."""

    advance: Callable[[], int]
    """Makes a chunk of steps; returns how many have been made so far."""
    returns: Callable[[], list[float]]
    """Of evaluation episodes."""


def ours(seed: int, folder: Path) -> Contender:
    """Our default recipe, through the very trainer of ``slewrl train``."""
    from slewrl.training.run_folder import RunFolder
    from slewrl.training.spec import EVALUATION_SEED, RunSpec
    from slewrl.training.trainer import Trainer

    trainer = Trainer(
        RunSpec(TASK, LIMITS, layer=LAYER, seed=seed, learning_starts=WARM_UP, steps=10**6), RunFolder(folder)
    )

    def advance() -> int:
        for _ in range(CHUNK):
            trainer.advance()
        return trainer.step

    act = partial(trainer.agent.act, explore=False)
    return Contender(advance, lambda: list(trainer.evaluator(act, EPISODES, EVALUATION_SEED).returns))


def peer(name: str, seed: int) -> Contender:
    """Another library's agent with its own defaults, behind our wrapper."""
    from slewrl import RateLimit
    from slewrl.training.spec import EVALUATION_SEED

    library, agent = PEERS[name]
    train, test = (RateLimit(gym.make(TASK), LIMITS, LAYER) for _ in range(2))
    model = getattr(importlib.import_module(library), agent)(
        "MlpPolicy", train, learning_starts=WARM_UP, seed=seed, device="cpu"
    )

    def advance() -> int:
        model.learn(CHUNK, reset_num_timesteps=False, log_interval=None)
        return int(model.num_timesteps)

    def episode(k: int) -> float:
        observation, _ = test.reset(seed=EVALUATION_SEED + k)
        total, done = 0.0, False
        while not done:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = test.step(action)
            total, done = total + float(reward), terminated or truncated
        assert info["rate_use"].violations == 0
        return total

    return Contender(advance, lambda: [episode(k) for k in range(EPISODES)])


def serve(pipe: Any, name: str, seed: int) -> None:
    """A process that learns for as many CPU-seconds as it is told to, then evaluates, off the clock."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        contender, used = ours(seed, Path(folder)) if name == OURS else peer(name, seed), 0.0
        while goal := pipe.recv():
            while used < goal:
                begun = time.process_time()
                step = contender.advance()
                used += time.process_time() - begun
            returns = contender.returns()
            pipe.send({"cpu_seconds": round(used, 2), "step": step, "return_mean": float(np.mean(returns))})


@dataclass(frozen=True)
class Run:
    """Make the curves that are missing."""

    shard: str = "1/1"
    """k/n: only every n-th seed, beginning with the k-th, on the k-th core."""
    minutes: int = MINUTES
    """CPU-minutes of each contender."""
    only: tuple[str, ...] = (OURS, *PEERS)
    """Contenders."""
    out: Path = RESULTS

    def __call__(self) -> None:
        """One seed after the other; within a seed the contenders take turns."""
        k, n = (int(part) for part in self.shard.split("/"))
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[(k - 1) % len(cores)]})
        for seed in SEEDS[k - 1 :: n]:
            names = [name for name in self.only if not self.has(path(self.out, name, seed))]
            self.curves(names, seed)

    def has(self, file: Path) -> bool:
        """Whether a curve is there to its last minute; one that was stopped begins again."""
        return file.exists() and float(file.read_text().splitlines()[-1].split(",")[0]) >= 60 * self.minutes

    def curves(self, names: list[str], seed: int) -> None:
        """Contenders take turns; each of them writes its curve again after every turn."""
        context, pipes = multiprocessing.get_context("spawn"), {}
        for name in names:
            pipes[name], theirs = context.Pipe()
            context.Process(target=serve, args=(theirs, name, seed), daemon=True).start()
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for turn in range(1, round(60 * self.minutes / TURN) + 1):
            for name, pipe in pipes.items():
                pipe.send(turn * TURN)
                rows[name].append(pipe.recv())
                print(f"{name}, seed {seed}: {rows[name][-1]}", flush=True)
                write(path(self.out, name, seed), rows[name])
        for pipe in pipes.values():
            pipe.send(0)


def path(out: Path, name: str, seed: int) -> Path:
    """Where a curve is kept."""
    return out / f"{name.lower().replace(' ', '-')}-s{seed}.csv"


def write(file: Path, rows: list[dict[str, float]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# ---------------------------------------------------------------------- the table and the picture


@dataclass(frozen=True)
class Table:
    """Write README.md and curves.png beside the CSVs there are."""

    out: Path = RESULTS

    def __call__(self) -> None:
        """Write both, and print the table."""
        curves = {name: read(self.out, name) for name in (OURS, *PEERS)}
        curves = {name: found for name, found in curves.items() if found}
        text = table(curves)
        (self.out / "README.md").write_text(text, encoding="utf-8")
        draw(curves, self.out / "curves.png")
        print(text)


def read(out: Path, name: str) -> dict[int, np.ndarray]:
    """Curves by seed."""
    paths = {seed: path(out, name, seed) for seed in SEEDS}
    return {seed: np.genfromtxt(p, delimiter=",", names=True) for seed, p in paths.items() if p.exists()}


def at(curve: np.ndarray, minutes: float) -> float:
    """The return of the first evaluation from then on; NaN of a curve that ends before."""
    k = np.searchsorted(curve["cpu_seconds"], 60 * minutes)
    return float(curve["return_mean"][k]) if k < len(curve) else math.nan


def table(curves: dict[str, dict[int, np.ndarray]]) -> str:
    """Per-seed returns at each mark."""
    lines = [
        "# Return per CPU-time: HalfCheetah-v5 tight, DD-SRad, one core",
        "",
        "Returns after so many CPU-minutes of training: the mean in bold, then each seed. Seeds: "
        + "; ".join(f"{name} {', '.join(map(str, found))}" for name, found in curves.items())
        + ".",
        "",
        "`python -W ignore benchmarks/learning.py run` makes the curves, `... table` this page; the file says how.",
        "",
        "| | " + " | ".join(f"{mark} min" for mark in MARKS) + " | steps per CPU-minute |",
        "|---" * (len(MARKS) + 2) + "|",
    ]
    for name, found in curves.items():
        cells = []
        for mark in MARKS:
            values = [value for curve in found.values() if not math.isnan(value := at(curve, mark))]
            cells.append(f"**{np.mean(values):,.0f}**: " + ", ".join(f"{value:,.0f}" for value in values))
        steps = np.mean([60 * curve["step"][-1] / curve["cpu_seconds"][-1] for curve in found.values()])
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {steps:,.0f} |")
    return "\n".join(lines) + "\n\n![curves](curves.png)\n"


def draw(curves: dict[str, dict[int, np.ndarray]], file: Path) -> None:
    """Thin lines are seeds, thick ones their mean."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for i, (name, found) in enumerate(curves.items()):
        length = min(len(curve) for curve in found.values())
        minutes = np.mean([curve["cpu_seconds"][:length] / 60 for curve in found.values()], axis=0)
        for curve in found.values():
            axes.plot(curve["cpu_seconds"] / 60, curve["return_mean"], color=f"C{i}", alpha=0.35, linewidth=0.8)
        mean = np.mean([curve["return_mean"][:length] for curve in found.values()], axis=0)
        axes.plot(minutes, mean, color=f"C{i}", linewidth=2, label=name)
    axes.set(xlabel="CPU-minutes of training on one core", ylabel="return", title=f"{TASK} {LIMITS}, {LAYER}")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")] | Annotated[Table, tyro.conf.subcommand("table")],
        description=__doc__,
    )()
