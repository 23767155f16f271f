"""``slewrl limits``: from a datasheet to limits.yaml."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.measure import Measurement
from rich.table import Table

from slewrl.io.console import Console, bold

if TYPE_CHECKING:
    from slewrl.limits import RateLimits

FOR_DATASHEETS = (*("dt", "safety", "urdf", "bounds", "speeds", "continuous", "angles"),)
LEGEND = {
    "speed": "the most allowed, delta / dt",
    "share": "delta as a share of the range low to high",
    "acc/s²": "acceleration per second squared (+ speeding up, - slowing down)",
    "acc": "acceleration per step squared",
}
"""What the columns of the table are."""
NARROWER = ((), ("group",), ("group", "acc"), ("group", "acc", "share"))
"""The columns that are left out until the table fits the terminal."""
NAME = 24
"""Longer joint names may be folded to fit it."""
LOST = 0.01
"""The share of an acceleration lost to the grid of commands from which on it is said."""


@dataclass(frozen=True)
class Limits:
    """Read a robot's speed limits, turn them into per-step rate limits, and write them to a file.

    delta = speed * dt * safety for every joint, rounded so that it never exceeds the datasheet; accelerations, if there
    are any, times dt^2 * safety.
    """

    source: tyro.conf.Positional[str]
    """A URDF, an MJCF, a ros2_control or MoveIt joint_limits.yaml, a limits.yaml of ours, or TASK:PRESET such as
    H1:paper."""
    dt: float | None = None
    """Control period in seconds, e.g. 0.02 for 50 Hz. Needed for a datasheet."""
    safety: float = 1.0
    """Share of the rated speeds and accelerations to use, in (0, 1]."""
    joints: tuple[str, ...] = ()
    """Only these joints, in this order (default: all)."""
    exclude: tuple[str, ...] = ()
    """Joints to leave out. Here and below a name may be a pattern, such as 'caster_*'."""
    urdf: Path | None = None
    """Where to find the position bounds a joint_limits.yaml leaves out."""
    bounds: tuple[str, ...] = ()
    """Position bounds, rad or m, instead of what the file says: NAME=LOW,HIGH ..., e.g. lift=-0.5,0.5."""
    speeds: tuple[str, ...] = ()
    """Speeds, rad/s or m/s, instead of what the file says: NAME=SPEED ..., e.g. knee=12."""
    acceleration: tuple[str, ...] = ()
    """Acceleration limits, rad/s^2 or m/s^2, instead of what the file says: a number for all joints, NAME=VALUE ..., or
    both, e.g. 15 wrist=30 finger=none; none is for no limit. Of limits without a dt: per step squared."""
    deceleration: tuple[str, ...] = ()
    """The same for slowing down, where it differs."""
    continuous: tuple[str, ...] = ()
    """Joints that turn for ever, such as wheels: their rate is limited, and they are only kept where floats still
    resolve a step."""
    angles: Literal["radians", "degrees"] | None = None
    """What unit the file's angles are in, if it is refused because they cannot be radians."""
    reset_action: str = ""
    """Where the joints are before an episode's first step, to be written to limits.yaml: a number for all, one per
    joint (0.1,-0.5), hip=0.1,knee=-0.5, or middle."""
    format: Literal["slewrl", "ros2"] = "slewrl"
    """slewrl, or ros2 for a joint_limits.yaml that ros2_control and MoveIt read."""
    out: Path | None = None
    """File to write (default: limits.yaml, or joint_limits.yaml for ros2)."""
    force: bool = False
    """Overwrite the file if it is there."""

    def run(self) -> int:
        """Print the table and write the file."""
        out = self.out or Path("limits.yaml" if self.format == "slewrl" else "joint_limits.yaml")
        if out.is_dir():
            raise IsADirectoryError(f"--out is the folder {str(out)!r}, expected the name of a file")
        limits, units, notes = self.load()
        if self.reset_action:
            from slewrl.envs.reset import parse_reset

            limits = limits.with_reset(parse_reset(self.reset_action))
        if out.exists() and not self.force:
            raise FileExistsError(f"{out} exists: pass --force to replace it, or --out another name")
        if not out.parent.is_dir():
            raise FileNotFoundError(f"no folder {str(out.parent)!r} to write {out.name} to")
        print_limits(limits, self.source, units)
        console = Console()
        for note in notes:
            console.print(note)
        if limits.reset is not None:
            poses = zip(limits.names, limits.reset, strict=True)
            console.print("before the first step:", ", ".join(f"{name} {pose:.4g}" for name, pose in poses))
        if self.format == "slewrl":
            limits.to_yaml(out)
            again = f'from_yaml("{out}")'
        else:
            limits.to_joint_limits_yaml(out)
            again = f'from_joint_limits_yaml("{out}", dt={limits.dt})'
        console.print("wrote ", bold(out), f"; in Python: RateLimits.{again}", sep="")
        return 0

    def load(self) -> "tuple[RateLimits, dict[str, str] | None, tuple[str, ...]]":
        """The limits, the unit of each joint if it is known, and notes for the user."""
        from slewrl.io.files import is_yaml
        from slewrl.limits import RateLimits, files
        from slewrl.limits.datasheets import holds_our_limits
        from slewrl.limits.rates import matching
        from slewrl.limits.resolve import resolve_limits

        path = Path(self.source)
        if not path.is_file() and ":" not in self.source:
            raise FileNotFoundError(f"no file {self.source!r} (and no TASK:PRESET of that name, e.g. H1:paper)")
        if path.is_file() and not (is_yaml(path) and holds_our_limits(path)):
            if self.dt is None:
                raise ValueError("--dt is missing: the control period in seconds, e.g. --dt 0.02 for 50 Hz")
            read = files.from_sheet(
                files.read_sheet(path, self.urdf),
                self.dt,
                self.safety,
                joints=self.joints or None,
                bounds=dict(self._bounds()),
                speeds=dict(_pairs("--speeds", self.speeds, "NAME=SPEED such as knee=12")),
                acceleration=dict(_accelerations("--acceleration", self.acceleration)),
                deceleration=dict(_accelerations("--deceleration", self.deceleration)),
                exclude=self.exclude,
                continuous=self.continuous,
                angles=self.angles,
            )
            return RateLimits(**read.arguments), read.units, read.notes
        if given := [f"--{name}" for name in FOR_DATASHEETS if getattr(self, name) != getattr(Limits, name)]:
            verb = "is" if len(given) == 1 else "are"
            raise ValueError(f"{' and '.join(given)} {verb} for a datasheet; {self.source} has its limits")
        limits = resolve_limits(self.source)
        excluded = set(matching(self.exclude, limits.names, self.source))
        limits = limits.select([name for name in self.joints or limits.names if name not in excluded])
        if self.acceleration or self.deceleration:
            limits = limits.with_acceleration(
                dict(_accelerations("--acceleration", self.acceleration)),
                dict(_accelerations("--deceleration", self.deceleration)),
            )
        return limits, None, ()

    def _bounds(self) -> Iterator[tuple[str, tuple[str, str]]]:
        wanted = "NAME=LOW,HIGH such as lift=-0.5,0.5"
        for name, pair in _pairs("--bounds", self.bounds, wanted):
            low, _, high = pair.partition(",")
            if not (low and high):
                raise ValueError(f"--bounds is {f'{name}={pair}'!r}, expected {wanted}")
            yield name, (low, high)


