"""One run of a campaign, in a process of its own: train, evaluate, write it down, free the space.

    python -m slewrl.campaign.worker FOLDER

Goes on where it was stopped. The exit code is 0 when the run is finished, 3 when it was asked to stop, 1 when it
failed (error.txt says how).
"""

import shutil
import sys
import time
import traceback
from pathlib import Path

from slewrl.campaign.store import error_file, state_of
from slewrl.runs import RunFolder

FINISHED, FAILED, STOPPED = 0, 1, 3
EPISODES = 10
"""Of the final evaluation."""


def work(path: Path, patience: float = 60.0) -> int:
    """Bring the run in ``path`` to its end; returns the exit code.

    ``patience``: seconds to wait for another process to let go of the run. One whose node has just died may live on
    for a moment.
    """
    folder = RunFolder(path)
    error_file(folder).unlink(missing_ok=True)
    try:
        while state_of(folder) == "running" and patience > 0:
            time.sleep(0.5)
            patience -= 0.5
        return _run(folder)
    except Exception:
        error_file(folder).write_text(traceback.format_exc(), encoding="utf-8")
        return FAILED


def _run(folder: RunFolder) -> int:
    from slewrl.play import evaluate_run
    from slewrl.train import train

    if not train(folder.spec(), folder):
        return STOPPED
    if state_of(folder) != "done":
        evaluate_run(folder.path, EPISODES)
    shutil.rmtree(folder.path / "replay", ignore_errors=True)  # up to 1.6 GB that nobody will read again
    return FINISHED


if __name__ == "__main__":
    raise SystemExit(work(Path(sys.argv[1])))
