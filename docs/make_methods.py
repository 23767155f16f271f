"""Fill the numbers of docs/methods.md from results/ and from the tables of the benchmarks.

    python docs/make_methods.py            write them
    python docs/make_methods.py --check    exit 1 if the page does not have them (a test does this)

Text between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` is made here, the rest by hand. ``all layers``
is the table of all, ``ddsrad`` and so on are the cards'. Standard library only.
"""

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "methods.md"
CAMPAIGN = DOCS.parent / "results" / "first"
MORE = DOCS.parent / "results" / "table1-60k"
"""At the same budget: the budget's layer, and PPO."""
TASK, LIMITS = "HalfCheetah-v5", "tight"
PAPER_NAMES = {
    "DD-SRad": "ddsrad",
    "D-Tanh": "dtanh",
    "BoxPre+": "boxpre",
    "Post(QP)": "post",
    "SRad-Strict": "srad_ball",
    "SRad-QP": "srad_qp",
}
PAPER_SEEDS = 5
"""Experiments, "All runs use 5 seeds"."""
VARIANTS = {
    "": "",
    "action": ', `density="action"`',
    "action_scaled": ', `density="action_scaled"`',
    "action mean_bound=tanh": ", `--paper-mode`",
    "action mean_bound=tanh recipe=paper": ", `--paper-mode`",
}
"""What follows a layer's name in results.csv -> what a card says."""
NONE = "–"


class Row(NamedTuple):
    """Return and utilisation over the seeds of one method."""

    where: str
    """Backbone, and what was changed."""
    steps: int
    seeds: int
    score: str
    use: str


class Cost(NamedTuple):
    """Forward and backward over those of the plain formula, by batch."""

    small: str
    """256 x 17."""
    large: str
    """4096 x 17."""


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV that are about the task."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if (row["task"], row["limits"]) == (TASK, LIMITS)]


def plus_minus(mean: str, std: str, digits: int) -> str:
    """1,502 ± 902; without the deviation if there is but one seed."""
    return " ± ".join(f"{float(number):,.{digits}f}".replace("-", "−") for number in (mean, std) if number)


def paired(
    rows: Sequence[Mapping[str, str]], key: Sequence[str], mean: str, std: str
) -> dict[tuple[str, ...], list[str]]:
    """Key -> return and utilisation, in the order of the file."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["metric"] in ("return", "utilisation"):
            shown = plus_minus(row[mean], row[std], 0 if row["metric"] == "return" else 2)
            found.setdefault(tuple(row[name] for name in key), []).append(shown)
    return found


def measured() -> dict[str, list[Row]]:
    """Layer -> our rows, then the paper's."""
    tables = CAMPAIGN / "report" / "tables"
    found: dict[str, list[Row]] = {}
    rows = read(tables / "results.csv") + read(MORE / "report" / "tables" / "results.csv")
    ours = paired(rows, ("method", "backbone", "steps", "seeds"), "mean", "std")
    for (method, backbone, steps, seeds), (score, use) in ours.items():
        layer, _, changed = method.partition(" ")
        where = backbone + VARIANTS.get(changed, f", `{changed}`")
        found.setdefault(layer, []).append(Row(where, int(steps), int(seeds), score, use))
    papers = paired(read(tables / "compare.csv"), ("method", "backbone", "paper_steps"), "paper_mean", "paper_std")
    for (method, backbone, steps), (score, use, *_) in papers.items():
        if method in PAPER_NAMES:
            row = Row(f"{backbone} in the paper", int(steps), PAPER_SEEDS, score, use)
            found.setdefault(PAPER_NAMES[method], []).append(row)
    return found


def costs() -> dict[str, Cost]:
    """Layer -> what it costs, of the table in layers.md."""
    page = (DOCS / "layers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+), whole action \| \S+ \| (\S+) \| \S+ \| (\S+) \|$", page, re.MULTILINE)
    return {layer: Cost(small, large) for layer, small, large in rows}


