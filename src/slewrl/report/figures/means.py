"""Aggregates over all tasks: means with intervals, and performance profiles.

With enough runs the mean is the interquartile one, with a bootstrap interval over the seeds; with fewer, where a
bootstrap is far too narrow (of three runs their range), it is the plain mean with a t-interval. One run has neither.

Returns of different tasks have different units, so each is put on a scale where 0 is the worst run of its task under
the same limits and with the same backbone, and 1 the best: of the methods with a limit, since others do not contend.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slewrl.report.data import Array, Result, grouped
from slewrl.report.estimates import LEVEL
from slewrl.report.figures.small_multiples import by_method, dashed, labelled, reference
from slewrl.report.figures.style import Look, canvas
from slewrl.report.methods import called, in_order, promises
from slewrl.report.stats import around, iqm, performance_profile, satterthwaite, stratified_bootstrap

SAMPLES = 1000
TAUS = np.linspace(0, 1, 51)
ENOUGH_RUNS, ENOUGH_SCORES = 5, 10
"""Fewest runs of each task and in all for a bootstrap interval whose coverage is 90 % or more."""

Scores = dict[str, list[Array]]
"""Method -> an array of normalised scores for each task it was run on."""


def normalised(results: Sequence[Result]) -> Scores:
    """Results of one backbone under one set of limits, on a common scale."""
    scores: Scores = {}
    for there in grouped(in_order(list(results)), lambda r: (r.cell.task, r.cell.steps)).values():
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
        return float(iqm(scores)), *stratified_bootstrap(scores, iqm, SAMPLES)
    errors = [float(runs.var(ddof=1)) / len(runs) / len(scores) ** 2 for runs in scores]
    df = satterthwaite(errors, [len(runs) - 1 for runs in scores])
    value = float(np.mean([runs.mean() for runs in scores]))
    return value, *around(value, float(np.sqrt(sum(errors))), df, LEVEL)


def means(results: Sequence[Result], look: Look) -> Figure:
    """`drawable` results of one backbone under one set of limits: the best first, a dot a run, the mean's interval."""
    scores = normalised(results)
    trimmed = enough(scores)
    of = {r.cell.method: r for r in results}
    found = {method: interval(values, trimmed) for method, values in scores.items()}
    ranked = sorted(found, key=lambda method: -found[method][0])
    figure = canvas(look, 0.8 + 0.24 * len(ranked))
    axis = figure.subplots()
    for i, method in enumerate(ranked):
        (value, low, high), colour = found[method], look.colour(of[method].layer)
        runs = np.concatenate(scores[method])
        edge: Any = {"markeredgecolor": look.theme.card}
        axis.plot(runs, [i] * len(runs), "o", color=colour, markersize=3.5, markeredgewidth=0.4, **edge)
        axis.plot([low, high], [i, i], color=colour, linewidth=2.0, alpha=0.5, solid_capstyle="round")
        axis.plot([value], [i], "o", color=colour, markersize=7, zorder=3, **edge)
    axis.set_yticks(range(len(ranked)), [called(of[method]) for method in ranked])
    axis.tick_params(axis="y", length=0, labelcolor=look.theme.text)
    axis.invert_yaxis()
    axis.xaxis.set_major_locator(MaxNLocator(6))
    axis.grid(axis="x")
    which, line = ("interquartile mean", "bootstrap") if trimmed else ("mean", "t")
    axis.set_xlabel(f"{which} (0: worst run of a task, 1: best)\nline: 95 % {line} interval; small dots: single runs")
    return figure


def profiles(results: Sequence[Result], look: Look) -> Figure:
    """`drawable` results of one backbone under one set of limits: the share of runs above each score, a panel each."""
    scores = normalised(results)
    one_each = list({r.cell.method: r for r in results}.values())
    figure, there = by_method(look, one_each, 1.2, sharex=True, sharey=True)
    behind = reference(one_each)
    for result, axis in there:
        if behind and result is not behind:
            axis.step(TAUS, performance_profile(scores[behind.cell.method], TAUS), where="post", **dashed(look))
        share, colour = performance_profile(scores[result.cell.method], TAUS), look.colour(result.layer)
        axis.step(TAUS, share, where="post", color=colour, linewidth=1.6, zorder=3)
        axis.fill_between(TAUS, share, step="post", color=colour, alpha=0.15, linewidth=0)
        axis.set(xlim=(0, 1), ylim=(0, 1.05), yticks=(0, 0.5, 1))
        axis.set_xticks((0, 0.5, 1), ("0", ".5", "1"))
        axis.grid(axis="y")
    dashes = "; dashed: DD-SRad" if behind else ""
    labelled(figure, look, f"score τ (0: worst run of a task, 1: best{dashes})", "share of runs above τ")
    return figure
