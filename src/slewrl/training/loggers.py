"""Where a run's numbers can be watched besides its CSV files: TensorBoard, Weights & Biases, Trackio."""

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from slewrl.errors import UserFacingError
from slewrl.io.files import read_text, write_atomically
from slewrl.training.run_folder import RunFolder

PROJECT = "slewrl"
"""What Weights & Biases and Trackio file the runs under."""


class Logger(Protocol):
    """What takes the numbers of a run as it goes on."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take some numbers at a step."""

    def flush(self) -> None:
        """Write what was taken so far."""

    def close(self) -> None:
        """Write all of it, and end."""


class TensorBoard:
    """Event files in the run's folder.

    Args:
        folder: of the run.
        step: where the run goes on; what was logged after it is forgotten.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(folder.path / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a scalar for each number."""
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write what was added so far."""
        self._board.flush()

    def close(self) -> None:
        """Write all of it."""
        self._board.close()


class Wandb:
    """A run of Weights & Biases in its project slewrl; ``WANDB_MODE=offline`` keeps all of it in the run's folder.

    Args:
        folder: of the run.
        step: where the run goes on, there as here.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        import wandb

        path = folder.path / "wandb.txt"  # the run's name there; a folder that is made anew is another run
        if not path.exists():
            write_atomically(path, f"{uuid.uuid4().hex[:12]}\n")
        self._run = wandb.init(id=read_text(path).strip(), dir=str(folder.path), resume="allow", **_about(folder))
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers with their step among them: wandb's own step may not fall, as it does after a kill."""
        self._run.log({**values, "step": step})

    def flush(self) -> None:
        """Do nothing: it writes by itself."""

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


class Trackio:
    """A run of Trackio in its project slewrl; ``trackio show`` shows it.

    Args:
        folder: of the run.
        step: where the run goes on, there as here.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        import trackio

        self._run = trackio.init(resume="allow", **_about(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers at their step."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Do nothing: it writes by itself."""

    def close(self) -> None:
        """End the run there."""
        self._run.finish()


def _about(folder: RunFolder) -> dict[str, Any]:
    return {"project": PROJECT, "name": folder.path.resolve().name, "config": dataclasses.asdict(folder.spec())}


LOGGERS: dict[str, Callable[[RunFolder, int], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": Wandb,
    "trackio": Trackio,
}
"""Name -> what makes it for a run that goes on from a step; the package is of the same name."""


def require(names: Sequence[str]) -> None:
    """Refuse a logger that is unknown or whose package is not installed; "csv" is always there."""
    for name in names:
        if name not in (*LOGGERS, "csv"):
            raise ValueError(f"logger is {name!r}, expected of: csv, {', '.join(LOGGERS)}")
        found = find_spec(name) if name in LOGGERS else None
        if name in LOGGERS and (found is None or found.origin is None):  # a mere folder of that name has no origin
            raise UserFacingError(f"--logger {name} needs a package that is not installed: pip install {name}")


def make_loggers(names: Sequence[str], folder: RunFolder, step: int) -> list[Logger]:
    """Those of some names, each once."""
    require(names)
    return [LOGGERS[name](folder, step) for name in dict.fromkeys(names) if name in LOGGERS]
