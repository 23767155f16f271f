"""What a robot earns that stands frozen in its default pose, in every walking task.

    python benchmarks/statue.py                 # a table
    python benchmarks/statue.py results/walk    # and final/statue.csv for the runs there that have none

A campaign's final evaluation notes it by itself since 2026-11.
"""

import sys
from pathlib import Path

from slewrl import RateLimits
from slewrl.locomotion.statue import statue_return
from slewrl.locomotion.tasks import TASKS
from slewrl.robots import ROBOTS
from slewrl.training.run_folder import RunFolder, write_csv
from slewrl.training.setup import run_limits


def table() -> None:
    print("| task | pose | return of a statue |\n|---|---|---|")
    for task, spec in TASKS.items():
        for pose in ("", *ROBOTS[spec.robot].poses):
            earned = statue_return(task, RateLimits.preset(task, "paper"), {"pose": pose})
            print(f"| {task} | {pose or 'default'} | {earned:,.4g} |")


def note(campaign: Path) -> None:
    for path in sorted(campaign.glob("*/final")):
        folder = RunFolder(path.parent)
        spec = folder.spec()
        if spec.task in TASKS and not (path / "statue.csv").exists():
            earned = statue_return(spec.task, run_limits(spec, folder), spec.task_options)
            write_csv(path / "statue.csv", [{"return": earned}])
            print(f"{path / 'statue.csv'}: {earned:.1f}")


if __name__ == "__main__":
    table()
    for name in sys.argv[1:]:
        note(Path(name))
