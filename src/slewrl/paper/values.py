"""The numbers of the paper's result tables, as printed (Tables benchmark_main, benchmark_wide and sim_full)."""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from slewrl.agents import recipes
from slewrl.paper.grids import METHODS, ROBOT_UPDATES
from slewrl.paper.grids import STEPS as BENCHMARK_STEPS
from slewrl.paper.printed import LIMITS as PRINTED_LIMITS
from slewrl.report.data import Cell, Result, Results, Score
from slewrl.report.methods import LABELS, backbone
from slewrl.report.tables import count

VALUES = Path(__file__).with_name("paper_values.csv")
Key = tuple[str, str, str, str, str]
"""Limits, backbone, task, method and metric, as the paper spells them."""
LIMITS = {"paper": "official"}
"""Our name of limits -> the paper's, where they differ."""
TASK_LIMITS = {(task, ours): theirs for (task, theirs), ours in PRINTED_LIMITS.items()}
"""(Task, our name of its limits) -> the paper's name."""
ENVIRONMENTS: int = recipes.find("fastsac", "gpu").run["environments"]
STEPS = BENCHMARK_STEPS | {task: ENVIRONMENTS * updates for task, updates in ROBOT_UPDATES.items()}
"""Task -> environment steps of the paper's runs. It gives gradient steps for the robots: we read one for each step of
all environments."""
NO_TARGETS = {("H1-rough", "return"): "two of the paper’s returns of H1 exceed what its stated reward can give"}
"""(Task, metric) whose printed numbers cannot be right -> why. Nothing is judged by them."""

NO_TARGET = "§"
"""Marks a number of the paper's that nothing is judged by."""
SETTING = (
    "The paper’s: IsaacLab, 5 seeds of 1 000 episodes, {} steps if each of its gradient steps is one step of all "
    f"{count(ENVIRONMENTS)} environments. Ours: MuJoCo, at the steps above; numbers at another budget cannot confirm "
    "or refute each other."
)


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


def paper_value(result: Result, metric: str) -> Score | None:
    """The paper's number for a cell, if it has one; ``metric`` as the paper calls it."""
    task, limits = result.cell.task, result.cell.limits
    if result.layer not in METHODS or (task, limits) in PRINTED_LIMITS:  # ours of that name are others
        return None
    theirs = TASK_LIMITS.get((task, limits), LIMITS.get(limits, limits))
    return paper_values().get((theirs, backbone(result.cell.agent), task, LABELS[result.layer], metric))


def limits_in_tables(results: Results) -> dict[Cell, str]:
    """Cell -> the name of its limits in a table: the paper's, unless other limits of this campaign have it."""
    there = {(result.cell.task, result.cell.limits) for result in results}
    names = {}
    for cell in (result.cell for result in results):
        theirs = TASK_LIMITS.get((cell.task, cell.limits), cell.limits)
        names[cell] = cell.limits if (cell.task, theirs) in there else theirs
    return names


def under_other_limits(found: Iterable[Result], limits: str) -> list[str]:
    """Notes on a table's tasks whose limits have another name here."""
    other = dict.fromkeys((r.cell.task, r.cell.limits) for r in found if r.cell.limits != limits)
    return [f"{task}: the paper’s {limits} limits as printed, {ours} here." for task, ours in other]


def mark(task: str, metric: str) -> str:
    """The mark of a number of the paper's that nothing is judged by; "" for the others."""
    return NO_TARGET if (task, metric) in NO_TARGETS else ""


def no_targets() -> str:
    """The footnote of that mark."""
    return f"{NO_TARGET} No target for ours: {'; '.join(NO_TARGETS.values())}."


def setting(tasks: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Notes on a table with the paper's numbers of the robots beside ours."""
    tasks = list(dict.fromkeys(tasks))
    budgets = " and ".join(f"{task} at {count(STEPS[task])}" for task in tasks if task in STEPS)
    marked = any(mark(task, metric) for task in tasks for metric in metrics)
    return [SETTING.format(budgets), *([no_targets()] if marked else [])]
