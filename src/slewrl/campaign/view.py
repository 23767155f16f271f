"""A campaign as it runs: a line for each run under way, and one for all of them."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slewrl.campaign.runner import Runner, Watch
from slewrl.campaign.store import Progress, Store
from slewrl.io.console import Console

COLOURS = {"done": "green", "running": "cyan", "failed": "red", "stopped": "yellow", "waiting": "dim"}


@contextmanager
def watched(store: Store, console: Console) -> Iterator[Watch]:
    """Gives the function a Runner calls: a live table on a terminal, a line per finished run elsewhere."""
    told: set[str] = set()
    with Live(console=console, refresh_per_second=2, transient=True) as live:

        def watch(runner: Runner) -> None:
            for key in [*runner.finished, *runner.failed, *runner.elsewhere]:
                if key not in told:
                    told.add(key)
                    console.print(_news(store, key, runner))
            if console.is_terminal:
                active = [store.progress_of(key, runner.specs[key]) for key in runner.active]
                live.update(Group(table(active), _summary(active, runner)))

        yield watch


def table(runs: Sequence[Progress]) -> Table:
    """A row per run."""
    shared = _shared([run.key for run in runs])
    shown = Table(box=SIMPLE_HEAD, title=f"{shared}…" if shared else None, title_justify="left")
    for column in ("run", "", "step", "steps/s", "return", "violations", "left"):
        shown.add_column(column, justify="left" if column in ("run", "") else "right", no_wrap=column != "run")
    for run in runs:
        shown.add_row(
            Text(run.key.removeprefix(shared), style=COLOURS[run.state]),
            ProgressBar(run.spec.steps, run.step, width=12),
            f"{run.step:,}",
            _number(run.rate, ".0f"),
            _number(run.last_return, ",.1f"),
            str(run.violations),
            duration(seconds_left(run)),
        )
    return shown


def _shared(keys: Sequence[str]) -> str:
    """What all names begin with, up to a hyphen."""
    first, last = (key.split("-") for key in (min(keys, default=""), max(keys, default="")))
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)) if len(keys) > 1 else ()
    return "".join(f"{part}-" for part, _ in same)


def _news(store: Store, key: str, runner: Runner) -> Text:
    """What became of a run, in a line; of one that failed, the last line of its traceback."""
    run = store.progress_of(key, runner.specs[key])
    if key in runner.failed:
        return Text(f"failed   {key}: {runner.failed[key].strip().splitlines()[-1]}", style="red")
    if key in runner.elsewhere:
        return Text(f"skipped  {key}: another process is at it", style="yellow")
    return Text(f"done     {key}: return {run.last_return:,.1f}, {run.violations} violations")


def _summary(active: Sequence[Progress], runner: Runner) -> Text:
    ended = {*runner.finished, *runner.failed, *runner.elsewhere, *runner.active}
    to_come = sum(runner.specs[key].steps for key in runner.keys if key not in ended)
    rates = [run.rate for run in active if run.rate > 0]
    left = max((seconds_left(run) for run in active), default=math.nan)
    if to_come and rates:
        work = to_come + sum(run.spec.steps - run.step for run in active)
        left = work / (sum(rates) / len(rates)) / max(1, len(active))
    failed = f", [red]{len(runner.failed)} failed[/]" if runner.failed else ""
    resumed = f", {runner.resumed} killed and resumed" if runner.resumed else ""
    stopping = "; [yellow]stopping: every run takes a checkpoint[/]" if runner.stopping else ""
    done = f"{len(runner.finished)} of {len(runner.keys)} done"
    return Text.from_markup(f"{done}{failed}{resumed}; about {duration(left)} left{stopping}")  # all of it ours


def seconds_left(run: Progress) -> float:
    """At its own pace; NaN while that is unknown."""
    return (run.spec.steps - run.step) / run.rate if run.rate > 0 else math.nan


def duration(seconds: float) -> str:
    """Hours and minutes."""
    if math.isnan(seconds):
        return "-"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