def audited() -> dict[str, tuple[int, int]]:
    """Layer -> cases and violations, of the table in guarantee.md, both dtypes together."""
    page = (DOCS / "guarantee.md").read_text(encoding="utf-8")
    found: dict[str, tuple[int, int]] = {}
    for layer, *numbers in re.findall(r"^\| (\w+) \| float\d+ \| (\S+) \| (\S+) \| (\S+) \|", page, re.MULTILINE):
        alone, fed_back, broken = (int(number.replace(",", "")) for number in numbers)
        cases, violations = found.get(layer, (0, 0))
        found[layer] = cases + alone + fed_back, violations + broken
    return found


def spaced(number: int) -> str:
    """60 000."""
    return f"{number:,}".replace(",", " ")


def card(layer: str, rows: Sequence[Row], cost: Cost | None, audit: tuple[int, int] | None) -> str:
    """The numbers of one layer."""
    lines = []
    if rows:
        lines += [f"| {TASK}, {LIMITS} limits | steps | seeds | return | utilisation |", "|---|---:|---:|---:|---:|"]
        lines += [f"| {r.where} | {spaced(r.steps)} | {r.seeds} | {r.score} | {r.use} |" for r in rows]
    if all(r.where.endswith("in the paper") for r in rows):
        lines += ["", f"No finished runs of ours on {TASK} so far."]
    if cost:
        said = f"Cost: {cost.small} times the plain formula in batches of 256 × 17, {cost.large} times in 4096 × 17."
        lines += ["", said]
    if audit:
        lines += ["", f"Audit: {audit[0]:,} adversarial joint actions, {audit[1]} beyond a limit."]
    return "\n".join(lines).strip()


def overview(layers: Sequence[str], rows: Mapping[str, Sequence[Row]], cost: Mapping[str, Cost]) -> str:
    """One table of all layers as they ship."""
    backbones = ("SAC", "TD3")
    shipped = {(layer, r.where): r for layer in layers for r in rows.get(layer, ()) if r.where in backbones}
    steps = sorted({r.steps for r in shipped.values()})
    seeds = sorted({r.seeds for r in shipped.values()})
    many = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
    budget = " or ".join(map(spaced, steps))
    lines = [
        f"{TASK}, {LIMITS} limits, {budget} steps, {many} seeds; mean ± sample standard deviation of the final return, "
        "and the share of the limits that was used. Cost is forward and backward over the plain formula, 256 × 17.",
        "",
        "| layer | SAC return | use | TD3 return | use | cost |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for layer in layers:
        cells = []
        for where in backbones:
            row = shipped.get((layer, where))
            cells += [row.score, row.use] if row else [NONE, NONE]
        cells.append(cost[layer].small if layer in cost else NONE)
        lines.append(f"| [`{layer}`](#{layer}) | {' | '.join(cells)} |")
    if len(shipped) < len(backbones) * len(layers):
        lines += ["", f"{NONE}: no finished run in these campaigns."]
    return "\n".join(lines)


def filled(page: str) -> str:
    """The page with the numbers as they are now."""
    layers = re.findall(r"^<!-- begin: (\w+) -->$", page, re.MULTILINE)
    rows, cost, audit = measured(), costs(), audited()
    blocks = {layer: card(layer, rows.get(layer, ()), cost.get(layer), audit.get(layer)) for layer in layers}
    blocks["all layers"] = overview(layers, rows, cost)
    for name, text in blocks.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE.name} has no block {begin} ... {end}, or several, expected one")
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
    return page


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it; the exit code."""
    if unknown := set(arguments) - {"--check"}:
        raise SystemExit(f"unknown option {sorted(unknown)[0]!r}, expected --check or nothing")
    page = PAGE.read_text(encoding="utf-8")
    new = filled(page)
    if arguments:
        if new != page:
            print(f"{PAGE.name} is not what results/ and the benchmarks say: run python docs/make_methods.py")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
