"""How much two methods of a campaign vary over their seeds: what a plan for more seeds starts from."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slewrl.report import estimates as e
from slewrl.report.data import Result, Results
from slewrl.report.methods import backbone
from slewrl.report.stats import Interval, std_interval
from slewrl.report.tables import count


class Spread(NamedTuple):
    """Of two methods in one place."""

    where: str
    """Task, limits, backbone and budget."""
    sd: float
    """Pooled over both methods."""
    sd_interval: Interval
    difference: e.Estimate
    """Of their mean returns, the first less the second."""
    correlation: float
    """Of their returns over the seeds they share; nan without three of them."""


def spreads(results: Results, layers: Sequence[str]) -> list[Spread]:
    """One for each place where both layers were run as they ship with at least two seeds."""
    if len(layers) != 2:
        raise ValueError(f"--layers is {' '.join(layers) or 'missing'}, expected two, such as: --layers ddsrad boxpro")
    one, other = (results.where(method=layer) for layer in layers)
    there = {r.cell._replace(method=""): r for r in other}
    pairs = [(r, there[cell]) for r in one if (cell := r.cell._replace(method="")) in there]
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
    cell = one.cell
    where = f"{cell.task}, {cell.limits} limits, {backbone(cell.agent)}, {count(cell.steps)} steps"
    return Spread(where, sd, std_interval(sd, df + 1), e.difference(x, y), _correlation(x, y))


def _correlation(x: e.Sample, y: e.Sample) -> float:
    shared = sorted(set(x) & set(y))
    both = np.array([[side[seed] for seed in shared] for side in (x, y)])
    return float(np.corrcoef(both)[0, 1]) if len(shared) > 2 and both.std(1).all() else math.nan
