"""Where a run's rows go: CSV always, TensorBoard if wanted, and whoever watches. Speed goes to timing.csv alone."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slewrl.training.run_folder import RunFolder

Report = Callable[[dict[str, Any]], None]
TIMING = ("step", "steps_per_cpu_second", "seconds")
"""Columns of timing.csv; ``seconds`` are by the clock on the wall since the run was begun or taken up again."""


class Logs:
    """Writes rows until it is closed.

    Args:
        folder: of the run.
        step: where the run goes on; TensorBoard forgets what was logged after it.
        report: told every row.
        tensorboard: whether to write event files, in the folder's ``tensorboard``.
    """

    def __init__(self, folder: RunFolder, step: int, report: Report, tensorboard: bool) -> None:
        self.folder, self.report = folder, report
        self._begun, self._clock, self._start = step, time.process_time(), time.monotonic()
        self._timing = _header(folder.path / "timing.csv") or TIMING
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder.path / "tensorboard"), purge_step=step + 1)

    def write(self, name: str, row: dict[str, float]) -> None:
        """A row of ``name`` (train.csv, eval.csv); its first entry is the step."""
        step = int(row["step"])
        self.folder.append(name, row)
        rate = (step - self._begun) / max(time.process_time() - self._clock, 1e-9)
        if name == "train.csv":
            timing = {"step": step, "steps_per_cpu_second": round(rate, 2)}
            timing["seconds"] = round(time.monotonic() - self._start, 2)
            self.folder.append("timing.csv", {name: timing[name] for name in TIMING if name in self._timing})
        if self._board:
            kind = name.removesuffix(".csv")
            for key, value in {**row, "steps_per_cpu_second": rate}.items():
                self._board.add_scalar(f"{kind}/{key}", value, step)
        self.report({**row, "rate": rate})

    def flush(self) -> None:
        """Before a checkpoint: what was logged up to it must not be lost after it."""
        self.folder.sync()
        if self._board:
            self._board.flush()

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        if self._board:
            self._board.close()


def _header(path: Path) -> tuple[str, ...]:
    """The columns that a CSV file has: one of an older slewrl's may have fewer; empty if there is none."""
    if not path.is_file():
        return ()
    with open(path, encoding="utf-8", errors="replace") as file:
        return tuple(file.readline().strip().split(","))
