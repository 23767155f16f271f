"""Which method came first, among which others, and whether that is a lead."""

from collections.abc import Iterable, Sequence

from slewrl.report import estimates as e
from slewrl.report.data import Result
from slewrl.report.methods import called, prices, promises
from slewrl.report.tables import amount, contenders, plus_minus
from slewrl.report.verdicts import NOBODY, UNDECIDED, nobody_learned, said


def best(panel: Sequence[Result]) -> Result:
    """The highest mean return of a method that kept every limit; of any, if none did."""
    return max(contenders(panel) or panel, key=lambda r: r.score.mean)


def by_return(results: Iterable[Result]) -> list[Result]:
    """The highest mean return first; which is no verdict."""
    return sorted(results, key=lambda r: -r.score.mean)


def lead(panel: Sequence[Result], beside: str = "") -> str:
    """Which method has the highest mean return, and of how many; a single method's return.

    ``beside``: text about the first, after its return.
    """
    first, ranked = best(panel), contenders(panel)
    name, score = called(first), plus_minus(first.score, amount) + beside
    if len(panel) == 1:
        return f"{name}, the only method so far, returns {score}"
    seeds = "with at least two seeds " if len(first.runs) > 1 else ""
    if len(ranked) == 1:
        return f"{name}, the only method {seeds}that kept every limit, returns {score}"
    among = f"{len(ranked)} methods {seeds}that kept every limit"
    if not ranked:
        among = f"{len(panel)} methods, none of which kept every limit"
    return f"of the {among}, {name} has the highest mean return, {score}; {leads(first, ranked or panel)}"


def leads(first: Result, panel: Sequence[Result]) -> str:
    """Whether the highest mean is a lead: by its interval over each of the others.

    Any of the panel could have come first, so each interval gets its share of the 5 % (Bonferroni).
    """
    others = [r for r in panel if r is not first]
    second = max(others, key=lambda r: r.score.mean)
    ahead = all(is_ahead(first, other, len(others)) for other in others)
    by = f"over {called(second)}, the next with {plus_minus(second.score, amount)}, by {said(_ahead_by(first, second))}"
    if nobody_learned(panel):
        return f"whether it leads is {UNDECIDED}: {NOBODY}"
    return f"it leads, {by}" if ahead else f"whether it leads is {UNDECIDED}: {by}"


def is_ahead(first: Result, other: Result, comparisons: int) -> bool:
    """Whether the interval of the difference of two results, one of so many comparisons, is above 0."""
    return _ahead_by(first, other).interval(1 - (1 - e.LEVEL) / comparisons)[0] > 0


def trails(other: Result, first: Result, panel: Sequence[Result]) -> str:
    """By how much a result is behind the first of a panel and, if one of them learned, whether they are told apart."""
    if nobody_learned([first, other]):
        return f"behind by {said(_ahead_by(first, other))}"
    apart = is_ahead(first, other, max(len(panel) - 1, 1))
    return f"behind by {said(_ahead_by(first, other))}: {'told apart' if apart else 'not told apart'}"


def change(before: Result, after: Result) -> str:
    """By how much the mean return changed from one result to another, and whether that is told from nothing."""
    by = _ahead_by(after, before)
    low, high = by.interval()
    if nobody_learned([before, after]):
        return f"a change of {said(by)}: {UNDECIDED}, {NOBODY}"
    return f"a change of {said(by)}" + (f": {UNDECIDED}" if low <= 0 <= high else "")


def _ahead_by(first: Result, other: Result) -> e.Estimate:
    return e.difference(e.returns(first), e.returns(other))


def unranked(panel: Sequence[Result]) -> str:
    """The methods that are not ranked, and why; "" if all are, or none is."""
    ranked = contenders(panel)
    others = [called(r) + _why(r) for r in panel if r not in ranked] if ranked else []
    return f"; not ranked: {', '.join(others)}" if others else ""


def _why(result: Result) -> str:
    if not promises(result) and not prices(result):
        return ""  # its name says so
    return " (broke limits)" if result.violations else " (one seed)"


def seeds(panel: Sequence[Result]) -> str:
    """What a curve and its band show, for a caption."""
    counts = sorted({len(r.runs) for r in panel})
    if counts == [1]:
        return "one seed"
    return f"mean and its 95 % t-interval over {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds"
