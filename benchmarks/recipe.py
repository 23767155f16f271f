"""The study behind SAC's defaults: how many seeds leave the local optimum, what they return, what it costs.

    slewrl campaign run recipe --out runs/recipe   # the runs (docs/recipe.md says which)
    python benchmarks/recipe.py                    # results/recipe/README.md from the runs there are

A run has left the local optimum of its task if its final return is above the threshold in `slewrl.report.verdicts`.
"""

import csv
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from slewrl.report.stats import iqm, ratio_interval, stratified_bootstrap, t_interval
from slewrl.report.verdicts import THRESHOLDS

RESULTS = Path(__file__).parent.parent / "results" / "recipe"
HEAD = """# SAC's defaults beside the paper's hyperparameters

Tight limits, 60 000 steps, 5 000 of them warm-up. Returns are means of the final evaluation's episodes, by seed. "Left"
counts the seeds above the threshold (HalfCheetah-v5 1 000, Ant-v5 and Hopper-v5 1 200). "CPU" is the median CPU time at
which an evaluation first passes the threshold, over the seeds that do; evaluations are not counted. Written by
`python benchmarks/recipe.py`.

| task | layer | recipe | left | IQM | 95 % interval of the mean | CPU [s] | steps per CPU-second | returns by seed |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Run:
    """One finished run."""

    final: float
    """Mean return of the final evaluation."""
    violations: int
    """Exact violations in the final evaluation."""
    cpu: float
    """CPU-seconds of training until an evaluation first passed the threshold; inf where none did."""
    speed: float
    """Steps per CPU-second over the whole run."""


def read(folder: Path, task: str) -> Run:
    """A run from its folder."""
    episodes, evaluations, timing = (rows(folder / name) for name in ("final/episodes.csv", "eval.csv", "timing.csv"))
    speed = {int(row["step"]): row["steps_per_cpu_second"] for row in timing}
    passed = [int(row["step"]) for row in evaluations if row["return_mean"] > THRESHOLDS[task]]
    return Run(
        float(np.mean([row["return"] for row in episodes])),
        int(sum(row["violations"] for row in episodes)),
        passed[0] / speed[passed[0]] if passed else np.inf,
        timing[-1]["steps_per_cpu_second"],
    )


def rows(path: Path) -> list[dict[str, float]]:
    with open(path, encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def cells(results: Path) -> dict[tuple[str, str, str], list[Run]]:
    """Task, layer and recipe -> the finished runs, in the order of their seeds."""
    found = defaultdict(list)
    for folder in sorted(path.parent for path in results.glob("*/DONE")):
        spec = json.loads((folder / "run.json").read_text(encoding="utf-8"))["spec"]
        found[spec["task"], spec["layer"], spec["recipe"] or "ours"].append((spec["seed"], folder))
    return {key: [read(folder, key[0]) for _, folder in sorted(runs)] for key, runs in sorted(found.items())}


def line(key: tuple[str, str, str], runs: list[Run]) -> str:
    """A row of the table."""
    finals = np.array([run.final for run in runs])
    left = f"{sum(finals > THRESHOLDS[key[0]])} of {len(runs)}"
    low, high = t_interval(finals)
    reached = [run.cpu for run in runs if np.isfinite(run.cpu)]
    cpu = f"{np.median(reached):,.0f} ({len(reached)} of {len(runs)})" if reached else "–"
    speed = np.mean([run.speed for run in runs])
    each = ", ".join(f"{value:,.0f}" for value in finals)
    values = [*key, left, f"{iqm([finals]):,.0f}", f"{low:,.0f} to {high:,.0f}", cpu, f"{speed:.0f}", each]
    return f"| {' | '.join(values)} |"


def comparison(task: str, ours: list[Run], papers: list[Run]) -> str:
    """How much more our recipe returns than the paper's, and costs."""
    new, old = (np.array([run.final for run in runs]) for runs in (ours, papers))
    low, high = ratio_interval(new, old)
    ours_iqm, papers_iqm = iqm([new]), iqm([old])
    a, b = stratified_bootstrap([new]), stratified_bootstrap([old])
    costs = np.mean([run.speed for run in papers]) / np.mean([run.speed for run in ours])
    return (
        f"* {task}, `ddsrad`: IQM {ours_iqm:,.0f} ({a[0]:,.0f} to {a[1]:,.0f}) against {papers_iqm:,.0f} "
        f"({b[0]:,.0f} to {b[1]:,.0f}), {ours_iqm / papers_iqm:.2f} times; "
        f"the means' ratio is {new.mean() / old.mean():.2f} ({low:.2f} to {high:.2f}); "
        f"CPU time per step {costs:.2f} times."
    )


def main(results: Path = RESULTS) -> None:
    """Write the page, and print it."""
    found = cells(results)
    compared = [
        comparison(task, found[task, "ddsrad", "ours"], found[task, "ddsrad", "paper"])
        for task in THRESHOLDS
        if (task, "ddsrad", "ours") in found and (task, "ddsrad", "paper") in found
    ]
    violations = sum(run.violations for runs in found.values() for run in runs)
    closing = f"\n\nExact violations in all final evaluations: {violations}.\n"
    text = HEAD + "\n".join(line(key, runs) for key, runs in found.items()) + "\n\n" + "\n".join(compared) + closing
    (results / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
