"""How calm the commands of a campaign's methods are: a card of its page, and tables/calm.csv and calm.md."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slewrl.calm.metrics import ROOTS, SHARES, UNITS
from slewrl.report.data import Result, Results, Run
from slewrl.report.methods import backbone, called, in_order
from slewrl.report.page import Card, Cell, DataTable, Words
from slewrl.report.sections import Section
from slewrl.report.tables import amount, as_csv, count, pipe_table

HEADS = {
    "at_limit": "At limit",
    "reversals": "Reversals",
    "second_difference": "2nd diff.",
    "second_difference_rms": "RMS",
    "high_frequency": "> 5 Hz",
    "smoothness": "Sm",
    "work": "Work, J",
    "torque_rms": "Torque, N m",
    "torque_rate": "Torque rate, N m/s",
}
"""Column of episodes.csv -> its heading."""
ABOUT = (
    "Of the commands of the final evaluations, all joints together, mean over the seeds. At limit: share of steps that "
    "use 99 % of a rate limit or more. Reversals: share of steps at which a command turns round. 2nd diff. and RMS: "
    "mean and root mean square of the change of the increments, in units of the limit. > 5 Hz: share of the command’s "
    "variance. Sm: mean weighted frequency (Mysore et al. 2021). Work: of an episode. Less is calmer; docs/calm.md has "
    "the formulas."
)


def measured(run: Run) -> dict[str, float]:
    """The measures of a run's final evaluation; empty for a run from before there were any."""
    return {name: _over_episodes(run, name) for name in HEADS if name in run.episodes}


def _over_episodes(run: Run, name: str) -> float:
    """A measure over the episodes, weighted by their lengths; the work is the mean of an episode."""
    values, lengths = run.episodes[name], run.episodes["length"]
    known = np.isfinite(values)
    if not known.any():
        return math.nan
    if name == "work":
        return float(values[known].mean())
    if name in ROOTS:
        return math.sqrt(np.average(np.square(values[known]), weights=lengths[known]))
    return float(np.average(values[known], weights=lengths[known]))


def second_difference(run: Run) -> float:
    """The mean second difference of a run's final evaluation; nan where it was not taken."""
    return measured(run).get("second_difference", math.nan)


def over_seeds(result: Result, name: str) -> float:
    """The mean of a measure over the seeds; nan where it was not taken."""
    values = [measured(run).get(name, math.nan) for run in result.runs]
    return float(np.mean(values))


def calm_section(results: Results, folder: Path | None) -> Section | None:
    """The measures of each method, where the runs have them."""
    there = [r for r in in_order(list(results)) if measured(r.runs[0])]
    if not there:
        return None
    names = [name for name in HEADS if any(name in measured(r.runs[0]) for r in there)]
    heads = ("Method", "#Return", *(f"#{HEADS[name]}" for name in names), "Where")
    table = DataTable("Calm", heads, [_row(result, names) for result in there], "tight")
    rows = list(_plain(there, names))
    card = Card("calm", "How calm the commands are", [table, Words(ABOUT)])
    return Section(card, {"calm.csv": as_csv(rows), "calm.md": pipe_table(rows)})


def _row(result: Result, names: Iterable[str]) -> tuple[Cell, ...]:
    cell = result.cell
    values = {name: over_seeds(result, name) for name in names}
    return (
        Cell(called(result), head=True),
        Cell(amount(result.score.mean), result.score.mean),
        *(Cell(shown(name, value), value) for name, value in values.items()),
        Cell(f"{cell.task}, {cell.limits}, {backbone(cell.agent)}", small=f"{count(cell.steps)} steps"),
    )


def _plain(results: Iterable[Result], names: Iterable[str]) -> Iterable[dict[str, str]]:
    for result in results:
        cell = result.cell
        where = {"task": cell.task, "limits": cell.limits, "agent": backbone(cell.agent), "steps": str(cell.steps)}
        values = {name: f"{over_seeds(result, name):.4g}" for name in names}
        seeds = str(len(result.runs))
        yield {"method": called(result), **where, "seeds": seeds, "return": f"{result.score.mean:.6g}", **values}


def shown(name: str, value: float) -> str:
    """A measure as a table shows it."""
    if math.isnan(value):
        return "–"
    return f"{value:.0%}" if name in SHARES else f"{value:.3g}"


assert set(UNITS) < set(HEADS)
