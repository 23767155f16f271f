"""How much lambda, the weight of |u|^2 in the actor's loss, matters: the paper's sensitivity figure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from slewrl.report.curves import axes, band_of, draw, named, room_for, scales
from slewrl.report.data import Cell, Result, Results
from slewrl.report.figures import STYLES, Ground, legible, sheet
from slewrl.report.multiples import axes_are
from slewrl.report.panel import Panel, boxes
from slewrl.report.radar import filled, foot, headed, is_round, key, prepared

OPTION = "penalty_weight"
PALETTE = ("#D62728", "#E6550D", "#FDAE6B", "#31A354", "#3182BD")
"""The paper's, from the smallest lambda to the largest."""
SIX = (*PALETTE[:2], "#756BB1", *PALETTE[2:])
"""With the paper's own lambda, which it does not sweep, between its second and third."""
LINES = (*STYLES, (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)))
ByLambda = Mapping[float, Result]


class Swept(NamedTuple):
    """What a sweep is of; results of one sweep differ in lambda and, from panel to panel, in their limits alone."""

    task: str
    agent: str
    method: str
    """Without lambda."""
    steps: int


def weight(result: Result) -> float | None:
    """The lambda that was set; None where the layer's own was used."""
    value = result.runs[0].spec.layer_options.get(OPTION)
    return None if value is None else float(value)


def sweeps(results: Results) -> dict[Swept, dict[str, dict[float, Result]]]:
    """What was swept -> limits -> lambda -> result, where more than one lambda was tried."""
    found: dict[Swept, dict[str, dict[float, Result]]] = {}
    for result in results:
        value = weight(result)
        if value is not None:
            by_limits = found.setdefault(swept(result), {})
            by_limits.setdefault(result.cell.limits, {})[value] = result
    kept = {
        which: {limits: dict(sorted(by.items())) for limits, by in by_limits.items() if len(by) > 1}
        for which, by_limits in found.items()
    }
    return {which: by_limits for which, by_limits in kept.items() if by_limits}


def swept(result: Result) -> Swept:
    """What a result would be part of a sweep of."""
    words = [word for word in result.cell.method.split() if not word.startswith(f"{OPTION}=")]
    return Swept(result.cell.task, result.cell.agent, " ".join(words), result.cell.steps)


def in_a_sweep(results: Results) -> set[Cell]:
    """The cells whose lambda is one of several: what the ordinary figures leave to the sweep's own."""
    return {r.cell for by_limits in sweeps(results).values() for by in by_limits.values() for r in by.values()}


def returns(sweep: Mapping[str, ByLambda], ground: Ground) -> Figure:
    """Learning curves of every lambda, a panel for each set of limits."""
    bands = {limits: [band_of(result) for result in by.values()] for limits, by in sweep.items()}
    ends = {limits: scales(found) for limits, found in bands.items()}
    figure = sheet(0.7 + 2.1 * len(sweep))
    left = max(room_for(ylim) for _, ylim in ends.values())
    there = boxes(figure, len(sweep), 1, left=left, above=0.4, top=0.15)
    for box, (limits, by_lambda) in zip(there, sweep.items(), strict=True):
        panel = Panel(figure, box, *ends[limits])
        drawn = zip(by_lambda, bands[limits], looks(by_lambda, ground), strict=True)
        lines = [draw(panel, band, *look, f"{value:g}") for value, band, look in drawn]
        panel.title(f"{limits} limits", ground.text, 9, "normal")
        axes(panel, ground)
    named(figure, lines)
    axes_are(figure, ground, "environment steps (legend: λ)", "return")
    return figure


def utilisation(sweep: Mapping[str, ByLambda], ground: Ground) -> Figure:
    """What each joint uses of its limit at every lambda: a column of panels for each set of limits."""
    rows = max(len(by_lambda) for by_lambda in sweep.values())
    joints = next(iter(next(iter(sweep.values())).values())).joints
    figure = sheet(foot(joints) + (1.5 if is_round(joints) else 1.2) * rows)
    there = boxes(figure, rows * len(sweep), len(sweep), 0.35, below=foot(joints), gap=0.35)
    for column, (limits, by_lambda) in enumerate(sweep.items()):
        drawn = zip(there[column :: len(sweep)], by_lambda.items(), looks(by_lambda, ground), strict=False)
        for box, (value, result), look in drawn:
            panel = prepared(figure, box, joints, ground)
            filled(panel, result.joint_utilisation, *look)
            headed(panel, box, f"{limits}, λ = {value:g}", ground)
    axes_are(figure, ground, "|increment| / limit by joint; 1: always as fast as allowed" + key(joints))
    return figure


def looks(by_lambda: ByLambda, ground: Ground) -> Sequence[tuple[str, object]]:
    """A colour and a line for each lambda."""
    n = len(by_lambda)
    colours = PALETTE if n <= len(PALETTE) else SIX
    return [(legible(colours[i % len(colours)], ground), LINES[i % len(LINES)]) for i in range(n)]
