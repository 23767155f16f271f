"""``slewrl limits``: from a datasheet to limits.yaml."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from slewrl.limits import RateLimits


@dataclass(frozen=True)
class Limits:
    """Read a robot's speed limits, turn them into per-step rate limits, and write them to a file.

    delta = speed * dt * safety for every joint, rounded so that it never exceeds the datasheet.
    """

    source: tyro.conf.Positional[str]
    """A URDF, a ros2_control or MoveIt joint_limits.yaml, a limits.yaml of ours, or TASK:PRESET such as H1:paper."""
    dt: float | None = None
    """Control period in seconds, e.g. 0.02 for 50 Hz. Needed for a URDF or joint_limits.yaml."""
    safety: float = 1.0
    """Share of the rated speed to use, in (0, 1]."""
    joints: tuple[str, ...] = ()
    """Only these joints, in this order (default: all)."""
    urdf: Path | None = None
    """Where to find the position bounds a joint_limits.yaml leaves out."""
    bounds: tuple[str, ...] = ()
    """Position bounds of joints that have none in the URDF: NAME=LOW,HIGH ..., e.g. wheel=-100,100."""
    format: Literal["slewrl", "ros2"] = "slewrl"
    """slewrl, or ros2 for a joint_limits.yaml that ros2_control and MoveIt read."""
    out: Path | None = None
    """File to write (default: limits.yaml, or joint_limits.yaml for ros2)."""
    force: bool = False
    """Overwrite the file if it is there."""

    def run(self) -> int:
        """Print the table and write the file."""
        limits = self.load()
        out = self.out or Path("limits.yaml" if self.format == "slewrl" else "joint_limits.yaml")
        if out.exists() and not self.force:
            raise FileExistsError(f"{out} exists: pass --force to replace it, or --out another name")
        if not out.parent.is_dir():
            raise FileNotFoundError(f"no folder {str(out.parent)!r} to write {out.name} to")
        print_limits(limits, self.source)
        if self.format == "slewrl":
            limits.to_yaml(out)
            again = f'from_yaml("{out}")'
        else:
            limits.to_joint_limits_yaml(out)
            again = f'from_joint_limits_yaml("{out}", dt={limits.dt})'
        Console().print(f"wrote [bold]{out}[/]; in Python: RateLimits.{again}")
        return 0

    def load(self) -> "RateLimits":
        """The limits this command is about."""
        from slewrl.limits import RateLimits

        path = Path(self.source)
        if not path.exists() and ":" not in self.source:
            raise FileNotFoundError(f"no file {self.source!r} (and no TASK:PRESET of that name, e.g. H1:paper)")
        is_yaml = path.suffix in (".yaml", ".yml")
        if not path.exists() or (is_yaml and "joints:" in path.read_text(encoding="utf-8", errors="replace")):
            if self.dt is not None or self.safety != 1 or self.bounds or self.urdf:
                raise ValueError(
                    f"--dt, --safety, --bounds and --urdf are for a datasheet; {self.source} has its limits"
                )
            limits = RateLimits.from_yaml(path) if path.exists() else RateLimits.preset(*self.source.split(":", 1))
        elif self.dt is None:
            raise ValueError("--dt is missing: the control period in seconds, e.g. --dt 0.02 for 50 Hz")
        elif is_yaml:
            limits = RateLimits.from_joint_limits_yaml(path, self.dt, self.safety, self.urdf)
        else:
            return RateLimits.from_urdf(path, self.dt, self.safety, self.joints or None, self._bounds())
        return limits.select(self.joints) if self.joints else limits

    def _bounds(self) -> dict[str, tuple[str, str]]:
        parsed = {}
        for text in self.bounds:
            name, _, pair = text.partition("=")
            low, _, high = pair.partition(",")
            if not (name and low and high):
                raise ValueError(f"--bounds is {text!r}, expected NAME=LOW,HIGH such as wheel=-100,100")
            parsed[name] = (low, high)
        return parsed


def print_limits(limits: "RateLimits", title: str) -> None:
    """The per-joint table, kappa and the volume ratio."""
    from slewrl import theory

    legend = "speed: the most allowed, delta / dt; share: delta as a share of the range low to high"
    table = Table(title=f"{title}: {limits.dim} joints, {limits.units}", caption=legend, box=SIMPLE_HEAD)
    table.title_justify = table.caption_justify = "left"
    for column in ("joint", "group", "speed", "delta", "low", "high", "share"):
        table.add_column(column, justify="left" if column in ("joint", "group") else "right", no_wrap=True)
    for i, name in enumerate(limits.names):
        up, down = limits.up[i], limits.down[i]
        delta = f"{up:.5g}" if up == down else f"+{up:.5g} -{down:.5g}"
        speed = "-" if limits.speed is None else f"{limits.speed[i]:.4g}"
        low, high = limits.low[i], limits.high[i]
        share = f"{limits.delta[i] / (high - low):.1%}"
        table.add_row(name, limits.groups[i], speed, delta, f"{low:.4g}", f"{high:.4g}", share)
    console = Console()
    console.print(table)
    widest, tightest = (limits.names[i] for i in (limits.delta.argmax(), limits.delta.argmin()))
    pair = "all joints alike" if limits.kappa == 1 else f"{widest} against {tightest}"
    console.print(
        f"kappa = {limits.kappa:.3g} ({pair}); "
        f"the box F_t holds {theory.volume_ratio(limits):.3g} times the volume of the ball SRad is confined to"
    )
    idle = [name for name, wide in zip(limits.names, limits.delta >= limits.high - limits.low, strict=True) if wide]
    if idle:
        console.print(
            f"[yellow]never binding: {', '.join(idle)} can cross the whole range in one step; is dt right?[/]"
        )
