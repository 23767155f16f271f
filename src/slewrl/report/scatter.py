"""Where the executed increments of two joints fell in what their limits allow: the reachable set as it was used."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from slewrl.report.data import Array, Result
from slewrl.report.figures import DARK, LIGHT, WIDTH, Ground, canvas, legible
from slewrl.report.methods import in_order, label
from slewrl.report.multiples import axes_are

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
MOST = 3
"""Pairs of a method: as many as fit beside each other on a phone."""
EDGE, PITCH, HEAD = 1.25, 2.6, 0.5
"""Half a panel, from one panel to the next, and room for a name above a row; in limits."""


def pairs_of(result: Result) -> list[tuple[str, str]]:
    """The joints to show: the two whose limits differ most where we know them, then neighbours."""
    known = PAIRS.get(result.cell.task)
    first = [known] if known and all(joint in result.joints for joint in known) else []
    neighbours = [pair for pair in pairwise(result.joints) if pair not in first]
    return [*first, *neighbours][:MOST]


def increments(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: increments over limits in [-1, 1]^2, a panel a method and pair.

    All panels are on one axis: forty axes would take seconds to lay out.
    """
    pairs, ordered = pairs_of(results[0]), in_order(list(results))
    across = max(1, MOST // len(pairs))
    rows, columns = -(-len(ordered) // across), min(across, len(ordered)) * len(pairs)
    width, height = columns * PITCH, rows * (PITCH + HEAD)
    figure = canvas(0.3 + (WIDTH - 0.2) * height / max(width, 2 * PITCH))
    axis = figure.subplots()
    axis.set(xlim=(-EDGE, width - EDGE), ylim=(EDGE - height, EDGE + HEAD), aspect="equal")
    axis.set_axis_off()
    points, colours = [], []
    for i, result in enumerate(ordered):
        x, y = i % across * len(pairs) * PITCH, -(i // across) * (PITCH + HEAD)
        words: dict[str, Any] = {"color": legible(result.layer, ground, 4.5), "fontsize": 8, "weight": "bold"}
        axis.text(x - 1, y + EDGE, label(result.cell.method), va="bottom", **words)
        for j, pair in enumerate(pairs):
            corner = (x + j * PITCH - 1, y - 1)
            axis.add_patch(Rectangle(corner, 2, 2, fill=False, edgecolor=ground.text, linewidth=0.9))
            points.append(sample(result, *pair) + corner + 1)
            colours += [shade(result.layer)] * len(points[-1])
    # Together, for every image in a figure takes a tenth of a second.
    across_all, up_all = np.concatenate(points).T
    axis.scatter(across_all, up_all, s=3, c=colours, alpha=0.5, linewidths=0, rasterized=True)
    axes_are(figure, ground, _key(pairs))
    return figure


def _key(pairs: Sequence[tuple[str, str]]) -> str:
    """Which joints a panel is about."""
    places = ("left", "middle", "right") if len(pairs) == MOST else ("left", "right")
    where = [f"{place}: " for place in places] if len(pairs) > 1 else [""]
    lines = [f"{place}{x} across, {y} up" for place, (x, y) in zip(where, pairs, strict=False)]
    return "\n".join(["increment / limit; square: what the limits allow, from −1 to 1", *lines])


def sample(result: Result, x: str, y: str) -> Array:
    """Increments of two joints over their limits, (n, 2), evenly from all seeds; beyond ±1.25 moved to the edge."""
    points = np.concatenate([np.stack([run.increments[x], run.increments[y]], 1) for run in result.runs])
    kept = points[:: max(1, -(-len(points) // POINTS))]
    return np.clip(kept, -EDGE, EDGE)


def shade(layer: str) -> str:
    """A layer's colour between the two grounds, for an image that is the same on both."""
    return legible(legible(layer, LIGHT), DARK)
