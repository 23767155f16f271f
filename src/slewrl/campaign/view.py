"""The progress of a campaign: a line for each run under way, and one for all of them."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slewrl.campaign.runner import Runner, Watch
from slewrl.campaign.store import Progress, Store
from slewrl.io.console import Console
from slewrl.training.pace import duration
from slewrl.training.progress import EVERY, number

COLOURS = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow", "waiting": "dim"}
WIDE = 100
"""The width of a terminal, in columns, that has room for progress bars."""


@contextmanager
def watched(store: Store, console: Console) -> Iterator[Watch]:
    """Yields the function a Runner calls: a live table on a terminal, elsewhere a line per run every minute.

    Either way a line says how each run ended.
    """
    reported: set[str] = set()
    paces: dict[str, float] = {}
    due = time.monotonic() + EVERY

    def named(runner: Runner) -> dict[str, str]:
        return names(runner.keys) if console.is_terminal else {key: key for key in runner.keys}

    with Live(console=console, refresh_per_second=2, transient=True) as live:

        def watch(runner: Runner) -> None:
            nonlocal due
            for key in [*runner.finished, *runner.failed, *runner.elsewhere]:
                if key not in reported:
                    reported.add(key)
                    console.print(_news(store, key, runner, named(runner)[key]))
            if not console.is_terminal and time.monotonic() < due:
                return
            # Until its worker holds the lock, a run would look as if it was stopped.
            active = [replace(store.progress_of(key, runner.specs[key]), state="running") for key in runner.active]
            paces.update({run.key: run.pace for run in active if run.pace > 0})
            summary = _summary(active, runner, paces)
            if console.is_terminal:
                live.update(Group(table(active, named(runner), console.width), summary))
                return
            due = time.monotonic() + EVERY
            for line in [*map(_line, active), summary]:
                console.print(line)

        yield watch


def names(keys: Sequence[str]) -> dict[str, str]:
    """A short name for each key: the parts that not all keys share. A single key is its own name."""
    parts = [Counter(key.split("-")) for key in keys]
    shared = {part for part, count in parts[0].items() if all(p[part] == count for p in parts)} if parts else set()
    short = {key: "-".join(part for part in key.split("-") if part not in shared) for key in keys}
    return short if len(set(short.values())) == len(short) > 1 else {key: key for key in keys}


def table(runs: Sequence[Progress], named: Mapping[str, str], width: int) -> Group:
    """What all runs share, then a row per run under its name in ``named``; it fits a ``width`` of 80."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    heads = ["run", *([""] if width >= WIDE else []), "done", "steps/s", "return", "violations", "left"]
    for head in heads:
        shown.add_column(head, justify="left" if head in ("run", "") else "right", no_wrap=head != "run")
    for run in runs:
        bar = [ProgressBar(run.spec.steps, run.step, width=12)] if width >= WIDE else []
        shown.add_row(
            Text(named[run.key], style=COLOURS[run.state], overflow="fold"),
            *bar,
            f"{run.step / run.spec.steps:.0%}",
            number(run.pace if run.state == "running" else run.rate, ".0f"),
            number(run.last_return, ",.1f"),
            str(run.violations),
            time_left(run),
        )
    key, name = next(iter(named.items()), ("", ""))
    shared = "-".join(part for part in key.split("-") if part not in name.split("-"))
    return Group(*([Text(f"all of them: {shared}", style="italic")] if shared else []), shown)


def time_left(run: Progress) -> str:
    """The time a run has left, in words; the state of a run that is not under way."""
    if run.state != "running":
        return run.state
    return duration(seconds_left(run)) if run.step < run.spec.steps else "evaluating"


def seconds_left(run: Progress) -> float:
    """The time a run has left at its own pace; NaN while that is unknown."""
    return (run.spec.steps - run.step) / run.pace if run.pace > 0 else math.nan


def _line(run: Progress) -> Text:
    """The line of a run under way where the output is not a terminal."""
    rate, last = number(run.pace, ".0f"), number(run.last_return, ",.1f")
    steps = f"{run.step:,} of {run.spec.steps:,} steps"
    return Text(f"running  {run.key}: {steps}, {time_left(run)}, {rate}/s, return {last}, {run.violations} violations")


def _news(store: Store, key: str, runner: Runner, name: str) -> Text:
    """The line on how a run ended; of one that failed, the last line of its traceback."""
    run = store.progress_of(key, runner.specs[key])
    if key in runner.failed:
        return Text(f"failed   {name}: {runner.failed[key].strip().splitlines()[-1]}", style="red")
    if key in runner.elsewhere:
        return Text(f"skipped  {name}: another process is at it", style="yellow")
    return Text(f"done     {name}: return {run.last_return:,.1f}, {run.violations} violations")


def _summary(active: Sequence[Progress], runner: Runner, paces: Mapping[str, float]) -> Text:
    """The line on the whole campaign; ``paces`` are those of all runs so far."""
    failed = f", [red]{len(runner.failed)} failed[/]" if runner.failed else ""
    resumed = f", {runner.resumed} killed and resumed" if runner.resumed else ""
    stopping = "; [yellow]stopping: every run takes a checkpoint[/]" if runner.stopping else ""
    done = f"{len(runner.finished)} of {len(runner.keys)} done"
    left = duration(campaign_seconds_left(active, runner, paces))
    about = f"about {left} left" if left != duration(math.nan) else "estimating the time left"
    return Text.from_markup(f"{done}{failed}{resumed}; {about}{stopping}")


def campaign_seconds_left(active: Sequence[Progress], runner: Runner, paces: Mapping[str, float]) -> float:
    """The time for the steps to come at the mean pace, but at least that of the slowest run; NaN if unknown."""
    ended = {*runner.finished, *runner.failed, *runner.elsewhere, *runner.active}
    to_come = sum(runner.specs[key].steps for key in runner.keys if key not in ended)
    slowest = max((left for run in active if not math.isnan(left := seconds_left(run))), default=0.0)
    if not paces:
        return math.nan
    seconds_per_step = sum(1 / pace for pace in paces.values()) / len(paces)
    work = to_come + sum(run.spec.steps - run.step for run in active)
    return max(slowest, work * seconds_per_step / max(1, len(active)))
