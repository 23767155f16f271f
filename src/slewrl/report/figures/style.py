"""The style of all figures, and how they are saved: as PNG and PDF on white, and as one SVG for light and dark."""

import dataclasses
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from slewrl.report.colours import COLOURS, DARK, LIGHT, OWN, UNKNOWN, Theme, legible

WIDTH = 4.4
"""Inches, the width of a figure: narrow enough that its text can be read on a phone."""
STYLES = ("-", (0, (4, 1.5)), (0, (1, 1)), "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 3)))
"""Line styles of a panel's curves, so that colour is never the only difference."""
SMALL, NORMAL = 7.0, 8.0
"""Font sizes in points: of tick labels, and of titles and legends."""
PNG: dict[str, Any] = {"format": "png", "dpi": 160, "facecolor": LIGHT.card}
PDF: dict[str, Any] = {"format": "pdf", "dpi": 300, "metadata": {"CreationDate": None}}
SVG: dict[str, Any] = {"format": "svg", "dpi": 160, "transparent": True, "metadata": {"Date": None}}
FORMATS = {"svg": SVG, "png": PNG, "pdf": PDF}


@dataclass(frozen=True)
class Look:
    """The theme, width and colours of figures."""

    theme: Theme = LIGHT
    width: float = WIDTH
    """Inches."""
    own: tuple[str, ...] = ()
    """The user's own layers, each of which gets a colour."""

    def colour(self, layer: str, contrast: float = 3.0) -> str:
        """A layer's colour, legible on the theme's cards; text needs a contrast of 4.5."""
        own = OWN[self.own.index(layer) % len(OWN)] if layer in self.own else UNKNOWN
        return legible(COLOURS.get(layer, own), self.theme, contrast)

    def seen(self, colour: str) -> str:
        """A colour, made legible on the theme's cards."""
        return legible(colour, self.theme)


Draw = Callable[[Look], Figure]


def canvas(look: Look, height: float) -> Figure:
    """An empty figure that lays itself out; ``height`` in inches at the usual width."""
    return Figure(figsize=(look.width, height), layout=ConstrainedLayoutEngine(h_pad=0.07))


def saved(draw: Draw, look: Look, kinds: Sequence[str], palette: Iterable[str] = ()) -> dict[str, bytes]:
    """A figure as png, pdf and svg, as asked for: drawn once for all of them.

    The SVG has two faces: every colour is a variable of its style sheet, whose value is up to the reader's colour
    scheme. ``palette``: colours besides those of the layers that ``draw`` asks the look for.
    """
    wanted = [kind for kind in FORMATS if kind in kinds]  # in this order whatever theirs, for the same bytes
    with matplotlib.rc_context(_settings(look.theme)):
        figure = draw(look)
        files = {}
        for kind in wanted:
            file = io.BytesIO()
            figure.savefig(file, **FORMATS[kind])
            figure.set_layout_engine(None)  # laid out once: where things are does not depend on the format
            files[kind] = file.getvalue()
    if "svg" in files:
        files["svg"] = _two_faced(files["svg"].decode(), palette).encode()
    return files


def _settings(theme: Theme) -> Any:
    quiet = dict.fromkeys(("xtick.color", "ytick.color", "axes.labelcolor"), theme.quiet)
    lines = {"axes.edgecolor": theme.line, "grid.color": theme.line, "grid.linewidth": 0.6, "axes.axisbelow": True}
    spines = {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": False, "axes.facecolor": "none"}
    sizes = dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize"), NORMAL)
    sizes |= {"xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "figure.labelsize": NORMAL}
    sizes |= {"xtick.major.size": 2, "ytick.major.size": 2, "axes.titlepad": 3}
    words = {"legend.frameon": False, "axes.titlelocation": "left"}
    fixed = {"svg.hashsalt": "slewrl", "svg.fonttype": "path", "pdf.fonttype": 42}  # 42: letters journals accept
    return {"text.color": theme.text, **quiet, **lines, **spines, **sizes, **words, **fixed}


def _two_faced(svg: str, palette: Iterable[str]) -> str:
    pairs = {getattr(LIGHT, field.name): getattr(DARK, field.name) for field in dataclasses.fields(Theme)}
    for colour, contrast in product((*COLOURS.values(), *OWN, UNKNOWN, *palette), (3.0, 4.5)):
        pairs.setdefault(legible(colour, LIGHT, contrast), legible(colour, DARK, contrast))
    used = [light for light in pairs if light in svg]
    for i, light in enumerate(used):
        svg = svg.replace(light, f"var(--c{i})")
    light_face, dark_face = (
        "".join(f"--c{i}:{c};" for i, c in enumerate(face)) for face in (used, [pairs[light] for light in used])
    )
    rules = f"svg{{{light_face}}}@media(prefers-color-scheme:dark){{svg{{{dark_face}}}}}"
    return _small(svg).replace("<defs>", f"<style>{rules}</style><defs>", 1)


def _small(svg: str) -> str:
    """Half as many bytes for the same picture: a page with forty figures must stay a page."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(?<=\.\d)\d+", "", path[0]), svg)  # a tenth of a point
    return re.sub(r"\s+", " ", svg).replace("> <", "><")
