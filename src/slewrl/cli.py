"""The command line. Every option's help is the docstring of its field; torch is imported only to run a command."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Table

from slewrl import __version__

if TYPE_CHECKING:
    from slewrl.limits import RateLimits
    from slewrl.runs import RunFolder

HELP = """Reinforcement learning under hard actuator rate limits: |a_t - a_{t-1}| <= delta, every joint, every step.

Where to start:
  slewrl demo                                            see the guarantee hold, in half a minute
  slewrl limits robot.urdf --dt 0.02 --safety 0.9        from a robot's datasheet to limits.yaml
  slewrl train --task HalfCheetah-v5 --steps 60000       train under the paper's tight limits; --help for the rest
  slewrl evaluate runs/NAME                              what a trained policy comes to
  slewrl limits H1:paper --out h1.yaml                   the same for a built-in set of limits
  slewrl --version

In Python:  limits = RateLimits.from_yaml("limits.yaml");  make_layer("ddsrad")(latent, limits.box(prev)).executed"""


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
    out: Path = Path("limits.yaml")
    """File to write."""
    force: bool = False
    """Overwrite the file if it is there."""

    def run(self) -> int:
        """Print the table and write the file."""
        limits = self.load()
        if self.out.exists() and not self.force:
            raise FileExistsError(f"{self.out} exists: pass --force to replace it, or --out another name")
        if not self.out.parent.is_dir():
            raise FileNotFoundError(f"no folder {str(self.out.parent)!r} to write {self.out.name} to")
        print_limits(limits, self.source)
        limits.to_yaml(self.out)
        Console().print(f'wrote [bold]{self.out}[/]; in Python: RateLimits.from_yaml("{self.out}")')
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


@dataclass(frozen=True)
class Train:
    """Train a policy under rate limits, or go on with a run that was stopped.

    slewrl train --task HalfCheetah-v5 --limits tight --layer ddsrad --agent sac --seed 12345 --steps 60000 --out runs/x
    """

    task: str = ""
    """A Gymnasium id with a Box action, e.g. HalfCheetah-v5."""
    limits: str = "tight"
    """A preset of the task, or a limits.yaml."""
    layer: str = "ddsrad"
    """The action layer: ddsrad, interval_tanh, boxpro, ... (docs/layers.md), or package.module:Class."""
    agent: str = "sac"
    """sac or td3."""
    seed: int = 12345
    """Of everything random: the same seed gives the same run, to the byte."""
    steps: int = 1_000_000
    """Environment steps."""
    density: str = "normalized"
    """Units of SAC's entropy: normalized, action_scaled, or action (the paper's)."""
    learning_starts: int = 10_000
    """Steps of uniform actions, within the limits, before learning."""
    paper_mode: bool = False
    """The paper's choices where ours differ: entropy in action units with target -d, and a tanh on the actor's mean."""
    out: Path | None = None
    """Folder of the run (default: runs/ and a name made of the above)."""
    resume: Path | None = None
    """Go on with the run in this folder; every other option is taken from it."""

    def run(self) -> int:
        """Train to the end, with a progress line; Ctrl-C checkpoints first."""
        from slewrl.runs import RunFolder
        from slewrl.train import train

        folder = RunFolder(self.resume) if self.resume else self._begin()
        spec = folder.spec()
        console = Console()
        console.print(
            f"[bold]{folder.path}[/]: {spec.task} {spec.limits}, {spec.agent} with {spec.layer}, {spec.steps:,} steps"
        )
        columns = [
            "{task.completed:>9,} steps",
            "{task.fields[rate]:>4.0f}/s",
            "return {task.fields[score]:>7.0f}",
            "evaluation {task.fields[evaluation]:>7.0f}",
            "use {task.fields[use]:.0%}",
            "violations {task.fields[violations]}",
        ]
        start: Any = {"rate": 0.0, "score": 0.0, "evaluation": 0.0, "use": 0.0, "violations": 0}
        with Progress(BarColumn(20), *columns, TimeRemainingColumn(), console=console) as progress:
            line = progress.add_task("", total=spec.steps, **start)

            def report(row: dict[str, Any]) -> None:
                if "message" in row:
                    console.print(f"[yellow]{row['message']}[/]")
                elif "evaluation" in row:
                    progress.update(line, evaluation=row["evaluation"])
                else:
                    fields = {"score": row["return"], "use": row["utilisation"]}  # NaN before the first episode ends
                    shown: Any = {key: 0.0 if math.isnan(value) else value for key, value in fields.items()}
                    progress.update(
                        line, completed=row["step"], rate=row["rate"], violations=row["violations"], **shown
                    )

            finished = train(spec, folder, report)
        console.print("finished" if finished else f"stopped; go on with: slewrl train --resume {folder.path}")
        return 0 if finished else 130

    def _begin(self) -> "RunFolder":
        from slewrl.runs import RunFolder, RunSpec
        from slewrl.train import check_spec

        if not self.task:
            raise ValueError("--task is missing, e.g. --task HalfCheetah-v5 (or --resume RUN)")
        options = {"mean_bound": "tanh"} if self.paper_mode and self.agent == "sac" else {}
        spec = RunSpec(
            self.task, self.limits, self.layer, self.agent, self.seed, self.steps,
            density="action" if self.paper_mode else self.density,
            learning_starts=self.learning_starts, agent_options=options,
        )  # fmt: skip
        check_spec(spec)
        folder = RunFolder(self.out or Path("runs") / spec.key)
        folder.create(spec)
        return folder


@dataclass(frozen=True)
class Evaluate:
    """Run a trained policy without exploration and print what it came to."""

    run_folder: tyro.conf.Positional[Path]
    """The folder of a run."""
    episodes: int = 20
    """How many, each from a seed of its own."""

    def run(self) -> int:
        """Print return, utilisation and exact violations."""
        from slewrl import checkpoint
        from slewrl.evaluate import evaluate
        from slewrl.runs import RunFolder
        from slewrl.train import EVALUATION_SEED, Trainer

        folder = RunFolder(self.run_folder)
        trainer = Trainer(folder.spec(), folder)
        state, complaints = checkpoint.load_newest(folder.checkpoints)
        trainer.agent.load_state_dict(state["agent"])
        result = evaluate(
            lambda x: trainer.agent.act(x, explore=False), trainer.evaluation_env, self.episodes, EVALUATION_SEED
        )
        table = Table(title=f"{folder.path}, step {state['step']:,}, {self.episodes} episodes", box=SIMPLE_HEAD)
        for column in ("", "value"):
            table.add_column(column, justify="right" if column else "left")
        for name, value in result.row().items():
            table.add_row(name, f"{value:,.4g}")
        for message in complaints:
            Console().print(f"[yellow]{message}[/]")
        Console().print(table)
        return 0


@dataclass(frozen=True)
class Demo:
    """Draw what every layer can reach, then try to break every one of them a million times."""

    out: Path = Path("demo")
    """Folder for the figure."""
    cases: int = 1_000_000
    """Adversarial actions per layer."""

    def run(self) -> int:
        """Run the demo; the exit code is 1 if a hard layer broke a limit."""
        from slewrl import demo

        if self.cases < 1:
            raise ValueError(f"--cases is {self.cases}, expected at least 1")
        return int(demo.run(self.out, self.cases) > 0)


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


def main() -> None:
    """Entry point of ``slewrl``."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        raise SystemExit(0)
    command: Limits | Train | Evaluate | Demo = tyro.cli(
        Limits | Train | Evaluate | Demo, prog="slewrl", description=HELP
    )
    try:
        raise SystemExit(command.run())
    except (ValueError, KeyError, OSError, FloatingPointError) as error:
        # KeyError quotes its message; a person should not see that.
        print(f"error: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        raise SystemExit(2) from None
