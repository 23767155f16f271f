"""Run a campaign on this machine, one process per run.

A run that is killed resumes from its checkpoint, up to `TRIES` times; one that fails is left with its traceback. All
that is known of a run is in its folder, so several runners may share a campaign.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slewrl.campaign.store import Store, note_error, noted_error, state_of
from slewrl.campaign.worker import BUSY, ENDS, FAILED, FINISHED
from slewrl.io.files import open_own
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

TRIES = 3
Watch = Callable[["Runner"], None]
"""Called at every poll, to show the progress."""


@dataclass
class Runner:
    """Works through the runs of a campaign."""

    store: Store
    """The campaign's folder, which ``begin`` was called on."""
    keys: Sequence[str]
    """The runs to make, in order."""
    workers: int
    """The number of runs at a time."""
    trust: bool = False
    """Whether code that the specs name may run (docs/trust.md)."""
    keep_replays: bool = False
    """Whether finished runs keep their replay buffer, so that they can be extended."""
    active: dict[str, Any] = field(default_factory=dict)
    """Runs under way, and their processes."""
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that failed, and why: a traceback or a line."""
    elsewhere: list[str] = field(default_factory=list)
    """Runs that another process is training."""
    resumed: int = 0
    """How often a run was killed and resumed."""
    stopping: bool = False

    def __post_init__(self) -> None:
        """Read the specs of the runs."""
        self.specs: dict[str, RunSpec] = self.store.campaign().by_key

    def run(self, watch: Watch = lambda runner: None, poll: float = 0.2) -> bool:
        """Run them all; returns whether all are finished. Ctrl-C or SIGTERM lets every run checkpoint first."""
        waiting, tries = deque(self.keys), dict.fromkeys(self.keys, 0)
        terminated: set[str] = set()
        try:
            with self._stoppable():
                while self.active or (waiting and not self.stopping):
                    while waiting and len(self.active) < self.workers and not self.stopping:
                        key = waiting.popleft()
                        tries[key] += 1
                        self._start(key)
                    for key in [key for key, process in self.active.items() if process.poll() is not None]:
                        self._reap(key, waiting, tries)
                    if self.stopping:  # once each: a second signal would end a run without its checkpoint
                        for key in set(self.active) - terminated:
                            self.active[key].terminate()
                            terminated.add(key)
                    watch(self)
                    time.sleep(poll)
        finally:
            for process in self.active.values():
                process.terminate()
        return len(self.finished) == len(self.keys)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Stop at Ctrl-C or SIGTERM instead of raising, so that no child process is left behind."""
        wanted = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """Let every run under way take a checkpoint and end, and start no other."""
        self.stopping = True

    def _start(self, key: str) -> None:
        if not (folder := self._unfinished(key)):
            return
        if folder.locked:
            self.elsewhere.append(key)
            return
        try:
            self.active[key] = start(folder.path, self.trust, self.specs[key].steps, self.keep_replays)
        except OSError as error:  # a full disk, no more processes
            self.failed[key] = str(error)

    def _unfinished(self, key: str) -> RunFolder | None:
        """The folder of a run that is still to be made; None if it is finished or its folder is unusable."""
        try:
            folder = self.store.prepare(key, self.specs[key])
        except (OSError, ValueError) as error:  # the folder holds something else: no reason to stop the rest
            self.failed[key] = str(error)
            return None
        if state_of(folder, self.specs[key].steps) != "done":
            return folder
        self.finished.append(key)
        return None

    def _reap(self, key: str, waiting: deque[str], tries: dict[str, int]) -> None:
        """Record how a process ended, or queue its run again."""
        code = self.active.pop(key).returncode
        if code in ENDS:
            self._record(key, code)
        elif tries[key] >= TRIES:
            self.failed[key] = give_up(self.store.folder(key), f"exit code {code}")
        elif not self.stopping:  # killed: by a person, or for want of memory
            self.resumed += 1
            waiting.appendleft(key)

    def _record(self, key: str, code: int) -> None:
        """Record how a run ended by its worker's exit code; one that was stopped is in no list."""
        if code == FINISHED:
            self.finished.append(key)
        elif code == BUSY:
            self.elsewhere.append(key)
        elif code == FAILED:
            self.failed[key] = noted_error(self.store.folder(key))


def give_up(folder: RunFolder, how: str) -> str:
    """Write to a run's error file that its process keeps dying; returns the text."""
    log = folder.path / "worker.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:] if log.exists() else []
    return note_error(folder, "\n".join([f"the process died {TRIES} times, at last with {how}", *lines, ""]))


def start(folder: Path, trust: bool = False, steps: int = 0, keep_replay: bool = False) -> subprocess.Popen[bytes]:
    """A process that does ``work``, on one thread, out of reach of the terminal's Ctrl-C."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # -P: otherwise modules in the current folder would replace installed ones.
    command = [sys.executable, "-P", "-m", "slewrl.campaign.worker", str(folder), str(os.getpid())]
    command += [f"--steps={steps}", *(["--trust"] if trust else []), *(["--keep-replay"] if keep_replay else [])]
    with open_own(folder / "worker.log", "ab") as log:
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
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
