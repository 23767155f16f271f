"""Where a run's rows go: CSV files, the loggers asked for, and a callback. Speed goes to timing.csv alone."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from slewrl.training.loggers import make_loggers
from slewrl.training.run_folder import RunFolder

Callback = Callable[[dict[str, Any]], None]
"""Called with every row logged, and with ``{"message": ...}`` for what the user should know."""


class Logs:
    """The open logs of a run that starts or resumes at ``step``; ``loggers`` are names of ``LOGGERS``."""

    def __init__(self, folder: RunFolder, step: int, callback: Callback, loggers: Sequence[str] = ()) -> None:
        self.folder, self.callback = folder, callback
        self._begun, self._clock, self._start = step, time.process_time(), time.monotonic()
        self._loggers = make_loggers(loggers, folder, step)

    def write(self, name: str, row: dict[str, float]) -> None:
        """Log a row of ``name``, train.csv or eval.csv."""
        step = int(row["step"])
        self.folder.append(name, row)
        rate = (step - self._begun) / max(time.process_time() - self._clock, 1e-9)
        if name == "train.csv":
            seconds = time.monotonic() - self._start  # since the run was started or resumed
            timing = {"step": step, "steps_per_cpu_second": round(rate, 2), "seconds": round(seconds, 2)}
            self.folder.append("timing.csv", self.folder.fitted("timing.csv", timing)[0])
        kind = name.removesuffix(".csv")
        values = {f"{kind}/{key}": value for key, value in {**row, "steps_per_cpu_second": rate}.items()}
        for logger in self._loggers:
            logger.log(step, values)
        self.callback({**row, "rate": rate})

    def flush(self) -> None:
        """Make what was logged durable, before a checkpoint that counts on it."""
        self.folder.sync()
        for logger in self._loggers:
            logger.flush()

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self._loggers:
            logger.close()
