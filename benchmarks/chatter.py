"""Return and command chatter of a campaign's policies: rate limits with and without an acceleration limit.

    slewrl campaign run acceleration --out runs/acceleration
    python benchmarks/chatter.py runs/acceleration           # results/acceleration/README.md and chatter.csv

Of the commands of ten evaluation episodes, over joints and steps: the mean of |v_t - v_{t-1}| and of |v_t|, both in
units of the rate limit, and the share of steps at which a joint that moves turns round.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from numpy.typing import NDArray

from slewrl.training.policy import load_policy

RESULTS = Path(__file__).parent.parent / "results" / "acceleration"
EPISODES = 10
MEASURES = ("return", "second_difference", "speed", "reversals", "violations", "acceleration_violations")
COLUMNS = ("limits", "seed", *MEASURES)


def chatter(increments: NDArray[np.float64], lengths: NDArray[np.int64]) -> dict[str, float]:
    """Chatter of increments over their limits (T, d), of episodes of these lengths."""
    episodes = np.split(increments, np.cumsum(lengths)[:-1])
    sharp = np.concatenate([np.abs(np.diff(episode, axis=0)) for episode in episodes])
    turned = np.concatenate([episode[1:] * episode[:-1] < 0 for episode in episodes])
    speed = float(np.abs(increments).mean())
    return {"second_difference": float(sharp.mean()), "speed": speed, "reversals": float(turned.mean())}


def rows(runs: Path) -> Iterator[dict[str, float | str]]:
    """A row for each finished run."""
    for run in sorted(path.parent for path in runs.glob("*/DONE")):
        policy = load_policy(run)
        found = policy.evaluate(EPISODES)
        yield {
            "limits": policy.spec.limits,
            "seed": policy.spec.seed,
            "return": float(found.returns.mean()),
            **chatter(found.increments, found.lengths),
            "violations": sum(use.violations for use in found.uses),
            "acceleration_violations": sum(use.acceleration_violations for use in found.uses),
        }


def table(found: list[dict[str, str]]) -> str:
    """Means over seeds, and each seed's return."""
    lines = [
        "# Acceleration limits that bind: HalfCheetah-v5, SAC with DD-SRad, 60 000 steps",
        "",
        "`tight` is the paper's rate limit alone; `tight_acceleration` lets a command reach that rate in four steps.",
        "Written by `python benchmarks/chatter.py runs/acceleration` after `slewrl campaign run acceleration`; the",
        "file says what the columns are.",
        "",
        "| limits | return | by seed | mean second difference | mean speed | reversals | violations |",
        "|---|---|---|---|---|---|---|",
    ]
    for limits in sorted({row["limits"] for row in found}):
        own = [row for row in found if row["limits"] == limits]
        mean = {key: np.mean([float(row[key]) for row in own]) for key in MEASURES}
        seeds = ", ".join(f"{float(row['return']):,.0f}" for row in own)
        lines.append(
            f"| {limits} | {mean['return']:,.0f} | {seeds} | {mean['second_difference']:.2f} | {mean['speed']:.2f} | "
            f"{mean['reversals']:.0%} | {mean['violations'] * len(own):.0f} |"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Chatter:
    """Evaluate the policies of a campaign, and write the table."""

    runs: tyro.conf.Positional[Path]
    """The campaign's folder, with checkpoints."""
    out: Path = RESULTS

    def __call__(self) -> None:
        """Write chatter.csv and README.md, and print the table."""
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / "chatter.csv", "w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows(self.runs))
        with open(self.out / "chatter.csv", encoding="utf-8") as stream:
            text = table(list(csv.DictReader(stream)))
        (self.out / "README.md").write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    tyro.cli(Chatter, description=__doc__)()
