"""The learning tables of results/: what each layer reaches on HalfCheetah-v5 tight, and our backbones beside SB3's.

    python benchmarks/first.py run            # every run that is missing, one after the other (hours)
    python benchmarks/first.py run --shard 1/2    # half of them, on another core
    python benchmarks/first.py table          # results/*/README.md from the CSVs

Each run is one ``slewrl train`` command, printed as it begins; its eval.csv is kept as results/GROUP/NAME-sSEED.csv.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

RESULTS = Path(__file__).parent.parent / "results"
SEEDS = (12345, 22345, 32345)
CHEETAH = "--task HalfCheetah-v5 --limits tight --learning-starts 5000"
FIRST = {
    "ddsrad-normalized": "--layer ddsrad --density normalized",
    "ddsrad-action_scaled": "--layer ddsrad --density action_scaled",
    "ddsrad-paper": "--layer ddsrad --paper-mode",
    "ddsrad-td3": "--layer ddsrad --agent td3",
    "boxpro": "--layer boxpro",
    "interval_tanh": "--layer interval_tanh",
    "interval_srad": "--layer interval_srad",
}
"""Name -> options of ``slewrl train``; 60 000 steps each."""
BACKBONES = {
    "none-sac": "--layer none --set agent.max_grad_norm=1e9",
    "none-td3": "--layer none --agent td3 --set agent.max_grad_norm=1e9 agent.exploration_noise=0.1",
}
"""The same without a rate limit and with SB3's choices (no clipping, small noise in TD3); 50 000 steps each."""
PEERS = {"sb3-sac": "sac", "sb3-td3": "td3"}


@dataclass(frozen=True)
class Run:
    """Train what is missing."""

    shard: str = "1/1"
    """k/n: only every n-th run, beginning with the k-th."""
    runs: Path = Path("runs/first")
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
    for group, options, steps in (("first", FIRST, 60_000), ("backbones", BACKBONES, 50_000)):
        for key, text in options.items():
            for seed in SEEDS:
                name = f"{key}-s{seed}"
                train = f"slewrl train {CHEETAH} {text} --steps {steps} --seed {seed} --out {runs / name}"
                found.append((name, RESULTS / group / f"{name}.csv", train.split()))
    for key, agent in PEERS.items():
        for seed in SEEDS:
            csv = RESULTS / "backbones" / f"{key}-s{seed}.csv"
            script = [sys.executable, "benchmarks/peers.py", "--agent", agent, "--seed", str(seed), "--out", str(csv)]
            found.append((f"{key}-s{seed}", csv, script))
    return found


# ---------------------------------------------------------------------- the tables


@dataclass(frozen=True)
class Table:
    """Write results/first/README.md and results/backbones/README.md from the CSVs there are."""

    def __call__(self) -> None:
        """Write both, and print them."""
        for group, names, write in (("first", FIRST, first_table), ("backbones", BACKBONES | PEERS, backbones_table)):
            curves = {name: read(group, name) for name in names}
            text = write({name: runs for name, runs in curves.items() if runs})
            (RESULTS / group / "README.md").write_text(text, encoding="utf-8")
            print(text)


def read(group: str, name: str) -> list[np.ndarray]:
    """The curves of every seed there is."""
    paths = [RESULTS / group / f"{name}-s{seed}.csv" for seed in SEEDS]
    return [np.genfromtxt(path, delimiter=",", names=True) for path in paths if path.exists()]


def first_table(curves: dict[str, list[np.ndarray]]) -> str:
    """Final evaluations by method, best mean first."""
    lines = [
        "# HalfCheetah-v5 tight, 60 000 steps",
        "",
        "Mean return of the final evaluation (5 seeded episodes, no exploration), by seed; mean and sample standard",
        "deviation over seeds; the mean of the last three evaluations, which is less noisy; utilisation (ratio of",
        "sums); exact violations in all of training (warm-up included) and evaluation. 5 000 warm-up steps, otherwise",
        "defaults. The runs were made at commit 2a782ff; later ones round differently, so a command gives the same",
        "kind of run, not the same bytes. Written by",
        "`python benchmarks/first.py table`; `python benchmarks/first.py run` makes the CSVs.",
        "",
        "| method | "
        + " | ".join(str(seed) for seed in SEEDS)
        + " | mean ± std | last three | utilisation | violations |",
        "|---" * (len(SEEDS) + 5) + "|",
    ]
    for name, runs in sorted(curves.items(), key=lambda item: -np.mean([run["return_mean"][-1] for run in item[1]])):
        finals = [run["return_mean"][-1] for run in runs]
        cells = [f"{value:,.0f}" for value in finals] + [""] * (len(SEEDS) - len(finals))
        use = np.mean([run["utilisation"][-1] for run in runs])
        broken = int(sum(run["violations"].sum() for run in runs)) + training_violations(name)
        cells += [spread(finals), spread([run["return_mean"][-3:].mean() for run in runs]), f"{use:.2f}", f"{broken}"]
        lines.append(f"| `{FIRST[name]}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def training_violations(name: str) -> int:
    """Exact violations from the first warm-up step to the last, over all seeds there are."""
    paths = [RESULTS / "first" / f"{name}-s{seed}.train.csv" for seed in SEEDS]
    logs = [np.genfromtxt(path, delimiter=",", names=True) for path in paths if path.exists()]
    return int(sum(log["violations"][-1] for log in logs))


def backbones_table(curves: dict[str, list[np.ndarray]]) -> str:
    """Curves of ours and theirs side by side."""
    marks = (10_000, 20_000, 30_000, 40_000, 50_000)
    lines = [
        "# HalfCheetah-v5 without a rate limit: our backbones and Stable-Baselines3's",
        "",
        "Mean return (5 seeded episodes, no exploration), mean ± sample standard deviation over seeds 12345, 22345",
        "and 32345. Same networks, batch, learning rate, warm-up (5 000) and evaluation; no gradient clipping, as in",
        "SB3. Ours sees the previous action, too (23 inputs, not 17), and TD3's noise of .1 is on the latent here, on",
        "the action there. Written by `python benchmarks/first.py table`.",
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
