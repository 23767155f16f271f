"""Radars: how much of its limit each joint uses, 0 in the middle and 1 (as fast as allowed, always) at the rim."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from slewrl.report.curves import LIMIT_STYLES, LIMITS, named
from slewrl.report.data import Array, Result
from slewrl.report.figures import WIDTH, Ground, legible, sheet
from slewrl.report.methods import backbone
from slewrl.report.multiples import axes_are, dashed, places, reference, title
from slewrl.report.panel import Box, Panel, boxes
from slewrl.report.words import width_of

RINGS = (0.25, 0.5, 0.75, 1.0)
LEAST = 3
"""Joints that make a radar; with fewer the polygon is a line, and the joints are put side by side."""
NAMED = 8
"""Joints whose names fit around the rim; more have numbers there."""
SIZE = 6.5
"""Points, of a joint's name."""
NOTE = 8
"""Points, of the words under a figure."""


def radars(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a method, DD-SRad dashed behind it."""
    joints = results[0].joints
    left = 0.05 if is_round(joints) else 0.35
    figure, there = places(results, 1.48, left=left, gap=0.05 if is_round(joints) else 0.3, below=foot(joints))
    behind = reference(results)
    for place in there:
        title(Panel(figure, place.box, (0, 1), (0, 1)), place.result, ground)
        panel = prepared(figure, place.box, joints, ground)
        if behind and place.result is not behind:
            polygon(panel, behind.joint_utilisation, **dashed(ground))
        filled(panel, place.result.joint_utilisation, legible(place.result.layer, ground))
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"|increment| / limit by joint; rim: always as fast as allowed{dashes}{key(joints)}")
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], ground: Ground) -> Figure:
    """Limits -> result of one method, for each task and backbone."""
    columns = min(2, len(pairs))
    figure = sheet(0.4 + (2.2 if columns > 1 else 3.0) * -(-len(pairs) // columns))
    for box, pair in zip(boxes(figure, len(pairs), columns, 0.35, below=0.2, top=0.2, gap=0.3), pairs, strict=True):
        first = next(iter(pair.values()))
        panel = prepared(figure, box, first.joints, ground)
        headed(panel, box, f"{first.cell.task} {backbone(first.cell.agent)}", ground)
        looks = {limits: (legible(LIMITS[limits], ground), LIMIT_STYLES[limits], limits) for limits in pair}
        lines = [filled(panel, result.joint_utilisation, *looks[limits]) for limits, result in pair.items()]
    named(figure, lines)
    return figure


def is_round(joints: Sized) -> bool:
    """Whether there are enough joints for a radar."""
    return len(joints) >= LEAST


def prepared(figure: Figure, box: Box, joints: Sequence[str], ground: Ground) -> Panel:
    """A panel with spokes, rings and the joints' names or, where there are many, their numbers."""
    names = joints if len(joints) <= NAMED else [str(i) for i in range(len(joints))]
    return _round(figure, box, names, ground) if is_round(joints) else _beside(figure, box, names, ground)


def _round(figure: Figure, box: Box, names: Sequence[str], ground: Ground) -> Panel:
    x, y = directions(len(names))
    radius = _radius(box, names)
    middle = box.left + box.width / 2, box.bottom + box.height / 2
    square = Box(middle[0] - radius, middle[1] - radius, 2 * radius, 2 * radius)
    panel = Panel(figure, square, (-1, 1), (-1, 1))
    panel.line(stems(x), stems(y), color=ground.line, linewidth=0.6, zorder=0.5)
    for ring in RINGS:
        panel.ring(ring, ground.line if ring < 1 else ground.quiet, 0.6 if ring < 1 else 0.8)
    for name, to_x, to_y in zip(names, x, y, strict=True):
        ha = "center" if abs(to_x) < 0.1 else "left" if to_x > 0 else "right"
        va = "center" if abs(to_y) < 0.3 else "bottom" if to_y > 0 else "top"
        panel.words(to_x, to_y, name, 0.03 * to_x, 0.03 * to_y, ha=ha, va=va, fontsize=SIZE, color=ground.quiet)
    return panel


def _radius(box: Box, names: Sequence[str]) -> float:
    """As large as lets every name stay within the box."""
    x, _ = directions(len(names))
    wide = [
        (box.width / 2 - 0.04 - width_of(n, SIZE)) / abs(to) for n, to in zip(names, x, strict=True) if abs(to) > 0.1
    ]
    return max(0.25, min(box.height / 2 - 0.17, *wide))


def _beside(figure: Figure, box: Box, names: Sequence[str], ground: Ground) -> Panel:
    inner = Box(box.left, box.bottom + 0.2, box.width, box.height - 0.2)
    panel = Panel(figure, inner, (-0.4, len(names) - 0.6), (0, 1))
    panel.x_axis(ground, range(len(names)), names)
    panel.y_axis(ground, RINGS, [f"{ring:g}" for ring in RINGS])
    return panel


def headed(panel: Panel, box: Box, text: str, ground: Ground) -> None:
    """A title over all of a panel's box, of which a round panel has but the middle."""
    Panel(panel.figure, box, (0, 1), (0, 1)).title(text, ground.text, 8.5, "normal")


def polygon(panel: Panel, values: Array, **style: Any) -> Line2D:
    """A line around the values (d,), or with few joints a stem to each."""
    what = np.minimum(values, 1.0)  # a layer without a limit would leave the figure
    if is_round(values):
        x, y = what * directions(len(values))
        return panel.line(np.append(x, x[0]), np.append(y, y[0]), **style)
    where = np.arange(len(values))
    panel.line(where, what, **{**style, "linestyle": "none", "label": ""}, marker="o", markersize=5)
    return panel.line(np.repeat(where, 3), stems(what), **style)


def stems(ends: Array) -> Array:
    """Lines from 0 to each of the ends, (n,), with gaps between them: (3 n,)."""
    return np.stack([0 * ends, ends, np.full_like(ends, np.nan)], 1).ravel()


def filled(panel: Panel, values: Array, colour: str, style: Any = "-", name: str = "") -> Line2D:
    """A polygon with its inside tinted."""
    line = polygon(panel, values, color=colour, linestyle=style, linewidth=1.5, label=name, zorder=3)
    if is_round(values):
        x, y = np.asarray(line.get_data(), float)
        panel.shape(x, y, colour, 0.15)
    return line


def key(joints: Sequence[str]) -> str:
    """Which joint a number is, where names would not fit around the rim."""
    if len(joints) <= NAMED:
        return ""
    lines = [""]
    for i, joint in enumerate(joints):
        longer = f"{lines[-1]}, {i} {joint}".removeprefix(", ")
        if width_of(longer, NOTE) <= WIDTH - 0.2:
            lines[-1] = longer
        else:
            lines.append(f"{i} {joint}")
    return "\n" + "\n".join(lines)


def foot(joints: Sequence[str]) -> float:
    """Inches under the panels for what they show."""
    return 0.3 + 0.15 * key(joints).count("\n")


def directions(d: int) -> Array:
    """Where the rim is from the middle, joint by joint: the first at the top, the others clockwise; (2, d)."""
    angles = 2 * np.pi * np.arange(d) / d
    return np.stack([np.sin(angles), np.cos(angles)])
