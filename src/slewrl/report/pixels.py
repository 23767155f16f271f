"""An image of large pixels with sharp edges: one file for all the strips, or all the dots, of a figure."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D, Bbox, TransformedBbox
from numpy.typing import NDArray

from slewrl.report.panel import Box


class Pixels(Artist):
    """A picture somewhere in a figure.

    matplotlib's own images need an axis, and blend pixels that have no blend: half a second for one of ours.

    Args:
        figure: where to draw.
        box: where in it.
        image: colours with their opacity, the upper row first, (rows, columns, 4).
    """

    def __init__(self, figure: Figure, box: Box, image: NDArray[np.uint8]) -> None:
        super().__init__()
        self.image = image
        self._place = TransformedBbox(Bbox.from_bounds(*box), figure.dpi_scale_trans)
        self.set_zorder(1)
        figure.add_artist(self)

    def draw(self, renderer: Any) -> None:
        """As it is where the format can enlarge it, otherwise each pixel as often as it takes."""
        left, bottom, width, height = self._place.bounds
        gc, upwards = renderer.new_gc(), self.image[::-1]
        if renderer.option_scale_image():
            renderer.draw_image(gc, left, bottom, upwards, Affine2D().scale(width, height))
        else:
            rows, columns = (_repeats(n, size) for n, size in zip(self.image.shape, (height, width), strict=False))
            whole = np.ascontiguousarray(upwards).view(np.uint32)[..., 0]  # four bytes move as fast as one
            enlarged = whole.take(columns, 1).take(rows, 0)
            renderer.draw_image(gc, round(left), round(bottom), enlarged.view(np.uint8).reshape(*enlarged.shape, 4))
        gc.restore()


def _repeats(n: int, size: float) -> NDArray[np.intp]:
    """Which of n pixels is seen at each of ``size`` places."""
    wanted = round(size)
    return np.arange(wanted) * n // wanted
