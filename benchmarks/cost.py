"""What the paper's campaigns cost on this machine: measured steps per CPU-second, and core-hours made of them.

    python benchmarks/cost.py

Each task and backbone trains for a while past its warm-up (DD-SRad, one thread); evaluation adds its own share, five
episodes every 5 000 steps. The humanoids of the paper (60 runs) are not in here until they exist.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from slewrl.campaign.grids import CAMPAIGNS
from slewrl.paper.grids import AGENTS, TASKS
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, with_recipe
from slewrl.training.trainer import Trainer


@dataclass(frozen=True)
class Bench:
    """What to run."""

    before: int = 1_500
    """Steps before the clock starts; the warm-up is 500 of them."""
    steps: int = 1_000
    """Steps that are timed."""


def seconds_per_step(task: str, agent: str, bench: Bench) -> float:
    """CPU seconds of one step with its update and its share of evaluations."""
    with tempfile.TemporaryDirectory() as folder:
        spec = with_recipe(RunSpec(task, agent=agent, learning_starts=500, capacity=50_000))
        trainer = Trainer(spec, RunFolder(Path(folder)))
        for _ in range(bench.before):
            trainer.advance()
        begun = time.process_time()
        for _ in range(bench.steps):
            trainer.advance()
        training = (time.process_time() - begun) / bench.steps
        begun = time.process_time()
        length = trainer.evaluation_row()["length_mean"] * trainer.spec.evaluate_episodes
        # A trained policy lasts 1 000 steps an episode, an untrained one may fall early.
        evaluating = (time.process_time() - begun) / length * 1_000 * trainer.spec.evaluate_episodes
    return training + evaluating / trainer.spec.evaluate_every


def main(bench: Bench) -> None:
    """Measure and print both tables."""
    import torch

    torch.set_num_threads(1)
    cost = {(task, agent): seconds_per_step(task, agent, bench) for task in TASKS for agent in AGENTS}
    speed = Table("task", *AGENTS, title="steps per CPU-second, evaluations included")
    for task in TASKS:
        speed.add_row(task, *(f"{1 / cost[task, agent]:.0f}" for agent in AGENTS))
    hours = Table("campaign", "runs", "core-hours", "on 8 cores", "on 100", "on 1 000", title="what a campaign takes")
    for name in ("paper-tight", "paper-wide", "sensitivity", "rivals"):
        runs = CAMPAIGNS[name]().runs
        each = sorted((run.steps * cost[run.task, run.agent] / 3600 for run in runs), reverse=True)
        # No cluster is done before its longest run is.
        walls = [max(sum(each) / cores, each[0]) for cores in (8, 100, 1_000)]
        hours.add_row(name, str(len(runs)), f"{sum(each):,.0f}", *(f"{wall:,.0f} h" for wall in walls))
    for table in (speed, hours):
        Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
