"""What a campaign's runner costs: the throughput of two workers against twice that of one, and opening 1 000 runs.

    python benchmarks/campaign.py

Throughput is environment steps per CPU-second of the runs themselves, from their timing.csv: what else the machine is
doing does not count, a runner or a second worker that gets in the way does. Each worker trains the same short run
(HalfCheetah-v5 tight, SAC); the two numbers of workers take turns.
"""

import dataclasses
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tyro
from rich.console import Console
from rich.table import Table

from slewrl.campaign.runner import Runner
from slewrl.campaign.spec import Campaign, grid
from slewrl.campaign.store import Store, last_row
from slewrl.runs import RunSpec


@dataclass(frozen=True)
class Bench:
    """What to run."""

    steps: int = 3_000
    """Of each run."""
    rounds: int = 3
    """How often each number of workers has its turn."""
    finished: int = 1_000
    """Runs in the folder that is opened."""


def rates(path: Path, workers: int, steps: int) -> list[float]:
    """Steps per CPU-second of each of ``workers`` runs made at the same time."""
    base = RunSpec("HalfCheetah-v5", steps=steps, learning_starts=500, evaluate_every=steps, evaluate_episodes=1)
    store = Store(path)
    store.begin(Campaign("overhead", "", grid(base, seed=range(workers))))
    keys = list(store.campaign().by_key)
    if not Runner(store, keys, workers).run():
        raise RuntimeError(f"a run failed: see {path}")
    return [float(last_row(store.folder(key).path / "timing.csv")["steps_per_cpu_second"]) for key in keys]


def copies(source: Path, target: Path, count: int) -> None:
    """A campaign folder of ``count`` finished runs, all of them one run under other seeds."""
    (run,) = [p.parent for p in source.glob("*/run.json")][:1]
    data = json.loads((run / "run.json").read_text(encoding="utf-8"))
    spec = RunSpec(**data["spec"])
    specs = [dataclasses.replace(spec, seed=seed, layer=("ddsrad", "post")[seed % 2]) for seed in range(count)]
    Store(target).begin(Campaign("many", "", tuple(specs)))
    for one in specs:
        shutil.copytree(run, target / one.key, ignore=shutil.ignore_patterns("checkpoint"))
        data["spec"] = dataclasses.asdict(one)
        (target / one.key / "run.json").write_text(json.dumps(data), encoding="utf-8")


def opened(path: Path) -> dict[str, float]:
    """CPU seconds to read the state of every run, and to write its tables."""
    from slewrl.report.build import report

    begun = time.process_time()
    states = [run.state for run in Store(path).progress()]
    status = time.process_time() - begun
    assert states and set(states) == {"done"}
    begun = time.process_time()
    report(path, path / "report", html=True)
    return {"status": status, "report": time.process_time() - begun}


def main(bench: Bench) -> None:
    """Measure and print."""
    table = Table("what", "measured", "wanted", title="campaign overhead")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one, two = [], []
        for k in range(bench.rounds):
            one.append(rates(root / f"one{k}", 1, bench.steps)[0])
            two.append(sum(rates(root / f"two{k}", 2, bench.steps)))
        share = median(two) / (2 * median(one))
        table.add_row("two workers / twice one worker", f"{share:.1%}", "at least 95%")
        copies(root / "one0", root / "many", bench.finished)
        for name, seconds in opened(root / "many").items():
            table.add_row(f"{name} of {bench.finished:,} finished runs", f"{seconds:.1f} s", "under 10 s")
    Console().print(table)


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
