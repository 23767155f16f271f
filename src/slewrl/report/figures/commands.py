"""Commands in time, and their spectrum: a row of two panels for each joint."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from slewrl.calm.metrics import Array, amplitudes, frequencies
from slewrl.report.figures.small_multiples import labelled
from slewrl.report.figures.style import SMALL, Look, canvas

MOST_JOINTS = 12
"""The most joints in a picture: of more, those that shake most."""
SHOWN = 200
"""The most steps shown in time: more cannot be told apart."""
LINE, HIGH = "#1F77B4", "#D62728"
"""Colours of the command and of its power above the cut-off."""
WIDE = 7.0
"""Inches, the width of the picture."""


def shaking_most(commands: Array) -> list[int]:
    """The joints with the largest second differences over their ranges, at most ``MOST_JOINTS``, in their order."""
    spread = np.ptp(commands, axis=0)
    shaking = np.abs(np.diff(commands, 2, axis=0)).mean(0) / np.where(spread > 0, spread, 1.0)
    return sorted(np.argsort(-shaking)[:MOST_JOINTS].tolist())


def commands_figure(commands: Array, names: Sequence[str], dt: float, cutoff: float, look: Look) -> Figure:
    """Commands (N, d) in time, from the middle of the recording, and their amplitudes by frequency."""
    count, half = len(commands), len(names)
    first = max(0, (count - SHOWN) // 2)
    some = slice(first, first + SHOWN)
    time, hertz, found = np.arange(count)[some] * dt, frequencies(count, dt), amplitudes(commands)
    figure = canvas(look, 0.5 + 0.95 * half)
    axes = figure.subplots(half, 2, squeeze=False, sharex="col", width_ratios=(3, 2))
    for (left, right), name, values, size in zip(axes, names, commands.T, found.T, strict=True):
        left.plot(time, values[some], color=look.seen(LINE), linewidth=1.0)
        left.set_title(name, parse_math=False)
        low, high = hertz <= cutoff, hertz >= cutoff
        right.fill_between(hertz[low], size[low], color=look.seen(LINE), linewidth=0.8)
        right.fill_between(hertz[high], size[high], color=look.seen(HIGH), linewidth=0.8)
        right.axvline(cutoff, color=look.ground.quiet, linewidth=0.8, linestyle=(0, (3, 1.5)))
        right.set_ylim(bottom=0)
        right.set_xlim(0, hertz[-1])
    axes[0][1].set_title(f"amplitude by frequency; red: above {cutoff:g} Hz", fontsize=SMALL)
    axes[-1][0].set_xlabel("time, s")
    axes[-1][1].set_xlabel("frequency, Hz")
    labelled(figure, look, "", "command")
    return figure
