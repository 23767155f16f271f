"""Draw the figure of docs/calm.md, and fill its part about the finals, from results/calm and results/calm-finals.

    python docs/make_calm.py            draw and write them
    python docs/make_calm.py --check    exit 1 if the page is not what results/ says (a test does this)

The numbers are those of ``slewrl report results/calm-finals --html --out results/calm-finals/report``.
"""

import csv
import sys
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from matplotlib.figure import Figure

from slewrl.report.data import Cell, load
from slewrl.report.figures.pareto import Curve, curves, panel
from slewrl.report.figures.style import SMALL, Look, canvas, saved
from slewrl.report.tables import count

DOCS = Path(__file__).resolve().parent
PAGE, IMAGE, RESULTS = DOCS / "calm.md", DOCS / "images" / "calm.png", DOCS.parent / "results"
FINALS = RESULTS / "calm-finals"
BEGIN, END = "<!-- begin: finals -->", "<!-- end: finals -->"
HEADS = (
    "seeds",
    "return",
    "IQM − clip’s, 95 % interval",
    "at the limit",
    "second difference",
    "over the clip’s, 95 % interval",
    "reversals",
    "at most half, return no lower",
)
Panels = dict[Cell, list[Curve]]


# ---------------------------------------------------------------------- the figure


def figure(rows: Sequence[Panels], look: Look) -> Figure:
    """Return against calm: a row for each campaign, a panel for each task."""
    drawn = canvas(look, 4.1 * len(rows))
    axes = drawn.subplots(len(rows), 2, squeeze=False)
    names = [curve.called(place.agent) for there in rows for place in sorted(there) for curve in there[place]]
    names = list(dict.fromkeys(names))
    for row, there in zip(axes, rows, strict=True):
        for axis, (place, found) in zip(row, sorted(there.items()), strict=True):
            panel(axis, found, place.agent, look, names)
            seeds = max(len(result.runs) for curve in found for _, result in curve.results)
            many = "one seed" if seeds == 1 else f"{seeds} seeds"
            axis.set_title(f"{place.task} {place.limits}, {count(place.steps)} steps, {many}")
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=SMALL, ncols=2, columnspacing=1.0)
        row[0].set_ylabel("return")
    drawn.supxlabel("mean second difference of the commands / limit (less is calmer)")
    return drawn


def drawable() -> list[Panels]:
    """The study's panels and, once every task there has several seeds, the finals'."""
    found = [curves(load(RESULTS / "calm"))]
    finals = curves(load(FINALS)) if FINALS.exists() else {}
    several = all(len(r.runs) > 1 for there in finals.values() for curve in there for _, r in curve.results)
    return [*found, finals] if several and len(finals) == len(found[0]) else found


# ---------------------------------------------------------------------- the finals


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table of the finals' report; none where it has no such table."""
    path = FINALS / "report" / "tables" / name
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def finals() -> str:
    """What is known, and a table for each task with the calmest last."""
    verdicts = {(row["task"], row["method"]): row for row in rows("halved.csv")}
    ordered = sorted(rows("calm.csv"), key=lambda row: (row["task"], -float(row["second_difference"])))
    parts = [said(list(verdicts.values()))]
    for task, group in groupby(ordered, key=itemgetter("task")):
        there = list(group)
        head = f"{task} tight, {int(there[0]['steps']):,} steps"
        lines = [f"| {head} | {' | '.join(HEADS)} |", "|---|---:|---:|---:|---:|---:|---:|---:|---|"]
        parts.append("\n".join([*lines, *(line(row, verdicts.get((task, row["method"]))) for row in there)]))
    return "\n\n".join(parts)


def said(verdicts: Sequence[dict[str, str]]) -> str:
    """The verdicts in words, task by task."""
    if not verdicts:
        return "No method has several seeds yet, so there is no verdict."
    sentences = []
    for task, group in groupby(sorted(verdicts, key=itemgetter("task", "verdict")), key=itemgetter("task")):
        kinds = {kind: [row["method"] for row in there] for kind, there in groupby(group, key=itemgetter("verdict"))}
        told = (f"{', '.join(methods)}: {kind}" for kind, methods in kinds.items())
        sentences.append(f"{task}: {'; '.join(told)}.")
    return "\n".join(f"- {sentence}" for sentence in sentences)


def line(row: dict[str, str], verdict: dict[str, str] | None) -> str:
    """A row of the table; the clip itself, and one seed, have no verdict."""
    task, lead, share, holds = row["task"], "–", "–", "–"
    if verdict:
        value, low, high = (amount(verdict[f"difference{end}"], task) for end in ("", "_low", "_high"))
        lead = f"{value} ({low} to {high})"
        value, low, high = (f"{float(verdict[f'ratio{end}']):.2f}" for end in ("", "_low", "_high"))
        share, holds = f"{value} ({low} to {high})", verdict["verdict"]
    at_limit, reversals = (f"{100 * float(row[name]):.0f} %" for name in ("at_limit", "reversals"))
    middle = (at_limit, f"{float(row['second_difference']):.2f}", share, reversals)
    return f"| {' | '.join((row['method'], row['seeds'], amount(row['return'], task), lead, *middle, holds))} |"


def amount(text: str, task: str) -> str:
    """A return or a difference of two: whole where returns are in the thousands."""
    return f"{float(text):,.{2 if task == 'Reacher-v5' else 0}f}".replace("-", "−")


def main(arguments: Sequence[str]) -> int:
    """Draw and write, or check; the exit code."""
    if unknown := set(arguments) - {"--check"}:
        raise SystemExit(f"unknown option {sorted(unknown)[0]!r}, expected --check or nothing")
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    new = f"{before}{BEGIN}\n{finals()}\n{END}{after}"
    if arguments:
        if new != page:
            print(f"{PAGE.name} is not what {FINALS.name} says: run python docs/make_calm.py")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    IMAGE.write_bytes(saved(partial(figure, drawable()), Look(width=8.4), ["png"])["png"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
