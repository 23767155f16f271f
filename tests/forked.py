"""Processes that train, forked from one that has imported everything: a start takes no seconds."""

import multiprocessing
import os
from multiprocessing.process import BaseProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["slewrl.train", "slewrl.agents.sac", "slewrl.layers.ddsrad"])


def _train(path: str) -> None:
    from slewrl.runs import RunFolder
    from slewrl.train import train

    folder = RunFolder(Path(path))
    train(folder.spec(), folder)


def training(path: Path) -> BaseProcess:
    """A process of its own that trains, or goes on with, the run in ``path``."""
    process = CONTEXT.Process(target=_train, args=(str(path),))
    process.start()
    return process


def cpu_time(pid: int) -> float:
    """Seconds of CPU time of a process; infinite once it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
