"""Run a campaign on a Ray cluster: each run is a task of one core, in a folder that every node shares.

A task whose process or node dies is restarted and resumes from the run's last checkpoint.
"""

import logging
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slewrl.campaign.runner import TRIES, Runner, Watch, give_up
from slewrl.campaign.worker import work
from slewrl.errors import UserFacingError


class NotSharedError(UserFacingError):
    """A node does not see the campaign's folder."""


@dataclass
class RayRunner(Runner):
    """Works through the runs of a campaign on a cluster, where Ray counts the cores, not ``workers``."""

    address: str = "auto"
    """The cluster: "auto", HOST:PORT, or ray://HOST:PORT."""

    def run(self, watch: Watch = lambda runner: None, poll: float = 0.5) -> bool:
        """See ``Runner``."""
        ray = _connect(self.address)
        token = self.store.path.resolve() / f"shared.{uuid.uuid4().hex}"  # shows whether a node sees the folder
        token.touch()
        task = ray.remote(num_cpus=1, max_retries=TRIES)(_task)
        # Folders are made here, where the user's own files are.
        folders = {key: str(folder.path.resolve()) for key in self.keys if (folder := self._unfinished(key))}
        pending = {}
        for key, path in folders.items():
            pending[task.remote(path, str(token), self.trust, self.specs[key].steps, self.keep_replays)] = key
        cancelled = False
        try:
            with self._stoppable():
                while pending:
                    ready, _ = ray.wait(list(pending), timeout=poll)
                    for reference in ready:
                        self._judge_task(pending.pop(reference), reference, ray)
                    self.active = {key: None for key in pending.values() if self.store.folder(key).locked}
                    if self.stopping and not cancelled:
                        cancelled = True
                        for reference in pending:
                            ray.cancel(reference)
                    watch(self)
        finally:
            self.active = {}
            token.unlink(missing_ok=True)
            ray.shutdown()
        return len(self.finished) == len(self.keys)

    def _judge_task(self, key: str, reference: Any, ray: Any) -> None:
        """Record how a task ended."""
        try:
            self._record(key, ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, NotSharedError):  # none of that node's runs could begin
                raise error.cause from None
            self.failed[key] = str(error)
        except ray.exceptions.RayError as error:  # its process died too often, or it was cancelled
            if not self.stopping:
                self.failed[key] = give_up(self.store.folder(key), str(error).splitlines()[0])


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UserFacingError('--ray needs Ray: pip install "slewrl[cluster]"') from None
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # where nothing listens Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserFacingError(f"no Ray cluster at {address!r} ({reason}): start one with  ray start --head") from None
    return ray


def _task(path: str, token: str, trust: bool, steps: int, keep_replay: bool) -> int:
    """Run on a node: bring one run to its end."""
    if not Path(token).exists():
        raise NotSharedError(
            f"node {socket.gethostname()} does not see {path}: on a cluster a campaign needs a folder all nodes share"
        )
    return work(Path(path), trust=trust, steps=steps, keep_replay=keep_replay)
