"""The sweep over lambda, the weight of |u|^2 in the actor's loss: the paper's sensitivity figure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from slewrl.report.data import Cell, Result, Results, grouped
from slewrl.report.figures import radar
from slewrl.report.figures.curves import BANDS, band_of, draw, draw_finals, named, prepared, spanned
from slewrl.report.figures.small_multiples import labelled, panels
from slewrl.report.figures.style import STYLES, Look

OPTION = "penalty_weight"
PALETTE = ("#D62728", "#E6550D", "#756BB1", "#31A354", "#3182BD")
"""Colours from the smallest lambda to the largest: the paper's, but that one of its two oranges is purple."""
SIX = (*PALETTE[:2], "#8C564B", *PALETTE[2:])
"""The same with a colour for the paper's own lambda, which it does not sweep."""
SETTLED = 0.3
"""The share of the training after which a curve decides what the axis spans."""
ByLambda = Mapping[float, Result]


class Swept(NamedTuple):
    """The key of a sweep, whose results differ in lambda and, from panel to panel, in their limits alone."""

    task: str
    agent: str
    method: str
    """Without lambda."""
    steps: int


def sweeps(results: Results) -> dict[Swept, dict[str, dict[float, Result]]]:
    """Sweep -> limits -> lambda -> result, where more than one lambda was tried."""
    found: dict[Swept, dict[str, dict[float, Result]]] = {}
    weighted = [r for r in results if OPTION in r.runs[0].spec.layer_options]
    for (which, limits), there in grouped(weighted, lambda r: (swept(r), r.cell.limits)).items():
        by_lambda = {float(r.runs[0].spec.layer_options[OPTION]): r for r in there}
        if len(by_lambda) > 1:
            found.setdefault(which, {})[limits] = dict(sorted(by_lambda.items()))
    return found


def swept(result: Result) -> Swept:
    """The sweep that a result is part of."""
    words = [word for word in result.cell.method.split() if not word.startswith(f"{OPTION}=")]
    return Swept(result.cell.task, result.cell.agent, " ".join(words), result.cell.steps)


def in_a_sweep(results: Results) -> set[Cell]:
    """The cells whose lambda is one of several: what the ordinary figures leave to the sweep's own."""
    return {r.cell for by_limits in sweeps(results).values() for by in by_limits.values() for r in by.values()}


def returns(sweep: Mapping[str, ByLambda], look: Look) -> Figure:
    """Learning curves of every lambda, a panel for each set of limits.

    The axis spans what comes after the first part of the training: that is where the curves differ.
    """
    figure, axes = panels(look, len(sweep), 2.1, across=look.width)
    for axis, (limits, by_lambda) in zip(axes, sweep.items(), strict=True):
        bands = [band_of(result) for result in by_lambda.values()]
        drawn = zip(by_lambda, bands, colours(by_lambda, look), strict=True)
        few = len(bands) <= BANDS
        lines = [draw(axis, band, *how, f"{value:g}", few) for value, band, how in drawn]
        for result, band, (colour, _) in zip(by_lambda.values(), bands, colours(by_lambda, look), strict=True):
            draw_finals(axis, band, result.returns, colour)
        axis.set_title(f"{limits} limits")
        settled = [band.mean[band.steps >= SETTLED * band.steps[-1]] for band in bands]
        axis.set_ylim(*spanned(*settled, *(r.returns for r in by_lambda.values())))
        prepared(axis, 5)
    named(figure, lines)
    labelled(figure, look, "environment steps (legend: λ)", "return")
    return figure


def utilisation(sweep: Mapping[str, ByLambda], look: Look) -> Figure:
    """Utilisation of each joint at every lambda, a panel each, one set of limits after the other."""
    every = [(limits, value, result) for limits, by in sweep.items() for value, result in by.items()]
    joints = every[0][2].joints
    figure, axes = panels(look, len(every), 1.6, **radar.projection(joints))
    hows = [how for by in sweep.values() for how in colours(by, look)]
    for axis, (limits, value, result), how in zip(axes, every, hows, strict=True):
        radar.prepared(axis, joints, look)
        radar.filled(axis, result.joint_utilisation, *how)
        axis.set_title(f"{limits}, λ = {value:g}")
    said = "|increment| / limit by joint; 1: always as fast as allowed"
    labelled(figure, look, said + radar.key(joints, look))
    return figure


def colours(by_lambda: ByLambda, look: Look) -> Sequence[tuple[str, object]]:
    """A colour and a line for each lambda."""
    n = len(by_lambda)
    palette = PALETTE if n <= len(PALETTE) else SIX
    return [(look.seen(palette[i % len(palette)]), STYLES[i % len(STYLES)]) for i in range(n)]
