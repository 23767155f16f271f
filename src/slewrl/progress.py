"""One line that shows a run: steps, steps/s, returns, how the limits are used, violations, time left."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from slewrl.logs import Report

COLUMNS = [
    "{task.completed:>9,} steps",
    "{task.fields[rate]:>4.0f}/s",
    "return {task.fields[episode_return]:>7.0f}",
    "evaluation {task.fields[return_mean]:>7.0f}",
    "use {task.fields[utilisation]:.0%}",
    "violations {task.fields[violations]}",
]


@contextmanager
def progress_line(steps: int, console: Console) -> Iterator[Report]:
    """Gives the function to call with each row logged, or with ``{"message": ...}`` for what a person should know."""
    start: Any = {"rate": 0.0, "episode_return": 0.0, "return_mean": 0.0, "utilisation": 0.0, "violations": 0}
    with Progress(BarColumn(20), *COLUMNS, TimeRemainingColumn(), console=console) as progress:
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
