"""A campaign's report: tables, figures and a page, written to a folder."""

from collections.abc import Callable, Sequence
from pathlib import Path

from slewrl.paper import claims, compare, families
from slewrl.report.campaign_page import write_page
from slewrl.report.data import Results, load
from slewrl.report.plates import plates
from slewrl.report.seedwise import seed_tables
from slewrl.report.tables import as_csv, latex, markdown, pipe_table, tables
from slewrl.report.tidy import tidy

Rows = Sequence[dict[str, str | float | int]]


def report(
    campaigns: Path | Sequence[Path],
    out: Path,
    html: bool,
    say: Callable[[str], None] = lambda line: None,
    pdf: bool = False,
) -> list[Path]:
    """Report on a campaign, or on several as one; returns what was written.

    Args:
        campaigns: their folders, finished or not; only finished runs are reported.
        out: folder for tables/, figures/ and index.html; made if there is none.
        html: whether to write the page.
        say: called with a line now and then.
        pdf: whether to write each figure as PDF, too; to embed its letters takes longer than to draw it.
    """
    folders = [campaigns] if isinstance(campaigns, Path) else list(campaigns)
    results = load(*folders)
    table1 = families.table_of(results, folders[0]) if len(folders) == 1 else families.NO_TABLE1
    written = write_tables(results, out / "tables", table1)
    say(f"{len(results.runs)} of {results.planned} runs, {len(written)} tables")
    if table1.command:
        say(f"Table 1 lacks what a layer decides alone; {table1.command} measures it")
    (out / "figures").mkdir(exist_ok=True)
    drawn = []
    for plate in plates(results):
        paths, svg = plate.save(out / "figures", html, pdf)
        written += paths
        drawn.append((plate, svg))
        say(plate.title)
    if html:
        write_page(out / "index.html", results, drawn, table1)
        written.append(out / "index.html")
    return written


def write_tables(results: Results, folder: Path, table1: families.Table1 = families.NO_TABLE1) -> list[Path]:
    """Results, claims, the comparison with the paper and its Table 1, each in the formats that suit it."""
    found = [*tables(results), *seed_tables(results)]
    texts = {
        "results.md": "\n".join(map(markdown, found)),
        "results.tex": "\n".join(map(latex, found)),
        "results.csv": as_csv(tidy(results)),
    }
    others: dict[str, Rows] = {
        "claims": claims.rows(claims.findings(results)),
        "compare": compare.rows(compare.compare(results)),
    }
    for name, rows in others.items():
        if rows:
            texts |= {f"{name}.csv": as_csv(rows), f"{name}.md": pipe_table(rows)}
    if table1.rows:
        texts |= {"table1.csv": as_csv(families.plain(table1.rows)), "table1.md": families.markdown(table1)}
    return [_write(folder / name, text.encode()) for name, text in texts.items()]


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
