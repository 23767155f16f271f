"""The results as rows for other programs: one for each number of the tables, with its interval and its seeds."""

import math
from collections.abc import Sequence

from slewrl.report import walking
from slewrl.report.data import Result, Results, Score
from slewrl.report.estimates import LEVEL
from slewrl.report.methods import backbone, in_order
from slewrl.report.seedwise import improvement
from slewrl.report.stats import Interval, cv_interval, t_interval

Row = dict[str, str | float | int]


def tidy(results: Results) -> list[Row]:
    """A row for each number of the tables."""
    return [row for result in in_order(list(results)) for row in rows_of(result, results)]


def rows_of(r: Result, results: Results) -> list[Row]:
    """Those of one result."""
    found = [
        _row(r, "return", r.score, t_interval(r.returns, LEVEL), r.returns.tolist()),
        _row(r, "return_cv", Score(r.score.cv, math.nan), cv_interval(r.returns, LEVEL)),
        _row(r, "utilisation", r.utilisation, t_interval(r.utilisations, LEVEL), r.utilisations.tolist()),
    ]
    if chance := improvement(r, results):
        found.append(_row(r, "p_improvement", Score(chance[0], math.nan), (chance[1], chance[2])))
    for name, metric in walking.METRICS.items() if walking.is_walking(r) else ():
        value, values = metric.score(r), metric.values(r)
        ends = (math.nan, math.nan) if math.isnan(value.mean) else t_interval(values, LEVEL)
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
