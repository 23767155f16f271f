"""The progress of a run: a live line on a terminal, elsewhere a plain line every minute."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress

from slewrl.io.console import Console
from slewrl.training.logging import Callback
from slewrl.training.pace import duration, pace, warm_up
from slewrl.training.spec import RunSpec

PARTS = ["{left}", "{rate}/s", "return {episode_return}", "eval {return_mean}", "use {utilisation}"]
PARTS += ["violations {violations}"]
"""What is shown after the steps; the time left comes early, since a narrow terminal cuts from the end."""
FORMATS = {"rate": ".0f", "episode_return": ".0f", "return_mean": ".0f", "utilisation": ".0%"}
"""The format of each number; the rate and the time left are in wall-clock time."""
EVERY = 60.0
"""Seconds between lines where the output is not a terminal."""


@contextmanager
def progress_line(spec: RunSpec, console: Console) -> Iterator[Callback]:
    """Show the progress of a run by the callback that is yielded: it takes logged rows, and ``{"message": ...}``."""
    shown: dict[str, Any] = {**dict.fromkeys(FORMATS, "-"), "violations": 0, "left": duration(math.nan)}
    seen: deque[tuple[float, float]] = deque(maxlen=1_000)
    columns = (BarColumn(8), "{task.completed:,} steps", "{task.description}")  # the whole line fits 80 characters
    live = Progress(*columns, console=console, disable=not console.is_terminal)
    task = live.add_task(" ".join(PARTS).format(**shown), total=spec.steps)
    pending, due = "", time.monotonic() + EVERY

    def callback(row: dict[str, Any]) -> None:
        nonlocal pending, due
        if "message" in row:
            console.print(row["message"], style="yellow")
            return
        step = row["step"]
        if seen and seen[-1][0] == step:  # an evaluation: its time is part of the steps before it
            seen.pop()
        seen.append((step, time.monotonic()))
        # An evaluation's utilisation and violations are its own.
        names = ("return_mean",) if "return_mean" in row else ("episode_return", "utilisation", "violations")
        numbers = {name: row[name] for name in names} | {"rate": pace(seen, least=0.0)}
        shown.update({name: number(value, FORMATS.get(name, "")) for name, value in numbers.items()})
        shown["left"] = duration((spec.steps - step) / pace(seen, warm_up(spec))) if step < spec.steps else "done"
        live.update(task, completed=step, description=" ".join(PARTS).format(**shown))
        pending = f"{step:,} of {spec.steps:,} steps, " + ", ".join(PARTS).format(**shown)
        if not console.is_terminal and time.monotonic() >= due:
            console.print(pending, soft_wrap=True, highlight=False)
            pending, due = "", time.monotonic() + EVERY

    try:
        with live:
            yield callback
    finally:
        if pending and not console.is_terminal:
            console.print(pending, soft_wrap=True, highlight=False)


def number(value: float, form: str) -> str:
    """A number in a format, or "-" while it is not known (NaN)."""
    return "-" if math.isnan(value) else format(value, form)
