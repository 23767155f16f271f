"""One line that shows a run: steps, steps/s, returns, how the limits are used, violations, time left."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from slewrl.logs import Report

COLUMNS: list[Any] = [
    BarColumn(12),
    "{task.completed:,} steps",
    TimeRemainingColumn(compact=True),
    "{task.fields[rate]:.0f}/s",
    "return {task.fields[episode_return]:.0f}",
    "eval {task.fields[return_mean]:.0f}",
    "use {task.fields[utilisation]:.0%}",
    "violations {task.fields[violations]}",
]
"""Fits 80 columns; the time left comes early, since a narrow terminal cuts from the end."""


@contextmanager
def progress_line(steps: int, console: Console) -> Iterator[Report]:
    """Gives the function to call with each row logged, or with ``{"message": ...}`` for what a person should know."""
    start: Any = {"rate": 0.0, "episode_return": 0.0, "return_mean": 0.0, "utilisation": 0.0, "violations": 0}
    with Progress(*COLUMNS, console=console, speed_estimate_period=300) as progress:
        line = progress.add_task("", total=steps, **start)

        def report(row: dict[str, Any]) -> None:
            if "message" in row:
                console.print(f"[yellow]{row['message']}[/]")
                return
            # NaN before the first episode ends; an evaluation's utilisation and violations are its own.
            names = (
                ("return_mean",) if "return_mean" in row else ("rate", "episode_return", "utilisation", "violations")
            )
            shown: Any = {key: 0.0 if math.isnan(row[key]) else row[key] for key in names}
            progress.update(line, completed=row["step"], **shown)

        yield report
