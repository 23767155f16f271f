"""Who came first, and among whom: what is the best of one, or leaves others out in silence, misleads."""

from collections.abc import Sequence

from slewrl.report.data import Result
from slewrl.report.methods import called, prices, promises
from slewrl.report.tables import amount, contenders, plus_minus


def best(panel: Sequence[Result]) -> Result:
    """The highest mean return of a method that kept every limit; of any, if none did."""
    return max(contenders(panel) or panel, key=lambda r: r.score.mean)


def lead(panel: Sequence[Result]) -> str:
    """Who has the highest mean return, and of how many; of one method what it returns, for there is nothing to lead."""
    first, ranked = best(panel), contenders(panel)
    name, score = called(first), plus_minus(first.score, amount)
    if len(panel) == 1:
        return f"{name}, the only method so far, returns {score}"
    seeds = "with at least two seeds " if len(first.runs) > 1 else ""
    if len(ranked) == 1:
        return f"{name}, the only method {seeds}that kept every limit, returns {score}"
    among = f"{len(ranked)} methods {seeds}that kept every limit"
    if not ranked:
        among = f"{len(panel)} methods, none of which kept every limit"
    return f"of the {among}, {name} has the highest mean return, {score}"


def unranked(panel: Sequence[Result]) -> str:
    """The others, and why they do not compete; "" if all do, or none does."""
    ranked = contenders(panel)
    words = [called(r) + _why(r) for r in panel if r not in ranked] if ranked else []
    return f"; not ranked: {', '.join(words)}" if words else ""


def _why(result: Result) -> str:
    if not promises(result) and not prices(result):
        return ""  # its name says so
    return " (broke limits)" if result.violations else " (one seed)"


def seeds(panel: Sequence[Result]) -> str:
    """What a curve with its band is of."""
    counts = sorted({len(r.runs) for r in panel})
    if counts == [1]:
        return "one seed"
    return f"mean and one standard deviation over {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds"
