"""A campaign's report: tables, figures and a page, written to a folder."""

from collections.abc import Callable, Sequence
from pathlib import Path

from slewrl.report.campaign_page import render
from slewrl.report.data import Results, load
from slewrl.report.figures import figures_of, look_of
from slewrl.report.figures.style import WIDTH
from slewrl.report.sections import Section, sections_of
from slewrl.report.seeds import seed_tables, tidy
from slewrl.report.tables import as_csv, latex, markdown, tables


def report(
    campaigns: Path | Sequence[Path],
    out: Path,
    html: bool,
    say: Callable[[str], None] = lambda line: None,
    pdf: bool = False,
    overlay: bool = False,
    width: float = WIDTH,
    more: Sequence[Section] = (),
) -> list[Path]:
    """Report on a campaign, or on several as one; returns what was written.

    Args:
        campaigns: their folders, finished or not; only finished runs are reported.
        out: folder for tables/, figures/ and index.html; made if there is none.
        html: whether to write the page.
        say: called with a line now and then.
        pdf: whether to write each figure as PDF, too.
        overlay: whether to draw all methods in one panel, too.
        width: inches, of every figure.
        more: sections of the caller's own, before those that the campaign has.
    """
    folders = [campaigns] if isinstance(campaigns, Path) else list(campaigns)
    results = load(*folders)
    written = write_tables(results, out / "tables")
    sections = [*more, *sections_of(results, folders[0] if len(folders) == 1 else None)]
    texts = {name: text for section in sections for name, text in section.files.items()}
    written += [_write(out / "tables" / name, text) for name, text in texts.items()]
    say(f"{len(results.runs)} of {results.planned} runs, {len(written)} tables")
    for section in sections:
        if section.notice:
            say(section.notice)
    (out / "figures").mkdir(exist_ok=True)
    drawn, look = [], look_of(results, width)
    for figure in figures_of(results, overlay):
        paths, svg = figure.save(out / "figures", look, html, pdf)
        written += paths
        drawn.append((figure, svg))
        say(figure.title)
    if html:
        written.append(_write(out / "index.html", render(results, drawn, out, sections)))
    return written


def write_tables(results: Results, folder: Path) -> list[Path]:
    """The results as Markdown, LaTeX and CSV."""
    found = [*tables(results), *seed_tables(results)]
    texts = {
        "results.md": "\n".join(map(markdown, found)),
        "results.tex": "\n".join(map(latex, found)),
        "results.csv": as_csv(tidy(results)),
    }
    return [_write(folder / name, text) for name, text in texts.items()]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path
