"""Our backbones without a rate limit beside Stable-Baselines3's: learning curves on HalfCheetah-v5.

    python benchmarks/backbones.py run              # every run that is missing, one after the other (two hours)
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
from typing import Annotated

import numpy as np
import tyro

RESULTS = Path(__file__).parent.parent / "results" / "backbones"
SEEDS = (12345, 22345, 32345)
CHEETAH = "--task HalfCheetah-v5 --limits tight --learning-starts 5000"
OURS = {
    "none-sac": "--layer none --set agent.max_grad_norm=1e9",
    "none-td3": "--layer none --agent td3 --set agent.max_grad_norm=1e9 agent.exploration_noise=0.1",
}
"""Name -> options of ``slewrl train``: no limit, and SB3's choices (no clipping, small noise in TD3)."""
STEPS = 50_000
PEERS = {"sb3-sac": "sac", "sb3-td3": "td3"}


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
    for key, text in OURS.items():
        for seed in SEEDS:
            name = f"{key}-s{seed}"
            train = f"slewrl train {CHEETAH} {text} --steps {STEPS} --seed {seed} --out {runs / name}"
            found.append((name, RESULTS / f"{name}.csv", train.split()))
    for key, agent in PEERS.items():
        for seed in SEEDS:
            csv = RESULTS / f"{key}-s{seed}.csv"
            script = [sys.executable, "benchmarks/peers.py", "--agent", agent, "--seed", str(seed), "--out", str(csv)]
            found.append((f"{key}-s{seed}", csv, script))
    return found


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Table:
    """Write results/backbones/README.md from the CSVs there are."""

    def __call__(self) -> None:
        """Write it, and print it."""
        curves = {name: read(name) for name in OURS | PEERS}
        text = table({name: runs for name, runs in curves.items() if runs})
        (RESULTS / "README.md").write_text(text, encoding="utf-8")
        print(text)


def read(name: str) -> list[np.ndarray]:
    """The curves of every seed there is."""
    paths = [RESULTS / f"{name}-s{seed}.csv" for seed in SEEDS]
    return [np.genfromtxt(path, delimiter=",", names=True) for path in paths if path.exists()]


def table(curves: dict[str, list[np.ndarray]]) -> str:
    """Curves of ours and theirs side by side."""
    marks = (10_000, 20_000, 30_000, 40_000, 50_000)
    lines = [
        "# HalfCheetah-v5 without a rate limit: our backbones and Stable-Baselines3's",
        "",
        "Mean return (5 seeded episodes, no exploration), mean ± sample standard deviation over seeds 12345, 22345",
        "and 32345. Same networks, batch, learning rate, warm-up (5 000) and evaluation; no gradient clipping, as in",
        "SB3. Ours sees the previous action, too (23 inputs, not 17), and TD3's noise of .1 is on the latent here, on",
        "the action there. Written by `python benchmarks/backbones.py table`.",
        "",
        "| | seeds | " + " | ".join(f"{mark:,}" for mark in marks) + " |",
        "|---" * (len(marks) + 2) + "|",
    ]
    for name, runs in curves.items():
        cells = [spread([run["return_mean"][run["step"] == mark][0] for run in runs]) for mark in marks]
        lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def spread(values: list[float]) -> str:
    """Mean and sample standard deviation."""
    return f"{np.mean(values):,.0f} ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else f"{np.mean(values):,.0f}"


if __name__ == "__main__":
    command = tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")] | Annotated[Table, tyro.conf.subcommand("table")],
        description=__doc__,
    )
    command()
