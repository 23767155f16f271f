"""Metrics of walking robots: the columns of the paper's two tables of them, and a few more.

All are of the final evaluation (final/); of runs from before it had them, the joints' utilisations are those of the
last evaluation during training (eval.csv). docs/metrics.md has the formulas.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slewrl.metrics import GroupUse, group_use
from slewrl.report.data import Array, Result, Run, Score, read_columns, score
from slewrl.robots import groups_of

WALKS_STEPS, WALKS_SHARE = 500, 0.5
"""Walking means episodes of that many control steps at that share of the commanded speed, on average."""


@dataclass(frozen=True)
class Metric:
    """A metric of a run."""

    name: str
    """As in results.csv and, where the paper has it, in paper_values.csv."""
    heading: str
    of: Callable[[Run], float]
    digits: int | None
    """Digits after the point, as in the paper; None for as many as a return needs."""
    arrow: str = ""
    """↑ or ↓ where more or less is better."""

    def values(self, result: Result) -> Array:
        """Its values, (seeds,)."""
        return result.by_seed(self.of)

    def score(self, result: Result) -> Score:
        """Its mean and deviation over the seeds; nan where a seed has none: a robot without named joint groups."""
        values = self.values(result)
        return Score(math.nan, math.nan) if np.isnan(values).any() else score(values)


def is_walking(result: Result) -> bool:
    """Whether a result is of a robot that follows a commanded velocity."""
    return "vte" in result.runs[0].episodes


def by_step(name: str) -> Callable[[Run], float]:
    """Mean over the steps of all episodes of a column of episodes.csv, which has the mean of each episode."""
    return lambda run: float(np.average(run.episodes[name], weights=run.episodes["length"]))


def percent_of_episodes(name: str) -> Callable[[Run], float]:
    """The share of episodes in which something happened, in percent."""
    return lambda run: 100 * float(run.episodes[name].mean())


def group_use_of(run: Run) -> GroupUse:
    """Utilisation of the robot's proximal and distal joints."""
    return group_use(run.joint_utilisation, *groups_of(run.cell.task, run.joints))


def statue_of(run: Run) -> float:
    """What a statue earns in the run's task, in its final evaluation; nan of a run from before that was noted."""
    try:
        return float(read_columns(run.path / "final" / "statue.csv")["return"][0])
    except (FileNotFoundError, LookupError):
        return math.nan


TASK = (
    Metric("return", "Return", lambda run: run.final_return, None, "↑"),
    Metric("vte", "VTE", by_step("vte"), 3, "↓"),
    Metric("fall_pct", "Fall", percent_of_episodes("fell"), 1, "↓"),
    Metric("steps", "Steps", lambda run: float(run.episodes["length"].mean()), 0, "↑"),
)
"""The paper's Table sim_full (a)."""
USE = (
    Metric("util_p", "Util-P", lambda run: group_use_of(run).proximal, 2),
    Metric("util_d", "Util-D", lambda run: group_use_of(run).distal, 2),
    Metric("gap", "Gap", lambda run: group_use_of(run).gap, 2),
)
"""Table sim_full (b)."""
STATUE = Metric("statue", "Statue", statue_of, None)
"""The return of a robot that stands frozen: what a return of walking has to be compared with."""
MORE = (
    STATUE,
    Metric("speed", "Speed", by_step("speed"), 3),
    Metric("commanded", "Commanded", by_step("commanded"), 3),
    Metric("exploded_pct", "Exploded", percent_of_episodes("exploded"), 1),
)
"""Further metrics of walking, our own."""
METRICS = {metric.name: metric for metric in (*TASK, *USE, *MORE)}


def walks(result: Result) -> bool:
    """Whether the robot walks, by the means over the seeds: long enough, and fast enough."""
    length, speed, asked = (METRICS[name].score(result).mean for name in ("steps", "speed", "commanded"))
    return length >= WALKS_STEPS and speed >= WALKS_SHARE * asked


def episodes(results: Sequence[Result]) -> dict[str, str]:
    """Fewest episodes per seed of the final evaluation, and in words those that utilisations are of."""
    runs = [run for result in results for run in result.runs]
    final, last = min(len(run.episodes["length"]) for run in runs), min(run.spec.evaluate_episodes for run in runs)
    early = any(run.final_joint_utilisation is None for run in runs)
    use = (
        f"the last evaluation while training, {last} episodes a seed" if early else f"the same {final} episodes a seed"
    )
    return {"final": str(final), "use": use}
