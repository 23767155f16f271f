"""The colours of pages and figures: a light and a dark theme, and a legible colour for each layer."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

COLOURS = {
    "ddsrad": "#D62728",
    "dtanh": "#FF7F0E",
    "boxpre": "#1F77B4",
    "post": "#A52A2A",
    "srad_qp": "#9467BD",
    "srad_ball": "#2CA02C",
    "ddsrad_smooth": "#E377C2",
    "boxpro": "#17BECF",
    "srad_gauge": "#2B5BEE",
    "interval_tanh": "#BCBD22",
    "interval_srad": "#8C2BEE",
    "truncnorm": "#11A579",
    "none": "#444444",
    "budget": "#B82EB8",
    "qp": "#D41173",
    "aram": "#B48C64",
}
"""Layer -> its colour: the paper's for its six methods; the others are far from all others in both themes."""
OWN = ("#406619", "#760A40", "#196653", "#EE2BEE", "#A5590D", "#A0B464")
"""Colours of the user's own layers, in the order of the campaign."""
UNKNOWN = "#777777"


@dataclass(frozen=True)
class Theme:
    """The colours that a page's figures and its style sheet share."""

    page: str
    card: str
    """The background of figures."""
    text: str
    quiet: str
    """The colour of captions and ticks."""
    line: str
    """The colour of borders and grids."""
    good: str
    """The background of good news, in white letters."""
    bad: str
    """The background of bad news, in white letters."""


LIGHT = Theme("#f5f6f8", "#ffffff", "#1b1f24", "#57606a", "#d5dae0", "#1a7f4b", "#c1121f")
DARK = Theme("#101317", "#1a1e24", "#e4e8ee", "#9aa4b0", "#363d47", "#17693f", "#b3131f")


@cache
def legible(colour: str, theme: Theme, contrast: float = 3.0) -> str:
    """A colour, darkened or lightened until its WCAG contrast with the theme's cards suffices (text needs 4.5)."""
    behind = _luminance(_rgb(theme.card))
    own, end = _rgb(colour), float(behind < 0.5)
    for share in np.linspace(0, 1, 51):
        mixed = (1 - share) * own + share * end
        dim, bright = sorted((behind, _luminance(mixed)))
        if (bright + 0.05) / (dim + 0.05) >= contrast:
            break
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in mixed)


def _rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def _luminance(colour: NDArray[np.float64]) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))
