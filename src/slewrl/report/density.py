"""How the increments of each joint spread over what its limit allows: a strip a method, so that none hides another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from slewrl.report.data import Array, Result
from slewrl.report.figures import Ground, canvas
from slewrl.report.methods import in_order, label
from slewrl.report.multiples import axes_are

COLUMNS = 2
RAREST, MOST = 0.02, 20.0
"""Ends of the colour scale of the density: 0.5 everywhere is uniform, and 25 is every step in one of the 50 bins."""


def densities(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a joint, in it a strip a method from -1 to 1."""
    ordered = in_order(list(results))
    joints = results[0].joints
    rows = -(-len(joints) // COLUMNS)
    figure = canvas(0.9 + rows * (0.38 + 0.135 * len(ordered)))
    axes = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True, sharey=True)
    for axis, joint in zip(axes.flat, joints, strict=False):
        image = _strips(axis, ordered, joint, ground)
    for axis in list(axes.flat)[len(joints) :]:
        axis.set_axis_off()
    bar = figure.colorbar(image, ax=axes, location="top", aspect=45, pad=0.02, ticks=(0.05, 0.5, 5))
    bar.ax.set_xticklabels(["a tenth", "as often as by chance", "ten times"], fontsize=7.5)
    bar.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    axes_are(figure, ground, "increment / limit (±1: as fast as allowed)")
    return figure


def _strips(axis: Any, ordered: Sequence[Result], joint: str, ground: Ground) -> Any:
    """One joint's strips, the methods' names at their left."""
    n = len(ordered)
    strips = np.array([mean_density(result, joint) for result in ordered]).clip(RAREST)
    place: dict[str, Any] = {"aspect": "auto", "extent": (-1, 1, n - 0.5, -0.5), "interpolation": "nearest"}
    image = axis.imshow(strips, norm=LogNorm(RAREST, MOST), cmap="viridis", **place)
    for edge in range(1, n):  # a gap, so that two strips alike are not taken for one
        axis.axhline(edge - 0.5, color=ground.card, linewidth=1.2)
    axis.set_title(joint, loc="left", fontsize=8.5, pad=3)
    axis.set_yticks(range(n), [label(result.cell.method) for result in ordered], fontsize=7)
    axis.set_xticks((-1, 0, 1))
    axis.tick_params(axis="x", labelsize=7.5)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return image


def mean_density(result: Result, joint: str) -> Array:
    """Of a joint's increments over its limit, (bins,): the mean over the seeds."""
    return np.mean([run.density[joint] for run in result.runs], axis=0)
