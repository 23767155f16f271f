"""Small multiples: a panel for each method, so that thirteen of them never cross; DD-SRad behind each, to compare."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from slewrl.report.data import Result
from slewrl.report.figures import Ground, legible, sheet
from slewrl.report.methods import called, in_order
from slewrl.report.panel import Box, Panel, boxes

COLUMNS = 3
REFERENCE = "ddsrad"
"""The method drawn, dashed, behind every other."""


class Place(NamedTuple):
    """A result and where its panel goes."""

    result: Result
    box: Box
    first: bool
    """Of its row: it has the numbers of the y axis."""
    last: bool
    """Of its column: it has those of the x axis."""


def places(results: Sequence[Result], height: float, **room: float) -> tuple[Figure, list[Place]]:
    """A figure, and each result with its place, in the order of the tables.

    ``height``: of a panel, in inches, with all around it; ``room``: see `boxes`.
    """
    ordered = in_order(list(results))
    n, columns = len(ordered), min(COLUMNS, len(ordered))
    lines = max(title_of(result).count("\n") for result in ordered)
    pitch = height * (1.6 if columns == 1 else 1) + 0.13 * lines
    room = {"above": 0.24 + 0.13 * lines, "below": 0.4, **room}
    figure = sheet(room["below"] + -(-n // columns) * pitch)
    found = zip(ordered, boxes(figure, n, columns, **room), strict=True)
    return figure, [Place(r, box, i % columns == 0, i >= n - columns) for i, (r, box) in enumerate(found)]


def title(panel: Panel, result: Result, ground: Ground) -> None:
    """The method's name over its panel."""
    panel.title(title_of(result), legible(result.layer, ground, 4.5))


def title_of(result: Result) -> str:
    """The method's name, on two lines if it would be too wide."""
    words = called(result)
    return words.replace(" (", "\n(") if len(words) > 16 else words


def reference(results: Sequence[Result]) -> Result | None:
    """What the others are compared with, if it and others are there."""
    found = next((result for result in results if result.cell.method == REFERENCE), None)
    return found if len(results) > 1 else None


def dashed(ground: Ground) -> dict[str, Any]:
    """How the reference is drawn."""
    return {"color": ground.quiet, "linestyle": (0, (3, 1.5)), "linewidth": 1.0, "zorder": 2}


def axes_are(figure: Figure, ground: Ground, x: str, y: str = "") -> None:
    """What the axes of all panels show; ``x`` may go on for another line, with how to read the panels."""
    figure.text(0.5, 0.04 / figure.get_figheight(), x, ha="center", va="bottom", **_quiet(ground), linespacing=1.3)
    if y:
        figure.text(0.015, 0.5, y, ha="left", va="center", rotation=90, **_quiet(ground))


def _quiet(ground: Ground) -> dict[str, Any]:
    return {"fontsize": 8, "color": ground.quiet}
