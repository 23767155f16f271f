"""``slewrl robot``: a robot as the walking tasks see it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from slewrl.io.console import Console, bold

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec

NOTICE = Path(__file__).parents[1] / "robots/NOTICE"
"""The sources of our robots' data."""


@dataclass(frozen=True)
class Robot:
    """Read a two-legged robot (g1, h1, a URDF or an MJCF) and show what the walking tasks make of it.

    slewrl robot my.urdf

    slewrl robot g1 --xml g1.xml

    slewrl train --task robot:my.urdf --limits tight --agent fastsac
    """

    source: tyro.conf.Positional[str]
    """g1, h1, g1_29, or the path of a URDF or MJCF file (x forward, y left, z up; meshes are only shown). What the file
    leaves out is read from my.robot.yaml beside my.urdf: feet, pose, gains, speeds, efforts, bounds, shapes."""
    safety: float = 1.0
    """Share of each joint's rated speed that a step may use, in (0, 1]; for the table."""
    xml: Path | None = None
    """Write the MuJoCo model that is simulated to this file."""

    def run(self) -> int:
        """Print joints and limits, and what to do next."""
        robot, console = find_robot(self.source), Console()
        console.print(self._table(robot))
        console.print(
            f"{robot.mass:.2f} kg, {len(robot.joints)} joints, base at {robot.base_height:.3f} m; feet: "
            f"{' and '.join(robot.feet)}; a fall is when {robot.torso} touches the ground"
        )
        for note in robot.notes:
            console.print(Text("note:", style="yellow"), note)
        if self.xml:
            from slewrl.robots import ROBOTS
            from slewrl.robots.mjcf import mjcf

            if self.xml.exists():
                raise FileExistsError(f"{self.xml} exists: choose another --xml")
            notice = f"<!--\n{NOTICE.read_text(encoding='utf-8')}-->\n" if self.source.lower() in ROBOTS else ""
            self.xml.write_text(notice + mjcf(robot), encoding="utf-8")
            console.print("wrote", bold(self.xml))
        console.print("next:", bold(self._next(robot)))
        return 0

    def _next(self, robot: "RobotSpec") -> str:
        from slewrl.locomotion.tasks import TASKS

        ours = [name for name, task in TASKS.items() if task.robot == self.source.lower() and task.ground == "flat"]
        if not ours and not Path(self.source).is_file():
            return f"ROBOTS[{self.source!r}] in Python; there is no task of it"
        if missing := [joint.name for joint in robot.joints if not joint.speed]:
            path = Path(self.source).with_suffix(".robot.yaml")
            return f"write the missing speeds, rad/s, to {path} (speeds: {{{missing[0]}: 12, ...}}), or pass --limits"
        limits = "paper" if ours else "tight"
        return f"slewrl train --task {(ours or [f'robot:{self.source}'])[0]} --agent fastsac --limits {limits}"

    def _table(self, robot: "RobotSpec") -> Table:
        from slewrl.robots.spec import CONTROL_PERIOD

        if not 0 < self.safety <= 1:
            raise ValueError(f"--safety is {self.safety}, expected a share of the rated speed in (0, 1]")
        title = f"{robot.name}, limits at {self.safety:g} of the rated speed"
        table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", show_edge=False, padding=(0, 1, 0, 0))
        table.add_column("joint", overflow="fold")
        for column in ("from", "to rad", "rad/s", "/step", "Nm", "kp", "kd", "pose"):
            table.add_column(column, justify="right", no_wrap=True)
        for joint in robot.joints:
            table.add_row(
                joint.name,
                f"{float(joint.low):.2f}",
                f"{float(joint.high):.2f}",
                f"{float(joint.speed):.3g}" if joint.speed else "–",
                f"{float(joint.speed) * CONTROL_PERIOD * self.safety:.3g}" if joint.speed else "–",
                *(f"{float(number):.3g}" for number in (joint.effort, joint.kp, joint.kd)),
                f"{joint.default + 0.0:.2f}",
            )
        return table


def find_robot(source: str) -> "RobotSpec":
    """A built-in robot by name, or the user's own by its file."""
    from slewrl.robots import ROBOTS
    from slewrl.robots.custom import read_robot

    if source.lower() in ROBOTS:
        return ROBOTS[source.lower()]
    if not Path(source).is_file():
        raise FileNotFoundError(f"no file {source!r}, and no robot of that name; there are: {', '.join(ROBOTS)}")
    return read_robot(source)
