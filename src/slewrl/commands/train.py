"""``slewrl train``."""

import errno
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from slewrl.errors import UserFacingError, shortened
from slewrl.io.console import Console, bold
from slewrl.io.trust import allow_modules_here, code_named, require_trust
from slewrl.paper.printed import as_printed
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, with_recipe

CALM = ("sac", "td3")
"""The agents with the option ``calm``."""


@dataclass(frozen=True)
class Train:
    """Train a policy under rate limits, or resume a run: one that was stopped, or with a larger budget.

    slewrl train --task HalfCheetah-v5 --limits tight --layer ddsrad --agent sac --seed 12345 --steps 60000 --out runs/x

    slewrl train --resume runs/x

    slewrl train --resume runs/x --steps 100000

    slewrl train --task HalfCheetah-v5 --limits tight --from runs/wide --learning-starts 1000

    slewrl train --task Pendulum-v1 --steps 10000 --set agent.learning_rate=1e-3 layer.penalty_weight=0.01
    """

    spec: Annotated[RunSpec, tyro.conf.arg(name="")] = RunSpec()
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint=f"(default: {RunSpec.steps})")] = None
    """Environment steps, over all environments. With --resume: a larger budget for the run, finished or stopped, which
    ends to the bit as if it had been asked for at first."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the recipe's)")] = None
    """Transitions per update, from the replay: 128 for sac, 256 for td3 and the paper's recipes if not given. PPO's
    own is agent.minibatch."""
    set: tuple[str, ...] = ()
    """Any fields of the agent's config, the layer or the task: agent.NAME=VALUE layer.NAME=VALUE task.NAME=VALUE ..."""
    calm: Annotated[float | None, tyro.conf.arg(metavar="0..1", help_behavior_hint="(default: 0, off)")] = None
    """How calm the commands of sac or td3 should be: 0 is off, 1 very calm (agent.calm; docs/calm.md)."""
    paper_mode: bool = False
    """The paper as printed: its recipe, entropy in action units, a tanh on the actor's mean (but none over a layer's
    own), its weight of BoxPre+ and radius of SRad-QP, and Humanoid's tight limits in environment units."""
    out: Path | None = None
    """Folder of the run (default: runs/ and a name made of the above)."""
    resume: Path | None = None
    """Resume the run in this folder; all that decides its result but --steps is taken from there."""
    logger: tuple[Literal["csv", "tensorboard", "wandb", "trackio"], ...] = ("csv", "tensorboard")
    """What else gets the numbers of the CSV files, which are always written: tensorboard (tensorboard --logdir runs),
    wandb (pip install wandb), trackio (pip install trackio)."""
    tensorboard: bool = True
    """--no-tensorboard is --logger without it."""
    trust: bool = False
    """With --resume: run the code that run.json names (a layer or a task of a module's); see docs/trust.md."""

    def run(self) -> int:
        """Train to the end, with a progress line; Ctrl-C checkpoints first."""
        from slewrl.training.extend import extend
        from slewrl.training.loggers import require
        from slewrl.training.progress import progress_line
        from slewrl.training.trainer import train

        numbers = (self.batch_size, self.calm)
        given = self.spec != RunSpec() or numbers != (None, None) or self.set or self.paper_mode or self.out
        if self.resume and given:
            raise ValueError(f"--resume takes everything but --steps from {self.resume}: leave the other options out")
        loggers = [name for name in self.logger if self.tensorboard or name != "tensorboard"]
        require(loggers)
        folder = RunFolder(self.resume) if self.resume else self._begin()
        spec, console = folder.spec(), Console()
        named = code_named(spec.task, spec.layer, spec.agent)
        if self.resume:
            require_trust(named, folder.path, self.trust)
            if self.steps is not None:
                with folder.lock():
                    spec = extend(folder, self.steps)
        if folder.done:
            console.print(bold(folder.path), " is finished; next: ", bold(f"slewrl evaluate {folder.path}"), sep="")
            return 0
        start = f", from the weights of {spec.start}" if spec.start else ""
        about = f": {spec.task} {spec.limits}, {spec.agent} with {spec.layer}, {spec.steps:,} steps{start}"
        console.print(bold(folder.path), about, sep="")
        try:
            with progress_line(spec, console) as callback:
                finished = train(spec, folder, callback, loggers)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            there = any(folder.checkpoints.glob("*.ckpt"))
            go_on = "go on from its last checkpoint" if there else "begin it (there is no checkpoint yet)"
            raise UserFacingError(
                f"{error.strerror} for {folder.path}: make room, then {go_on} with slewrl train --resume {folder.path}"
            ) from None
        after = f"slewrl evaluate {folder.path}" if finished else f"slewrl train --resume {folder.path}"
        after += " --trust" if named else ""
        console.print("finished" if finished else "stopped", "; next: ", bold(after), sep="")
        return 0 if finished else 130

    def _begin(self) -> RunFolder:
        from slewrl.training.checks import check_spec

        spec = self._chosen()
        if code_named(spec.task, spec.layer, spec.agent):
            allow_modules_here()
        check_spec(spec)
        folder = RunFolder(self.out or Path("runs") / spec.key)
        folder.create(spec)
        return folder

    def _chosen(self) -> RunSpec:
        """The spec with what ``--set`` and ``--paper-mode`` add."""
        options: dict[str, dict[str, Any]] = {"agent": {}, "layer": {}, "task": {}}
        for text in self.set:
            path, _, value = text.partition("=")
            owner, _, name = path.partition(".")
            if owner not in options or not name or not value:
                raise ValueError(f"--set is {text!r}, expected agent.NAME=VALUE, layer.NAME=VALUE or task.NAME=VALUE")
            options[owner][name] = _value(value)
        agent, layer, task = options.values()
        if self.calm is not None:
            if "calm" in agent:
                raise ValueError("--calm and --set agent.calm are the same option: give one of them")
            if self.spec.agent not in CALM:
                raise ValueError(f"--calm is an option of {' and '.join(CALM)}, and --agent is {self.spec.agent}")
            agent["calm"] = self.calm
        chosen = self.spec if self.steps is None else replace(self.spec, steps=self.steps)
        spec = with_recipe(replace(chosen, agent_options=agent, layer_options=layer, task_options=task))
        spec = self._printed(spec) if self.paper_mode else spec
        return spec if self.batch_size is None else replace(spec, batch_size=self.batch_size)

    def _printed(self, spec: RunSpec) -> RunSpec:
        """The spec as printed; refuses options that ``as_printed`` would silently override."""
        if spec.density not in (RunSpec().density, "action"):
            raise ValueError(f"--paper-mode means --density action, but --density is {spec.density!r}: choose one")
        if spec.recipe == "ours":
            raise ValueError("--paper-mode means --recipe paper, but --recipe is 'ours': choose one")
        try:
            return as_printed(spec)
        except ValueError as error:
            raise ValueError(f"--paper-mode: {error}") from None


def _value(text: str) -> Any:
    """A number, a list (in brackets or parentheses), true or false; anything else is text."""
    listed = f"[{text[1:-1]}]" if text.startswith("(") and text.endswith(")") else text
    for read in (json.loads, float):
        try:
            return read(listed)
        except ValueError:
            continue
        except RecursionError:
            raise ValueError(f"--set has a value that is nested too deeply: {shortened(text)}") from None
    return text
