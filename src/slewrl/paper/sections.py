"""The paper's sections of a report: its claims, its tables beside ours, and Table 1."""

import math
from collections.abc import Sequence
from pathlib import Path

from slewrl.paper import claims, compare, table1
from slewrl.paper.claims import Finding
from slewrl.paper.compare import Comparison
from slewrl.paper.values import STEPS
from slewrl.report import walking
from slewrl.report.data import Results
from slewrl.report.methods import backbone, called
from slewrl.report.page import Block, Card, Cell, Commands, DataTable, Folded, Words
from slewrl.report.sections import Section
from slewrl.report.tables import as_csv, decimals, percent, pipe_table, plus_minus, share
from slewrl.report.verdicts import MARKS


def concerns(results: Results) -> bool:
    """Whether a campaign is about the paper: it has one of its tasks, or a sweep over lambda."""
    return any(result.cell.task in STEPS for result in results) or any(
        finding.measured for finding in claims.findings(results) if finding.claim.name != "zero-violations"
    )


# ---------------------------------------------------------------------- claims


def claims_section(results: Results, folder: Path | None) -> Section | None:
    """The paper's claims, and whether these runs bear them out."""
    if not concerns(results):
        return None
    found = claims.findings(results)
    rows = claims.rows(found)
    card = Card("claims", "The paper’s claims", _claims(found))
    return Section(card, {"claims.csv": as_csv(rows), "claims.md": pipe_table(rows)})


def _claims(found: Sequence[Finding]) -> list[Block]:
    open_ones = [f for f in found if f.verdict == "not measured here"]
    judged = [f for f in found if f not in open_ones]
    about = (
        "In brackets: the 95 % interval over the seeds, paired where both sides have the same seeds. A claim holds if "
        "all of every interval is what its rule allows, does not hold if nothing of one is, and is undecided "
        "otherwise, with one seed, or where no seed learned the task. At a smaller budget than the paper’s "
        "a verdict says what is true that early, and not what is in the end."
    )
    blocks: list[Block] = [_claim_table(judged), Words(about)] if judged else []
    summary = f"{len(open_ones)} claims that these runs do not measure"
    return [*blocks, *([Folded(summary, [_claim_table(open_ones)])] if open_ones else [])]


def _claim_table(found: Sequence[Finding]) -> DataTable:
    rows = [
        (
            Cell(f.verdict, kind=f"verdict {MARKS[f.verdict]}", small="; ".join(filter(None, [*f.reasons, f.budget]))),
            Cell(f.claim.says, kind="words", small=f.claim.where, head=True),
            Cell(f.said, kind="words"),
            Cell(f.claim.rule, kind="words", small=f.claim.name),
        )
        for f in found
    ]
    return DataTable("The paper’s claims", ("Verdict", "The paper says", "Measured here", "Holds if"), rows, "holds")


# ---------------------------------------------------------------------- beside its tables


def comparison_section(results: Results, folder: Path | None) -> Section | None:
    """Our numbers beside the paper's, where it has any."""
    found = compare.compare(results)
    if not found:
        return None
    rows = compare.rows(found)
    heads = ("Method", "Metric", "#Paper", "#Ours", "#95 % interval", "Verdict", "Where")
    about = (
        "The paper’s mean ± standard deviation over 5 seeds beside ours with its interval: of a mean by Student’s t, "
        "of a CV by the noncentral t. Numbers at another training budget cannot confirm or "
        "refute each other, and get no verdict. The robots’ are from another simulator, too."
    )
    table = DataTable("Beside the paper’s tables", heads, [_compared(c) for c in found], "return")
    card = Card("paper", "Beside the paper’s tables", [table, Words(about)])
    return Section(card, {"compare.csv": as_csv(rows), "compare.md": pipe_table(rows)})


def _compared(c: Comparison) -> tuple[Cell, ...]:
    show = {"return_cv": percent, "utilisation": share}.get(c.metric) or decimals(walking.METRICS[c.metric].digits)
    cell = c.result.cell
    return (
        Cell(called(c.result), head=True),
        Cell(c.metric),
        Cell(plus_minus(c.paper, show), c.paper.mean),
        Cell(show(c.ours.mean), c.ours.mean),
        Cell("–" if math.isnan(c.interval[0]) else " to ".join(map(show, c.interval)), c.interval[0]),
        Cell(c.verdict, kind="words"),
        Cell(f"{cell.task}, {cell.limits}, {backbone(cell.agent)}", small=c.budget),
    )


# ---------------------------------------------------------------------- Table 1


def table1_section(results: Results, folder: Path | None) -> Section | None:
    """The paper's Table 1 where it was asked for, each cell a link to the command that measured it."""
    found = table1.table_of(results, folder) if folder else table1.Table1()
    if not found.rows:
        return None
    commands = table1.commands(found.rows)
    rows = [[_linked(cell, commands, first=i == 0) for i, cell in enumerate(row.values())] for row in found.rows]
    about = "The paper’s Table 1 with a measurement in each cell, which links to the command that makes it."
    blocks: list[Block] = [DataTable("Families of methods", list(found.rows[0]), rows, "PPO"), Words(about)]
    blocks += [Words(table1.MISSING, code=found.command)] if found.command else []
    card = Card("families", "Families of methods", [*blocks, Commands("table1", commands)], "many")
    lacks = f"Table 1 lacks what a layer decides alone; {found.command} measures it" if found.command else ""
    texts = [
        {head: cell.text for head, cell in row.items()} | {"measured by": "; ".join(table1.commands([row]))}
        for row in found.rows
    ]
    files = {"table1.csv": as_csv(texts), "table1.md": table1.markdown(found)}
    return Section(card, files, lacks)


def _linked(cell: table1.Measured, commands: Sequence[str], first: bool) -> Cell:
    if first or not cell.command:
        return Cell(cell.text, head=first)
    return Cell("", links=[(cell.text, f"#table1-{commands.index(cell.command) + 1}")])
