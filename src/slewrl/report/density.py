"""How the increments of each joint spread over what its limit allows: a strip a method, so that none hides another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slewrl.report.data import Array, Result
from slewrl.report.figures import WIDTH, Ground, sheet
from slewrl.report.methods import called, in_order
from slewrl.report.multiples import axes_are
from slewrl.report.panel import SMALL, Box, Panel, dashes
from slewrl.report.pixels import Pixels
from slewrl.report.words import width_of

COLUMNS = 2
RAREST, MOST = 0.02, 20.0
"""Ends of the colour scale of the density: 0.5 everywhere is uniform, and 25 is every step in one of the 50 bins."""
STRIP, TITLE = 0.135, 2
"""Inches, of a strip; and how many of them a joint's name takes."""
GAP = 0.12
"""Between two panels, of the width of one."""
TOP, BOTTOM = 0.3, 0.42
"""Inches, for the colours' key and for the axis."""
COLOURS = colormaps["viridis"]
NORM = LogNorm(RAREST, MOST)


def densities(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a joint, in it a strip a method from -1 to 1.

    All panels are one image, with holes between them.
    """
    ordered, joints = in_order(list(results)), side_by_side(results[0].joints)
    names = [called(result) for result in ordered]
    values = mosaic([strips(ordered, joint) for joint in joints])
    tall = STRIP * len(values)
    figure = sheet(TOP + BOTTOM + tall)
    left = 0.1 + max(width_of(name, 7) for name in names)
    whole = Box(left, BOTTOM, WIDTH - 0.15 - left, tall)
    Pixels(figure, whole, coloured(values))
    panel = Panel(figure, whole, (0, values.shape[1]), (len(values), 0))  # in bins and strips, from the upper left
    bins = len(ordered[0].runs[0].density["from"])
    for i, joint in enumerate(joints):
        x, y = corner(i, bins, len(names))
        panel.words(x, y - 0.4, joint, fontsize=8.5)
        for k, name in enumerate(names if x == 0 else ()):
            panel.words(0, y + k + 0.5, name, -0.05, ha="right", va="center", fontsize=7, color=ground.quiet)
        if i + COLUMNS >= len(joints):
            ticks = zip((x, x + bins / 2, x + bins), ("−1", "0", "1"), strict=True)
            for at, text in ticks:
                style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": SMALL, "color": ground.quiet}
                panel.words(at, y + len(names), text, up=-0.05, **style)
    edges, ends = dashes(range(1, len(values)), *panel.xlim)  # a gap, so that two strips alike are not taken for one
    panel.line(ends, edges, color=ground.card, linewidth=1.2)
    _key(figure, Box(whole.left, BOTTOM + tall, whole.width, 0.08), ground)
    axes_are(figure, ground, "increment / limit (±1: as fast as allowed)")
    return figure


def side_by_side(joints: Sequence[str]) -> list[str]:
    """Each left joint before its right one, then those without a side: two columns show a leg each."""
    lefts = [joint for joint in joints if joint.startswith("left_") and joint.replace("left_", "right_", 1) in joints]
    pairs = [name for joint in lefts for name in (joint, joint.replace("left_", "right_", 1))]
    return [*pairs, *(joint for joint in joints if joint not in pairs)]


def strips(ordered: Sequence[Result], joint: str) -> Array:
    """A joint's densities, (methods, bins)."""
    return np.array([mean_density(result, joint) for result in ordered]).clip(RAREST)


def mosaic(panels: Sequence[Array]) -> Array:
    """Panels (methods, bins) side by side and one under the other; nan above each and between two columns."""
    n, bins = panels[0].shape
    right, bottom = corner(COLUMNS - 1, bins, n)[0], corner(len(panels) - 1, bins, n)[1]
    whole = np.full((bottom + n, right + bins), np.nan)
    for i, panel in enumerate(panels):
        x, y = corner(i, bins, n)
        whole[y : y + n, x : x + bins] = panel
    return whole


def corner(i: int, bins: int, methods: int) -> tuple[int, int]:
    """Column and row of a panel's first strip in the mosaic."""
    return i % COLUMNS * (bins + round(GAP * bins)), i // COLUMNS * (TITLE + methods) + TITLE


def coloured(values: Array) -> NDArray[np.uint8]:
    """Densities as colours; nothing where there is none."""
    colours: NDArray[np.uint8] = COLOURS(NORM(np.ma.masked_invalid(values)), bytes=True)
    return colours


def _key(figure: Figure, box: Box, ground: Ground) -> None:
    """What the colours mean, above all."""
    Pixels(figure, box, coloured(np.geomspace(RAREST, MOST, 256)[None]))
    bar = Panel(figure, box, (0, 1), (0, 1))
    for value, text in ((0.05, "a tenth"), (0.5, "as often as by chance"), (5, "ten times")):
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": SMALL, "color": ground.quiet}
        bar.words(float(NORM(value)), 1, text, up=0.04, **style)


def mean_density(result: Result, joint: str) -> Array:
    """Of a joint's increments over its limit, (bins,): the mean over the seeds."""
    return np.mean([run.density[joint] for run in result.runs], axis=0)
