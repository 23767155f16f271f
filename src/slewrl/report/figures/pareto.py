"""Return against calm: every way to make commands calmer is a curve over its weight, every seed a dot."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slewrl.report.calm import over_seeds, second_difference
from slewrl.report.data import Cell, Result, Results, grouped
from slewrl.report.figures.style import SMALL, STYLES, Look, canvas
from slewrl.report.methods import label
from slewrl.report.stats import t_interval

MEASURE = "second_difference"
KNOBS = {
    "calm": "calm",
    "caps": "CAPS",
    "caps_spatial": "CAPS, spatial",
    "l2c2": "L2C2",
    "action_rate_l2": "action-rate price",
    "cutoff": "cut-off, Hz",
}
"""Option of the agent or the task that makes commands calmer -> its name."""
COLOURS = ("#D62728", "#8C2BEE", "#17BECF", "#1F77B4", "#2CA02C", "#FF7F0E", "#E377C2", "#8C564B", "#BCBD22", "#444444")
MARKS = "osD^vPX*<>"
HEIGHT = 4.2
"""Inches."""
WIDE = 1.5
"""How many times the usual width."""

DECADE, QUARTER = 10.0, 0.25
SMALLEST = 1e-3
"""Where an interval of a second difference ends that goes on below: an axis of decades has no 0."""


class Curve(NamedTuple):
    """One way to make commands calmer."""

    method: str
    """The method without its weight."""
    knob: str
    """The option that is its weight; "" for a single point."""
    results: tuple[tuple[float, Result], ...]
    """Weights, rising, and their results."""

    def called(self, agent: str) -> str:
        """Its name in the legend."""
        return label(self.method, agent) + (f": {KNOBS[self.knob]}" if self.knob else "")


def weight_of(result: Result) -> tuple[str, float]:
    """The knob that a result has turned, and how far; "" and 0 if none is, or more than one."""
    spec = result.runs[0].spec
    options = {**spec.agent_options, **spec.task_options}
    turned = [(name, float(options[name])) for name in KNOBS if options.get(name)]
    return turned[0] if len(turned) == 1 else ("", 0.0)


def _without(result: Result, knob: str) -> str:
    """The method without its weight, and without the same knob at 0."""
    words = result.cell.method.split()
    off = [f"{name}=0" for name in KNOBS] + [f"{name}=0.0" for name in KNOBS]
    return " ".join(word for word in words if word not in off and not (knob and word.startswith(f"{knob}=")))


def curves(results: Results) -> dict[Cell, list[Curve]]:
    """Cell without a method -> the curves there, where any method has a weight and there is another point."""
    found = {}
    for place, there in grouped(results, lambda r: r.cell.place).items():
        known = [r for r in there if np.isfinite(over_seeds(r, MEASURE))]
        keyed = grouped(known, lambda r: (_without(r, weight_of(r)[0]), weight_of(r)[0]))
        plain = {method: members[0] for (method, knob), members in keyed.items() if not knob}
        made = [_curve(method, knob, members, plain) for (method, knob), members in keyed.items() if knob]
        part = {method for method, knob in keyed if knob}
        made += [Curve(method, "", ((0.0, r),)) for method, r in plain.items() if method not in part]
        if any(curve.knob for curve in made) and len(known) > 1:
            found[place] = made
    return found


def _curve(method: str, knob: str, members: Sequence[Result], plain: Mapping[str, Result]) -> Curve:
    """A curve over a weight; it begins with the same method without it, if that was run."""
    points = [(weight_of(r)[1], r) for r in members]
    if method in plain:
        points.append((0.0, plain[method]))
    return Curve(method, knob, tuple(sorted(points, key=lambda point: point[0])))


def swept(results: Results) -> set[Cell]:
    """The cells of these curves but for their beginnings: what the ordinary figures leave to this one."""
    every = [point for there in curves(results).values() for curve in there for point in curve.results]
    return {result.cell for _, result in every if weight_of(result)[0]}


def pareto(found: Sequence[Curve], agent: str, look: Look) -> Figure:
    """Return against the mean second difference, one curve per method; up and to the left is better."""
    figure = canvas(Look(look.ground, look.width * WIDE, look.own), HEIGHT)
    panel(figure.subplots(), found, agent, look, [curve.called(agent) for curve in found])
    figure.supxlabel("mean second difference of the commands / limit (less is calmer)")
    figure.supylabel("return")
    figure.legend(loc="outside lower center", ncols=2, fontsize=SMALL)
    return figure


def panel(axis: Axes, found: Sequence[Curve], agent: str, look: Look, names: Sequence[str]) -> None:
    """One task's curves; a name's place in ``names`` decides its colour and mark, the same in every panel."""
    for curve in found:
        i = names.index(curve.called(agent))
        colour, mark = look.seen(COLOURS[i % len(COLOURS)]), MARKS[i % len(MARKS)]
        results = [result for _, result in curve.results]
        x, y = [over_seeds(r, MEASURE) for r in results], [r.score.mean for r in results]
        style = STYLES[(i // len(COLOURS)) % len(STYLES)]
        axis.plot(x, y, color=colour, marker=mark, markersize=4.5, linewidth=1.1, linestyle=style, zorder=3)
        axis.plot([], [], color=colour, marker=mark, markersize=4.5, linestyle=style, label=curve.called(agent))
        for result in results:
            _seeds(axis, result, colour, mark)
        for (weight, result), at in zip(curve.results, zip(x, y, strict=True), strict=True):
            if weight_of(result)[0]:
                axis.annotate(f"{weight:g}", at, (3, 3), textcoords="offset points", fontsize=SMALL - 1, color=colour)
    _scale(axis, [over_seeds(result, MEASURE) for curve in found for _, result in curve.results])
    axis.grid(visible=True)


def _seeds(axis: Axes, result: Result, colour: str, mark: str) -> None:
    """A small mark for each seed; of several, the 95 % t-intervals of both means as a cross."""
    each = np.array([second_difference(run) for run in result.runs])
    axis.scatter(each, result.returns, s=7, color=colour, alpha=0.45, linewidths=0, marker=mark, zorder=2)
    if len(each) > 1:
        (left, right), (low, high) = t_interval(each), t_interval(result.returns)
        axis.plot([max(left, SMALLEST), right], [result.score.mean] * 2, color=colour, linewidth=0.8, alpha=0.6)
        axis.plot([each.mean()] * 2, [low, high], color=colour, linewidth=0.8, alpha=0.6)


def _scale(axis: Axes, values: Sequence[float]) -> None:
    """From 0 on, or in decades where a quarter of the points are a decade calmer than the least calm."""
    if min(values) > 0 and np.quantile(values, QUARTER) < max(values) / DECADE:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axis.set_xlim(left=0)


def undominated(found: Sequence[Curve]) -> list[tuple[Curve, float, Result]]:
    """The points than which none has both a higher mean return and a smaller second difference."""
    points = [(curve, weight, result) for curve in found for weight, result in curve.results]
    places = [(result.score.mean, -over_seeds(result, MEASURE)) for _, _, result in points]
    best, seen = [], set()
    for point, place in sorted(zip(points, places, strict=True), key=lambda pair: -pair[1][0]):
        beaten = any(all(a >= b for a, b in zip(other, place, strict=True)) and other != place for other in places)
        if not beaten and point[2].cell not in seen:
            seen.add(point[2].cell)
            best.append(point)
    return best
