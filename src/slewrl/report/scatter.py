"""Where the executed increments of two joints fell in what their limits allow: the reachable set as it was used."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slewrl.report.data import Array, Result
from slewrl.report.figures import DARK, LIGHT, WIDTH, Ground, legible, sheet
from slewrl.report.methods import called, in_order
from slewrl.report.multiples import axes_are
from slewrl.report.panel import Box, Panel
from slewrl.report.pixels import Pixels
from slewrl.robots.groups import find_robot

POINTS = 600
"""Of a panel, over all seeds: as many as can be told apart."""
PAIRS = {
    "Ant-v5": ("hip_4", "ankle_4"),
    "HalfCheetah-v5": ("bthigh", "fthigh"),
    "Hopper-v5": ("thigh", "leg"),
    "Humanoid-v5": ("right_hip_y", "right_elbow"),
}
"""Two joints of a task whose limits differ most, where no robot's file says them; a preset would need torch to read."""
MOST = 3
"""Pairs of a method: as many as fit beside each other on a phone."""
EDGE, PITCH, HEAD = 1.25, 2.6, 0.5
"""Half a panel, from one panel to the next, and room for a name above a row; in limits."""
CELL = 0.025
"""Of the image the points are drawn on, in limits; the numbers above are multiples of it."""
SQUARE = np.array([[-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1]])


def pairs_of(result: Result) -> list[tuple[str, str]]:
    """The joints to show: the two whose limits differ most where we know them, then neighbours.

    Of a robot with a pair of its own that alone, which leaves room for three methods beside each other.
    """
    robot = find_robot(result.cell.task)
    known = robot.pair if robot else PAIRS.get(result.cell.task)
    first = [known] if known and all(joint in result.joints for joint in known) else []
    if robot and first:
        return first
    neighbours = [pair for pair in pairwise(result.joints) if pair not in first]
    return [*first, *neighbours][:MOST]


def increments(results: Sequence[Result], ground: Ground) -> Figure:
    """Results of one task, limits and backbone: increments over limits in [-1, 1]^2, a panel a method and pair.

    All points are one image: twenty thousand circles take seconds.
    """
    pairs, ordered = pairs_of(results[0]), in_order(list(results))
    across = max(1, MOST // len(pairs))
    rows, columns = -(-len(ordered) // across), min(across, len(ordered)) * len(pairs)
    width, height = columns * PITCH, rows * (PITCH + HEAD)
    foot = 0.25 + 0.15 * len(pairs)
    inch = (WIDTH - 0.2) / max(width, 2 * PITCH)  # a limit's
    figure = sheet(foot + inch * height)
    whole = Box(0.1, foot, inch * width, inch * height)
    panel = Panel(figure, whole, (-EDGE, width - EDGE), (EDGE + HEAD - height, EDGE + HEAD))
    image = np.zeros((round(height / CELL), round(width / CELL), 4), np.uint8)
    for i, result in enumerate(ordered):
        x, y = i % across * len(pairs) * PITCH, -(i // across) * (PITCH + HEAD)
        words: dict[str, Any] = {"color": legible(result.layer, ground, 4.5), "fontsize": 8, "weight": "bold"}
        panel.words(x - 1, y + EDGE, called(result), va="bottom", **words)
        found = sample(result)
        for j, (one, other) in enumerate(pairs):
            panel.line(x + j * PITCH + SQUARE[0], y + SQUARE[1], color=ground.text, linewidth=0.9)
            dots = dotted(found[one], found[other], shade(result.layer))
            left, top = round((x + j * PITCH) / CELL), round((HEAD - y) / CELL)
            image[top : top + len(dots), left : left + len(dots)] = dots
    Pixels(figure, whole, image)
    axes_are(figure, ground, _key(pairs))
    return figure


def dotted(x: Array, y: Array, colour: str) -> NDArray[np.uint8]:
    """Points as an image from -EDGE to EDGE, x to the right and y upwards: (size, size, 4).

    A dot is two cells wide and lets half of what is behind it through, so that many in one place are darker.
    """
    size = round(2 * EDGE / CELL)
    column, row = (((values + EDGE) / CELL).round().astype(int) for values in (x, y))
    count = np.zeros((size + 1, size + 1))
    np.add.at(count, (row, column), 1)
    count = count[1:, 1:] + count[:-1, 1:] + count[1:, :-1] + count[:-1, :-1]
    image = np.zeros((size, size, 4), np.uint8)
    image[count > 0, :3] = np.round(255 * np.array(to_rgb(colour)))
    image[..., 3] = np.round(255 * (1 - 0.5**count))
    return image[::-1]


def _key(pairs: Sequence[tuple[str, str]]) -> str:
    """Which joints a panel is about."""
    places = ("left", "middle", "right") if len(pairs) == MOST else ("left", "right")
    where = [f"{place}: " for place in places] if len(pairs) > 1 else [""]
    lines = [f"{place}{x} across, {y} up" for place, (x, y) in zip(where, pairs, strict=False)]
    return "\n".join(["increment / limit; square: what the limits allow, from −1 to 1", *lines])


def sample(result: Result) -> dict[str, Array]:
    """Increments over limits by joint, evenly from all seeds; beyond ±1.25 moved to the edge."""
    tables = [run.increments(max(1, POINTS // len(result.runs))) for run in result.runs]
    return {joint: np.concatenate([t[joint] for t in tables]).clip(-EDGE, EDGE) for joint in result.joints}


def shade(layer: str) -> str:
    """A layer's colour between the two grounds, for an image that is the same on both."""
    return legible(legible(layer, LIGHT), DARK)
