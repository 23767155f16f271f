"""Give a run a larger budget, so that it ends to the bit as if it had had it from the start.

Everything is checked first. Then DONE and the final evaluation are removed, and last run.json is rewritten: killed
before that, the run is still the old one; killed after it, ``--resume`` goes on to the new end.
"""

import dataclasses
import shutil
from typing import Any

from slewrl.agents.replay import ROWS, Replay, capacity_of
from slewrl.io.files import FINAL, refuse_linked_folders, sync_folder
from slewrl.training import checkpoint
from slewrl.training.resume import replay_sizes, usable
from slewrl.training.run_folder import RunFolder
from slewrl.training.setup import run_limits
from slewrl.training.spec import RunSpec


def extend(folder: RunFolder, steps: int) -> RunSpec:
    """Give the run in ``folder``, whose lock the caller holds, a budget of ``steps``; ``train_locked`` resumes it.

    A budget that an unfinished run has already is no error, so that the command can be repeated after a kill.
    """
    spec = folder.spec()
    if steps == spec.steps and not folder.done:
        return spec
    if steps <= spec.steps:
        raise ValueError(_too_few(folder, spec.steps, steps))
    refuse_linked_folders(folder.path)
    wanted = dataclasses.replace(spec, steps=steps)
    begun = bool(checkpoint.checkpoints(folder.checkpoints))
    if begun:
        _check(folder, wanted)
    elif folder.done:
        raise FileNotFoundError(f"{folder.checkpoints} holds no checkpoint: a run cannot be extended without one")
    (folder.path / "DONE").unlink(missing_ok=True)
    sync_folder(folder.path)
    final = folder.path / FINAL
    (final / "episodes.csv").unlink(missing_ok=True)  # first, as it says that the evaluation is complete
    if final.exists():
        shutil.rmtree(final)
    if not begun:  # it begins again, and its replay has the old size and nothing that counts
        (folder.path / "replay" / ROWS).unlink(missing_ok=True)
    folder.describe(wanted, folder.config())
    return wanted


def _too_few(folder: RunFolder, there: int, steps: int) -> str:
    how = "is finished with" if folder.done else "has a budget of"
    return f"{folder.path} {how} {there:,} steps, and --steps is {steps:,}: expected more"


def _check(folder: RunFolder, wanted: RunSpec) -> None:
    """Refuse a run that could not go on to the budget wanted, or is beyond it already."""
    state, _ = checkpoint.use_newest(
        folder.checkpoints, lambda state: usable(state, wanted, folder, _replay(state, wanted, folder))
    )
    if state["step"] >= wanted.steps:  # several environments step together, so it may be beyond its budget
        raise ValueError(_too_few(folder, state["step"], wanted.steps))


def _replay(state: dict[str, Any], spec: RunSpec, folder: RunFolder) -> Replay | None:
    """The replay buffer on disk, whatever budget it was made for, if the agent has one."""
    if "replay_written" not in state:
        return None
    path = folder.path / "replay"
    if not (path / ROWS).exists():
        raise FileNotFoundError(
            f"{path / ROWS} is gone: a run cannot be extended without its replay (a campaign keeps those of finished "
            "runs with --keep-replays); begin it again with more --steps in another folder"
        )
    if "replay_ahead" not in state:  # of an older slewrl, without checksums
        return None
    size, joints, interval = state["replay_ahead"].shape[1], run_limits(spec, folder).dim, replay_sizes(spec)[1]
    capacity = capacity_of(path, interval, spec.environments, size + joints + 2)
    return Replay(capacity, interval, spec.environments, size, joints, path)
