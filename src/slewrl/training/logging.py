"""Where a run's rows go: CSV always, other loggers if wanted, and whoever watches. Speed goes to no other CSV file."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from slewrl.training.loggers import make_loggers
from slewrl.training.run_folder import RunFolder

Report = Callable[[dict[str, Any]], None]


class Logs:
    """Writes rows until it is closed.

    Args:
        folder: of the run.
        step: where the run goes on; TensorBoard forgets what was logged after it.
        report: told every row.
        loggers: names of ``LOGGERS`` that get the same numbers.
    """

    def __init__(self, folder: RunFolder, step: int, report: Report, loggers: Sequence[str] = ()) -> None:
        self.folder, self.report = folder, report
        self._begun, self._clock, self._start = step, time.process_time(), time.monotonic()
        self._loggers = make_loggers(loggers, folder, step)

    def write(self, name: str, row: dict[str, float]) -> None:
        """A row of ``name`` (train.csv, eval.csv); its first entry is the step."""
        step = int(row["step"])
        self.folder.append(name, row)
        rate = (step - self._begun) / max(time.process_time() - self._clock, 1e-9)
        if name == "train.csv":
            # Seconds are by the clock on the wall, since the run was begun or taken up again.
            timing = {"step": step, "steps_per_cpu_second": round(rate, 2)}
            timing["seconds"] = round(time.monotonic() - self._start, 2)
            self.folder.append("timing.csv", self.folder.fitted("timing.csv", timing)[0])
        kind = name.removesuffix(".csv")
        values = {f"{kind}/{key}": value for key, value in {**row, "steps_per_cpu_second": rate}.items()}
        for logger in self._loggers:
            logger.log(step, values)
        self.report({**row, "rate": rate})

    def flush(self) -> None:
        """Before a checkpoint: what was logged up to it must not be lost after it."""
        self.folder.sync()
        for logger in self._loggers:
            logger.flush()

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self._loggers:
            logger.close()
