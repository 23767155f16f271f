"""What all tasks say together: interquartile means with bootstrap intervals, and performance profiles.

Returns of different tasks have different units, so each is put on a scale where 0 is the worst run of its task under
the same limits and with the same backbone, and 1 the best: of the methods with a limit, since others do not contend.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from slewrl.report.data import Array, Result
from slewrl.report.figures import Ground, canvas, legible
from slewrl.report.methods import UNLIMITED, in_order, label
from slewrl.report.multiples import axes_are, dashed, places, reference, title
from slewrl.report.panel import Panel
from slewrl.stats import iqm, iqms, performance_profile, stratified_bootstrap

SAMPLES = 1000
TAUS = np.linspace(0, 1, 51)
TICKS = (0, 0.5, 1)

Scores = dict[str, list[Array]]
"""Method -> an array of normalised scores for each task it was run on."""


def normalised(results: Sequence[Result]) -> Scores:
    """Results of one backbone under one set of limits, on a common scale."""
    scores: Scores = {}
    for task in dict.fromkeys((r.cell.task, r.cell.steps) for r in results):
        there = [r for r in in_order(list(results)) if (r.cell.task, r.cell.steps) == task]
        runs = np.concatenate([r.returns for r in there if r.layer != UNLIMITED] or [r.returns for r in there])
        low, span = runs.min(), np.ptp(runs) or 1.0
        for r in there:
            scores.setdefault(r.cell.method, []).append((r.returns - low) / span)
    return scores


def interval(scores: list[Array]) -> tuple[float, float, float]:
    """Interquartile mean, and its 95 % bootstrap interval over the seeds: value, low, high."""
    low, high = stratified_bootstrap(scores, iqms, SAMPLES, at_once=True)
    return iqm(scores), float(low), float(high)


def interquartile_means(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one backbone under one set of limits: a dot and its interval for each method."""
    scores = normalised(results)
    layers = {r.cell.method: r.layer for r in results}
    figure = canvas(0.7 + 0.24 * len(scores))
    axis = figure.subplots()
    for i, (method, values) in enumerate(scores.items()):
        value, low, high = interval(values)
        colour = legible(layers[method], ground)
        axis.plot([low, high], [i, i], color=colour, linewidth=2.2, solid_capstyle="round")
        axis.plot(value, i, "o", color=colour, markersize=6, markeredgecolor=ground.card)
    axis.set_yticks(range(len(scores)), [label(method) for method in scores], fontsize=8.5)
    axis.tick_params(axis="y", length=0, labelcolor=ground.text)
    axis.invert_yaxis()
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x")
    axes_are(figure, ground, "interquartile mean (0: worst run of a task, 1: best)\nline: 95 % bootstrap interval")
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
