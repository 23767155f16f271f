"""Loggers that get the numbers of a run besides its CSV files: TensorBoard, Weights & Biases, Trackio."""

import dataclasses
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from slewrl.errors import UserFacingError
from slewrl.io.files import read_text, write_atomically
from slewrl.training.run_folder import RunFolder

PROJECT = "slewrl"
"""The project of the runs in Weights & Biases and in Trackio."""


class Logger(ABC):
    """What takes the numbers of a run as it goes on."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of a step."""

    def flush(self) -> None:  # noqa: B027
        """Write what was logged so far; nothing to do for a logger that writes by itself."""

    @abstractmethod
    def close(self) -> None:
        """Write everything and end."""


class TensorBoard(Logger):
    """Event files in the run's folder; those of steps after ``step``, where the run resumes, are purged."""

    def __init__(self, folder: RunFolder, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a scalar for each number."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write the event file."""
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class Wandb(Logger):
    """A run of Weights & Biases; ``WANDB_MODE=offline`` keeps all of it in the run's folder."""

    def __init__(self, folder: RunFolder, step: int) -> None:
        import wandb

        path = folder.path / "wandb.txt"  # the run's id there, so that a folder made anew is another run
        if not path.exists():
            write_atomically(path, f"{uuid.uuid4().hex[:12]}\n")
        self._run = wandb.init(id=read_text(path).strip(), dir=str(folder.path), resume="allow", **_about(folder))
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers with their step among them: wandb's own step may not fall, as it does after a kill."""
        self._run.log({**values, "step": step})

    def close(self) -> None:
        """End the run."""
        self._run.finish()


class Trackio(Logger):
    """A run of Trackio; ``trackio show`` shows it."""

    def __init__(self, folder: RunFolder, step: int) -> None:
        import trackio

        self._run = trackio.init(resume="allow", **_about(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers at their step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


def _about(folder: RunFolder) -> dict[str, Any]:
    return {"project": PROJECT, "name": folder.path.resolve().name, "config": dataclasses.asdict(folder.spec())}


LOGGERS: dict[str, Callable[[RunFolder, int], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}
"""Name of a logger, which is also that of its package -> what makes it for a run that resumes at a step."""


def require(names: Sequence[str]) -> None:
    """Refuse a logger that is unknown or whose package is not installed; "csv" is always there."""
    for name in names:
        if name not in (*LOGGERS, "csv"):
            raise ValueError(f"logger is {name!r}, expected of: csv, {', '.join(LOGGERS)}")
        package = find_spec(name) if name != "csv" else None
        if name != "csv" and (package is None or package.origin is None):  # a mere folder of that name has no origin
            raise UserFacingError(f"--logger {name} needs a package that is not installed: pip install {name}")


def make_loggers(names: Sequence[str], folder: RunFolder, step: int) -> list[Logger]:
    """The loggers of some names, each once."""
    require(names)
    return [LOGGERS[name](folder, step) for name in dict.fromkeys(names) if name in LOGGERS]
