"""What the seeds say one by one: each one's return, the mean with its t-interval, and how often DD-SRad is beaten.

Of three seeds a mean hides as much as it shows, so up to `FEW` are all there to be read.
"""

import math
from collections.abc import Callable, Iterable

from slewrl.report.data import Result, Results
from slewrl.report.estimates import LEVEL
from slewrl.report.methods import LABELS
from slewrl.report.multiples import REFERENCE
from slewrl.report.stats import Interval, improvement_interval, probability_of_improvement, t_interval
from slewrl.report.tables import Column, Table, amount, score_of, tables

FEW = 5
"""Seeds that are shown one by one."""
Chance = tuple[float, float, float]
"""A probability, and both ends of its interval."""
HEADING = f"P(> {LABELS[REFERENCE]})"
METHOD = (
    "95 % intervals: of the mean by Student’s t over the seeds; of P, the chance that a run is better than one of "
    f"{LABELS[REFERENCE]}’s (ties count half), by Clopper and Pearson with as many trials as the side with fewer seeds"
)
"""How the intervals are made, for a legend."""


def by_seed(result: Result) -> str:
    """Every seed's return, in the order of the seeds; of many how many they are."""
    if len(result.runs) > FEW:
        return f"{len(result.runs)} seeds"
    ordered = sorted(zip((run.spec.seed for run in result.runs), result.returns.tolist(), strict=True))
    return ", ".join(amount(value) for _, value in ordered)


def interval(result: Result) -> Interval:
    """Of the mean return, by t; without ends of one seed."""
    return t_interval(result.returns, LEVEL)


def mean_and_interval(result: Result) -> str:
    """The mean return and its interval; one seed has none."""
    return amount(result.score.mean) + _brackets(interval(result), amount)


def reference_of(result: Result, panel: Iterable[Result]) -> Result | None:
    """What a result is compared with: DD-SRad in the same place at the same budget; None for itself."""
    wanted = result.cell._replace(method=REFERENCE)
    return next((other for other in panel if other.cell == wanted and other is not result), None)


def improvement(result: Result, panel: Iterable[Result]) -> Chance | None:
    """P(a run is better than one of DD-SRad's), and its interval; None without any to compare with."""
    other = reference_of(result, panel)
    if other is None:
        return None
    chance = probability_of_improvement(result.returns, other.returns)
    return chance, *improvement_interval(result.returns, other.returns, LEVEL)


def improvement_text(result: Result, panel: Iterable[Result]) -> str:
    """As a cell has it."""
    found = improvement(result, panel)
    return "–" if found is None else f"{found[0]:.2f}{_brackets(found[1:], '{:.2f}'.format)}"


def _brackets(ends: Interval, show: Callable[[float], str]) -> str:
    low, high = ends
    return "" if math.isinf(low) or math.isinf(high) else f" ({show(low)} to {show(high)})"


COLUMNS = (
    Column("by seed", score_of, amount, text=lambda result, panel: by_seed(result)),
    Column("mean (95 %)", score_of, amount, text=lambda result, panel: mean_and_interval(result)),
    Column(HEADING, score_of, amount, text=improvement_text),
)


def seed_tables(results: Results) -> list[Table]:
    """One for each backbone under each set of limits: returns seed by seed."""
    found: dict[tuple[str, str], list[Result]] = {}
    for table in tables(results):
        there: list[Result] = found.setdefault((table.limits, table.agent), [])
        there += [result for result in table.results if result not in there]
    says = f"final return of every seed, where there are no more than {FEW}; {METHOD}"
    return [
        Table(limits, agent, tuple(there), COLUMNS, "return, seed by seed", says=says)
        for (limits, agent), there in found.items()
    ]
