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


@cache
def outline(text: str, size: float, weight: str | int, ha: str, va: str) -> Path:
    """Of some lines, in points from where they are held on to."""
    lines = text.split("\n")
    last = PITCH * (len(lines) - 1)
    first = {"top": -ABOVE, "center": last / 2 - MIDDLE, "bottom": last + BELOW, "baseline": last}[va]
    paths = []
    for i, line in enumerate(lines):
        corners, codes = text_to_path.get_text_path(FontProperties(size=size, weight=weight), line)
        scale = size / text_to_path.FONT_SCALE
        start = -ALONG[ha] * 72 * width_of(line, size, weight), size * (first - PITCH * i)
        paths.append(Path(np.reshape(corners, (-1, 2)) * scale + start, codes))
    return Path.make_compound_path(*paths)


class Words(Text):
    """A text whose pixels are filled outlines. Formats that are drawn at any size get its letters, each stored once."""

    def draw(self, renderer: Any) -> None:
        """At its place."""
        if renderer.option_scale_image():
            super().draw(renderer)
            return
        style = (self.get_fontsize(), self.get_fontweight(), self.get_horizontalalignment())
        path = outline(self.get_text(), *style, self.get_verticalalignment())
        place = self.get_transform().transform([self.get_position()])
        gc = renderer.new_gc()
        gc.set_linewidth(0)
        gc.set_snap(False)
        size = Affine2D().scale(renderer.points_to_pixels(1.0))
        renderer.draw_markers(gc, path, size, Path(place), IdentityTransform(), to_rgba(self.get_color()))
        gc.restore()
