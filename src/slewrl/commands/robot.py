"""``slewrl robot``: what a robot is, as the walking tasks will see it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec


@dataclass(frozen=True)
class Robot:
    """Read a two-legged robot (g1, h1, a URDF or an MJCF) and show what the walking tasks make of it.

    slewrl robot my.urdf

    slewrl robot g1 --xml g1.xml

    slewrl train --task robot:my.urdf --limits tight --agent fastsac
    """

    source: tyro.conf.Positional[str]
    """g1, h1, or the path of a URDF or MJCF file (x forward, y left, z up; no meshes are read)."""
    safety: float = field(default=1.0)
    """Share of each joint's rated speed that a step may use, in (0, 1]; for the table."""
    xml: Path | None = None
    """Write the MuJoCo model that is simulated to this file."""

    def run(self) -> int:
        """Print joints and limits, and what to do next."""
        robot = find_robot(self.source)
        console = Console()
        console.print(self._table(robot))
        mass = sum(link.mass for link in robot.links)
        console.print(
            f"{mass:.2f} kg, {len(robot.joints)} joints, base at {robot.base_height:.3f} m; feet: "
            f"{' and '.join(robot.feet)}; a fall is when {robot.torso} touches the ground"
        )
        if self.xml:
            from slewrl.robots.mjcf import mjcf

            if self.xml.exists():
                raise FileExistsError(f"{self.xml} exists: choose another --xml")
            self.xml.write_text(mjcf(robot), encoding="utf-8")
            console.print(f"wrote [bold]{self.xml}[/]")
        task = f"{self.source.upper()}-flat" if self.source in ("g1", "h1") else f"robot:{self.source}"
        console.print(f"next: [bold]slewrl train --task {task} --limits tight --agent fastsac[/]")
        return 0

    def _table(self, robot: "RobotSpec") -> Table:
        limits = robot.rate_limits(safety=self.safety)
        table = Table(title=f"{robot.name}, limits at {self.safety:g} of the rated speed", box=SIMPLE_HEAD)
        table.title_justify = "left"
        for column in ("joint", "range, rad", "rad/s", "rad/step", "Nm", "kp, kd", "pose"):
            table.add_column(column, justify="left" if column == "joint" else "right", no_wrap=True)
        for i, joint in enumerate(robot.joints):
            table.add_row(
                joint.name,
                f"{float(joint.low):.2f} to {float(joint.high):.2f}",
                f"{float(joint.speed or 0):g}",
                f"{limits.delta[i]:.3g}",
                f"{float(joint.effort):g}",
                f"{joint.kp:g}, {joint.kd:g}",
                f"{joint.default + 0.0:g}",
            )
        return table


def find_robot(source: str) -> "RobotSpec":
    """One of ours by name, or a user's own by its file."""
    from slewrl.robots import ROBOTS
    from slewrl.robots.own import robot_model

    if source in ROBOTS:
        robot: RobotSpec = ROBOTS[source]
        return robot
    if not Path(source).exists():
        raise FileNotFoundError(f"no file {source!r}, and no robot of that name; there are: {', '.join(ROBOTS)}")
    return robot_model(source)