def _pairs(option: str, texts: tuple[str, ...], wanted: str) -> Iterator[tuple[str, str]]:
    """Split each NAME=VALUE at its last equals sign."""
    for text in texts:
        name, _, value = text.rpartition("=")
        if not (name and value):
            raise ValueError(f"{option} is {text!r}, expected {wanted}")
        yield name, value


def _accelerations(option: str, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """NAME=VALUE, where a number without a name is for all joints and comes first."""
    everywhere = [word for word in words if "=" not in word]
    if len(everywhere) > 1:
        raise ValueError(f"{option} has {' and '.join(everywhere)} for all joints, expected one number, or NAME=VALUE")
    yield from (("*", word) for word in everywhere)
    yield from _pairs(option, tuple(word for word in words if "=" in word), "NAME=VALUE such as knee=40, or knee=none")


def print_limits(limits: "RateLimits", title: str, units: Mapping[str, str] | None = None) -> None:
    """Print a table of the joints, kappa and the volume ratio; ``units`` has the unit of each joint, if known."""
    console = Console()
    wide = console.options.update_width(1_000)
    folded = max(0, max(map(len, limits.names)) - NAME)
    for without in NARROWER:
        table = _table(limits, title, without)
        if Measurement.get(console, wide, table).maximum - folded <= console.width:
            break
    console.print(table)
    console.print(_heterogeneity(limits, units))
    idle = [name for name, wide in zip(limits.names, limits.delta >= limits.high - limits.low, strict=True) if wide]
    if idle:
        warning = f"never binding: {', '.join(idle)} can cross the whole range in one step; is dt right?"
        console.print(warning, style="yellow")
    for note in _about_acceleration(limits):
        console.print(note)


def _about_acceleration(limits: "RateLimits") -> Iterator[str]:
    """Which accelerations never bind, and which lose much to the grid of commands."""
    grid = limits.grid
    if grid is None or limits.acceleration is None or limits.deceleration is None:
        yield "no acceleration limits: a joint may reach full speed in one step (--acceleration sets them)"
        return
    if limits.dt is not None:
        seconds = limits.dt * limits.delta / limits.acceleration
        yield f"from rest to full speed in {seconds.min():.2g} to {seconds.max():.2g} s"
    widest = grid.up + grid.down
    free = (grid.acceleration >= widest) & (grid.deceleration >= widest)
    if names := [name for name, idle in zip(limits.names, free, strict=True) if idle]:
        yield f"acceleration never binding, at twice the rate per step or more: {', '.join(names)}"
    for key in ("acceleration", "deceleration"):
        useful = getattr(limits, key).clip(max=widest * grid.unit)
        lost = 1 - getattr(grid, key) * grid.unit / useful
        said = [f"{name} {share:.1%}" for name, share in zip(limits.names, lost, strict=True) if share > LOST]
        if said and (key == "acceleration" or (limits.acceleration != limits.deceleration).any()):
            yield f"lost of the {key} to the grid of commands: {', '.join(said)}"


def _table(limits: "RateLimits", title: str, without: Sequence[str]) -> Table:
    """A row per joint, without some columns; on a narrow terminal names are folded, and no digit is cut."""
    title = f"{title}: {limits.dim} joint{'s' * (limits.dim > 1)}, {limits.units}"
    rows = [_row(limits, i) for i in range(limits.dim)]
    if limits.dt is None:  # accelerations are known per step only
        without = [head.replace("acc", "acc/s²") for head in without]
    heads = [head for head in rows[0] if head not in without]
    legend = "; ".join(f"{head}: {LEGEND[head]}" for head in heads if head in LEGEND)
    table = Table(title=title, caption=legend, box=SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for head in heads:
        if head in ("joint", "group"):
            table.add_column(head, overflow="fold")
        else:
            widest = max(len(text) for text in (head, *(row[head] for row in rows)))
            table.add_column(head, justify="right", no_wrap=True, min_width=widest)
    for row in rows:
        table.add_row(*(row[head] for head in heads))
    return table


def _row(limits: "RateLimits", i: int) -> dict[str, str]:
    """Joint i: heading -> text."""
    up, down, low, high = (float(x[i]) for x in (limits.up, limits.down, limits.low, limits.high))
    row = {
        "joint": limits.names[i],
        "group": limits.groups[i],
        "speed": "-" if limits.speed is None else f"{limits.speed[i]:.4g}",
        "delta": f"{up:.5g}" if up == down else f"+{up:.5g} -{down:.5g}",
    }
    if limits.acceleration is not None:
        row |= zip(("acc/s²", "acc"), _acceleration_cells(limits, i), strict=True)
    return {**row, "low": f"{low:.4g}", "high": f"{high:.4g}", "share": f"{limits.delta[i] / (high - low):.1%}"}


def _acceleration_cells(limits: "RateLimits", i: int) -> tuple[str, str]:
    """The acceleration of joint i per second squared, if there is a dt, and per step squared."""
    assert limits.acceleration is not None and limits.deceleration is not None
    faster, slower = float(limits.acceleration[i]), float(limits.deceleration[i])
    cells = []
    for scale in (limits.dt, 1.0):
        up, down = (f"{value / scale**2:.4g}" if scale else "-" for value in (faster, slower))
        cells.append(up if faster == slower or not scale else f"+{up} -{down}")
    return cells[0], cells[1]


def _heterogeneity(limits: "RateLimits", units: Mapping[str, str] | None) -> str:
    """kappa of the joints of each unit; for one unit and rates alone, how much larger F_t is than SRad's ball."""
    from slewrl.limits.parse import MIXED, UNSAID
    from slewrl.paper import theory

    if limits.units == UNSAID:
        return "kappa is not given: the file does not say which joints slide (--urdf)"
    if limits.units != MIXED and limits.grid is not None:
        return _kappa(limits, limits.names)
    if limits.units != MIXED:
        ratio = f"{theory.volume_ratio(limits):.3g} times the volume of the ball SRad is confined to"
        return f"{_kappa(limits, limits.names)}; the box F_t holds {ratio}"
    if units is None:
        return f"kappa is not given: the joints are in {MIXED}, and the file does not say which in which"
    joints = {unit: [name for name in limits.names if units[name] == unit] for unit in sorted(set(units.values()))}
    return "; ".join(f"{unit}: {_kappa(limits, names)}" for unit, names in joints.items())


def _kappa(limits: "RateLimits", joints: Sequence[str]) -> str:
    delta = {name: float(limits.delta[limits.names.index(name)]) for name in joints}
    widest, tightest = max(delta, key=lambda name: delta[name]), min(delta, key=lambda name: delta[name])
    kappa = delta[widest] / delta[tightest]
    pair = "all joints alike" if kappa == 1 else f"{widest} against {tightest}"
    return f"kappa = {kappa:.3g} ({pair})"
