"""``slewrl demo`` and ``slewrl report``."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from slewrl.io.console import Console, bold

NARROWEST, WIDEST = 2.0, 20.0
"""Widths of a figure, in inches: a single panel, and a poster."""


@dataclass(frozen=True)
class Demo:
    """Train DD-SRad and the hand-written clip side by side, evaluate and audit them, and write a page about it.

    About five minutes on two cores. Stopped, it goes on where it was.
    """

    out: Path = Path("demo")
    """Folder for the runs, the figure and the page (index.html)."""
    steps: int = 20_000
    """Environment steps of each run."""
    cases: int = 200_000
    """Adversarial actions per layer."""

    def run(self) -> int:
        """Run the demo; the exit code is 1 if a hard layer broke a limit."""
        from slewrl.commands import demo

        for name in ("cases", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}, expected at least 1")
        try:
            return int(demo.run(self.out, self.cases, self.steps) > 0)
        except KeyboardInterrupt:
            print(f"stopped; the same command goes on where it was (runs are in {self.out})", file=sys.stderr)
            return 130


@dataclass(frozen=True)
class Report:
    """Turn a campaign's finished runs into tables, figures and one page: the paper's layout, and its claims.

    slewrl report runs/first --html

    slewrl report runs/first runs/mine --out both --html
    """

    campaigns: tyro.conf.Positional[tuple[Path, ...]]
    """The folder of a campaign, finished or not, or a collected copy of one such as results/first; of several folders,
    one report on all their runs."""
    out: Path | None = None
    """Folder for tables/, figures/ and index.html (default: report/ in the campaign's folder, of several here)."""
    html: bool = False
    """Write the page, too: one file, to be opened anywhere."""
    pdf: bool = False
    """Write every figure as PDF, too, for papers."""
    overlay: bool = False
    """Draw all methods of a task in one panel, too, as papers have it, beside the small multiples."""
    figure_width: float = 4.4
    """Width of every figure, in inches; a wider figure has more methods side by side."""

    def run(self) -> int:
        """Write the report and print where it is."""
        from slewrl.report.build import report

        if not self.campaigns:
            raise ValueError("no campaign is given, expected the folder of one, such as results/first")
        if not NARROWEST <= self.figure_width <= WIDEST:
            raise ValueError(f"--figure-width is {self.figure_width}, expected {NARROWEST:g} to {WIDEST:g} inches")
        home = self.campaigns[0] if len(self.campaigns) == 1 else Path()
        console, out = Console(), self.out or home / "report"
        written = report(self.campaigns, out, self.html, console.detail, self.pdf, self.overlay, self.figure_width)
        start = out / ("index.html" if self.html else "tables/results.md")
        console.print(f"wrote {len(written)} files to ", bold(out), "; start with ", bold(start), sep="")
        return 0
