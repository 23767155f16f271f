"""What all tasks say together: means with intervals, and performance profiles.

With enough runs the mean is the interquartile one, with a bootstrap interval over the seeds; with fewer, where a
bootstrap is far too narrow (of three runs their range), it is the plain mean with a t-interval. One run has neither.

Returns of different tasks have different units, so each is put on a scale where 0 is the worst run of its task under
the same limits and with the same backbone, and 1 the best: of the methods with a limit, since others do not contend.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slewrl.report.curves import ticks
from slewrl.report.data import Array, Result
from slewrl.report.estimates import LEVEL
from slewrl.report.figures import Ground, legible, sheet
from slewrl.report.methods import called, in_order, promises
from slewrl.report.multiples import axes_are, dashed, places, reference, title
from slewrl.report.panel import Panel, around, boxes, dashes
from slewrl.report.stats import around as t_around
from slewrl.report.stats import iqm, iqms, performance_profile, satterthwaite, stratified_bootstrap
from slewrl.report.words import width_of

SAMPLES = 1000
TAUS = np.linspace(0, 1, 51)
TICKS = (0, 0.5, 1)
ENOUGH_RUNS, ENOUGH_SCORES = 5, 10
"""Of each task and in all, for a bootstrap interval that holds what it should 90 times of 100 or more."""

Scores = dict[str, list[Array]]
"""Method -> an array of normalised scores for each task it was run on."""


def normalised(results: Sequence[Result]) -> Scores:
    """Results of one backbone under one set of limits, on a common scale."""
    scores: Scores = {}
    for task in dict.fromkeys((r.cell.task, r.cell.steps) for r in results):
        there = [r for r in in_order(list(results)) if (r.cell.task, r.cell.steps) == task]
        runs = np.concatenate([r.returns for r in there if promises(r)] or [r.returns for r in there])
        low, span = runs.min(), np.ptp(runs) or 1.0
        for r in there:
            scores.setdefault(r.cell.method, []).append((r.returns - low) / span)
    return scores


def enough(scores: Scores) -> bool:
    """Whether every method has enough runs for an interquartile mean and its bootstrap."""
    return all(min(map(len, runs)) >= ENOUGH_RUNS and sum(map(len, runs)) >= ENOUGH_SCORES for runs in scores.values())


def drawable(results: Sequence[Result]) -> list[Result]:
    """Results of the methods that have an interval: those with more than one seed of every task."""
    alone = {r.cell.method for r in results if len(r.runs) < 2}
    return [r for r in results if r.cell.method not in alone]


def interval(scores: list[Array], trimmed: bool) -> tuple[float, float, float]:
    """A mean over the tasks and its 95 % interval over the seeds: value, low, high.

    ``trimmed``: the interquartile mean with its bootstrap; otherwise the mean of the tasks' means with a t-interval,
    its degrees of freedom by Welch and Satterthwaite.
    """
    if trimmed:
        low, high = stratified_bootstrap(scores, iqms, SAMPLES, at_once=True)
        return iqm(scores), float(low), float(high)
    errors = [float(runs.var(ddof=1)) / len(runs) / len(scores) ** 2 for runs in scores]
    df = satterthwaite(errors, [len(runs) - 1 for runs in scores])
    value = float(np.mean([runs.mean() for runs in scores]))
    return value, *t_around(value, float(np.sqrt(sum(errors))), df, LEVEL)


def means(results: Sequence[Result], ground: Ground) -> Figure:
    """`drawable` results of one backbone under one set of limits: a dot and its interval for each method."""
    scores = normalised(results)
    trimmed = enough(scores)
    layers, names = ({r.cell.method: of(r) for r in results} for of in (lambda r: r.layer, called))
    found = {method: interval(values, trimmed) for method, values in scores.items()}
    size = 8.5
    left = 0.15 + max(width_of(name, size) for name in names.values())
    figure = sheet(0.8 + 0.24 * len(scores))
    xlim = around(np.array(list(found.values())))
    panel = Panel(figure, boxes(figure, 1, 1, left, above=0.05, below=0.6)[0], xlim, (len(scores) - 0.5, -0.5))
    for i, (method, (value, low, high)) in enumerate(found.items()):
        colour = legible(layers[method], ground)
        panel.words(xlim[0], i, names[method], -0.06, ha="right", va="center", fontsize=size, color=ground.text)
        panel.line([low, high], [i, i], color=colour, linewidth=2.2, solid_capstyle="round")
        panel.line([value], [i], marker="o", color=colour, markersize=6, markeredgecolor=ground.card, zorder=3)
    at = ticks(xlim, MaxNLocator(6))
    panel.x_axis(ground, at, [f"{tick:.1f}".replace("-", "−") for tick in at])
    panel.line(*dashes(at, *panel.ylim), color=ground.line, linewidth=0.6, zorder=0.5)
    which, line = ("interquartile mean", "bootstrap") if trimmed else ("mean", "t")
    axes_are(figure, ground, f"{which} (0: worst run of a task, 1: best)\nline: 95 % {line} interval")
    return figure


def profiles(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one backbone under one set of limits: the share of runs above each score, a panel a method."""
    scores = normalised(results)
    one_each = list({r.cell.method: r for r in results}.values())
    figure, there = places(one_each, 1.2, left=0.5, gap=0.25)
    behind = reference(one_each)
    for place in there:
        panel, result = Panel(figure, place.box, (0, 1), (0, 1.05)), place.result
        title(panel, result, ground)
        if behind and result is not behind:
            panel.line(*profile(scores[behind.cell.method]), **dashed(ground))
        taus, share = profile(scores[result.cell.method])
        panel.line(taus, share, color=legible(result.layer, ground), linewidth=1.6, zorder=3)
        panel.area(taus, 0 * share, share, legible(result.layer, ground), 0.15)
        panel.x_axis(ground, TICKS, [f"{tick:g}" for tick in TICKS], place.last)
        panel.y_axis(ground, TICKS, [f"{tick:g}" for tick in TICKS], place.first)
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"score τ (0: worst run of a task, 1: best{dashes})", "share of runs above τ")
    return figure


def profile(scores: list[Array]) -> tuple[Array, Array]:
    """Scores and the share of runs above each: the corners of its steps."""
    share = performance_profile(scores, TAUS)
    return np.repeat(TAUS, 2)[1:], np.repeat(share, 2)[:-1]
