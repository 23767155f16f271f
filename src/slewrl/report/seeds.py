"""Results seed by seed: returns and intervals, how often DD-SRad is beaten, rows for other programs, spreads."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from slewrl.report import estimates as e
from slewrl.report import walking
from slewrl.report.data import Result, Results, Score
from slewrl.report.methods import LABELS, REFERENCE, backbone, in_order
from slewrl.report.stats import (
    Interval,
    cv_interval,
    improvement_interval,
    probability_of_improvement,
    std_interval,
    t_interval,
)
from slewrl.report.tables import Column, Table, amount, by_limits_and_agent, score_of, where

FEW = 5
"""Seeds that are shown one by one."""
Chance = tuple[float, float, float]
"""A probability, and both ends of its interval."""
Row = dict[str, str | float | int]
HEADING = f"P(> {LABELS[REFERENCE]})"
METHOD = (
    "95 % intervals: of the mean by Student’s t over the seeds; of P, the chance that a run is better than one of "
    f"{LABELS[REFERENCE]}’s (ties count half), by Clopper and Pearson with as many trials as the side with fewer seeds"
)
"""The method of the intervals, for a legend."""


def by_seed(result: Result) -> str:
    """Every seed's return, in the order of the seeds; of many seeds their number."""
    if len(result.runs) > FEW:
        return f"{len(result.runs)} seeds"
    return ", ".join(amount(value) for _, value in sorted(e.returns(result).items()))


def improvement(result: Result, panel: Iterable[Result]) -> Chance | None:
    """P(a run is better than one of DD-SRad's in the same place), and its interval; None without any."""
    reference = result.cell._replace(method=REFERENCE)
    other = next((r for r in panel if r.cell == reference and r is not result), None)
    if other is None:
        return None
    chance = probability_of_improvement(result.returns, other.returns)
    return chance, *improvement_interval(result.returns, other.returns)


def _mean_and_interval(result: Result) -> str:
    return amount(result.score.mean) + _brackets(t_interval(result.returns), amount)


def improvement_text(result: Result, panel: Iterable[Result]) -> str:
    """`improvement`, as a cell of a table shows it."""
    found = improvement(result, panel)
    return "–" if found is None else f"{found[0]:.2f}{_brackets(found[1:], '{:.2f}'.format)}"


def _brackets(ends: Interval, show: Callable[[float], str]) -> str:
    low, high = ends
    return "" if math.isinf(low) or math.isinf(high) else f" ({show(low)} to {show(high)})"


COLUMNS = (
    Column("by seed", score_of, amount, text=lambda result, panel: by_seed(result)),
    Column("mean (95 %)", score_of, amount, text=lambda result, panel: _mean_and_interval(result)),
    Column(HEADING, score_of, amount, text=improvement_text),
)


def seed_tables(results: Results) -> list[Table]:
    """A table of returns seed by seed for each backbone under each set of limits."""
    says = f"final return of every seed, where there are no more than {FEW}; {METHOD}"
    return [
        Table(limits, agent, tuple(there), COLUMNS, "return, seed by seed", says=says)
        for (limits, agent), there in by_limits_and_agent(results)
    ]


# ---------------------------------------------------------------------- rows for other programs


def tidy(results: Results) -> list[Row]:
    """A row for each number of the tables."""
    return [row for result in in_order(list(results)) for row in rows_of(result, results)]


def rows_of(r: Result, results: Results) -> list[Row]:
    """The rows of one result."""
    found = [
        _row(r, "return", r.score, t_interval(r.returns), r.returns.tolist()),
        _row(r, "return_cv", Score(r.score.cv, math.nan), cv_interval(r.returns)),
        _row(r, "utilisation", r.utilisation, t_interval(r.utilisations), r.utilisations.tolist()),
    ]
    if r.accelerates:
        used = r.accelerations
        found.append(_row(r, "acceleration_utilisation", r.acceleration, t_interval(used), used.tolist()))
    if chance := improvement(r, results):
        found.append(_row(r, "p_improvement", Score(chance[0], math.nan), (chance[1], chance[2])))
    for name, metric in walking.METRICS.items() if walking.is_walking(r) else ():
        value, values = metric.score(r), metric.values(r)
        ends = (math.nan, math.nan) if math.isnan(value.mean) else t_interval(values)
        found = [row for row in found if row["metric"] != name]
        found.append(_row(r, name, value, ends, values.tolist()))
    return found


def _row(r: Result, metric: str, value: Score, ends: Interval, values: Sequence[float] = ()) -> Row:
    low, high = (end if math.isfinite(end) else math.nan for end in ends)
    return {
        "limits": r.cell.limits,
        "backbone": backbone(r.cell.agent),
        "task": r.cell.task,
        "method": r.cell.method,
        "metric": metric,
        "mean": value.mean,
        "std": value.std,
        "low": low,
        "high": high,
        "seeds": len(r.runs),
        "steps": r.cell.steps,
        "by_seed": " ".join(f"{one:g}" for one in values),
    }


# ---------------------------------------------------------------------- how much they vary


class Spread(NamedTuple):
    """How much the returns of two methods vary in one place."""

    where: str
    """Task, limits, backbone and budget."""
    sd: float
    """Standard deviation over the seeds, pooled over both methods."""
    sd_interval: Interval
    difference: e.Estimate
    """Difference of their mean returns, the first less the second."""
    correlation: float
    """Correlation of their returns over the seeds they share; nan without three of them."""


def spreads(results: Results, layers: Sequence[str]) -> list[Spread]:
    """One for each place where both layers were run as they ship with at least two seeds."""
    if len(layers) != 2:
        raise ValueError(f"--layers is {' '.join(layers) or 'missing'}, expected two, such as: --layers ddsrad boxpro")
    one, other = (results.where(method=layer) for layer in layers)
    there = {r.cell.place: r for r in other}
    pairs = [(r, there[r.cell.place]) for r in one if r.cell.place in there]
    found = [_spread(*pair) for pair in pairs if min(len(r.runs) for r in pair) > 1]
    if not found:
        known = ", ".join(sorted({r.cell.method for r in results if len(r.runs) > 1})) or "nothing"
        raise ValueError(
            f"{results.name} has no place where both {' and '.join(layers)} were run with two seeds or more; "
            f"with as many it has: {known}"
        )
    return found


def _spread(one: Result, other: Result) -> Spread:
    x, y = e.returns(one), e.returns(other)
    df = len(x) + len(y) - 2
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in e.arrays(x, y))
    sd = math.sqrt(squares / df)
    return Spread(where(one.cell), sd, std_interval(sd, df + 1), e.difference(x, y), _correlation(x, y))


def _correlation(x: e.Sample, y: e.Sample) -> float:
    shared = sorted(set(x) & set(y))
    both = np.array([[side[seed] for seed in shared] for side in (x, y)])
    return float(np.corrcoef(both)[0, 1]) if len(shared) > 2 and both.std(1).all() else math.nan
