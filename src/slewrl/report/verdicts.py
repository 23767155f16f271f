"""How a verdict is made: an interval against what a rule allows, the same rule whoever it favours.

No verdict rests on policies of which none has learned its task (docs/report.md, How a verdict is made).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from slewrl.report import walking
from slewrl.report.data import Result, Run
from slewrl.report.estimates import COUNTED, LEVEL, Estimate
from slewrl.report.stats import ANYTHING, Interval
from slewrl.report.tables import amount, count

Verdict = Literal["holds", "does not hold", "undecided", "not measured here"]
MARKS = {"holds": "holds", "does not hold": "fails", "undecided": "undecided", "not measured here": "open"}
"""Verdict -> its class of the style sheet."""
UNDECIDED = "undecided at this budget and number of seeds"
THRESHOLDS = {"HalfCheetah-v5": 1_000.0, "Ant-v5": 1_200.0, "Hopper-v5": 1_200.0, "Humanoid-v5": 1_000.0}
"""Task -> the return of a final evaluation above which a run has learned it."""
NOBODY = "nobody learned"


@dataclass(frozen=True)
class Allowed:
    """The interval of numbers that a rule allows."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False
    """Whether the ends themselves are not allowed."""

    def all_of(self, interval: Interval) -> bool:
        """Whether every number of an interval is allowed."""
        low, high = interval
        return self.low < low and high < self.high if self.open else self.low <= low and high <= self.high

    def none_of(self, interval: Interval) -> bool:
        """Whether no number of an interval is allowed."""
        low, high = interval
        return high <= self.low or low >= self.high if self.open else high < self.low or low > self.high


def between(low: float, high: float) -> Allowed:
    """Every number in [low, high]."""
    return Allowed(low, high)


def above(bound: float) -> Allowed:
    """Every number > bound."""
    return Allowed(low=bound, open=True)


def below(bound: float) -> Allowed:
    """Every number < bound."""
    return Allowed(high=bound, open=True)


def verdict(numbers: Sequence[Estimate], allowed: Allowed) -> Verdict:
    """The verdict on a claim that all the numbers have to bear out.

    It holds if all k intervals at 95 % are allowed. It fails if one of k is not, so each gets a k-th of the 5 %
    (Bonferroni): more configurations do not make it easier to refute a claim that is true.
    """
    if not numbers:
        return "not measured here"
    if all(allowed.all_of(number.interval()) for number in numbers):
        return "holds"
    level = 1 - (1 - LEVEL) / len(numbers)
    return "does not hold" if any(allowed.none_of(number.interval(level)) for number in numbers) else "undecided"


def said(number: Estimate) -> str:
    """A number with its 95 % interval and what that rests on, or why it decides nothing."""
    if number.how == COUNTED:
        return _shown(number.value) + (f" ({number.why})" if number.why else "")
    basis = "; ".join(dict.fromkeys([number.why, number.how])) if number.why else number.how
    low, high = (-math.inf, math.inf) if math.isnan(number.value) else number.at(LEVEL)
    ends = f"{_shown(low)} to {_shown(high)}; "
    if (low, high) == ANYTHING:
        ends = "" if number.why else "no bounds; "
    return f"{_shown(number.value)} ({ends}{basis})"


def _shown(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == int(value):
        return count(int(value)).replace("-", "−")
    return f"{value:.3g}".replace("-", "−") if abs(value) < 10 else amount(value)


# ---------------------------------------------------------------------- whether anybody learned


def learned(run: Run) -> bool | None:
    """Whether a run has learned its task: its return is above a threshold, or its robot walks; None of other tasks."""
    if run.cell.task in THRESHOLDS:
        return run.final_return > THRESHOLDS[run.cell.task]
    alone = Result(run.cell, (run,))
    return walking.walks(alone) if walking.is_walking(alone) else None


def nobody_learned(results: Iterable[Result]) -> bool:
    """Whether not one seed of any of them has learned, on tasks where that can be said."""
    return not any(learned(run) in (True, None) for result in results for run in result.runs)
