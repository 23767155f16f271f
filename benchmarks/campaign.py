"""What a campaign's runner costs: the throughput of two workers against twice that of one, and opening 1 000 runs.

    python benchmarks/campaign.py

Throughput is environment steps per CPU-second of everything: the runs, the runner that starts and watches them, and
its live view. What else the machine is doing does not count; a runner, a view or a second worker that gets in the way
does. Each worker trains the same short run (HalfCheetah-v5 tight, SAC); the two numbers of workers take turns.

The folder that is opened is a grid: every layer on four tasks with both backbones, as many seeds as make up the number
of runs, its files as long as those of a run of the paper. Its numbers are made up, to be read and not to be looked at.
"""

import dataclasses
import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import median

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from slewrl.campaign.runner import Runner
from slewrl.campaign.spec import Campaign, grid
from slewrl.campaign.store import Store
from slewrl.campaign.view import watched
from slewrl.paper.grids import AGENTS, METHODS, RIVALS, TASKS
from slewrl.training.spec import RunSpec

EVALUATIONS, INCREMENTS, BINS, EPISODES, JOINTS = 300, 500, 50, 10, 8
"""Rows of a run's files, and columns: those of Ant-v5 at the paper's budget."""


@dataclass(frozen=True)
class Bench:
    """What to run."""

    steps: int = 3_000
    """Of each run."""
    rounds: int = 3
    """How often each number of workers has its turn."""
    finished: int = 1_000
    """Runs in the folder that is opened, at least."""


def cpu_seconds() -> float:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def rate(path: Path, workers: int, steps: int) -> float:
    """Steps per CPU-second of ``workers`` runs made at the same time, the runner and its view included."""
    base = RunSpec("HalfCheetah-v5", steps=steps, learning_starts=500, evaluate_every=steps, evaluate_episodes=1)
    store = Store(path)
    store.begin(Campaign("overhead", "", grid(base, seed=range(workers))))
    keys = list(store.campaign().by_key)
    begun = cpu_seconds()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        terminal = Console(file=nowhere, force_terminal=True, width=120)  # the view is drawn, as on a real terminal
        with watched(store, terminal) as watch:
            finished = Runner(store, keys, workers).run(watch)
    if not finished:
        raise RuntimeError(f"a run failed: see {path}")
    return workers * steps / (cpu_seconds() - begun)


def finished_grid(path: Path, count: int) -> int:
    """Write a campaign of at least ``count`` finished runs; returns how many there are."""
    cells = list(product(TASKS, AGENTS, METHODS + RIVALS))
    seeds = range(-(-count // len(cells)))
    specs = [RunSpec(task, layer=layer, agent=agent, seed=seed) for (task, agent, layer), seed in product(cells, seeds)]
    store, rng = Store(path), np.random.default_rng(0)
    store.begin(Campaign("many", "made up, to be timed", tuple(specs)))
    for spec in specs:
        write_run(store.folder(spec.key).path, spec, rng)
    return len(specs)


def write_run(path: Path, spec: RunSpec, rng: np.random.Generator) -> None:
    """The files of a run that has finished."""
    (path / "final").mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"spec": dataclasses.asdict(spec)}), encoding="utf-8")
    joints = [f"joint{i}" for i in range(JOINTS)]
    steps = np.linspace(0, spec.steps, EVALUATIONS + 1)[1:].round()
    evaluated = {"step": steps, "return_mean": rng.normal(steps, 1e5), "length_mean": 1000 + 0 * steps}
    evaluated |= {"violations": 0 * steps, "raw_violation_rate": rng.random(EVALUATIONS)}
    evaluated |= {f"utilisation_{i}": rng.random(EVALUATIONS) for i in range(JOINTS)}
    write_table(path / "eval.csv", evaluated)
    write_table(path / "train.csv", {"step": steps, "violations": 0 * steps})
    write_table(path / "timing.csv", {"step": steps, "steps_per_cpu_second": 100 + 0 * steps})
    ones = np.ones(EPISODES)
    returns, uses = rng.normal(3000, 500, EPISODES), rng.random(EPISODES)
    episodes = {"return": returns, "length": 1000 * ones, "utilisation": uses, "violations": 0 * ones}
    write_table(path / "final" / "episodes.csv", episodes)
    low, high = np.array(list(pairwise(np.linspace(-1, 1, BINS + 1)))).T
    densities = {joint: rng.random(BINS) for joint in joints}
    write_table(path / "final" / "density.csv", {"from": low, "to": high, **densities})
    write_table(path / "final" / "increments.csv", {joint: rng.uniform(-1, 1, INCREMENTS) for joint in joints})
    (path / "DONE").touch()


def write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Columns as CSV."""
    np.savetxt(path, np.stack(list(columns.values()), 1), "%.9g", ",", header=",".join(columns), comments="")


def opened(path: Path) -> dict[str, float]:
    """CPU seconds to read the state of every run, to write the tables, and for tables, figures and page."""
    from slewrl.report.build import report, write_tables
    from slewrl.report.data import load

    begun = time.process_time()
    states = [run.state for run in Store(path).progress()]
    status = time.process_time() - begun
    assert states and set(states) == {"done"}
    begun = time.process_time()
    write_tables(load(path), path / "tables")
    tables = time.process_time() - begun
    begun = time.process_time()
    report(path, path / "report", html=True)
    return {"status": status, "tables": tables, "tables, figures and page": time.process_time() - begun}


def main(bench: Bench) -> None:
    """Measure and print."""
    table = Table("what", "measured", "wanted", title="campaign overhead")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one, two = [], []
        for k in range(bench.rounds):
            one.append(rate(root / f"one{k}", 1, bench.steps))
            two.append(rate(root / f"two{k}", 2, bench.steps))
        if bench.rounds:
            share = median(two) / median(one)
            table.add_row("steps per CPU-second, two workers / one", f"{share:.1%}", "at least 95%")
        count = finished_grid(root / "many", bench.finished)
        for name, seconds in opened(root / "many").items():
            table.add_row(f"{name} of {count:,} finished runs", f"{seconds:.1f} s", "under 10 s")
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
