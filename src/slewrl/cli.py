"""The command line. Every option's help is the docstring of its field; torch is imported only to run a command."""

import json
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slewrl import __version__
from slewrl.campaign.commands import CampaignCommand
from slewrl.deploy import Format
from slewrl.errors import UserFacingError
from slewrl.runs import RunFolder, RunSpec

if TYPE_CHECKING:
    from slewrl.limits import RateLimits

HELP = """Reinforcement learning under hard actuator rate limits: |a_t - a_{t-1}| <= delta, every joint, every step.

Where to start:
  slewrl demo                                            train, evaluate, audit: a page in five minutes
  slewrl limits robot.urdf --dt 0.02 --safety 0.9        from a robot's datasheet to limits.yaml
  slewrl train --task HalfCheetah-v5 --steps 60000       train under the paper's tight limits; --help for the rest
  slewrl evaluate runs/NAME                              what a trained policy comes to
  slewrl play runs/NAME --video out.mp4                  see it move
  slewrl campaign run mini                               many runs as one; slewrl campaign list for the paper's
  slewrl report runs/mini --html                         tables, figures and a page from a campaign's runs
  slewrl export runs/NAME --out policy.bundle            one file for the robot
  slewrl check policy.bundle                             a million bad days for it, and a certificate
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


@dataclass(frozen=True)
class Train:
    """Train a policy under rate limits, or go on with a run that was stopped.

    slewrl train --task HalfCheetah-v5 --limits tight --layer ddsrad --agent sac --seed 12345 --steps 60000 --out runs/x

    slewrl train --resume runs/x

    slewrl train --task Pendulum-v1 --steps 10000 --set agent.learning_rate=1e-3 layer.penalty_weight=0.01
    """

    spec: Annotated[RunSpec, tyro.conf.arg(name="")] = RunSpec()
    set: tuple[str, ...] = ()
    """Any fields of the agent's config or of the layer: agent.NAME=VALUE layer.NAME=VALUE ..."""
    paper_mode: bool = False
    """The paper's choices where ours differ: entropy in action units with target -d, and a tanh on the actor's mean."""
    out: Path | None = None
    """Folder of the run (default: runs/ and a name made of the above)."""
    resume: Path | None = None
    """Go on with the run in this folder; what decides its result is taken from there."""
    tensorboard: bool = True
    """Write event files, too: tensorboard --logdir runs."""

    def run(self) -> int:
        """Train to the end, with a progress line; Ctrl-C checkpoints first."""
        from slewrl.progress import progress_line
        from slewrl.train import train

        if self.resume and (self.spec != RunSpec() or self.set or self.paper_mode or self.out):
            raise ValueError(f"--resume takes everything from {self.resume}: leave the other options out")
        folder = RunFolder(self.resume) if self.resume else self._begin()
        spec, console = folder.spec(), Console()
        if folder.done:
            console.print(f"[bold]{folder.path}[/] is finished; next: [bold]slewrl evaluate {folder.path}[/]")
            return 0
        console.print(
            f"[bold]{folder.path}[/]: {spec.task} {spec.limits}, {spec.agent} with {spec.layer}, {spec.steps:,} steps"
        )
        with progress_line(spec.steps, console) as report:
            finished = train(spec, folder, report, self.tensorboard)
        after = f"slewrl evaluate {folder.path}" if finished else f"slewrl train --resume {folder.path}"
        console.print(f"{'finished' if finished else 'stopped'}; next: [bold]{after}[/]")
        return 0 if finished else 130

    def _begin(self) -> RunFolder:
        from slewrl.train import check_spec

        spec = self._chosen()
        check_spec(spec)
        folder = RunFolder(self.out or Path("runs") / spec.key)
        folder.create(spec)
        return folder

    def _chosen(self) -> RunSpec:
        """The spec with what ``--set`` and ``--paper-mode`` add."""
        options: dict[str, dict[str, Any]] = {"agent": {}, "layer": {}}
        for text in self.set:
            path, _, value = text.partition("=")
            owner, _, name = path.partition(".")
            if owner not in options or not name or not value:
                raise ValueError(f"--set is {text!r}, expected agent.NAME=VALUE or layer.NAME=VALUE")
            options[owner][name] = _value(value)
        spec = replace(self.spec, agent_options=options["agent"], layer_options=options["layer"])
        if not self.paper_mode:
            return spec
        if spec.density not in (RunSpec().density, "action"):
            raise ValueError(f"--paper-mode means --density action, but --density is {spec.density!r}: choose one")
        density = "action" if spec.agent == "sac" else spec.density  # TD3 has no entropy
        return replace(spec, density=density, agent_options={**options["agent"], "mean_bound": "tanh"})


