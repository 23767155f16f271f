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
from slewrl.report.multiples import axes_are, dashed, panels, reference
from slewrl.stats import iqm, iqms, performance_profile, stratified_bootstrap

SAMPLES = 1000
TAUS = np.linspace(0, 1, 51)

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
    figure, pairs = panels(one_each, ground, 1.2, sharex=True, sharey=True)
    behind = reference(one_each)
    for axis, result in pairs:
        if behind and result is not behind:
            axis.step(TAUS, performance_profile(scores[behind.cell.method], TAUS), where="post", **dashed(ground))
        share = performance_profile(scores[result.cell.method], TAUS)
        axis.step(TAUS, share, where="post", color=legible(result.layer, ground), linewidth=1.6)
        axis.fill_between(TAUS, share, step="post", color=legible(result.layer, ground), alpha=0.15, linewidth=0)
        axis.set(xlim=(0, 1), ylim=(0, 1.05), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        axis.tick_params(labelsize=7.5, length=2)
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"score τ (0: worst run of a task, 1: best{dashes})", "share of runs above τ")
    return figure
