"""``slewrl calm``: how much recorded commands shake."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from slewrl.calm.metrics import CUTOFF, SHARES, UNITS
from slewrl.io.console import Console, bold, number_table

if TYPE_CHECKING:
    from slewrl.calm.metrics import Calm
    from slewrl.calm.recorded import Recorded
    from slewrl.limits import RateLimits

HEADS = {
    "at_limit": "at limit",
    "reversals": "reversals",
    "second_difference": "2nd diff",
    "second_difference_rms": "rms",
    "high_frequency": "fast power",
    "smoothness": "Sm",
}
"""The heading of each measure."""
SPARSE = "increments.csv"


@dataclass(frozen=True)
class CalmCommand:
    """Measure how much the commands of a robot shake, from a CSV file of them, and draw them.

    The file has a row for each control step and a column for each joint, in the joint's unit; its first line may name
    the joints, and a column "time" (seconds) is checked for gaps. It may come from anywhere: a ROS bag, a drive's log,
    the commands.csv that slewrl evaluate writes to a run's evaluation/.

    slewrl calm commands.csv --dt 0.02

    slewrl calm commands.csv --dt 0.02 --limits limits.yaml --above 8

    What is printed, of each joint and of all together (docs/calm.md has the formulas):

    at limit: share of steps whose change is within 1 % of the rate limit, or above it. Needs --limits.

    reversals: share of steps at which the command turns round; at random it would be half of them.

    2nd diff, rms: mean size of the change of the change, and its root mean square; with --limits in units of the rate
    limit, where 2 is from full speed up to full speed down in one step. 0 is a straight line.

    fast power: share of the command's variance above 5 Hz (--above).

    Sm: mean weighted frequency of the command's amplitudes, the smoothness of published benchmarks; less is smoother.
    """

    file: tyro.conf.Positional[Path]
    """The commands: a CSV file, one row per step, one column per joint."""
    dt: float | None = None
    """Seconds from one row to the next, e.g. 0.02 for 50 Hz (default: that of the limits, or of the file's times)."""
    limits: str = ""
    """Rate limits, which give the units: a limits.yaml (slewrl limits writes one) or TASK:PRESET such as H1:paper. A
    column of the file that has the name of one of its joints is that joint; if none has, their order counts."""
    joints: tuple[str, ...] = ()
    """Only these columns (default: those of the limits' joints, or all)."""
    above: float = CUTOFF
    """Hz: the frequency above which power is called fast."""
    picture: Path | None = None
    """The PNG to write, in time and by frequency (default: the file's name, with .png)."""
    force: bool = False
    """Overwrite the picture if it is there."""

    def run(self) -> int:
        """Print the measures and write the picture."""
        from slewrl.calm.metrics import calm
        from slewrl.calm.recorded import read_commands

        self._refuse_sparse()
        limits = self._limits()
        asked = self._dt(limits)
        picture = self.picture or self.file.with_suffix(".png")
        found = read_commands(self.file, asked, self.joints)
        dt = asked or found.dt
        if dt is None:
            raise ValueError("--dt is missing: seconds from one row to the next, e.g. --dt 0.02 for 50 Hz")
        if limits is not None:
            found, limits = _matched(found, limits, self.file)
        if self.above >= 0.5 / dt:
            raise ValueError(
                f"--above is {self.above:g} Hz, but commands every {dt:g} s have no frequency above {0.5 / dt:g} Hz: "
                "choose a lower one, or check --dt"
            )
        if picture.exists() and not self.force:
            raise FileExistsError(f"{picture} exists: pass --force to replace it, or --picture another name")
        _print(self.file, found, calm(found.commands, dt, limits, self.above), dt, self.above, limits is not None)
        if limits is not None:
            _warn_beyond(found, limits)
        self._draw(found, dt, picture)
        Console().print("wrote ", bold(picture), ": the commands in time, and by frequency", sep="")
        return 0

    def _refuse_sparse(self) -> None:
        if self.file.name == SPARSE and (self.file.parent / "density.csv").exists():
            raise ValueError(
                f"{self.file} has increments of evenly spaced steps, not of successive ones, so that it tells nothing "
                "of shaking: slewrl evaluate RUN writes commands.csv beside it, which does"
            )

    def _limits(self) -> "RateLimits | None":
        from slewrl.limits.resolve import resolve_limits

        return resolve_limits(self.limits, label="--limits") if self.limits else None

    def _dt(self, limits: "RateLimits | None") -> float | None:
        dt = self.dt if self.dt is not None else limits.dt if limits else None
        if not 0 < self.above < math.inf:
            raise ValueError(f"--above is {self.above:g}, expected a frequency in Hz > 0")
        if dt is None:
            return None
        if not 0 < dt < math.inf:
            raise ValueError(f"--dt is {dt:g}, expected seconds > 0, e.g. 0.02 for 50 Hz")
        if limits is not None and limits.dt is not None and abs(limits.dt - dt) > 1e-9:
            raise ValueError(f"--dt is {dt:g} s, but the limits of {self.limits} are per step of {limits.dt:g} s")
        return dt

    def _draw(self, found: "Recorded", dt: float, picture: Path) -> None:
        from functools import partial

        from slewrl.io.files import write_atomically
        from slewrl.report.figures.commands import WIDE, commands_figure, shaking_most
        from slewrl.report.figures.style import Look, saved

        most = shaking_most(found.commands)
        if len(most) < len(found.names):
            Console().print(f"in the picture: the {len(most)} joints of {len(found.names)} that shake most")
        names = [found.names[i] for i in most]
        draw = partial(commands_figure, found.commands[:, most], names, dt, self.above)
        write_atomically(picture, saved(draw, Look(width=WIDE), ["png"])["png"])


def _matched(found: "Recorded", limits: "RateLimits", file: Path) -> "tuple[Recorded, RateLimits]":
    """The commands and the limits of the same joints: by name, or all in order where no name is known."""
    by_name = [name for name in found.names if name in limits.names]
    if not by_name:
        return _in_order(found, limits, file)
    unknown = [name for name in found.names if name not in by_name]
    absent = [name for name in limits.names if name not in by_name]
    if unknown and absent:
        raise ValueError(
            f"{file} has columns that are no joints of the limits ({', '.join(unknown)}), and the limits have joints "
            f"without a column ({', '.join(absent)}): name them alike, or say which to measure (--joints)"
        )
    for names, what in ((unknown, "left out, no joints of the limits"), (absent, "not measured, no columns")):
        if names:
            Console().print(f"{what}: {', '.join(names)}", style="yellow")
    columns = [found.names.index(name) for name in by_name]
    return found._replace(commands=found.commands[:, columns], names=tuple(by_name)), limits.select(by_name)


def _in_order(found: "Recorded", limits: "RateLimits", file: Path) -> "tuple[Recorded, RateLimits]":
    """The columns as the joints of the limits, in their order."""
    if len(found.names) != limits.dim:
        raise ValueError(
            f"{file} has {len(found.names)} columns ({', '.join(found.names)}), the limits {limits.dim} joints "
            f"({', '.join(limits.names)}): name the columns after the joints, or give one per joint in their order"
        )
    Console().print(f"taken for the joints in their order: {', '.join(found.names)}", style="yellow")
    return found._replace(names=limits.names), limits


def _warn_beyond(found: "Recorded", limits: "RateLimits") -> None:
    """Say which joint changes by more than its limit, and that the limits, the unit or dt may be others."""
    from slewrl.metrics import increments_and_limits

    increments, allowed = increments_and_limits(found.commands, limits)
    ratios = abs(increments) / allowed
    beyond = ratios > 1 + 1e-6  # what was rounded in writing the file is no step beyond
    if beyond.any():
        i = int(ratios.max(0).argmax())
        Console().print(
            f"{beyond.sum():,} of {beyond.size:,} joint steps are beyond the limit, {found.names[i]} by most, "
            f"{ratios[:, i].max():.3g} times its limit: are limits, unit and dt those of the recording?",
            style="yellow",
        )


def _print(file: Path, found: "Recorded", measured: "Calm", dt: float, above: float, limited: bool) -> None:
    """A row per joint, and one for all of them together."""
    steps = measured.steps
    names = [name for name in UNITS if limited or name != "at_limit"]
    title = f"{file}: {steps:,} steps of {dt:g} s ({steps * dt:,.1f} s)"
    table = number_table("joint", *(HEADS[name] for name in names), title=title, text=("joint",))
    rows = {name: measured.of_joint(i) for i, name in enumerate(found.names)}
    if len(rows) > 1:
        rows["all"] = measured.together()
    for joint, values in rows.items():
        shown = (f"{values[name]:.0%}" if name in SHARES else f"{values[name]:.3g}" for name in names)
        table.add_row(joint, *shown)
    console = Console()
    console.print(table)
    unit = "the rate limit" if limited else "the command's own unit per step (--limits: in units of the rate limit)"
    scale = "half the joint's range" if limited else "the command's unit"
    console.print(f"2nd diff and rms in units of {unit}; fast: above {above:g} Hz; Sm in {scale}")
