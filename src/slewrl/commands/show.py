"""``slewrl evaluate`` and ``slewrl play``: the results of a trained policy, and its video."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from slewrl.io.console import Console, bold, number_table
from slewrl.training.run_folder import RunFolder

if TYPE_CHECKING:
    from slewrl.render.play import Seen, Walker

RENDERING = "rendering; a MuJoCo episode of 1 000 frames takes a minute or two without a GPU"


@dataclass(frozen=True)
class Evaluate:
    """Run a trained policy without exploration, and print and write the results.

    Writes to the run's evaluation/ episodes.csv (one row per episode), density.csv (a histogram of increments),
    increments.csv (a sample of them), calm.csv (how much each joint's commands shake) and commands.csv (those of the
    first episode, for slewrl calm).
    """

    run_folder: tyro.conf.Positional[Path]
    """The folder of a run."""
    episodes: int = 20
    """Number of episodes, each with a seed of its own."""
    trust: bool = False
    """Run the code that the run's run.json names (a layer or a task of a module's); see docs/trust.md."""

    def run(self) -> int:
        """Print return, utilisation and exact violations."""
        from slewrl.training.policy import evaluate_run

        if self.episodes < 1:
            raise ValueError(f"--episodes is {self.episodes}, expected at least 1")
        policy, result = evaluate_run(self.run_folder, self.episodes, trust=self.trust)
        steps = RunFolder(self.run_folder).spec().steps
        step = f"step {policy.step:,}" + (f" of {steps:,}" if policy.step < steps else "")
        title = f"{self.run_folder}, {step}, {self.episodes} episodes"
        table = number_table("", "value", title=title, text=("",))
        for name, value in result.row().items():
            joint = name.removeprefix("utilisation_")
            label = f"utilisation of {policy.limits.names[int(joint)]}" if joint.isdigit() else name
            table.add_row(label, f"{value:,.4g}")
        console = Console()
        for message in policy.complaints:
            console.print(message, style="yellow")
        console.print(table)
        files = "episodes, density, increments, calm and commands.csv (docs/metrics.md defines every column)"
        console.print("wrote ", bold(self.run_folder / "evaluation"), f": {files}", sep="")
        return 0


@dataclass(frozen=True)
class Play:
    """Show a trained policy: on video, in a picture or, for walking robots, live in a browser.

    slewrl play runs/x --video x.mp4

    slewrl play G1-flat --bundle policy.bundle --command 0.8 0 0 --picture walk.png
    """

    source: tyro.conf.Positional[str]
    """The folder of a run; with --bundle a walking task such as G1-flat."""
    bundle: Path | None = None
    """What ``slewrl export`` wrote: its policy walks the task's robot, through the controller of a real one."""
    video: Path | None = None
    """File to write, .mp4 or .gif (default: play.mp4 in the run's folder, or here for a bundle)."""
    picture: Path | None = None
    """A .png of the first episode: each joint's increments over their limits, below what can be seen of it."""
    view: bool = False
    """For a walking robot: show it live, with its command to set, at http://localhost:8080 (slewrl[viewer])."""
    command: tuple[float, float, float] | None = None
    """For a walking robot: speed ahead and to the left, m/s, and yaw rate, rad/s (default: random, as in training)."""
    episodes: int = 1
    """Number of episodes in the video."""
    seed: int = 0
    """Seed of the first episode."""
    trust: bool = False
    """Run the code that the run's run.json names (a layer or a task of a module's); see docs/trust.md."""

    def run(self) -> int:
        """Render and write, and print the return and violations."""
        from slewrl.render import play

        if self.episodes < 1:
            raise ValueError(f"--episodes is {self.episodes}, expected at least 1")
        if play.walks(self.source, self.bundle):
            rendered = bool(self.video or self.picture or not self.view)
            self._walk(play.walker(self.source, self.bundle, self.command, rendered, self.trust))
            return 0
        if self.view or self.command:
            raise ValueError("--view and --command are for walking robots, and this is the run of another")
        if self.picture:
            self._print(self.picture, play.picture(Path(self.source), self.picture, self.seed, self.trust))
        if self.video or not self.picture:
            Console().print(RENDERING)
            seen = play.record(Path(self.source), self._video, self.episodes, self.seed, self.trust)
            self._print(self._video, seen)
        return 0

    def _walk(self, walker: "Walker") -> None:
        if self.view:
            from slewrl.render.viewer import view

            view(walker.env, walker.act, self.seed, Console().print)
        if self.picture:
            self._print(self.picture, walker.picture(self.picture, self.seed))
        if self.video or not (self.picture or self.view):
            Console().print(RENDERING)
            self._print(self._video, walker.record(self._video, self.episodes, self.seed))

    @property
    def _video(self) -> Path:
        return self.video or (Path() if self.bundle else Path(self.source)) / "play.mp4"

    def _print(self, path: Path, seen: "Seen") -> None:
        scores = ", ".join(f"{value:,.0f}" for value in seen.returns)
        shown = f"the increments only, of {seen.frames:,} steps" if seen.unseen else f"{seen.frames:,} frames"
        console = Console()
        console.print("wrote ", bold(path), f": {shown}, return {scores}, {seen.violations} violations", sep="")
        if seen.unseen:
            console.print(seen.unseen, style="yellow", soft_wrap=True)
