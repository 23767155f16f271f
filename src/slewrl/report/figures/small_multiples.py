"""Small multiples: a panel for each method, so that thirteen of them never cross; DD-SRad behind each, to compare."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slewrl.report.data import Result
from slewrl.report.figures.style import NORMAL, Look, canvas
from slewrl.report.methods import REFERENCE, called, in_order

ACROSS = 1.45
"""Inches, about the width of a panel."""
LETTERS = 16
"""Most letters of a line above a panel."""


def panels(look: Look, count: int, height: float, across: float = ACROSS, **how: Any) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` axes, row by row, as many beside each other as fit.

    Args:
        look: the figure's look.
        count: how many panels.
        height: inches, of a panel with its margins; a single column is taller.
        across: inches, about its width.
        how: arguments of ``Figure.subplots``, such as ``sharey``.
    """
    columns = min(count, max(1, round(look.width / across)))
    rows = -(-count // columns)
    figure = canvas(look, 0.45 + rows * height * (1.6 if columns == 1 else 1))
    grid = figure.subplots(rows, columns, squeeze=False, **how)
    for i in range(count, rows * columns):
        grid.flat[i].remove()
        grid.flat[i - columns].tick_params(labelbottom=True)  # nothing is below it any more
    return figure, list(grid.flat[:count])


def by_method(look: Look, results: Sequence[Result], height: float, **how: Any) -> tuple[Figure, list[Any]]:
    """A figure, and each result with its axes, in the order of the tables, titled by its method."""
    ordered = in_order(list(results))
    names = [folded(called(result)) for result in ordered]
    lines = max(name.count("\n") for name in names)
    figure, axes = panels(look, len(ordered), height + 0.13 * lines, **how)
    for axis, result, name in zip(axes, ordered, names, strict=True):
        axis.set_title(name, color=look.colour(result.layer, 4.5), weight="bold", fontsize=NORMAL)
    return figure, list(zip(ordered, axes, strict=True))


def folded(name: str) -> str:
    """A method's name in lines that fit a panel: its options below it."""
    if len(name) <= LETTERS:
        return name
    method, bracket, options = name.partition(" (")
    return "\n".join([method, *textwrap.wrap(bracket.strip() + options, LETTERS, break_on_hyphens=False)])


def reference(results: Sequence[Result]) -> Result | None:
    """The result of DD-SRad, with which the others are compared; None without it or without others."""
    found = next((result for result in results if result.cell.method == REFERENCE), None)
    return found if len(results) > 1 else None


def dashed(look: Look) -> dict[str, Any]:
    """The line style of the reference."""
    return {"color": look.theme.quiet, "linestyle": (0, (3, 1.5)), "linewidth": 1.0, "zorder": 2}


def labelled(figure: Figure, look: Look, x: str, y: str = "") -> None:
    """Label the axes of all panels; ``x`` may have further lines, such as a key."""
    figure.supxlabel(x, color=look.theme.quiet, fontsize=NORMAL)
    if y:
        figure.supylabel(y, color=look.theme.quiet, fontsize=NORMAL)
