"""Processes that train, forked from one that has imported everything: a start takes no seconds."""

import multiprocessing
import os
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIGTERM
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["slewrl.training.trainer", "slewrl.agents.sac", "slewrl.layers.ddsrad"])


def _train(path: str) -> None:
    from slewrl.training.run_folder import RunFolder
    from slewrl.training.trainer import train

    folder = RunFolder(Path(path))
    train(folder.spec(), folder)


def training(path: Path) -> BaseProcess:
    """A process of its own that trains, or goes on with, the run in ``path``."""
    process = CONTEXT.Process(target=_train, args=(str(path),))
    process.start()
    return process


def _work(path: str, options: dict[str, Any]) -> None:
    from slewrl.campaign.worker import work

    os._exit(work(Path(path), **options))


class ForkedWorker:
    """A campaign's worker where the test is not about how it is started: a real process, which can be killed."""

    def __init__(self, path: Path, trust: bool = False, steps: int = 0, keep_replay: bool = False) -> None:
        options = {"trust": trust, "steps": steps, "keep_replay": keep_replay}
        self.process = CONTEXT.Process(target=_work, args=(str(path), options))
        self.process.start()
        self.kill, self.terminate = self.process.kill, self.process.terminate

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.process.exitcode

    returncode = property(poll)


def cpu_time(pid: int) -> float:
    """Seconds of CPU time of a process; infinite once it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def await_loop(pid: int) -> None:
    """Wait until a process that trains is past its set-up: from then on it catches SIGTERM."""
    while not int(Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0], 16) >> (SIGTERM - 1) & 1:
        time.sleep(0.002)


def _die_at_a_checkpoint(path: str, number: int, moment: str) -> None:
    import signal

    from slewrl.training import checkpoint

    save, left = checkpoint.save, [number]

    def saving(*arguments):
        left[0] -= 1
        if not left[0]:
            setattr(os, moment, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        return save(*arguments)

    checkpoint.save = saving
    _train(path)


def dying_at_a_checkpoint(path: Path, number: int, moment: str) -> int:
    """Train a run until, in its n-th checkpoint, it calls the function ``moment`` of os; the exit code."""
    process = CONTEXT.Process(target=_die_at_a_checkpoint, args=(str(path), number, moment))
    process.start()
    process.join()
    return process.exitcode or 0


TRAPS = ("unlink", "rmdir", "replace", "fsync", "posix_fallocate")
"""Functions of os that change what a killed process leaves behind."""


def _extend(path: str, steps: int, calls: int, log_every: int) -> None:
    import signal

    from slewrl.training import resume, trainer
    from slewrl.training.extend import extend
    from slewrl.training.run_folder import RunFolder

    resume.LOG_EVERY, left = log_every, [calls]

    def trap(function):
        def counted(*arguments, **more):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **more)

        return counted

    folder = RunFolder(Path(path))
    with folder.lock():
        for name in TRAPS:
            setattr(os, name, trap(getattr(os, name)))
        trainer.train_locked(extend(folder, steps), folder)


def extending(path: Path, steps: int, calls: int, log_every: int) -> int:
    """Extend a run in a process that is killed instead of its n-th call of a function of TRAPS; its exit code."""
    process = CONTEXT.Process(target=_extend, args=(str(path), steps, calls, log_every))
    process.start()
    process.join()
    return process.exitcode or 0
