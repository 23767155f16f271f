"""Our backbones without a rate limit beside Stable-Baselines3's, with equal settings: HalfCheetah-v5 and Hopper-v5.

    python benchmarks/backbones.py run              # every run that is missing, one after the other
    python benchmarks/backbones.py run --shard 1/2  # half of them, on another core
    python benchmarks/backbones.py table            # results/backbones/README.md from the CSVs

Each of our runs is one ``slewrl train`` command, printed as it begins; curves are kept as
results/backbones/NAME-sSEED.csv.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import tyro

from slewrl.report.stats import difference_interval

RESULTS = Path(__file__).parent.parent / "results" / "backbones"
EQUAL = (
    "--limits tight --layer none --recipe paper --learning-starts 5000 "
    "--set agent.max_grad_norm=1e9 agent.average_rate=1"
)
"""Of ours: no limit, and SB3's choices (no clipping, the last weights are evaluated)."""


class Contest(NamedTuple):
    """Runs on one task."""

    task: str
    steps: int
    seeds: tuple[int, ...]
    ours: dict[str, str]
    """Name -> further options of ``slewrl train``."""
    peers: dict[str, str]
    """Name -> options of ``peers.py``."""


CONTESTS = (
    Contest(
        "HalfCheetah-v5",
        50_000,
        (12345, 22345, 32345),
        {"none-sac": "", "none-td3": "agent.exploration_noise=0.1 --agent td3"},
        {"sb3-sac": "--agent sac", "sb3-td3": "--agent td3"},
    ),
    Contest(
        "Hopper-v5",
        40_000,
        (12345, 22345, 32345, 42345, 52345, 62345),
        {"none-sac-hopper": ""},
        {"sb3-sac-hopper": "--agent sac", "sb3-sac-hopper-augmented": "--agent sac --previous-action"},
    ),
)


@dataclass(frozen=True)
class Run:
    """Train what is missing."""

    shard: str = "1/1"
    """k/n: only every n-th run, beginning with the k-th."""
    runs: Path = Path("runs/backbones")
    """Where run folders go; stopped ones go on."""

    def __call__(self) -> None:
        """Run them in turn."""
        k, n = (int(part) for part in self.shard.split("/"))
        for name, csv, command in list(commands(self.runs))[k - 1 :: n]:
            if csv.exists():
                continue
            print(" ".join(command), flush=True)
            folder = self.runs / name
            stopped = (folder / "run.json").exists()
            chosen = ["slewrl", "train", "--resume", str(folder)] if stopped else command
            subprocess.run([sys.executable, "-m", *chosen] if chosen[0] == "slewrl" else chosen, check=True)
            csv.parent.mkdir(parents=True, exist_ok=True)
            if folder.exists():
                shutil.copy(folder / "train.csv", csv.with_suffix(".train.csv"))
                shutil.copy(folder / "eval.csv", csv)


def commands(runs: Path) -> list[tuple[str, Path, list[str]]]:
    """Name, CSV and command of every run."""
    found = []
    for contest in CONTESTS:
        said = f"--task {contest.task} --steps {contest.steps}"
        for seed in contest.seeds:
            for key, more in contest.ours.items():
                name = f"{key}-s{seed}"
                train = f"slewrl train {said} {EQUAL} {more} --seed {seed} --out {runs / name}"
                found.append((name, RESULTS / f"{name}.csv", train.split()))
            for key, more in contest.peers.items():
                name = f"{key}-s{seed}"
                csv = RESULTS / f"{name}.csv"
                script = [sys.executable, "benchmarks/peers.py", *f"{said} {more} --seed {seed} --out {csv}".split()]
                found.append((name, csv, script))
    return found


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Table:
    """Write results/backbones/README.md from the CSVs there are."""

    def __call__(self) -> None:
        """Write it, and print it."""
        text = HEAD + "\n".join(table(contest) for contest in CONTESTS)
        (RESULTS / "README.md").write_text(text, encoding="utf-8")
        print(text)


HEAD = """# Without a rate limit: our backbones and Stable-Baselines3's

Mean return (5 seeded episodes, no exploration), mean ± sample standard deviation over seeds. Same networks, batch,
learning rate, warm-up (5 000) and evaluation; no gradient clipping and no averaged weights, as in SB3. Ours sees the
previous action, too, and so does "augmented"; TD3's noise of .1 is on the latent here, on the action there. Written by
`python benchmarks/backbones.py table`.

"""


def table(contest: Contest) -> str:
    """Curves of ours and theirs side by side."""
    marks = range(10_000, contest.steps + 1, 10_000)
    lines = [
        f"## {contest.task}",
        "",
        "| | seeds | " + " | ".join(f"{mark:,}" for mark in marks) + " |",
        "|---" * (len(marks) + 2) + "|",
    ]
    for name in (*contest.ours, *contest.peers):
        runs = read(name, contest.seeds)
        if runs:
            cells = [spread([run["return_mean"][run["step"] == mark][0] for run in runs]) for mark in marks]
            lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    lines += [""] + [difference(contest, *pair) for pair in zip(contest.ours, contest.peers, strict=False)]
    return "\n".join(lines) + "\n"


def difference(contest: Contest, ours: str, theirs: str) -> str:
    """The difference of the last returns, with Welch's 95 % interval."""
    x, y = ([run["return_mean"][-1] for run in read(name, contest.seeds)] for name in (ours, theirs))
    low, high = difference_interval(x, y)
    return f"* {ours} less {theirs}: {np.mean(x) - np.mean(y):,.0f}, 95 % interval {low:,.0f} to {high:,.0f}"


def read(name: str, seeds: tuple[int, ...]) -> list[np.ndarray]:
    """The curves of every seed there is."""
    paths = [RESULTS / f"{name}-s{seed}.csv" for seed in seeds]
    return [np.genfromtxt(path, delimiter=",", names=True) for path in paths if path.exists()]


def spread(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    return f"{np.mean(values):,.0f} ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else f"{np.mean(values):,.0f}"


if __name__ == "__main__":
    command = tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")] | Annotated[Table, tyro.conf.subcommand("table")],
        description=__doc__,
    )
    command()
