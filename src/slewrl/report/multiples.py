"""Small multiples: a panel for each method, so that thirteen of them never cross; DD-SRad behind each, to compare."""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from slewrl.report.data import Result
from slewrl.report.figures import Ground, canvas, legible
from slewrl.report.methods import in_order, label

COLUMNS = 3
REFERENCE = "ddsrad"
"""The method drawn, dashed, behind every other."""


def panels(
    results: Sequence[Result], ground: Ground, height: float, **options: Any
) -> tuple[Figure, Iterator[tuple[Any, Result]]]:
    """A figure, and each result with the axis to draw it on, in the order of the tables.

    ``height``: of a panel, in inches; ``options`` go to ``Figure.subplots``.
    """
    ordered = in_order(list(results))
    columns = min(COLUMNS, len(ordered))
    rows = -(-len(ordered) // columns)
    figure = canvas(0.45 + rows * height * (1.6 if columns == 1 else 1))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat[len(ordered) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(0, len(ordered) - columns) : len(ordered)]:
        axis.tick_params(labelbottom=True)  # the last panel of a column has its numbers, wherever the column ends
    for axis, result in zip(axes.flat, ordered, strict=False):
        title(axis, result, ground)
    return figure, zip(axes.flat, ordered, strict=False)


def title(axis: Any, result: Result, ground: Ground) -> None:
    """The method's name over its panel, on two lines if it would be too wide."""
    words = label(result.cell.method)
    if len(words) > 16:
        words = words.replace(" (", "\n(")
    axis.set_title(words, loc="left", fontsize=8, weight="bold", color=legible(result.layer, ground, 4.5), pad=4)


def reference(results: Sequence[Result]) -> Result | None:
    """What the others are compared with, if it and others are there."""
    found = next((result for result in results if result.cell.method == REFERENCE), None)
    return found if len(results) > 1 else None


def dashed(ground: Ground) -> dict[str, Any]:
    """How the reference is drawn."""
    return {"color": ground.quiet, "linestyle": (0, (3, 1.5)), "linewidth": 1.0, "zorder": 2}


def axes_are(figure: Figure, ground: Ground, x: str, y: str = "") -> None:
    """What the axes of all panels show; ``x`` may go on for another line, with how to read the panels."""
    figure.supxlabel(x, fontsize=8, color=ground.quiet, linespacing=1.3)
    if y:
        figure.supylabel(y, fontsize=8, color=ground.quiet)
