"""Increments of one step: those that were executed, and those that a layer can reach."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from slewrl.report.colours import DARK
from slewrl.report.data import Array, Result
from slewrl.report.figures.small_multiples import by_method, labelled, panels
from slewrl.report.figures.style import SMALL, Look
from slewrl.report.methods import LABELS, called, in_order
from slewrl.robots import find_robot

POINTS = 600
"""Most points in a panel, over all seeds: as many as can be told apart."""
PAIRS = {
    "Ant-v5": ("hip_4", "ankle_4"),
    "HalfCheetah-v5": ("bthigh", "fthigh"),
    "Hopper-v5": ("thigh", "leg"),
    "Humanoid-v5": ("right_hip_y", "right_elbow"),
}
"""Two joints whose limits differ most, of tasks without a robot's file."""
EDGE = 1.25
"""The end of a panel, in limits."""
RAREST, MOST = 0.02, 20.0
"""Ends of the colour scale of the density: 0.5 everywhere is uniform, and 25 is every step in one of the 50 bins."""
STRIP = 0.125
"""Height of a method's strip, in inches."""
SHORT = 12
"""Most letters of a name that has its share on the same line."""
BEYOND = "#E8A0A0"
"""The colour of points outside the limits."""


# ---------------------------------------------------------------------- executed, two joints at a time


def pair_of(result: Result) -> tuple[str, str]:
    """The joints to show: the two whose limits differ most where we know them, otherwise the first two."""
    robot = find_robot(result.cell.task)
    known = robot.pair if robot else PAIRS.get(result.cell.task)
    return known if known and set(known) <= set(result.joints) else (result.joints[0], result.joints[1])


def scatter(results: Sequence[Result], look: Look) -> Figure:
    """Results of one task, limits and backbone: increments of two joints over their limits, one panel per method."""
    one, other = pair_of(results[0])
    figure, there = by_method(look, results, 1.5, sharex=True, sharey=True)
    for result, axis in there:
        found = sample(result)
        _dots(axis, np.stack([found[one], found[other]], 1), shade(result.layer, look))
        axis.add_patch(Rectangle((-1, -1), 2, 2, fill=False, edgecolor=look.theme.text, linewidth=0.9, zorder=2))
        axis.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), xticks=(-1, 0, 1), yticks=(-1, 0, 1), aspect="equal")
    labelled(figure, look, f"{one}: increment / limit; square: what the limits allow", other)
    return figure


