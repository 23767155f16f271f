"""Radars: how much of its limit each joint uses, 0 in the middle and 1 (as fast as allowed, always) at the rim."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slewrl.report.data import Array, Result
from slewrl.report.figures.curves import LIMIT_STYLES, LIMITS, named
from slewrl.report.figures.small_multiples import by_method, dashed, labelled, panels, reference
from slewrl.report.figures.style import Look
from slewrl.report.methods import backbone

RINGS = (0.25, 0.5, 0.75, 1.0)
FEWEST = 3
"""Fewest joints of a radar; fewer are drawn as bars."""
NAMED = 8
"""Most joints whose names fit around the rim; more have numbers there, and a key below."""
LETTERS = 18
"""Letters of the key per inch."""
POLAR: dict[str, Any] = {"subplot_kw": {"projection": "polar"}}


def radars(results: Sequence[Result], look: Look) -> Figure:
    """Results of one task, limits and backbone: one panel per method, DD-SRad dashed behind it."""
    joints = results[0].joints
    figure, there = by_method(look, results, 1.55, **projection(joints))
    behind = reference(results)
    for result, axis in there:
        prepared(axis, joints, look)
        if behind and result is not behind:
            outline(axis, behind.joint_utilisation, **dashed(look))
        filled(axis, result.joint_utilisation, look.colour(result.layer))
    dashes = "; dashed: DD-SRad" if behind else ""
    rim = "rim" if len(joints) >= FEWEST else "1"
    labelled(figure, look, f"|increment| / limit by joint; {rim}: always as fast as allowed{dashes}{key(joints, look)}")
    return figure


def wide_and_tight(pairs: Sequence[Mapping[str, Result]], look: Look) -> Figure:
    """Limits -> result of one method, for each task and backbone."""
    polar = all(len(result.joints) >= FEWEST for pair in pairs for result in pair.values())
    figure, axes = panels(look, len(pairs), 2.2, across=2.2, **(POLAR if polar else {}))
    for axis, pair in zip(axes, pairs, strict=True):
        first = next(iter(pair.values()))
        prepared(axis, first.joints, look)
        axis.set_title(f"{first.cell.task} {backbone(first.cell.agent)}")
        looks = {limits: (look.seen(LIMITS[limits]), LIMIT_STYLES[limits], limits) for limits in pair}
        lines = [filled(axis, result.joint_utilisation, *looks[limits]) for limits, result in pair.items()]
    named(figure, lines)
    return figure


def projection(joints: Sequence[str]) -> dict[str, Any]:
    """Arguments of ``Figure.subplots`` for a radar, or for bars."""
    return POLAR if len(joints) >= FEWEST else {"sharey": True}


def prepared(axis: Axes, joints: Sequence[str], look: Look) -> None:
    """Spokes, rings and the joints' names or, where there are many, their numbers; the first joint at the top."""
    names = joints if len(joints) <= NAMED else [str(i) for i in range(len(joints))]
    axis.set_ylim(0, 1)
    if axis.name != "polar":
        axis.set_xticks(range(len(names)), names)
        axis.set_xlim(-0.6, len(names) - 0.4)
        axis.grid(axis="y")
        return
    polar: Any = axis
    polar.set_theta_zero_location("N")
    polar.set_theta_direction(-1)
    polar.set_xticks(directions(len(names)), names, fontsize=6)
    polar.tick_params(axis="x", pad=-2)
    for text, angle in zip(polar.get_xticklabels(), directions(len(names)), strict=True):
        side = np.sin(angle)
        text.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")
    polar.set_yticks(RINGS, [""] * len(RINGS))
    polar.grid(visible=True)
    polar.spines["polar"].set_edgecolor(look.theme.quiet)


def outline(axis: Axes, values: Array, **style: Any) -> Any:
    """A line around the values (d,), or with few joints a mark at each."""
    shown = np.minimum(values, 1.0)  # a layer without a limit would leave the figure
    if axis.name != "polar":
        return axis.plot(np.arange(len(values)), shown, marker="_", markersize=14, **{**style, "linestyle": "none"})[0]
    return axis.plot(*closed(shown), **style)[0]


def filled(axis: Axes, values: Array, colour: str, style: Any = "-", name: str = "_") -> Any:
    """An outline with its inside tinted, or bars."""
    line = outline(axis, values, color=colour, linestyle=style, linewidth=1.5, label=name, zorder=3)
    if axis.name == "polar":
        axis.fill(*closed(np.minimum(values, 1.0)), color=colour, alpha=0.15, linewidth=0)
    else:
        axis.bar(np.arange(len(values)), np.minimum(values, 1.0), color=colour, alpha=0.3, width=0.6)
    return line


def closed(values: Array) -> tuple[Array, Array]:
    """Angles and radii of a polygon that ends where it begins."""
    angles = directions(len(values))
    return np.append(angles, angles[0]), np.append(values, values[0])


def directions(d: int) -> Array:
    """The angle of each joint's spoke, (d,)."""
    return 2 * np.pi * np.arange(d) / d


def key(joints: Sequence[str], look: Look) -> str:
    """The joints' numbers and names, where names do not fit around the rim."""
    if len(joints) <= NAMED:
        return ""
    entries = ", ".join(f"{i}\N{NO-BREAK SPACE}{joint}" for i, joint in enumerate(joints))
    return "\n" + "\n".join(textwrap.wrap(entries, round(LETTERS * look.width))).replace("\N{NO-BREAK SPACE}", " ")
