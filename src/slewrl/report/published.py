"""What the paper's result tables say, as printed (Tables benchmark_main, benchmark_wide and sim_full of DD-SRad)."""

import csv
from functools import cache
from pathlib import Path

from slewrl.agents import presets
from slewrl.campaign.paper import METHODS, ROBOT_UPDATES
from slewrl.campaign.paper import STEPS as BENCHMARK_STEPS
from slewrl.report.data import Result, Score
from slewrl.report.methods import LABELS, backbone

VALUES = Path(__file__).with_name("paper_values.csv")
Key = tuple[str, str, str, str, str]
"""Limits, backbone, task, method and metric, as the paper spells them."""
LIMITS = {"paper": "official"}
"""Our name of limits -> the paper's, where they differ."""
ENVIRONMENTS: int = presets.find("fastsac", "gpu").run["environments"]
STEPS = BENCHMARK_STEPS | {task: ENVIRONMENTS * updates for task, updates in ROBOT_UPDATES.items()}
"""Task -> environment steps of the paper's runs. It gives gradient steps for the robots: we read one for each step of
all environments."""
NO_TARGETS = {("H1-rough", "return"): "two of the paper’s returns of H1 exceed what its stated reward can give"}
"""(Task, metric) whose printed numbers cannot be what they are said to be -> why. Nothing is judged by them."""


@cache
def paper_values() -> dict[Key, Score]:
    """The paper's tables: mean, and standard deviation (nan where it gives none)."""
    with open(VALUES, encoding="utf-8") as file:
        return {
            (row["limits"], row["backbone"], row["task"], row["method"], row["metric"]): Score(
                float(row["mean"]), float(row["std"] or "nan")
            )
            for row in csv.DictReader(file)
        }


def published(result: Result, metric: str) -> Score | None:
    """The paper's number for a cell, if it has one; ``metric`` as the paper calls it."""
    if result.layer not in METHODS:
        return None
    where = (LIMITS.get(result.cell.limits, result.cell.limits), backbone(result.cell.agent), result.cell.task)
    return paper_values().get((*where, LABELS[result.layer], metric))
