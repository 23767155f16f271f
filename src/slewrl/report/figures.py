"""Figures of training runs for a page with a light and a dark face; each is drawn once for either."""

import dataclasses
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import NDArray

from slewrl.report.reachable import COLOURS

WIDTH = 4.4
"""Inches, of every figure: narrow enough that its 10 pt text can be read on a phone."""
STYLES = ("-", (0, (4, 1.5)), (0, (1, 1)), "-.")
"""Of the lines of the first, second ... run, so that colour is never the only difference."""
BINS = 41
"""Odd, so that one bin is centred on 0, a joint held still."""


@dataclass(frozen=True)
class RunResult:
    """What one training run came to."""

    name: str
    """The layer, which decides the colour."""
    label: str
    """What to call it."""
    steps: NDArray[Any]
    """Environment steps at each evaluation during training, (n,)."""
    returns: NDArray[Any]
    """Mean return at each of them, (n,)."""
    final: Mapping[str, float]
    """The row of the final evaluation, as docs/metrics.md defines it."""
    per_joint: NDArray[Any]
    """Utilisation of each joint in the final evaluation, (d,)."""
    increments: NDArray[Any]
    """Executed increments of the final evaluation, signed and divided by delta, (T, d)."""
    actions_checked: int
    """Joint actions compared with their limits, training and evaluation: steps times joints."""
    violations: int
    """How many of them broke a limit, in exact arithmetic."""
    about: str = ""
    """What it is, in a few words."""

    def __post_init__(self) -> None:
        """Refuse what no figure can show, and a claim about nothing."""
        if len(self.steps) == 0 or len(self.steps) != len(self.returns):
            raise ValueError(f"{self.name}: {len(self.steps)} steps, {len(self.returns)} returns: expected a pair each")
        if len(self.increments) == 0 or self.increments.shape != (len(self.increments), len(self.per_joint)):
            shape = f"(T, {len(self.per_joint)}) with T > 0, as per_joint has {len(self.per_joint)}"
            raise ValueError(f"{self.name}: increments have shape {self.increments.shape}, expected {shape}")
        if self.actions_checked < 1:
            raise ValueError(f"{self.name}: actions_checked is {self.actions_checked}: nothing was checked")


@dataclass(frozen=True)
class Ground:
    """The colours of a page: its figures and its style sheet share them."""

    page: str
    """Behind everything."""
    card: str
    """Behind a figure."""
    text: str
    """Of words."""
    quiet: str
    """Of captions and ticks."""
    line: str
    """Of borders and grids."""
    good: str
    """Behind good news, in white letters."""
    bad: str
    """Behind bad news, in white letters."""


LIGHT = Ground("#f5f6f8", "#ffffff", "#1b1f24", "#57606a", "#d5dae0", "#1a7f4b", "#c1121f")
DARK = Ground("#101317", "#1a1e24", "#e4e8ee", "#9aa4b0", "#363d47", "#17693f", "#b3131f")


PNG: dict[str, Any] = {"format": "png", "dpi": 160, "facecolor": LIGHT.card, "pil_kwargs": {"compress_level": 3}}
PDF: dict[str, Any] = {"format": "pdf", "dpi": 300, "metadata": {"CreationDate": None}}
SVG: dict[str, Any] = {"format": "svg", "transparent": True, "metadata": {"Date": None}}
FORMATS = {"svg": SVG, "png": PNG, "pdf": PDF}


def learning_curves(runs: Sequence[RunResult], ground: Ground) -> Figure:
    """Mean return of the evaluations during training, each curve named at its end."""
    figure = canvas(3.2)
    axis = figure.subplots()
    for run, style in zip(runs, _styles(runs, ground), strict=True):
        axis.plot(run.steps, run.returns, marker="o", markersize=3.5, **style)
    low, high = axis.get_ylim()
    height = -np.inf
    for run in sorted(runs, key=lambda run: float(run.returns[-1])):
        height = max(float(run.returns[-1]), height + 0.09 * (high - low))  # names of equal curves go side by side
        place: dict[str, Any] = {"xytext": (8, 0), "textcoords": "offset points", "annotation_clip": False}
        axis.annotate(run.label, (run.steps[-1], height), va="center", **place, **_words(run, ground))
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set(xlabel="environment steps", ylabel="mean return")
    axis.grid(axis="y")
    return figure


