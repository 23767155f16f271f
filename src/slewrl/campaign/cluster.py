"""Run a campaign on a Ray cluster: each run a task of one core, in a folder that every node can see.

A task whose process or node dies is started again elsewhere and goes on from the run's last checkpoint, so the results
are the same to the byte as those of one machine.
"""

import logging
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slewrl.campaign.runner import TRIES, Runner, Watch, give_up
from slewrl.campaign.store import error_file, state_of
from slewrl.campaign.worker import BUSY, FAILED, FINISHED, work
from slewrl.errors import UserFacingError
from slewrl.runs import write_atomically

TOKEN = "shared.txt"
"""File by which a node recognises the campaign's folder."""


class NotSharedError(UserFacingError):
    """A node does not see the campaign's folder."""


@dataclass
class RayRunner(Runner):
    """Works through the runs of a campaign on a cluster; ``workers`` is up to Ray, which counts cores.

    Args:
        address: of the cluster: "auto", HOST:PORT, or ray://HOST:PORT.
    """

    address: str = "auto"

    def run(self, watch: Watch = lambda runner: None, poll: float = 0.5) -> bool:
        """Run them all; returns whether all are finished. Ctrl-C or SIGTERM lets every run checkpoint first."""
        ray = _connect(self.address)
        token = uuid.uuid4().hex
        write_atomically(self.store.path / TOKEN, token)
        task = ray.remote(num_cpus=1, max_retries=TRIES)(_task)
        folders = {key: str(folder) for key in self.keys if (folder := self._prepared(key))}
        pending = {task.remote(path, token): key for key, path in folders.items()}
        asked = False
        try:
            with self._stoppable():
                while pending:
                    ready, _ = ray.wait(list(pending), timeout=poll)
                    for reference in ready:
                        self._judge_task(pending.pop(reference), reference, ray)
                    self.active = {key: None for key in pending.values() if self.store.folder(key).locked}
                    if self.stopping and not asked:
                        asked = True
                        for reference in pending:
                            ray.cancel(reference)
                    watch(self)
        finally:
            self.active = {}
            (self.store.path / TOKEN).unlink(missing_ok=True)
            ray.shutdown()
        return len(self.finished) == len(self.keys)

    def _prepared(self, key: str) -> Path | None:
        """The folder of a run that is still to be made. Made here, where the user's own files are."""
        try:
            folder = self.store.prepare(key, self.specs[key])
        except (OSError, ValueError) as error:
            self.failed[key] = str(error)
            return None
        if state_of(folder) != "done":
            return folder.path.resolve()
        self.finished.append(key)
        return None

    def _judge_task(self, key: str, reference: Any, ray: Any) -> None:
        """What the end of a task means."""
        folder = self.store.folder(key)
        try:
            code = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, NotSharedError):  # none of that node's runs could begin
                raise error.cause from None
            self.failed[key] = str(error)
            return
        except ray.exceptions.RayError as error:  # its process died too often, or it was cancelled
            if not self.stopping:
                self.failed[key] = give_up(folder, str(error).splitlines()[0])
            return
        if code == FINISHED:
            self.finished.append(key)
        elif code == BUSY:
            self.elsewhere.append(key)
        elif code == FAILED:
            self.failed[key] = error_file(folder).read_text(encoding="utf-8")


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UserFacingError('--ray needs Ray: pip install "slewrl[cluster]"') from None
    _knock(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserFacingError(f"no Ray cluster at {address!r} ({reason}): start one with  ray start --head") from None
    return ray


def _knock(address: str) -> None:
    """Whether anything listens there: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UserFacingError(f"no Ray cluster at {address!r} ({error}): start one with  ray start --head") from None


def _task(path: str, token: str) -> int:
    """On a node: bring one run to its end."""
    mark = Path(path).parent / TOKEN
    if not mark.exists() or mark.read_text(encoding="utf-8") != token:
        raise NotSharedError(
            f"node {socket.gethostname()} does not see {path}: on a cluster a campaign needs a folder all nodes share"
        )
    return work(Path(path))
