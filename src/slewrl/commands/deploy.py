"""``slewrl export`` and ``slewrl check``: from a run to the robot."""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.text import Text

from slewrl.deploy import Format
from slewrl.errors import UserFacingError
from slewrl.io.console import Console, bold


@dataclass(frozen=True)
class Export:
    """Write a trained policy to one file for the robot: network, layer, limits and all it needs to know.

    slewrl export runs/x --out policy.bundle

    slewrl export runs/x --format c --out policy.h

    slewrl export limits.yaml --format c --out limiter.h

    slewrl export model.zip --out policy.bundle     # of slewrl.integrations.sb3

    On the robot, with numpy and onnxruntime:  Controller("policy.bundle").start(pose), then .step(observation)
    """

    source: tyro.conf.Positional[Path]
    """The folder of a run, or a model of Stable-Baselines3's (.zip); with --format c also a limits.yaml, for the
    limiter alone, or a bundle."""
    format: Format = "bundle"
    """bundle, c (a C99 header: docs/c.md), or the policy without the limiter: onnx, torch (.pt2)."""
    out: Path | None = None
    """File to write (default: policy.bundle, policy.h, limiter.h, policy.onnx, policy.pt2 or policy.pt)."""
    reset_action: str = ""
    """The pose the policy starts from, where training did not say it: a number for all joints, one per joint
    (0.1,-0.5), hip=0.1,knee=-0.5, or middle."""
    prefix: str = "slewrl"
    """Prefix of the names in a C header, so that one program can include several."""
    force: bool = False
    """Overwrite the file if it is there."""
    trust: bool = False
    """Run the code that a run's run.json names, or that is pickled in a model's .zip; see docs/trust.md."""

    def run(self) -> int:
        """Export, read back, and print what the file holds."""
        from slewrl.deploy.formats import default_out, export
        from slewrl.envs.reset import parse_reset

        out = self.out or default_out(self.source, self.format)
        if self.source.exists() and out.exists() and not self.force:
            raise FileExistsError(f"{out} exists: pass --force to replace it, or --out another name")
        pose = parse_reset(self.reset_action) if self.reset_action else None
        about = export(self.source, out, self.format, self.prefix, trust=self.trust, reset_action=pose)
        after = ("; next: ", bold(f"slewrl check {out}")) if self.format == "bundle" else ()
        Console().print("wrote ", bold(out), f" ({out.stat().st_size / 1e3:,.0f} kB): {about}", *after, sep="")
        return 0


@dataclass(frozen=True)
class Check:
    """Check a bundle as the robot will use it, and write a certificate that says exactly what was checked.

    Every byte against its SHA-256; ONNX Runtime against torch; a million steps of the real controller through NaNs,
    restarts, deratings and odd timing, each command judged in exact arithmetic; and how long a step takes.
    Takes some minutes; ``--steps 20000`` for a quick look.
    """

    bundle: tyro.conf.Positional[Path]
    """What ``slewrl export`` wrote."""
    steps: int = 1_000_000
    """Steps of the trial."""
    seed: int = 0
    """Seed of the faults in it."""
    out: Path | None = None
    """Folder for certificate.json and certificate.html (default: the bundle's name, with .check)."""
    trust: bool = False
    """Run the code that the bundle names (a layer of a module's); see docs/trust.md."""

    def run(self) -> int:
        """Check, write the certificate, and print the result; the exit code is 1 if it did not pass."""
        try:
            from slewrl.deploy.check import check, write_certificate
        except ModuleNotFoundError as error:
            raise UserFacingError(f'check needs ONNX Runtime ({error}): pip install "slewrl[onnx]"') from None
        if self.steps < 1:
            raise ValueError(f"--steps is {self.steps}, expected at least 1")
        console = Console()
        certificate = check(self.bundle, self.steps, self.seed, console.detail, self.trust)
        out = self.out or self.bundle.with_suffix(".check")
        write_certificate(certificate, out)
        trial, budget = certificate["trial"], certificate["budget"]
        over = "" if budget is None else f", {trial['over_budget']} steps over the budget of {float(budget):g}"
        counts = (trial[key] for key in ("over_rate", "over_acceleration", "out_of_range"))
        apart = " (rate {}, acceleration {}, range {})".format(*counts)
        console.print(
            Text("passed", style="green") if certificate["passed"] else Text("NOT passed", style="red"),
            f": {trial['joint_steps']:,} commands to joints, {trial['violations']} outside the limits{apart}{over}",
            "; wrote ",
            bold(out / "certificate.html"),
            sep="",
        )
        return 0 if certificate["passed"] else 1
