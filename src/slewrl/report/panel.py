"""A panel: a part of a figure with a scale of its own, put where it belongs in inches.

matplotlib's axes can do more, at 20 ms each to make and as much again to lay out; a report of a thousand runs has four
hundred panels, and nobody zooms in on any of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon
from matplotlib.transforms import Bbox, BboxTransform

from slewrl.report.data import Array
from slewrl.report.figures import WIDTH, Ground
from slewrl.report.words import Words

Limits = tuple[float, float]
SMALL = 7.5
"""Points, of the numbers along a panel."""


class Box(NamedTuple):
    """Where a panel is, in inches from the figure's lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


class Panel:
    """Lines, areas and words on a scale of their own.

    Args:
        figure: where to draw; one that is not laid out by matplotlib.
        box: what the scale spans.
        xlim, ylim: the values at the ends of the box. What is drawn beyond them is not cut off.
    """

    def __init__(self, figure: Figure, box: Box, xlim: Limits, ylim: Limits) -> None:
        self.figure, self.box, self.xlim, self.ylim = figure, box, xlim, ylim
        inches = Bbox.from_bounds(*box)
        self._to_inches = BboxTransform(Bbox([[xlim[0], ylim[0]], [xlim[1], ylim[1]]]), inches)
        self._transform = self._to_inches + figure.dpi_scale_trans

    def line(self, x: Any, y: Any, **style: Any) -> Line2D:
        """Through points of this panel's scale; a nan is a gap."""
        line = Line2D(x, y, transform=self._transform, **style)
        self.figure.add_artist(line)
        return line

    def area(self, x: Array, low: Array, high: Array, colour: str, alpha: float) -> None:
        """Between two curves."""
        self.shape(np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]), colour, alpha)

    def shape(self, x: Array, y: Array, colour: str, alpha: float) -> None:
        """The inside of a polygon."""
        corners = np.stack([x, y], 1)
        tint: dict[str, Any] = {"facecolor": colour, "alpha": alpha, "linewidth": 0, "zorder": 1}
        self.figure.add_artist(Polygon(corners, transform=self._transform, **tint))

    def ring(self, radius: float, colour: str, width: float) -> None:
        """Around the middle of a scale that is the same in both directions."""
        style: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": width, "zorder": 0.5}
        self.figure.add_artist(Circle((0, 0), radius, transform=self._transform, **style))

    def words(self, x: float, y: float, text: str, right: float = 0.0, up: float = 0.0, **style: Any) -> None:
        """At a point of this panel's scale, moved by some inches."""
        across, along = self._to_inches.transform((x, y))
        place: dict[str, Any] = {"transform": self.figure.dpi_scale_trans}
        self.figure.add_artist(Words(across + right, along + up, text, **place, **style))

    def title(self, text: str, colour: str, size: float = 8, weight: str = "bold") -> None:
        """Over the upper left corner."""
        self.words(self.xlim[0], self.ylim[1], text, up=0.05, va="bottom", fontsize=size, weight=weight, color=colour)

    def x_axis(self, ground: Ground, ticks: Sequence[float], labels: Sequence[str], named: bool = True) -> None:
        """The lower edge with a tick at each value and, if ``named``, what it says."""
        x, y = dashes(ticks, *self._below(0.03))
        self.line([*self.xlim, np.nan, *x], [self.ylim[0]] * 2 + [np.nan, *y], color=ground.line, linewidth=0.8)
        for tick, text in zip(ticks, labels if named else [], strict=False):
            style: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": SMALL, "color": ground.quiet}
            self.words(tick, self.ylim[0], text, up=-0.06, **style)

    def y_axis(self, ground: Ground, ticks: Sequence[float], labels: Sequence[str], named: bool = True) -> None:
        """The left edge, a line across at each value and, if ``named``, what it says."""
        y, x = dashes(ticks, *self.xlim)
        self.line(x, y, color=ground.line, linewidth=0.6, zorder=0.5)
        self.line([self.xlim[0]] * 2, self.ylim, color=ground.line, linewidth=0.8)
        for tick, text in zip(ticks, labels if named else [], strict=False):
            style: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": SMALL, "color": ground.quiet}
            self.words(self.xlim[0], tick, text, right=-0.05, **style)

    def _below(self, inches: float) -> Limits:
        """From the lower edge to some way under it, on the panel's scale."""
        return self.ylim[0], self.ylim[0] - inches * (self.ylim[1] - self.ylim[0]) / self.box.height


def dashes(places: Sequence[float], start: float, stop: float) -> tuple[Array, Array]:
    """A dash from start to stop at each place, as one line with gaps: (places, ends)."""
    n = len(places)
    return np.repeat(np.asarray(places, float), 3), np.tile([start, stop, np.nan], n)


def boxes(
    figure: Figure,
    count: int,
    columns: int,
    left: float = 0.05,
    above: float = 0.24,
    below: float = 0.4,
    gap: float = 0.14,
    top: float = 0.0,
) -> list[Box]:
    """Where ``count`` panels go, row by row over all of the figure.

    Args:
        figure: to be filled.
        count: of panels.
        columns: how many go beside each other.
        left: room at the left of the figure, for the numbers of an axis.
        above: room above every panel, for its title.
        below: room under the last row.
        gap: between two columns.
        top: room above the first row.
    """
    rows = -(-count // columns)
    under = 0.08
    width = (WIDTH - left - 0.1 - gap * (columns - 1)) / columns
    pitch = (float(figure.get_figheight()) - below - top) / rows
    foot = float(figure.get_figheight()) - top
    return [
        Box(left + i % columns * (width + gap), foot - (i // columns + 1) * pitch + under, width, pitch - above - under)
        for i in range(count)
    ]


def around(*values: Array, margin: float = 0.05) -> Limits:
    """The ends of a scale that shows all values, with some room."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    room = margin * (high - low) or 0.5
    return low - room, high + room
