"""Learning curves: mean return of the evaluations during training, and one standard deviation over the seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from slewrl.report.data import Array, Result
from slewrl.report.figures import Ground, canvas, legible
from slewrl.report.methods import backbone
from slewrl.report.multiples import axes_are, dashed, panels, reference
from slewrl.report.tables import amount, plus_minus

POINTS = 40
"""Of a curve: more cannot be seen, and make the page larger."""
LIMITS = {"wide": "#1F77B4", "tight": "#D62728"}
"""The paper's colours where wide is compared with tight."""
LIMIT_STYLES = {"wide": "-", "tight": (0, (4, 1.5))}


def learning(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a method, DD-SRad's mean dashed behind it."""
    figure, pairs = panels(results, ground, 1.3, sharex=True, sharey=True)
    behind = reference(results)
    for axis, result in pairs:
        if behind and result is not behind:
            steps, returns = thinned(*behind.curve())
            axis.plot(steps, returns.mean(0), **dashed(ground))
        band(axis, result, legible(result.layer, ground))
        said = plus_minus(result.score, amount)
        axis.text(0.05, 0.97, said, transform=axis.transAxes, fontsize=7.5, va="top", color=ground.text)
        steps_axis(axis)
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"environment steps (number: final evaluation{dashes})", "return")
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], ground: Ground) -> Figure:
    """Limits -> result of one method, for each task and backbone: what the tight limits cost."""
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = canvas(0.6 + (1.7 if columns > 1 else 2.3) * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, pair in zip(axes, pairs, strict=False):
        for limits, result in pair.items():
            band(axis, result, legible(LIMITS[limits], ground), LIMIT_STYLES[limits], limits)
        cell = next(iter(pair.values())).cell
        axis.set_title(f"{cell.task} {backbone(cell.agent)}", loc="left", fontsize=8.5)
        steps_axis(axis)
    for axis in axes[len(pairs) :]:
        axis.set_axis_off()
    named(figure, ground)
    axes_are(figure, ground, "environment steps", "return")
    return figure


def named(figure: Figure, ground: Ground) -> None:
    """A legend of what the first panel shows, above all of them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper right", ncols=len(labels), frameon=False, fontsize=8.5, handlelength=2.4
    )


def band(axis: Any, result: Result, colour: str, style: Any = "-", name: str | None = None) -> None:
    """The mean as a line, one standard deviation to either side as a band."""
    steps, returns = thinned(*result.curve())
    mean = returns.mean(0)
    axis.plot(steps, mean, color=colour, linestyle=style, linewidth=1.6, label=name, zorder=3)
    if len(returns) > 1:
        std = returns.std(0, ddof=1)
        axis.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0, zorder=1)


def thinned(steps: Array, returns: Array) -> tuple[Array, Array]:
    """At most `POINTS` of the evaluations, the first and the last among them: steps (n,), returns (seeds, n)."""
    kept = np.unique(np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int))
    return steps[kept], returns[:, kept]


def steps_axis(axis: Any) -> None:
    """Steps as 60k and 1.5M; few ticks, for a panel is small."""
    axis.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}".replace(",", " ").replace("-", "−")))
    axis.tick_params(labelsize=7.5, length=2)
    axis.grid(axis="y")


def short(value: float) -> str:
    """60000 as 60k, 1.5e6 as 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
