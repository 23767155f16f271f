"""Learning curves: mean return of the evaluations during training, its 95 % t-interval, and few seeds one by one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from slewrl.report.data import Array, Result
from slewrl.report.distributions import t_quantile
from slewrl.report.estimates import LEVEL
from slewrl.report.figures import Ground, legible, sheet
from slewrl.report.methods import backbone
from slewrl.report.multiples import axes_are, dashed, places, reference, title
from slewrl.report.panel import SMALL, Limits, Panel, around, boxes
from slewrl.report.tables import amount, plus_minus
from slewrl.report.words import width_of

FEW = 5
"""Seeds whose curves are drawn one by one."""
POINTS = 40
"""Of a curve: more cannot be seen, and make the page larger."""
LIMITS = {"wide": "#1F77B4", "tight": "#D62728"}
"""The paper's colours where wide is compared with tight."""
LIMIT_STYLES = {"wide": "-", "tight": (0, (4, 1.5))}


class Band(NamedTuple):
    """A curve, and what its seeds say of it."""

    steps: Array
    """(n,)."""
    runs: Array
    """Return by seed, (seeds, n)."""
    half: Array
    """Of the 95 % t-interval of the mean, (n,); 0 of one seed, which has none."""

    @property
    def mean(self) -> Array:
        """Over the seeds, (n,)."""
        mean: Array = self.runs.mean(0)
        return mean


def learning(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a method, DD-SRad's mean dashed behind it."""
    bands = {result.cell: band_of(result) for result in results}
    xlim, ylim = scales(list(bands.values()))
    figure, there = places(results, 1.3, left=room_for(ylim))
    behind = reference(results)
    for place in there:
        result, panel = place.result, Panel(figure, place.box, xlim, ylim)
        title(panel, result, ground)
        if behind and result is not behind:
            panel.line(bands[behind.cell].steps, bands[behind.cell].mean, **dashed(ground))
        draw(panel, bands[result.cell], legible(result.layer, ground))
        draw_seeds(panel, bands[result.cell], legible(result.layer, ground))
        said = plus_minus(result.score, amount)
        panel.words(xlim[0], ylim[1], said, 0.05, -0.02, fontsize=SMALL, va="top", color=ground.text)
        axes(panel, ground, place.last, place.first)
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"environment steps (number: final evaluation{dashes})", "return")
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], ground: Ground) -> Figure:
    """Limits -> result of one method, for each task and backbone: what the tight limits cost."""
    bands = [{limits: band_of(result) for limits, result in pair.items()} for pair in pairs]
    ends = [scales(list(both.values())) for both in bands]
    columns = min(2, len(pairs))
    left = max(room_for(ylim) for _, ylim in ends)
    figure = sheet(0.8 + (1.7 if columns > 1 else 2.3) * -(-len(pairs) // columns))
    gap = left - 0.1 if columns > 1 else 0.0
    there = boxes(figure, len(pairs), columns, left=left, gap=gap, above=0.4, below=0.35, top=0.1)
    for box, pair, both, (xlim, ylim) in zip(there, pairs, bands, ends, strict=True):
        panel = Panel(figure, box, xlim, ylim)
        lines = [draw(panel, b, legible(LIMITS[name], ground), LIMIT_STYLES[name], name) for name, b in both.items()]
        cell = next(iter(pair.values())).cell
        panel.title(f"{cell.task} {backbone(cell.agent)}", ground.text, 8.5, "normal")
        axes(panel, ground)
    named(figure, lines)
    axes_are(figure, ground, "environment steps", "return")
    return figure


def named(figure: Figure, lines: Sequence[Line2D]) -> None:
    """A legend above all panels."""
    figure.legend(
        handles=lines,
        loc="upper right",
        ncols=len(lines),
        frameon=False,
        fontsize=8.5,
        handlelength=2.4,
        borderaxespad=0.1,
    )


def band_of(result: Result) -> Band:
    """What is drawn of a result."""
    steps, returns = thinned(*result.curve())
    n = len(returns)
    half = t_quantile((1 + LEVEL) / 2, n - 1) * returns.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(steps))
    return Band(steps, returns, half)


def draw(panel: Panel, band: Band, colour: str, style: Any = "-", name: str = "") -> Line2D:
    """The mean as a line, its interval as a band, which may go on beyond the panel."""
    if band.half.any():
        low, high = (np.clip(band.mean + side * band.half, *panel.ylim) for side in (-1, 1))
        panel.area(band.steps, low, high, colour, 0.15)
    return panel.line(band.steps, band.mean, color=colour, linestyle=style, linewidth=1.6, label=name, zorder=3)


def draw_seeds(panel: Panel, band: Band, colour: str) -> None:
    """Every seed as a thin line, where they are few."""
    if 1 < len(band.runs) <= FEW:
        gap = np.full((len(band.runs), 1), np.nan)
        steps = np.tile(np.append(band.steps, np.nan), len(band.runs))
        panel.line(steps, np.hstack([band.runs, gap]).ravel(), color=colour, linewidth=0.6, alpha=0.6, zorder=2.5)


def scales(bands: Sequence[Band]) -> tuple[Limits, Limits]:
    """Ends of both axes for curves that share them: all seeds are to be seen, the intervals of two are too wide."""
    steps = around(*(band.steps for band in bands))
    return steps, around(*(band.runs for band in bands))


def thinned(steps: Array, returns: Array) -> tuple[Array, Array]:
    """At most `POINTS` of the evaluations, the first and the last among them: steps (n,), returns (seeds, n)."""
    kept = np.unique(np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int))
    return steps[kept], returns[:, kept]


def axes(panel: Panel, ground: Ground, below: bool = True, left: bool = True) -> None:
    """Steps as 60k and 1.5M; few ticks, for a panel is small. ``below``, ``left``: which axis has numbers."""
    steps = ticks(panel.xlim, MaxNLocator(2, integer=True))
    panel.x_axis(ground, steps, [short(value) for value in steps], below)
    returns = ticks(panel.ylim, MaxNLocator(4))
    panel.y_axis(ground, returns, [grouped(value) for value in returns], left)


def room_for(ylim: Limits) -> float:
    """Inches at the left of a panel for the numbers of its y axis, and for what they are."""
    return 0.27 + max(width_of(grouped(value), SMALL) for value in ticks(ylim, MaxNLocator(4)))


def ticks(ends: Limits, locator: MaxNLocator) -> list[float]:
    """Round numbers between the ends of an axis."""
    return [float(value) for value in locator.tick_values(*ends) if ends[0] <= value <= ends[1]]


def grouped(value: float) -> str:
    """A return: 12000 as 12 000, with a minus as long as a plus."""
    return f"{value:,g}".replace(",", " ").replace("-", "−")


def short(value: float) -> str:
    """60000 as 60k, 1.5e6 as 1.5M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