def utilisation_bars(runs: Sequence[RunResult], joints: Sequence[str], ground: Ground) -> Figure:
    """Mean |increment| / delta of each joint, a bar for each run."""
    pitch = len(runs) + 0.9
    figure = canvas(0.8 + 0.34 * pitch * len(joints))
    axis = figure.subplots()
    for i, run in enumerate(runs):
        places = pitch * np.arange(len(joints)) + i
        axis.barh(places, run.per_joint, height=0.78, color=legible(run.name, ground))
        for place, value in zip(places, run.per_joint, strict=True):
            axis.text(value + 0.015, place, f"{run.label} {value:.0%}", va="center", **_words(run, ground))
    axis.set_yticks(pitch * np.arange(len(joints)) + (len(runs) - 1) / 2, joints)
    axis.tick_params(axis="y", length=0, labelcolor=ground.text)
    axis.invert_yaxis()
    axis.set_xlim(0, max(1.0, *(float(run.per_joint.max()) for run in runs)))
    axis.xaxis.set_major_formatter(PercentFormatter(1, 0))
    axis.set_xlabel("share of the rate limit used")
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x")
    return figure


def increment_densities(runs: Sequence[RunResult], joints: Sequence[str], ground: Ground) -> Figure:
    """How the increments of each joint spread over what its limit allows, a panel for each joint."""
    figure = canvas(1.0 + 1.3 * len(joints))
    axes = figure.subplots(len(joints), 1, sharex=True, squeeze=False)[:, 0]
    reach = max(1.0, *(float(np.abs(run.increments).max()) for run in runs))  # a layer that is not hard goes past 1
    edges = np.linspace(-reach, reach, BINS + 1)
    for j, (axis, joint) in enumerate(zip(axes, joints, strict=True)):
        for run, style in zip(runs, _styles(runs, ground), strict=True):
            share = np.histogram(run.increments[:, j], edges)[0] / len(run.increments)
            axis.stairs(share, edges, label=run.label, **style)
        axis.set_title(joint, loc="left", fontsize=10)
        axis.yaxis.set_major_locator(MaxNLocator(3))
        axis.yaxis.set_major_formatter(PercentFormatter(1, 0))
        axis.grid(axis="y")
    colours = [_words(run, ground)["color"] for run in runs]
    handles = axes[0].get_legend_handles_labels()[
        0
    ]  # named once, above: outlines cross too often for names beside them
    names: dict[str, Any] = {"labelcolor": colours, "prop": {"weight": "bold", "size": 9.5}, "frameon": False}
    figure.legend(handles=handles, loc="outside upper right", ncols=len(runs), borderpad=0, **names)
    axes[-1].xaxis.set_major_locator(MaxNLocator(5))
    axes[-1].set_xlabel("increment / limit (±1: as fast as allowed)")
    figure.supylabel("share of steps", fontsize=10, color=ground.quiet)
    return figure


def as_svg(draw: Callable[[Ground], Figure], ground: Ground) -> bytes:
    """Draw for a ground and save: letters as paths, nothing behind them, the same bytes every time."""
    return _saved(draw, ground, SVG)[0]


def saved(draw: Callable[[Ground], Figure], kinds: Sequence[str], palette: Iterable[str] = ()) -> dict[str, bytes]:
    """A figure for slides (png) and papers (pdf), both on white, and for a page (svg, see ``as_two_faced_svg``).

    Drawn once for all the kinds that were asked for, in this order whatever theirs, so that the bytes are the same.
    """
    wanted = [kind for kind in FORMATS if kind in kinds]
    files = dict(zip(wanted, _saved(draw, LIGHT, *(FORMATS[kind] for kind in wanted)), strict=True))
    return {kind: _two_faced(data, palette) if kind == "svg" else data for kind, data in files.items()}


def as_two_faced_svg(draw: Callable[[Ground], Figure], palette: Iterable[str] = ()) -> bytes:
    """As ``as_svg``, but one file for both grounds: half the size of two figures, and half the time.

    Every colour becomes a variable of the figure's style sheet, whose value is up to the reader's colour scheme.
    ``palette``: colours besides those of the layers that ``draw`` asks ``legible`` for.
    """
    return _two_faced(as_svg(draw, LIGHT), palette)


