"""Our numbers beside the paper's, cell by cell.

A difference at another training budget says nothing about whether the paper's result holds, so it gets no verdict; nor
does a number of the paper's that cannot be what it is said to be.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from slewrl.paper.printed import is_printed
from slewrl.paper.values import NO_TARGETS, STEPS, paper_value
from slewrl.report import walking
from slewrl.report.data import Result, Results, Score, changes, score
from slewrl.report.methods import backbone, called, in_order
from slewrl.report.stats import Interval, cv_interval, t_interval
from slewrl.report.tables import count

METRICS = {"return": "return", "return_cv": "return_cv", "utilization": "utilisation"}
"""The paper's name of a metric -> ours."""
ROBOT_METRICS = {metric.name: metric.name for metric in (*walking.TASK, *walking.USE)}


@dataclass(frozen=True)
class Comparison:
    """One number of the paper, and ours."""

    result: Result
    metric: str
    paper: Score
    ours: Score
    interval: Interval
    """95 % interval of our number over the seeds: of a mean by t, of a CV by noncentral t; (nan, nan) of one seed."""

    @property
    def paper_steps(self) -> int:
        """The paper's budget for the task."""
        return STEPS[self.result.cell.task]

    @property
    def budget(self) -> str:
        """Our training budget beside the paper's."""
        return f"at {count(self.result.cell.steps)} of {count(self.paper_steps)} steps"

    @property
    def verdict(self) -> str:
        """Whether the two agree, if they can be compared at all."""
        low, high = self.interval
        if why := NO_TARGETS.get((self.result.cell.task, self.metric)):
            return f"no target: {why}"
        if self.result.cell.steps != self.paper_steps:
            return "another budget: no verdict"
        if math.isnan(low):
            return "one seed: no verdict" if len(self.result.runs) == 1 else "not defined: no verdict"
        return "paper’s mean inside our interval" if low <= self.paper.mean <= high else "outside our interval"


@lru_cache(maxsize=1)  # the tables ask, and then the page
def compare(results: Results) -> list[Comparison]:
    """Every cell the paper has a number for, of runs with our defaults or as the paper prints them."""
    found = []
    for result in in_order(list(results)):
        spec = result.runs[0].spec
        if not (result.as_shipped or (is_printed(spec) and not changes(spec))):
            continue
        for theirs, ours in (ROBOT_METRICS if walking.is_walking(result) else METRICS).items():
            paper = paper_value(result, theirs)
            if paper and result.cell.task in STEPS:
                found.append(_compared(result, ours, paper))
    return found


def _compared(result: Result, metric: str, paper: Score) -> Comparison:
    utilised = metric == "utilisation"
    values = result.utilisations if utilised else walking.METRICS[metric.removesuffix("_cv")].values(result)
    ours = Score(result.score.cv, math.nan) if metric == "return_cv" else score(values)
    interval = (math.nan, math.nan)
    if len(values) > 1 and not math.isnan(ours.mean):
        interval = cv_interval(values) if metric == "return_cv" else t_interval(values)
    return Comparison(result, metric, paper, ours, interval)


def rows(comparisons: list[Comparison]) -> list[dict[str, str | float | int]]:
    """The comparisons as rows of a table."""
    return [
        {
            "limits": c.result.cell.limits,
            "backbone": backbone(c.result.cell.agent),
            "task": c.result.cell.task,
            "method": called(c.result),
            "metric": c.metric,
            "paper_mean": c.paper.mean,
            "paper_std": c.paper.std,
            "our_mean": c.ours.mean,
            "our_std": c.ours.std,
            "our_low": c.interval[0],
            "our_high": c.interval[1],
            "seeds": len(c.result.runs),
            "steps": c.result.cell.steps,
            "paper_steps": c.paper_steps,
            "budget": c.budget,
            "verdict": c.verdict,
        }
        for c in comparisons
    ]