@dataclass(frozen=True)
class Evaluate:
    """Run a trained policy without exploration, print what it came to, and write it down.

    Leaves in the run's evaluation/ episodes.csv (a row an episode), density.csv (how often which increment) and
    increments.csv (some of them).
    """

    run_folder: tyro.conf.Positional[Path]
    """The folder of a run."""
    episodes: int = 20
    """How many, each from a seed of its own."""

    def run(self) -> int:
        """Print return, utilisation and exact violations."""
        from slewrl.play import evaluate_run

        if self.episodes < 1:
            raise ValueError(f"--episodes is {self.episodes}, expected at least 1")
        policy, result = evaluate_run(self.run_folder, self.episodes)
        steps = RunFolder(self.run_folder).spec().steps
        far = f"step {policy.step:,}" + (f" of {steps:,}" if policy.step < steps else "")
        table = Table(title=f"{self.run_folder}, {far}, {self.episodes} episodes", box=SIMPLE_HEAD)
        table.title_justify = "left"
        for column in ("", "value"):
            table.add_column(column, justify="right" if column else "left")
        for name, value in result.row().items():
            joint = name.removeprefix("utilisation_")
            label = f"utilisation of {policy.env.limits.names[int(joint)]}" if joint.isdigit() else name
            table.add_row(label, f"{value:,.4g}")
        console = Console()
        for message in policy.complaints:
            console.print(f"[yellow]{message}[/]")
        console.print(table)
        files = "episodes.csv, density.csv, increments.csv (docs/metrics.md defines every column)"
        console.print(f"wrote [bold]{self.run_folder / 'evaluation'}[/]: {files}")
        return 0


@dataclass(frozen=True)
class Play:
    """Record a trained policy on video."""

    run_folder: tyro.conf.Positional[Path]
    """The folder of a run."""
    video: Path | None = None
    """File to write, .mp4 or .gif (default: play.mp4 in the run's folder)."""
    episodes: int = 1
    """How many, one after the other."""
    seed: int = 0
    """Of the first episode."""

    def run(self) -> int:
        """Render, write, and say what was seen."""
        from slewrl.play import record

        if self.episodes < 1:
            raise ValueError(f"--episodes is {self.episodes}, expected at least 1")
        video = self.video or self.run_folder / "play.mp4"
        Console().print("rendering; a MuJoCo episode of 1 000 frames takes a minute or two without a GPU")
        frames, returns, violations = record(self.run_folder, video, self.episodes, self.seed)
        scores = ", ".join(f"{value:,.0f}" for value in returns)
        Console().print(f"wrote [bold]{video}[/]: {frames:,} frames, return {scores}, {violations} violations")
        return 0


@dataclass(frozen=True)
class Export:
    """Write a trained policy to one file for the robot: network, layer, limits and all it needs to know.

    slewrl export runs/x --out policy.bundle

    slewrl export runs/x --format c --out policy.h

    slewrl export limits.yaml --format c --out limiter.h

    On the robot, with numpy and onnxruntime:  Controller("policy.bundle").start(pose), then .step(observation)
    """

    source: tyro.conf.Positional[Path]
    """The folder of a run; with --format c also a limits.yaml, for the limiter alone, or a bundle."""
    format: Format = "bundle"
    """bundle, c (a C99 header: docs/c.md), or the policy without the limiter: onnx, torch (.pt2), torchscript (.pt)."""
    out: Path | None = None
    """File to write (default: policy.bundle, policy.h, limiter.h, policy.onnx, policy.pt2 or policy.pt)."""
    prefix: str = "slewrl"
    """Of the names in a C header, so that several can live in one program."""
    force: bool = False
    """Overwrite the file if it is there."""

    def run(self) -> int:
        """Export, read back, and say what is in it."""
        from slewrl.deploy.formats import default_out, export

        out = self.out or default_out(self.source, self.format)
        if out.exists() and not self.force:
            raise FileExistsError(f"{out} exists: pass --force to replace it, or --out another name")
        about = export(self.source, out, self.format, self.prefix)
        after = f"; next: [bold]slewrl check {out}[/]" if self.format == "bundle" else ""
        Console().print(f"wrote [bold]{out}[/] ({out.stat().st_size / 1e3:,.0f} kB): {about}{after}")
        return 0


