"""One run of a campaign in a process of its own: train, evaluate, delete the replay buffer.

    python -P -m slewrl.campaign.worker FOLDER PARENT [--steps=N] [--trust] [--keep-replay]

PARENT is the id of the process that started it; when that is gone, it stops.
"""

import os
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from slewrl.campaign.store import error_file, note_error, state_of
from slewrl.io.files import FINAL
from slewrl.io.trust import code_named, require_trust
from slewrl.training.run_folder import RunFolder

FINISHED, STOPPED, FAILED, BUSY = 0, 3, 10, 11
"""Exit codes: finished, asked to stop, raised (see error.txt), another process trains the run. 1 is Python's own."""
ENDS = (FINISHED, STOPPED, FAILED, BUSY)
EPISODES, ROBOT_EPISODES = 10, 100
"""Usual episodes of the final evaluation of a Gymnasium task, and of a robot, whose fall rate needs more."""
PATIENCE = 180.0
"""Seconds to wait for the lock of a run: a network file system takes that long to take it from a dead node."""


def work(path: Path, patience: float = PATIENCE, trust: bool = False, steps: int = 0, keep_replay: bool = False) -> int:
    """Bring the run in the folder ``path`` to its end, extended to ``steps`` if it has fewer; returns the exit code.

    ``patience`` is the time to wait for the lock of its folder; ``trust`` lets code run that its run.json names.
    """
    os.environ["SLEWRL_THREADS"] = "1"  # a campaign's cores are busy with its other runs
    folder = RunFolder(path)
    try:
        with folder.lock(patience):
            error_file(folder).unlink(missing_ok=True)
            try:
                return _run(folder, trust, steps, keep_replay)
            except Exception:
                traceback.print_exc()
                note_error(folder, traceback.format_exc())
                return FAILED
    except BlockingIOError:
        return BUSY


def _run(folder: RunFolder, trust: bool, steps: int, keep_replay: bool) -> int:
    from slewrl.envs.tasks import is_gymnasium
    from slewrl.training import checkpoint
    from slewrl.training.extend import extend
    from slewrl.training.policy import evaluate_run
    from slewrl.training.trainer import train_locked

    spec = folder.spec()
    require_trust(code_named(spec.task, spec.layer, spec.agent), folder.path, trust)
    if spec.steps < steps:
        spec = extend(folder, steps)
    if not train_locked(spec, folder):
        return STOPPED
    if not keep_replay:
        shutil.rmtree(folder.path / "replay", ignore_errors=True)  # up to 1.6 GB that nobody will read again
    checkpoint.keep_last(folder.checkpoints)
    if state_of(folder) != "done":
        usual = EPISODES if is_gymnasium(spec.task) else ROBOT_EPISODES
        evaluate_run(folder.path, spec.final_episodes or usual, FINAL, trust)
    return FINISHED


def _follow(parent: int) -> None:
    """Stop this process, with a checkpoint, once its parent is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_follow, args=(int(sys.argv[2]),), daemon=True).start()
    options = sys.argv[3:]
    budget = max((int(text.removeprefix("--steps=")) for text in options if text.startswith("--steps=")), default=0)
    keep = "--keep-replay" in options
    raise SystemExit(work(Path(sys.argv[1]), trust="--trust" in options, steps=budget, keep_replay=keep))
