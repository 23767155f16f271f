"""Words of a figure as outlines that are made once: laying out the same names again took a third of a report's time."""

from functools import cache
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Affine2D, IdentityTransform

PITCH = 1.25
"""From line to line, in sizes."""
ABOVE, MIDDLE, BELOW = 0.78, 0.365, 0.22
"""From the baseline to the top of letters, to half a capital's height and to the bottom, in sizes."""
ALONG = {"left": 0.0, "center": 0.5, "right": 1.0}


@cache
def width_of(text: str, size: float, weight: str | int = "normal") -> float:
    """Inches, of a line of so many points."""
    font = FontProperties(size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def places(text: str, size: float, weight: str | int, ha: str, va: str) -> list[tuple[float, float]]:
    """Where each line starts, in points from where the words are held on to."""
    lines = text.split("\n")
    last = PITCH * (len(lines) - 1)
    first = {"top": -ABOVE, "center": last / 2 - MIDDLE, "bottom": last + BELOW, "baseline": last}[va]
    starts = [-ALONG[ha] * 72 * width_of(line, size, weight) for line in lines]
    return [(start, size * (first - PITCH * i)) for i, start in enumerate(starts)]


@cache
def outline(text: str, size: float, weight: str | int) -> Path:
    """Of a line, in points from where it starts."""
    corners, codes = text_to_path.get_text_path(FontProperties(size=size, weight=weight), text)
    return Path(np.reshape(corners, (-1, 2)) * size / text_to_path.FONT_SCALE, codes)


class Words(Text):
    """A text whose pixels are filled outlines. Formats that are drawn at any size get its letters, each stored once."""

    def draw(self, renderer: Any) -> None:
        """Line by line."""
        text, size, weight = self.get_text(), float(self.get_fontsize()), self.get_fontweight()
        starts = places(text, size, weight, self.get_horizontalalignment(), self.get_verticalalignment())
        held, point = self.get_transform().transform(self.get_position()), renderer.points_to_pixels(1.0)
        gc = renderer.new_gc()
        gc.set_foreground(self.get_color())
        gc.set_linewidth(0)
        gc.set_snap(False)
        for line, start in zip(text.split("\n"), starts, strict=True):
            x, y = held + point * np.array(start)
            if renderer.option_scale_image():
                down = renderer.get_canvas_width_height()[1] - y if renderer.flipy() else y
                renderer.draw_text(gc, x, down, line, self.get_fontproperties(), 0)
            else:
                drawn = outline(line, size, weight), Affine2D().scale(point)
                renderer.draw_markers(gc, *drawn, Path([(x, y)]), IdentityTransform(), to_rgba(self.get_color()))
        gc.restore()
