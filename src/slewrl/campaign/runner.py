"""Run a campaign on this machine: a process per run, one run per core, whatever happens to any of them.

A run that is killed goes on from its checkpoint, up to `TRIES` times; one that fails is left with its traceback, and
the others go on. All that is known of a run is in its folder, so several runners may share a campaign: each takes the
runs that nobody else is at.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slewrl.campaign.store import Store, error_file, state_of
from slewrl.campaign.worker import FAILED, FINISHED, STOPPED
from slewrl.runs import RunFolder

TRIES = 3
Watch = Callable[["Runner"], None]
"""Called every so often, to show how things are."""


@dataclass
class Runner:
    """Works through the runs of a campaign.

    Args:
        store: the campaign's folder, begun.
        keys: which of its runs, in order.
        workers: how many at a time.
    """

    store: Store
    keys: Sequence[str]
    workers: int
    active: dict[str, Any] = field(default_factory=dict)
    """Runs under way, and what runs them."""
    finished: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Runs that another process is at."""
    resumed: int = 0
    """How often a run was killed and taken up again."""
    stopping: bool = False

    def run(self, watch: Watch = lambda runner: None, poll: float = 0.2) -> bool:
        """Run them all; returns whether all are finished. Ctrl-C lets every run checkpoint first."""
        specs = self.store.campaign().by_key
        waiting, tries = deque(self.keys), dict.fromkeys(self.keys, 0)
        before = signal.signal(signal.SIGTERM, lambda *_: self.stop())
        try:
            while waiting or self.active:
                try:
                    while waiting and len(self.active) < self.workers and not self.stopping:
                        key = waiting.popleft()
                        tries[key] += 1
                        self._start(key, self.store.prepare(key, specs[key]))
                    for key in self._ended():
                        self._judge(key, waiting, tries)
                    watch(self)
                    time.sleep(poll)
                except KeyboardInterrupt:
                    self.stop()
                if self.stopping:
                    waiting.clear()
        finally:
            signal.signal(signal.SIGTERM, before)
        return len(self.finished) == len(self.keys)

    def stop(self) -> None:
        """Ask every run to take a checkpoint and end."""
        self.stopping = True
        for process in self.active.values():
            process.terminate()

    def _start(self, key: str, folder: RunFolder) -> None:
        state = state_of(folder)
        if state == "done":
            self.finished.append(key)
        elif state == "running":
            self.elsewhere.append(key)
        else:
            self.active[key] = start(folder.path)

    def _ended(self) -> list[str]:
        return [key for key, process in self.active.items() if process.poll() is not None]

    def _judge(self, key: str, waiting: deque[str], tries: dict[str, int]) -> None:
        """What the end of a process means."""
        code = self.active.pop(key).returncode
        if code == FINISHED:
            self.finished.append(key)
        elif code == FAILED or (code != STOPPED and tries[key] >= TRIES):
            self._note_death(key, f"exit code {code}")
            self.failed.append(key)
        elif code != STOPPED:  # killed: by a person, or for want of memory
            self.resumed += 1
            waiting.appendleft(key)

    def _note_death(self, key: str, how: str) -> None:
        path = error_file(self.store.folder(key))
        if not path.exists():
            path.write_text(f"the process died {TRIES} times, at last with: {how}\n", encoding="utf-8")


def start(folder: Path) -> subprocess.Popen[bytes]:
    """A process that brings a run to its end, on one thread, out of reach of the terminal's Ctrl-C."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "slewrl.campaign.worker", str(folder)]
    with open(folder / "worker.log", "ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )


def shard(keys: Sequence[str], part: str) -> list[str]:
    """Every n-th run, beginning with the k-th, of "k/n"."""
    k, _, n = part.partition("/")
    if not (k.isdigit() and n.isdigit() and 1 <= int(k) <= int(n)):
        raise ValueError(f"--shard is {part!r}, expected k/n with 1 <= k <= n, such as 2/8")
    return list(keys)[int(k) - 1 :: int(n)]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
