"""Reachable sets: where each layer can go from one previous action, against the feasible rectangle."""

from collections.abc import Mapping
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

# The paper's colours for its six methods; ours for the rest.
COLOURS = {
    "ddsrad": "#D62728",
    "dtanh": "#FF7F0E",
    "boxpre": "#1F77B4",
    "post": "#A52A2A",
    "srad_qp": "#9467BD",
    "srad_ball": "#2CA02C",
    "ddsrad_smooth": "#E377C2",
    "boxpro": "#17BECF",
    "srad_gauge": "#8C564B",
    "interval_tanh": "#BCBD22",
    "interval_srad": "#7F3C8D",
    "truncnorm": "#11A579",
    "none": "#444444",
    "budget": "#E58606",
}
COLUMNS = 5


def draw(
    samples: Mapping[str, NDArray[Any]],
    coverage: Mapping[str, float],
    low: NDArray[Any],
    high: NDArray[Any],
    labels: tuple[str, str],
    title: str,
) -> Figure:
    """One panel per layer.

    Args:
        samples: layer name -> increments (n, 2) from the previous action, which sits at the origin.
        coverage: layer name -> share of F_t reached, in [0, 1].
        low: lower corner of F_t minus the previous action, shape (2,).
        high: upper corner of F_t minus the previous action, shape (2,).
        labels: what the two axes are.
        title: above the figure.
    """
    rows = -(-len(samples) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 2.75 * rows + 0.8), layout="constrained")
    figure.suptitle(title, fontsize=12)
    for axis in axes.flat[len(samples) :]:
        axis.set_axis_off()
    if len(samples) < axes.size:
        _legend(axes.flat[len(samples)])
    for axis, (name, points) in zip(axes.flat, samples.items(), strict=False):
        _panel(axis, points, low, high, COLOURS.get(name, "#333333"))
        axis.set_title(f"{name}   {coverage[name]:.0%} of F$_t$", fontsize=10, loc="left")
    for axis in axes[:, 0]:
        axis.set_ylabel(labels[1], fontsize=9)
    for axis in axes[-1, : len(samples) - COLUMNS * (rows - 1)]:
        axis.set_xlabel(labels[0], fontsize=9)
    return figure


def _panel(axis: Any, points: NDArray[Any], low: NDArray[Any], high: NDArray[Any], colour: str) -> None:
    # In the drawing an ulp is invisible; outside means by more than a thousandth of the box.
    slack = 1e-3 * (high - low)
    outside = ((points < low - slack) | (points > high + slack)).any(1)
    axis.scatter(*points[~outside].T, s=4, color=colour, alpha=0.4, linewidths=0, rasterized=True, zorder=3)
    axis.scatter(*points[outside].T, s=3, color="#E8A0A0", alpha=0.8, linewidths=0, rasterized=True, zorder=3)
    axis.add_patch(Rectangle((low[0], low[1]), *(high - low), fill=False, edgecolor="black", linewidth=1.0, zorder=2))
    axis.plot(0, 0, marker="+", color="black", markersize=9, zorder=4)
    span = high - low
    axis.set_xlim(low[0] - 0.25 * span[0], high[0] + 0.25 * span[0])
    axis.set_ylim(low[1] - 0.25 * span[1], high[1] + 0.25 * span[1])
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.2)


def _legend(axis: Any) -> None:
    """What the marks mean, in the first empty panel, which may be the last of its row: lines no wider than a panel."""
    lines = [
        "rectangle: F$_t$,\nthe actions allowed next",
        "+ : the previous action",
        "colour: executed actions,\nlatents $u\\sim N(0, 2^2)$",
        "pale red: actions outside F$_t$",
        "%: share of F$_t$ reachable\nby any latent",
    ]
    axis.text(0.0, 0.95, "\n\n".join(lines), fontsize=9, va="top", transform=axis.transAxes, in_layout=False)


def covered_share(points: NDArray[Any], low: NDArray[Any], high: NDArray[Any], cells: int = 50) -> float:
    """The share of a cells x cells grid over [low, high] that points (n, 2) fall into."""
    inside = ((points >= low) & (points <= high)).all(1)
    index = np.floor((points[inside] - low) / (high - low) * cells).clip(0, cells - 1).astype(int)
    return len(np.unique(index @ np.array([cells, 1]))) / cells**2
