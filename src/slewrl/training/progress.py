"""One line that shows a run: steps, steps/s, returns, how the limits are used, violations, time left."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TimeRemainingColumn

from slewrl.io.console import Console
from slewrl.training.logging import Report

COLUMNS: list[Any] = [
    BarColumn(12),
    "{task.completed:,} steps",
    TimeRemainingColumn(compact=True),
    "{task.fields[rate]}/s",
    "return {task.fields[episode_return]}",
    "eval {task.fields[return_mean]}",
    "use {task.fields[utilisation]}",
    "violations {task.fields[violations]}",
]
"""Fits 80 columns; the time left comes early, since a narrow terminal cuts from the end."""

FORMS = {"rate": ".0f", "episode_return": ".0f", "return_mean": ".0f", "utilisation": ".0%"}
"""Of each number shown; steps/s are by the clock on the wall, as is the time left."""


@contextmanager
def progress_line(steps: int, console: Console) -> Iterator[Report]:
    """Gives the function to call with each row logged, or with ``{"message": ...}`` for what a person should know."""
    start: Any = {**dict.fromkeys(FORMS, "-"), "violations": 0}
    begun: list[tuple[int, float]] = []
    with Progress(*COLUMNS, console=console, speed_estimate_period=300) as progress:
        line = progress.add_task("", total=steps, **start)

        def report(row: dict[str, Any]) -> None:
            if "message" in row:
                console.print(row["message"], style="yellow")
                return
            # NaN before the first episode ends; an evaluation's utilisation and violations are its own.
            names = ("return_mean",) if "return_mean" in row else ("episode_return", "utilisation", "violations")
            begun.append((row["step"], time.monotonic()))
            rate = (row["step"] - begun[0][0]) / max(begun[-1][1] - begun[0][1], 1e-9)
            seen = {key: row[key] for key in names} | ({"rate": rate} if rate else {})
            shown: Any = {key: _shown(value, FORMS.get(key, "")) for key, value in seen.items()}
            progress.update(line, completed=row["step"], **shown)

        yield report


def _shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
