"""Numbers taken from runs, with their intervals: what a verdict is made of (docs/report.md has the formulas).

The two samples of a comparison are paired by seed where they have the same seeds; otherwise the interval is Welch's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slewrl.report import stats
from slewrl.report.data import Result, Run, score
from slewrl.report.stats import ANYTHING, Interval

Sample = Mapping[int, float]
"""Seed -> a number of its run."""
LEVEL = 0.95
ONE_SEED = "one seed"
UNDEFINED = "not defined: no return above 0 to divide by, or no such joint"
COUNTED = "counted"


@dataclass(frozen=True)
class Estimate:
    """A number with its interval over the seeds."""

    value: float
    at: Callable[[float], Interval]
    """Confidence level -> the interval."""
    how: str = ""
    """What the interval rests on: "3 seeds, paired"."""
    why: str = ""
    """Why it decides nothing, whatever the interval; "" if it may."""

    def interval(self, level: float = LEVEL) -> Interval:
        """The interval; all numbers, where this decides nothing."""
        return ANYTHING if self.why else self.at(level)

    def scaled(self, factor: float, offset: float) -> "Estimate":
        """factor * this + offset."""

        def at(level: float) -> Interval:
            low, high = sorted(factor * end + offset for end in self.at(level))
            return low, high

        return replace(self, value=factor * self.value + offset, at=at)


def sample(result: Result, number: Callable[[Run], float]) -> Sample:
    """A number of every run of a result."""
    return {run.spec.seed: number(run) for run in result.runs}


def returns(result: Result) -> Sample:
    """The final return of every run."""
    return sample(result, lambda run: run.final_return)


def counted(value: float) -> Estimate:
    """A number that was counted, not sampled: its interval is itself."""
    return Estimate(value, lambda level: (value, value), COUNTED)


def mean(one: Sample) -> Estimate:
    """The mean of one sample."""
    values = arrays(one)[0]
    return _estimate(float(values.mean()), lambda level: stats.t_interval(values, level), one)


def cv(one: Sample) -> Estimate:
    """100 std / |mean|, in percent; nan of a mean of 0."""
    values = arrays(one)[0]
    return _estimate(score(values).cv, lambda level: stats.cv_interval(values, level), one)


def difference(one: Sample, other: Sample) -> Estimate:
    """The difference of two means."""
    x, y = arrays(one, other)
    value = float(x.mean() - y.mean())
    return _estimate(value, lambda level: stats.difference_interval(x, y, paired(one, other), level), one, other)


def ratio(one: Sample, other: Sample) -> Estimate:
    """The ratio of two means; nan unless the second is above 0."""
    x, y = arrays(one, other)
    value = float(x.mean() / y.mean()) if y.mean() > 0 else math.nan
    return _estimate(value, lambda level: stats.ratio_interval(x, y, paired(one, other), level), one, other)


def function(statistic: Callable[[list[NDArray[np.float64]]], float], *sides: Sample) -> Estimate:
    """Any smooth function of the samples, by the jackknife; nan where it is not defined without some run."""
    found, together = arrays(*sides), paired(*sides)
    at = lambda level: stats.jackknife_interval(found, statistic, together, level)  # noqa: E731
    return _estimate(statistic(found), at, *sides)


def smallest(estimates: Sequence[Estimate]) -> Estimate:
    """The smallest of several numbers.

    It lies above a bound if all of them do, each at the level asked for; it lies below if one of them does, so the
    tail of each of k is divided by k (Bonferroni).
    """
    k = len(estimates)
    lowest = min(estimates, key=lambda one: (math.isnan(one.value), one.value))

    def at(level: float) -> Interval:
        low = min(one.interval(level)[0] for one in estimates)
        return low, min(one.interval(1 - (1 - level) / k)[1] for one in estimates)

    return replace(lowest, at=at, why=lowest.why if all(one.why for one in estimates) else "")


def largest(estimates: Sequence[Estimate]) -> Estimate:
    """The largest of several numbers; see `smallest`."""
    return smallest([one.scaled(-1, 0) for one in estimates]).scaled(-1, 0)


def paired(*sides: Sample) -> bool:
    """Whether there are several samples, all with the same seeds."""
    return len(sides) > 1 and all(set(side) == set(sides[0]) for side in sides)


def arrays(*sides: Sample) -> list[NDArray[np.float64]]:
    """The numbers of each sample, in the order of the seeds."""
    return [np.array([side[seed] for seed in sorted(side)]) for side in sides]


def _estimate(value: float, at: Callable[[float], Interval], *sides: Sample) -> Estimate:
    counts = list(dict.fromkeys(len(side) for side in sides))
    seeds = ONE_SEED if counts == [1] else f"{' and '.join(map(str, counts))} seeds"
    why = ONE_SEED if 1 in counts else UNDEFINED if math.isnan(value) else ""
    return Estimate(value, at, f"{seeds}, paired" if paired(*sides) and not why else seeds, why)
