"""Where the executed increments of two joints fell in what their limits allow: the reachable set as it was used."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from slewrl.report.data import Array, Result
from slewrl.report.figures import DARK, LIGHT, Ground, legible
from slewrl.report.multiples import axes_are, panels

POINTS = 600
"""Of a panel, over all seeds: as many as can be told apart."""
PAIRS = {
    "Ant-v5": ("hip_4", "ankle_4"),
    "HalfCheetah-v5": ("bthigh", "fthigh"),
    "Hopper-v5": ("thigh", "leg"),
    "Humanoid-v5": ("right_hip_y", "right_elbow"),
    "H1": ("left_hip_pitch", "left_ankle"),
    "G1": ("left_hip_pitch", "left_ankle_roll"),
}
"""Two joints of a task whose limits differ most; what a preset says of them would need torch to read."""


def pair_of(result: Result) -> tuple[str, str]:
    """The joints to show: those whose limits differ most where we know them, otherwise the first two."""
    known = PAIRS.get(result.cell.task, ())
    if len(known) == 2 and all(joint in result.joints for joint in known):
        return known[0], known[1]
    return result.joints[0], result.joints[min(1, len(result.joints) - 1)]


def increments(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a method, increments over limits in [-1, 1]^2."""
    x, y = pair_of(results[0])
    figure, pairs = panels(results, ground, 1.5, sharex=True, sharey=True)
    for axis, result in pairs:
        axis.scatter(*sample(result, x, y).T, s=3, color=shade(result.layer), alpha=0.5, linewidths=0, rasterized=True)
        axis.add_patch(Rectangle((-1, -1), 2, 2, fill=False, edgecolor=ground.text, linewidth=0.9))
        axis.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        axis.tick_params(labelsize=7.5, length=2)
    axes_are(figure, ground, f"{x}: increment / limit", f"{y}: increment / limit")
    return figure


def sample(result: Result, x: str, y: str) -> Array:
    """Increments of two joints over their limits, (n, 2), evenly from all seeds; beyond ±1.25 moved to the edge."""
    points = np.concatenate([np.stack([run.increments[x], run.increments[y]], 1) for run in result.runs])
    kept = points[:: max(1, -(-len(points) // POINTS))]
    return np.clip(kept, -1.25, 1.25)


def shade(layer: str) -> str:
    """A layer's colour between the two grounds, for an image that is the same on both."""
    return legible(legible(layer, LIGHT), DARK)
