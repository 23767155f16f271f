"""Radars: how much of its limit each joint uses, 0 in the middle and 1 (as fast as allowed, always) at the rim."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from slewrl.report.curves import LIMIT_STYLES, LIMITS, named
from slewrl.report.data import Array, Result
from slewrl.report.figures import Ground, canvas, legible
from slewrl.report.methods import backbone
from slewrl.report.multiples import axes_are, dashed, panels, reference

RINGS = (0.25, 0.5, 0.75, 1.0)
LEAST = 3
"""Joints that make a radar; with fewer the polygon is a line, and the joints are put side by side."""


def radars(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: a panel a method, DD-SRad dashed behind it."""
    joints = results[0].joints
    figure, pairs = panels(results, ground, 1.62, subplot_kw=projection(joints))
    behind = reference(results)
    for axis, result in pairs:
        prepare(axis, joints, ground)
        if behind and result is not behind:
            polygon(axis, behind.joint_utilisation, **dashed(ground))
        filled(axis, result.joint_utilisation, legible(result.layer, ground))
    dashes = "; dashed: DD-SRad" if behind else ""
    axes_are(figure, ground, f"|increment| / limit by joint; rim: always as fast as allowed{dashes}{key(joints)}")
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], ground: Ground) -> Figure:
    """Limits -> result of one method, for each task and backbone."""
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = canvas(0.6 + (2.2 if columns > 1 else 3.0) * rows)
    for i, pair in enumerate(pairs):
        first = next(iter(pair.values()))
        axis = figure.add_subplot(rows, columns, i + 1, **projection(first.joints))
        prepare(axis, first.joints, ground)
        for limits, result in pair.items():
            filled(axis, result.joint_utilisation, legible(LIMITS[limits], ground), LIMIT_STYLES[limits], limits)
        axis.set_title(f"{first.cell.task} {backbone(first.cell.agent)}", loc="left", fontsize=8.5)
    named(figure, ground)
    return figure


def projection(joints: Sequence[str]) -> dict[str, Any]:
    """What kind of axis the joints need."""
    return {"projection": "polar"} if len(joints) >= LEAST else {}


def prepare(axis: Any, joints: Sequence[str], ground: Ground) -> None:
    """Spokes, rings and the joints' names or, where there are many, their numbers."""
    places = _places(axis, len(joints))
    names = joints if len(joints) <= 8 else [str(i) for i in range(len(joints))]
    axis.set_xticks(places, names, fontsize=6.5)
    axis.tick_params(axis="x", pad=-2 if axis.name == "polar" else 2)
    axis.set_ylim(0, 1)
    axis.set_yticks(RINGS, [])
    if axis.name == "polar":
        axis.set_theta_zero_location("N")
        axis.set_theta_direction(-1)
        axis.spines["polar"].set_color(ground.quiet)
    else:
        axis.set_yticks(RINGS, [f"{ring:g}" for ring in RINGS], fontsize=6.5)
        axis.set_xlim(-0.4, len(joints) - 0.6)
    axis.grid(True)


def polygon(axis: Any, values: Array, **style: Any) -> tuple[Array, Array]:
    """A line around the values (d,) where the axis is round, otherwise a stem to each; returns where it went."""
    where, what = _places(axis, len(values)), np.minimum(values, 1.0)  # a layer without a limit would leave the figure
    if axis.name == "polar":
        where, what = np.append(where, where[0]), np.append(what, what[0])
        axis.plot(where, what, **style)
    else:
        axis.plot(where, what, **{**style, "linestyle": "none"}, marker="o", markersize=5, clip_on=False)
        axis.vlines(where, 0, what, color=style["color"], linestyle=style["linestyle"])
    return where, what


def filled(axis: Any, values: Array, colour: str, style: Any = "-", name: str | None = None) -> None:
    """A polygon with its inside tinted."""
    where, what = polygon(axis, values, color=colour, linestyle=style, linewidth=1.5, label=name, zorder=3)
    if axis.name == "polar":
        axis.fill(where, what, color=colour, alpha=0.15, linewidth=0)


def key(joints: Sequence[str]) -> str:
    """Which joint a number is, where names would not fit around the rim."""
    if len(joints) <= 8:
        return ""
    words = [f"{i} {joint}" for i, joint in enumerate(joints)]
    lines = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    return "\n" + "\n".join(lines)


def _places(axis: Any, d: int) -> Array:
    return np.arange(d, dtype=np.float64) * (2 * np.pi / d if axis.name == "polar" else 1.0)
