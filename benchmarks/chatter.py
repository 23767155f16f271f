"""Return and command chatter with and without an acceleration limit: SAC with DD-SRad on HalfCheetah-v5.

    slewrl campaign run acceleration --out runs/acceleration      # each limit from nothing, 60 000 steps
    python benchmarks/chatter.py run --out runs/then              # 30 000 of the rate limit, then 30 000 of both
    python benchmarks/chatter.py table runs/acceleration runs/then  # results/acceleration/README.md and chatter.csv

Of the commands of ten evaluation episodes, over joints and steps: the mean of |v_t - v_{t-1}| and of |v_t|, both in
units of the rate limit, and the share of steps at which a joint that moves turns round.
"""

import csv
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from slewrl import RateLimits
from slewrl.training.policy import load_policy

RESULTS = Path(__file__).parent.parent / "results" / "acceleration"
EPISODES = 10
MEASURES = ("return", "second_difference", "speed", "reversals", "violations", "acceleration_violations")
COLUMNS = ("limits", "start", "steps", "seed", *MEASURES)
SEEDS = (12345, 22345, 32345)
STAGE = "--task HalfCheetah-v5 --learning-starts 5000 --steps 30000"


def rows(runs: Path) -> Iterator[dict[str, float | str]]:
    """A row for each finished run."""
    for run in sorted(path.parent for path in runs.glob("*/DONE")):
        policy = load_policy(run)
        found = policy.evaluate(EPISODES)
        measured = found.row()
        yield {
            "limits": Path(policy.spec.limits).stem,
            "start": "tight" if policy.spec.start else "",
            "steps": policy.spec.steps,
            "seed": policy.spec.seed,
            "return": float(found.returns.mean()),
            "second_difference": measured["second_difference"],
            "speed": float(np.abs(found.increments).mean()),
            "reversals": measured["reversals"],
            "violations": sum(use.violations for use in found.uses),
            "acceleration_violations": sum(use.acceleration_violations for use in found.uses),
        }


HEAD = """# Acceleration limits that bind: HalfCheetah-v5, SAC with DD-SRad

`tight` is the paper's rate limit alone; `half` and `tight_acceleration` let a command reach that rate in two and in
four steps. A run "from" another begins with its networks (`--from`). Written by `python benchmarks/chatter.py table`;
the file says which commands make the runs, and what the columns are.

| limits | steps | return | by seed | mean second difference | mean speed | reversals | violations |
|---|---|---|---|---|---|---|---|
"""


def table(found: list[dict[str, str]]) -> str:
    """Means over seeds, and each seed's return."""
    kinds = sorted({(row["start"], row["limits"], int(row["steps"])) for row in found})
    return HEAD + "".join(
        line([row for row in found if (row["start"], row["limits"], int(row["steps"])) == kind]) for kind in kinds
    )


def line(runs: list[dict[str, str]]) -> str:
    """One row of the table: the seeds of one kind of run."""
    mean = {key: np.mean([float(run[key]) for run in runs]) for key in MEASURES}
    seeds = ", ".join(f"{float(run['return']):,.0f}" for run in runs)
    limits, start, steps = (runs[0][key] for key in ("limits", "start", "steps"))
    broken = (mean["violations"] + mean["acceleration_violations"]) * len(runs)
    said = f"{limits}, from {start}" if start else limits
    return (
        f"| {said} | {int(steps):,} | {mean['return']:,.0f} | {seeds} | {mean['second_difference']:.2f} | "
        f"{mean['speed']:.2f} | {mean['reversals']:.0%} | {broken:.0f} |\n"
    )


@dataclass(frozen=True)
class Run:
    """Train under the rate limit, then go on under the acceleration limits."""

    out: Path = Path("runs/then")
    """Where run folders go; stopped ones go on."""

    def __call__(self) -> None:
        """Run them in turn, a command each."""
        self.out.mkdir(parents=True, exist_ok=True)
        tight = RateLimits.preset("HalfCheetah-v5", "tight")
        half = self.out / "half.yaml"
        named = {"names": tight.names, "units": tight.units}
        RateLimits(tight.delta, tight.low, tight.high, **named, acceleration=tight.delta / 2).to_yaml(half)
        for seed in SEEDS:
            rate = self.out / f"rate-s{seed}"
            self._train(rate, f"--limits tight --seed {seed}")
            for limits in ("tight_acceleration", str(half)):
                name = f"{Path(limits).stem}-from-rate-s{seed}"
                self._train(self.out / name, f"--limits {limits} --seed {seed} --from {rate}")

    def _train(self, run: Path, options: str) -> None:
        """Train what is missing of a run."""
        if (run / "DONE").exists():
            return
        chosen = f"--resume {run}" if (run / "run.json").exists() else f"{STAGE} {options} --out {run}"
        print(f"slewrl train {chosen}", flush=True)
        subprocess.run([sys.executable, "-m", "slewrl", "train", *chosen.split()], check=True)


@dataclass(frozen=True)
class Table:
    """Evaluate the policies of run folders, and write the table."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, with checkpoints."""
    out: Path = RESULTS

    def __call__(self) -> None:
        """Write chatter.csv and README.md, and print the table."""
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / "chatter.csv", "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for folder in self.runs:
                writer.writerows(rows(folder))
        with open(self.out / "chatter.csv", encoding="utf-8") as stream:
            text = table(list(csv.DictReader(stream)))
        (self.out / "README.md").write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    command = tyro.cli(
        Annotated[Run, tyro.conf.subcommand("run")] | Annotated[Table, tyro.conf.subcommand("table")],
        description=__doc__,
    )
    command()