def sample(result: Result) -> dict[str, Array]:
    """Increments over limits by joint, evenly from all seeds; beyond ±1.25 moved to the edge."""
    tables = [run.increments(max(1, POINTS // len(result.runs))) for run in result.runs]
    return {joint: np.concatenate([t[joint] for t in tables]).clip(-EDGE, EDGE) for joint in result.joints}


def shade(layer: str, look: Look) -> str:
    """A layer's colour that can be seen in both themes, for rasterised dots."""
    return Look(DARK, own=look.own).seen(look.colour(layer))


def _dots(axis: Axes, points: NDArray[Any], colour: str, alpha: float = 0.5) -> None:
    """Dots at points (n, 2), rasterised: thousands of circles would make a page of megabytes."""
    axis.scatter(points[:, 0], points[:, 1], s=3, color=colour, linewidths=0, rasterized=True, zorder=3, alpha=alpha)


# ---------------------------------------------------------------------- executed, joint by joint


def densities(results: Sequence[Result], look: Look) -> Figure:
    """Results of one task, limits and backbone: one panel per joint, in it one strip per method from -1 to 1."""
    ordered, joints = in_order(list(results)), side_by_side(results[0].joints)
    names = [called(result) for result in ordered]
    height = 0.3 + STRIP * max(len(names), 3)  # room for the titles where there are few methods
    figure, axes = panels(look, len(joints), height, across=2.2, sharex=True, sharey=True)
    image: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "cmap": colormaps["viridis"]}
    for axis, joint in zip(axes, joints, strict=True):
        strips = np.array([mean_density(result, joint) for result in ordered]).clip(RAREST, MOST)
        drawn = axis.imshow(strips, extent=(-1, 1, len(names) - 0.5, -0.5), norm=LogNorm(RAREST, MOST), **image)
        axis.hlines(np.arange(len(names) - 1) + 0.5, -1, 1, color=look.theme.card, linewidth=1.2)
        axis.set_title(joint)
        axis.set_xticks((-1, 0, 1), ("−1", "0", "1"))
        axis.set_yticks(range(len(names)), names, fontsize=6.5)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    bar = figure.colorbar(drawn, ax=axes, location="top", aspect=60, pad=0.02)
    bar.set_ticks([0.05, 0.5, 5], labels=["a tenth", "uniform", "ten times"], fontsize=SMALL)
    bar.minorticks_off()
    bar.outline.set_visible(False)
    labelled(figure, look, "increment / limit (±1: as fast as allowed)")
    return figure


def side_by_side(joints: Sequence[str]) -> list[str]:
    """Each left joint before its right one, then those without a side: two columns show a leg each."""
    lefts = [joint for joint in joints if joint.startswith("left_") and joint.replace("left_", "right_", 1) in joints]
    pairs = [name for joint in lefts for name in (joint, joint.replace("left_", "right_", 1))]
    return [*pairs, *(joint for joint in joints if joint not in pairs)]


def mean_density(result: Result, joint: str) -> Array:
    """The density of a joint's increments over its limit, (bins,): the mean over the seeds."""
    return np.mean([run.density[joint] for run in result.runs], axis=0)


# ---------------------------------------------------------------------- what a layer can reach


def reachable(
    samples: Mapping[str, NDArray[Any]],
    coverage: Mapping[str, float],
    low: NDArray[Any],
    high: NDArray[Any],
    labels: tuple[str, str],
    look: Look,
) -> Figure:
    """The increments (n, 2) that each layer can reach from one previous action, a panel each, and F_t as a rectangle.

    ``coverage`` is the share of F_t that each layer reaches; ``low`` and ``high`` are the corners of F_t minus the
    previous action, (2,).
    """
    figure, axes = panels(look, len(samples), 1.5, sharex=True, sharey=True)
    span, slack = high - low, 1e-3 * (high - low)  # an ulp outside cannot be seen; a thousandth of the box can
    for axis, (name, points) in zip(axes, samples.items(), strict=True):
        outside = ((points < low - slack) | (points > high + slack)).any(1)
        _dots(axis, points[~outside], shade(name, look), alpha=0.4)
        _dots(axis, points[outside], BEYOND, alpha=0.8)
        axis.add_patch(Rectangle((low[0], low[1]), *span, fill=False, edgecolor=look.theme.text, zorder=2))
        axis.plot(0, 0, marker="+", color=look.theme.text, markersize=7, zorder=4)
        (left, right), (bottom, top) = zip(low - 0.25 * span, high + 0.25 * span, strict=True)
        axis.set(xlim=(left, right), ylim=(bottom, top))
        label = LABELS.get(name, name)
        title = f"{label}{' ' if len(label) <= SHORT else chr(10)}{coverage[name]:.0%}"
        axis.set_title(title, color=look.colour(name, 4.5), weight="bold")
    labelled(figure, look, f"{labels[0]} (%: share of the rectangle a layer can reach)", labels[1])
    return figure


def covered_share(points: NDArray[Any], low: NDArray[Any], high: NDArray[Any], cells: int = 50) -> float:
    """The share of a cells x cells grid over [low, high] that points (n, 2) fall into."""
    inside = ((points >= low) & (points <= high)).all(1)
    index = np.floor((points[inside] - low) / (high - low) * cells).clip(0, cells - 1).astype(int)
    return len(np.unique(index @ np.array([cells, 1]))) / cells**2
