"""How a run is shown while it runs: a live line on a terminal, a plain line a minute elsewhere."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress

from slewrl.io.console import Console
from slewrl.training.logging import Report
from slewrl.training.pace import duration, pace, warm_up
from slewrl.training.spec import RunSpec

COLUMNS: list[Any] = [
    BarColumn(8),
    "{task.completed:,} steps",
    "{task.fields[left]}",
    "{task.fields[rate]}/s",
    "return {task.fields[episode_return]}",
    "eval {task.fields[return_mean]}",
    "use {task.fields[utilisation]}",
    "violations {task.fields[violations]}",
]
"""Fits 80 columns; the time left comes early, since a narrow terminal cuts from the end."""

FORMS = {"rate": ".0f", "episode_return": ".0f", "return_mean": ".0f", "utilisation": ".0%"}
"""Of each number shown; steps/s are by the clock on the wall, as is the time left."""
LINE = "{step:,} of {steps:,} steps, {left}, {rate}/s, return {episode_return}, eval {return_mean}, use {utilisation}, "
LINE += "violations {violations}"
"""The same where the output is no terminal."""
EVERY = 60.0
"""Seconds between lines where the output is no terminal."""


@contextmanager
def progress_line(spec: RunSpec, console: Console) -> Iterator[Report]:
    """Gives the function to call with each row logged, or with ``{"message": ...}`` for what a person should know."""
    shown: dict[str, Any] = {**dict.fromkeys(FORMS, "-"), "violations": 0, "left": duration(math.nan), "step": 0}
    seen: deque[tuple[float, float]] = deque(maxlen=1_000)
    line = _Line(spec.steps, console) if console.is_terminal else _Lines(spec.steps, console)

    def report(row: dict[str, Any]) -> None:
        if "message" in row:
            console.print(row["message"], style="yellow")
            return
        if seen and seen[-1][0] == row["step"]:  # an evaluation: its time is part of the steps before it
            seen.pop()
        seen.append((row["step"], time.monotonic()))
        # NaN before the first episode ends; an evaluation's utilisation and violations are its own.
        names = ("return_mean",) if "return_mean" in row else ("episode_return", "utilisation", "violations")
        numbers = {name: row[name] for name in names} | {"rate": pace(seen, least=0.0)}
        shown.update({name: _shown(value, FORMS.get(name, "")) for name, value in numbers.items()})
        to_go = spec.steps - row["step"]
        shown.update(step=row["step"], left=duration(to_go / pace(seen, warm_up(spec))) if to_go > 0 else "done")
        line.show(shown)

    with line:
        yield report


class _Line:
    """One that changes, on a terminal."""

    def __init__(self, steps: int, console: Console) -> None:
        self._steps, self._progress = steps, Progress(*COLUMNS, console=console)
        self._task: Any = None

    def show(self, shown: dict[str, Any]) -> None:
        self._progress.update(self._task, completed=shown["step"], **shown)

    def __enter__(self) -> None:
        fields: Any = {**dict.fromkeys(FORMS, "-"), "violations": 0, "left": duration(math.nan)}
        self._progress.start()
        self._task = self._progress.add_task("", total=self._steps, **fields)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class _Lines:
    """One a minute, and what came of it at the end."""

    def __init__(self, steps: int, console: Console) -> None:
        self._steps, self._console = steps, console
        self._due, self._last = time.monotonic() + EVERY, ""

    def show(self, shown: dict[str, Any]) -> None:
        self._last = LINE.format(steps=self._steps, **shown)
        if time.monotonic() >= self._due:
            self._say()

    def _say(self) -> None:
        if self._last:
            self._console.print(self._last, soft_wrap=True, highlight=False)
        self._due, self._last = time.monotonic() + EVERY, ""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._say()


def _shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
