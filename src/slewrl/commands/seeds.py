"""``slewrl seeds``: how many seeds tell two methods apart."""

import math
from dataclasses import dataclass
from pathlib import Path

import tyro

from slewrl.io.console import Console, bold, number_table
from slewrl.report.stats import seeds_needed

POWERS = (0.5, 0.8, 0.9)
FACTORS = (0.5, 1.0, 2.0)
"""Multiples of the difference that the table has a row for."""


@dataclass(frozen=True)
class Seeds:
    """Say how many seeds of each of two methods tell their difference from luck.

    slewrl seeds --sd 900 --difference 500

    Prints the smallest number of seeds of each method with which a t-test at 95 % tells two methods apart with a chance
    of --power, if their true means are --difference apart and returns vary over seeds by --sd, the standard deviation.
    A table has the same for other differences and powers. Half the difference takes four times the seeds.

    slewrl seeds results/first --layers ddsrad boxpro

    reads the standard deviation from a campaign, and the difference, too, unless you say which one matters to you. Do:
    the difference that three seeds happened to show is mostly noise.

    --paired is for methods that are compared seed by seed. That helps only if a seed that is good for one is good for
    the other (--correlation); at 0 it costs a seed or two.
    """

    campaign: tyro.conf.Positional[Path | None] = None
    """The folder of a campaign to read the spread from, such as results/first; with --layers."""
    layers: tuple[str, ...] = ()
    """The two methods of the campaign to compare."""
    sd: float | None = None
    """Standard deviation of the return over the seeds of a method."""
    difference: float | None = None
    """The difference of the true means that has to be told (default with a campaign: what it shows)."""
    power: float = 0.8
    """The chance to tell it."""
    paired: bool = False
    """Compare seed by seed: both methods have the same seeds."""
    correlation: float | None = None
    """Correlation of both methods' returns over the seeds, with --paired (default 0; with a campaign what it shows)."""

    def run(self) -> int:
        """Print the number of seeds, and a table for other differences and powers."""
        if self.correlation is not None and not self.paired:
            raise ValueError("--correlation is for --paired: seeds that are not shared have none")
        if self.campaign is None:
            self._from_numbers()
        else:
            self._from_campaign(self.campaign)
        return 0

    def _from_numbers(self) -> None:
        if self.sd is None or self.difference is None:
            raise ValueError("expected --sd and --difference, or the folder of a campaign with --layers")
        if self.layers:
            raise ValueError("--layers is for a campaign's folder, and there is none")
        self._print(self.sd, self.difference, (self.correlation or 0.0) if self.paired else None)

    def _from_campaign(self, path: Path) -> None:
        from slewrl.report.data import load
        from slewrl.report.seeds import spreads
        from slewrl.report.verdicts import said

        if self.sd is not None:
            raise ValueError("--sd is read from the campaign, expected one of the two")
        console, between = Console(), " less ".join(self.layers)
        for found in spreads(load(path), self.layers):
            console.print(bold(found.where))
            low, high = found.sd_interval
            console.detail(f"spread over the seeds {found.sd:.4g} (95 %: {low:.4g} to {high:.4g})")
            console.detail(f"{between}: {said(found.difference)}")
            correlation = None
            if self.paired:
                shown = 0.0 if math.isnan(found.correlation) else min(found.correlation, 0.99)
                correlation = shown if self.correlation is None else self.correlation
            seen = abs(found.difference.value)
            self._print(found.sd, seen if self.difference is None else self.difference, correlation)

    def _print(self, sd: float, difference: float, correlation: float | None) -> None:
        console = Console()
        needed = seeds_needed(sd, difference, self.power, correlation=correlation)
        test = "Welch’s t" if correlation is None else f"paired by seed, correlation {correlation:.2g}"
        console.print(
            bold(needed),
            f" seeds of each method tell a difference of {difference:.4g} with a chance of {100 * self.power:.0f} % "
            f"(standard deviation {sd:.4g}, {test}, 95 %)",
            sep="",
            soft_wrap=False,
        )
        table = number_table("difference", *(f"power {100 * power:.0f} %" for power in POWERS))
        for factor in FACTORS:
            other = factor * difference
            cells = [str(seeds_needed(sd, other, power, correlation=correlation)) for power in POWERS]
            table.add_row(f"{other:.4g}", *cells)
        console.print(table)