def _two_faced(light_svg: bytes, palette: Iterable[str]) -> bytes:
    svg = light_svg.decode()
    pairs = {getattr(LIGHT, field.name): getattr(DARK, field.name) for field in dataclasses.fields(Ground)}
    for name, contrast in product((*COLOURS, "", *palette), (3.0, 4.5)):
        pairs.setdefault(legible(name, LIGHT, contrast), legible(name, DARK, contrast))
    used = [light for light in pairs if light in svg]
    for i, light in enumerate(used):
        svg = svg.replace(light, f"var(--c{i})")
    light_face, dark_face = (
        "".join(f"--c{i}:{c};" for i, c in enumerate(face)) for face in (used, map(pairs.get, used))
    )
    rules = f"svg{{{light_face}}}@media(prefers-color-scheme:dark){{svg{{{dark_face}}}}}"
    return _small(svg).replace("<defs>", f"<style>{rules}</style><defs>", 1).encode()


def _small(svg: str) -> str:
    """Half as many bytes for the same picture: a page with forty figures must stay a page."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", svg)  # the ground of an axis, which has no colour
    svg = re.sub(r' d="[^"]*"', _short_path, svg)
    return re.sub(r"\s+", " ", svg).replace("> <", "><")


def _short_path(path: re.Match[str]) -> str:
    """A tenth of a point is finer than a phone's pixel."""
    places = re.sub(r"(?<=\.\d)\d+", "", path[0]).replace(" \n", "").replace(".0 ", " ")
    for letter in "MLQCz":
        places = places.replace(f"{letter} ", letter)
    return places


def _saved(draw: Callable[[Ground], Figure], ground: Ground, *formats: dict[str, Any]) -> list[bytes]:
    """A figure drawn once and saved once for each set of ``savefig``'s options."""
    quiet = {key: ground.quiet for key in ("xtick.color", "ytick.color", "axes.labelcolor")}
    lines = {"axes.edgecolor": ground.line, "grid.color": ground.line, "grid.linewidth": 0.6, "axes.axisbelow": True}
    spines = {"axes.spines.top": False, "axes.spines.right": False}
    fixed = {"svg.hashsalt": "slewrl", "svg.fonttype": "path", "pdf.fonttype": 42}  # 42: letters journals accept
    fixed |= {"text.hinting": "none"}  # made for screens of 1990, and slow
    style: Any = {"text.color": ground.text, "axes.facecolor": "none", **quiet, **lines, **spines, **fixed}
    with matplotlib.rc_context(style):
        figure = draw(ground)
        found = []
        for options in formats:
            found.append(_file(figure, options))
            figure.set_layout_engine(None)  # laid out once: where things are does not depend on the format
    return found


def _file(figure: Figure, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, **options)
    return file.getvalue()


@cache
def legible(name: str, ground: Ground, contrast: float = 3.0) -> str:
    """A layer's colour, darkened or lightened until its WCAG contrast with the ground suffices (words need 4.5).

    ``name`` may be a colour, too: "#1f77b4".
    """
    behind = _luminance(np.array(to_rgb(ground.card)))
    own = name if name.startswith("#") else COLOURS.get(name, "#777777")
    colour, end = np.array(to_rgb(own)), float(behind < 0.5)
    for share in np.linspace(0, 1, 51):
        mixed = (1 - share) * colour + share * end
        dim, bright = sorted((behind, _luminance(mixed)))
        if (bright + 0.05) / (dim + 0.05) >= contrast:
            break
    return to_hex(tuple(mixed))


def _luminance(colour: NDArray[np.float64]) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def canvas(height: float) -> Figure:
    """An empty figure of the common width; ``height`` in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def sheet(height: float) -> Figure:
    """As `canvas`, for those who know where everything goes: laying out takes as long as drawing."""
    return Figure(figsize=(WIDTH, height))


def _styles(runs: Sequence[RunResult], ground: Ground) -> list[dict[str, Any]]:
    lines = [STYLES[i % len(STYLES)] for i in range(len(runs))]
    return [
        {"color": legible(run.name, ground), "linestyle": line, "linewidth": 1.8}
        for run, line in zip(runs, lines, strict=True)
    ]


def _words(run: RunResult, ground: Ground) -> dict[str, Any]:
    return {"color": legible(run.name, ground, 4.5), "weight": "bold", "fontsize": 9.5}
