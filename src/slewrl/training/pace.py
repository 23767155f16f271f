"""The wall-clock speed of a run, and the time it has left."""

import math
from collections.abc import Sequence

from slewrl.training.spec import RunSpec

WINDOW, LEAST = 300.0, 30.0
"""The longest and the shortest time that a pace is measured over, in seconds."""


def pace(rows: Sequence[tuple[float, float]], warm_up: int = 0, least: float = LEAST) -> float:
    """Steps per wall-clock second over the last minutes; NaN while too little is known.

    Args:
        rows: (step, seconds) as logged. Where either falls, the run was resumed, and earlier rows do not count.
        warm_up: steps that do not count, as they are ten times as fast as the others.
        least: seconds that the rows must cover.
    """
    if not rows:
        return math.nan
    last = first = rows[-1]
    for row in reversed(rows):
        if row[0] < warm_up or row[0] > first[0] or row[1] > first[1] or last[1] - first[1] >= WINDOW:
            break
        first = row
    covered = last[1] - first[1]
    return (last[0] - first[0]) / covered if covered > 0 and covered >= least and last[0] > first[0] else math.nan


def warm_up(spec: RunSpec) -> int:
    """Steps before a run learns; 0 for a run that never does, whose steps are all alike."""
    return spec.learning_starts if spec.learning_starts < spec.steps else 0


def duration(seconds: float) -> str:
    """The time left, in hours and minutes."""
    if math.isnan(seconds):
        return "estimating"
    minutes = round(seconds / 60)
    if seconds < 60:
        return "<1 min"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
