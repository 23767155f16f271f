"""Draw the figures of docs/calm.md, and fill its table of the finals, from results/calm and results/calm-finals.

    python docs/make_calm.py            draw and write them
    python docs/make_calm.py --check    exit 1 if the page does not have the table (a test does this)

The tables are those that ``slewrl report results/calm-finals --html --out results/calm-finals/report`` writes.
"""

import csv
import re
import sys
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from matplotlib.figure import Figure

from slewrl.report.data import Cell, Results, load
from slewrl.report.figures.pareto import Curve, curves, panel
from slewrl.report.figures.style import SMALL, Look, canvas, saved
from slewrl.report.tables import count

DOCS = Path(__file__).resolve().parent
PAGE, IMAGES, RESULTS = DOCS / "calm.md", DOCS / "images", DOCS.parent / "results"
FIGURES = {"calm": "calm-study", "calm-finals": "calm-pareto"}
"""Campaign -> its figure in docs/images."""
BEGIN, END = "<!-- begin: finals -->", "<!-- end: finals -->"
HEADS = (
    "return",
    "IQM − clip’s, 95 % interval",
    "at the limit",
    "second difference",
    "over the clip’s, 95 % interval",
    "reversals",
    "≤ half, return no lower",
)


def figure(found: dict[Cell, list[Curve]], look: Look) -> Figure:
    """Return against calm, a panel for each task."""
    drawn = canvas(look, 4.0)
    (axes,) = drawn.subplots(1, len(found), squeeze=False)
    for axis, (place, there) in zip(axes, found.items(), strict=True):
        panel(axis, there, place.agent, look)
        axis.set_title(f"{place.task} {place.limits}, {count(place.steps)} steps")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=SMALL, ncols=2, columnspacing=1.0)
    axes[0].set_ylabel("return")
    drawn.supxlabel("mean second difference of the commands / limit (less is calmer)")
    return drawn


def draw(results: Results, path: Path) -> None:
    """Write the figure of a campaign, the longest task's panel first."""
    found = dict(sorted(curves(results).items(), key=lambda item: -item[0].steps))
    path.write_bytes(saved(partial(figure, found), Look(width=4.2 * len(found)), ["png"])["png"])


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table of the finals' report."""
    with (RESULTS / "calm-finals" / "report" / "tables" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def amount(text: str, task: str) -> str:
    """A return or a difference of two: whole where returns are in the thousands."""
    return f"{float(text):,.{2 if task == 'Reacher-v5' else 0}f}".replace("-", "−")


def table() -> str:
    """A table per task, the calmest last."""
    verdicts = {(row["task"], row["method"]): row for row in rows("halved.csv")}
    parts = []
    for task, there in groupby(sorted(rows("calm.csv"), key=lambda row: row["task"]), key=lambda row: row["task"]):
        ordered = sorted(there, key=lambda row: -float(row["second_difference"]))
        head = f"{task} tight, {int(ordered[0]['steps']):,} steps"
        lines = [f"| {head} | {' | '.join(HEADS)} |", "|---|---:|---:|---:|---:|---:|---:|---|"]
        parts.append("\n".join([*lines, *(row_of(row, verdicts.get((task, row["method"]))) for row in ordered)]))
    return "\n\n".join(parts)


def row_of(row: dict[str, str], verdict: dict[str, str] | None) -> str:
    """A line of the table; the clip itself has no verdict."""
    task, lead, share, holds = row["task"], "–", "–", "–"
    if verdict:
        value, low, high = (amount(verdict[f"difference{end}"], task) for end in ("", "_low", "_high"))
        lead = f"{value} ({low} to {high})"
        value, low, high = (f"{float(verdict[f'ratio{end}']):.2f}" for end in ("", "_low", "_high"))
        share, holds = f"{value} ({low} to {high})", verdict["verdict"]
    cells = (
        amount(row["return"], task),
        lead,
        f"{100 * float(row['at_limit']):.0f} %",
        f"{float(row['second_difference']):.2f}",
        share,
        f"{100 * float(row['reversals']):.0f} %",
        holds,
    )
    return f"| {row['method']} | {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Draw and write, or check; the exit code."""
    if unknown := set(arguments) - {"--check"}:
        raise SystemExit(f"unknown option {sorted(unknown)[0]!r}, expected --check or nothing")
    page = PAGE.read_text(encoding="utf-8")
    new = re.sub(f"{BEGIN}.*{END}", f"{BEGIN}\n{table()}\n{END}".replace("\\", r"\\"), page, flags=re.DOTALL)
    if arguments:
        if new != page:
            print(f"{PAGE.name} is not what results/calm-finals says: run python docs/make_calm.py")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    for campaign, name in FIGURES.items():
        draw(load(RESULTS / campaign), IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
