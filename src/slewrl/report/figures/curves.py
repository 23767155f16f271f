"""Learning curves: mean return of the evaluations during training, its 95 % t-interval, and few seeds one by one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from slewrl.report.data import Array, Result
from slewrl.report.distributions import t_quantile
from slewrl.report.estimates import LEVEL
from slewrl.report.figures.small_multiples import by_method, dashed, labelled, panels, reference
from slewrl.report.figures.style import SMALL, STYLES, Look, canvas
from slewrl.report.methods import backbone, called
from slewrl.report.ranking import by_return
from slewrl.report.tables import amount, plus_minus

FEW = 5
"""Seeds whose curves are drawn one by one."""
BANDS = 4
"""Most curves in one panel whose intervals can be told apart; of more, only the dots of the seeds are drawn."""
POINTS = 40
"""Most points of a curve: more cannot be seen, and make the page larger."""
LIMITS = {"wide": "#1F77B4", "tight": "#D62728"}
"""The paper's colours where wide is compared with tight."""
LIMIT_STYLES = {"wide": "-", "tight": (0, (4, 1.5))}


class Band(NamedTuple):
    """A learning curve with its seeds and its interval."""

    steps: Array
    """(n,)."""
    runs: Array
    """Return by seed, (seeds, n)."""
    half: Array
    """Half the 95 % t-interval of the mean, (n,); 0 of one seed, which has none."""

    @property
    def mean(self) -> Array:
        """Mean over the seeds, (n,)."""
        return self.runs.mean(0)


def learning(results: Sequence[Result], look: Look) -> Figure:
    """Results of one task, limits and backbone: one panel per method, DD-SRad's mean dashed behind it."""
    bands = {result.cell: band_of(result) for result in results}
    figure, there = by_method(look, results, 1.25, sharex=True, sharey=True)
    behind = reference(results)
    for result, axis in there:
        colour, band = look.colour(result.layer), bands[result.cell]
        if behind and result is not behind:
            axis.plot(bands[behind.cell].steps, bands[behind.cell].mean, **dashed(look))
        draw(axis, band, colour)
        if 1 < len(band.runs) <= FEW:
            axis.plot(band.steps, band.runs.T, color=colour, linewidth=0.6, alpha=0.6, zorder=2.5)
        draw_finals(axis, band, result.returns, colour)
        place: dict[str, Any] = {"transform": axis.transAxes, "va": "top", "fontsize": SMALL}
        axis.text(0.04, 0.97, plus_minus(result.score, amount), **place)
        prepared(axis)
    there[0][1].set_ylim(*spanned(*(band.runs for band in bands.values()), *(r.returns for r in results)))
    dashes = "; dashed: DD-SRad" if behind else ""
    labelled(figure, look, f"environment steps (number and dots: final evaluation{dashes})", "return")
    return figure


def overlay(results: Sequence[Result], look: Look) -> Figure:
    """All methods of one task, limits and backbone in one panel, as papers have it: the best first in the legend."""
    figure = canvas(look, 0.75 * look.width + 0.15 * len(results) / 2)
    axis = figure.subplots()
    drawn: dict[str, int] = {}
    few = len(results) <= BANDS
    for result in by_return(results):
        style = STYLES[drawn.setdefault(result.layer, 0) % len(STYLES)]  # a layer with other options: another line
        drawn[result.layer] += 1
        draw(axis, band_of(result), look.colour(result.layer), style, called(result), few)
        draw_finals(axis, band_of(result), result.returns, look.colour(result.layer))
    axis.set_ylim(*spanned(*(band_of(result).runs for result in results), *(result.returns for result in results)))
    prepared(axis, 5)
    axis.set(xlabel="environment steps", ylabel="return")
    figure.legend(loc="outside lower center", ncols=max(1, round(look.width / 1.8)), handlelength=2.6)
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], look: Look) -> Figure:
    """Limits -> result of one method, for each task and backbone: what the tight limits cost."""
    figure, axes = panels(look, len(pairs), 1.7, across=2.2)
    for axis, pair in zip(axes, pairs, strict=True):
        bands = {limits: band_of(result) for limits, result in pair.items()}
        lines = [draw(axis, b, look.seen(LIMITS[name]), LIMIT_STYLES[name], name) for name, b in bands.items()]
        cell = next(iter(pair.values())).cell
        axis.set_title(f"{cell.task} {backbone(cell.agent)}")
        axis.set_ylim(*spanned(*(band.runs for band in bands.values())))
        prepared(axis)
    named(figure, lines)
    labelled(figure, look, "environment steps", "return")
    return figure


def named(figure: Figure, lines: Sequence[Any]) -> None:
    """A legend above all panels."""
    figure.legend(handles=list(lines), loc="outside upper right", ncols=len(lines), handlelength=2.4)


def band_of(result: Result) -> Band:
    """The learning curve of a result."""
    steps, returns = thinned(*result.curve())
    n = len(returns)
    half = t_quantile((1 + LEVEL) / 2, n - 1) * returns.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(steps))
    return Band(steps, returns, half)


def draw(axis: Axes, band: Band, colour: str, style: Any = "-", name: str = "", shaded: bool = True) -> Line2D:
    """The mean as a line, its interval as a band, which may go on beyond the panel; one seed has no band."""
    if len(band.runs) > 1 and shaded:
        edges = (band.mean - band.half, band.mean + band.half)
        axis.fill_between(band.steps, *edges, color=colour, alpha=0.15, linewidth=0, zorder=1)
    label = name or "_"
    return axis.plot(band.steps, band.mean, color=colour, linestyle=style, linewidth=1.6, label=label, zorder=3)[0]


def draw_finals(axis: Axes, band: Band, finals: Array, colour: str) -> None:
    """A dot for each seed's return in the final evaluation; one seed is its own mean."""
    if len(finals) > 1:
        last = np.full(len(finals), band.steps[-1])
        axis.plot(last, finals, "o", color=colour, markersize=2.5, alpha=0.8, zorder=4, clip_on=False)


def spanned(*values: Array, margin: float = 0.05) -> tuple[float, float]:
    """The ends of an axis that shows all values, with some room."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    room = margin * (high - low) or 0.5
    return low - room, high + room


def thinned(steps: Array, returns: Array) -> tuple[Array, Array]:
    """At most `POINTS` of the evaluations, the first and the last among them: steps (n,), returns (seeds, n)."""
    kept = np.unique(np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int))
    return steps[kept], returns[:, kept]


def prepared(axis: Axes, ticks: int = 2) -> None:
    """Steps as 60k and 1.5M, returns as 12 000; few ticks, for a panel is small."""
    axis.xaxis.set_major_locator(MaxNLocator(ticks, integer=True))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}".replace(",", " ").replace("-", "−")))
    axis.grid(axis="y")