@dataclass(frozen=True)
class Check:
    """Check a bundle as the robot will use it, and write a certificate that says exactly what was checked.

    Every byte against its SHA-256; ONNX Runtime against torch; a million steps of the real controller through NaNs,
    restarts, deratings and odd timing, each command judged in exact arithmetic; and how long a step takes.
    """

    bundle: tyro.conf.Positional[Path]
    """What ``slewrl export`` wrote."""
    steps: int = 1_000_000
    """Of the trial."""
    seed: int = 0
    """Of what goes wrong when."""
    out: Path | None = None
    """Folder for certificate.json and certificate.html (default: the bundle's name, with .check)."""

    def run(self) -> int:
        """Check, write, and say how it went; the exit code is 1 if it did not pass."""
        from slewrl.deploy.check import check, write_certificate

        if self.steps < 1:
            raise ValueError(f"--steps is {self.steps}, expected at least 1")
        console = Console()
        certificate = check(
            self.bundle, self.steps, self.seed, lambda line: console.print(f"  {line}", highlight=False)
        )
        out = self.out or self.bundle.with_suffix(".check")
        write_certificate(certificate, out)
        trial = certificate["trial"]
        verdict = "[green]passed[/]" if certificate["passed"] else "[red]NOT passed[/]"
        console.print(
            f"{verdict}: {trial['joint_steps']:,} commands to joints, {trial['violations']} outside the limits; "
            f"wrote [bold]{out / 'certificate.html'}[/]"
        )
        return 0 if certificate["passed"] else 1


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
        from slewrl import demo

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
    """

    campaign: tyro.conf.Positional[Path]
    """The folder of a campaign, finished or not, or a collected copy of one such as results/first."""
    out: Path | None = None
    """Folder for tables/, figures/ and index.html (default: report/ in the campaign's folder)."""
    html: bool = False
    """Write the page, too: one file, to be opened anywhere."""
    pdf: bool = False
    """Write every figure as PDF, too, for papers."""

    def run(self) -> int:
        """Write the report and say where it is."""
        from slewrl.report.build import report

        console, out = Console(), self.out or self.campaign / "report"
        say = partial(console.print, highlight=False)
        written = report(self.campaign, out, self.html, lambda line: say(f"  {line}"), self.pdf)
        start = out / ("index.html" if self.html else "tables/results.md")
        console.print(f"wrote {len(written)} files to [bold]{out}[/]; start with [bold]{start}[/]")
        return 0


def _value(text: str) -> Any:
    """A number, a list (in either kind of brackets) or true/false; anything else is a word."""
    listed = f"[{text[1:-1]}]" if text.startswith("(") and text.endswith(")") else text
    for read in (json.loads, float):
        try:
            return read(listed)
        except ValueError:
            continue
    return text


def refuse_repeats(arguments: list[str]) -> None:
    """An option given twice: only the second would count, and nobody would know."""
    options = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    if twice := [option for option in options if options.count(option) > 1]:
        raise ValueError(f"{twice[0]} is there twice, expected once (it may take several values: {twice[0]} A B)")


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
    sys.path.append(str(Path.cwd()))  # where a user's own environments and layers are; last, so as to hide nothing
    commands = Limits | Train | Evaluate | Play | Annotated[CampaignCommand, tyro.conf.subcommand("campaign")]
    try:
        refuse_repeats(sys.argv[1:])
        command: Any = tyro.cli(commands | Report | Export | Check | Demo, prog="slewrl", description=HELP)
        raise SystemExit(command.run())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (ValueError, KeyError, OSError, FloatingPointError, UserFacingError) as error:
        # KeyError quotes its message; a person should not see that.
        print(f"error: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        if error.__cause__ is not None and isinstance(error, UserFacingError):
            where = traceback.extract_tb(error.__cause__.__traceback__)[-1]
            print(f"  raised at {where.filename}:{where.lineno}", file=sys.stderr)
        raise SystemExit(2) from None
