"""Checkpoints: trees of plain values and tensors, written atomically and verified by their SHA-256.

Loading builds nothing else (``weights_only``), so a file from somebody else runs no code. The same values make the same
bytes, however often the run was killed.
"""

import dataclasses
import hashlib
import io
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from slewrl.agents import recipes
from slewrl.errors import shortened
from slewrl.io.files import sync_folder, written_whole
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import FORMER_POSE, RunSpec, difference, posed

T = TypeVar("T")
MAGIC = b"slewrl checkpoint 1\n"
KEEP = 2
"""How many checkpoints are kept: the newest, and one to fall back on."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why."""


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write ``state`` as the checkpoint of ``step`` and delete the oldest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(_plain(state), buffer)
    payload = buffer.getvalue()
    path = folder / f"{step:012d}.ckpt"
    if path.is_dir() and not path.is_symlink():
        path.rename(_free_name(path))
    with written_whole(path, path.with_suffix(".tmp")) as file:
        file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
    sync_folder(folder)
    _drop_before(path, KEEP)
    return path


def _plain(tree: Any) -> Any:
    """The same tree with equal strings interned: torch writes an object once, so only values decide the bytes."""
    if isinstance(tree, dict):
        return {_plain(key): _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_plain(value) for value in tree)
    return sys.intern(tree) if type(tree) is str else tree


def keep_last(folder: Path) -> None:
    """Delete the checkpoints before the newest whole one: a finished run must not show where it was interrupted."""
    for path in reversed(checkpoints(folder)):
        with suppress(CheckpointError):
            load(path)
            return _drop_before(path, 1)


def _drop_before(newest: Path, keep: int) -> None:
    """Keep ``keep`` of the checkpoints up to ``newest``, itself included; what is not a regular file stays."""
    files = [path for path in checkpoints(newest.parent) if path.is_file() and not path.is_symlink()]
    for path in [path for path in files if path.name <= newest.name][:-keep]:
        path.unlink()


def _free_name(path: Path) -> Path:
    """A new name for a folder that is in the way of a checkpoint."""
    names = (path.with_name(f"{path.name}.folder{k or ''}") for k in range(1000))
    return next(name for name in names if not name.exists())


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; a file such as best.ckpt is the user's."""
    return sorted(path for path in folder.glob("*.ckpt") if path.stem.isdigit())


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint; a CheckpointError says why that cannot be done."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise CheckpointError(f"{path} is no file, expected a checkpoint")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if not data.startswith(MAGIC):
        raise CheckpointError(f"{path} does not begin as {MAGIC.decode().strip()!r}: not one, or of another version")
    digest, payload = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if hashlib.sha256(payload).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 does not match (cut short, or bits flipped)")
    try:
        state = torch.load(io.BytesIO(payload), weights_only=True)
    except Exception as error:  # whole, but not written by us: anything may be in it
        raise CheckpointError(f"{path} holds no checkpoint of ours: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds no checkpoint of ours, but a {type(state).__name__}")
    return state


def use_newest(folder: Path, use: Callable[[dict[str, Any]], T]) -> tuple[T, list[str]]:
    """What ``use`` makes of the newest checkpoint that can be used, and what was wrong with the newer ones.

    ``use`` raises a CheckpointError, before it changes anything, if a checkpoint does not fit.
    """
    reasons: list[str] = []
    complaints: list[str] = []
    for path in reversed(checkpoints(folder)):
        try:
            return use(load(path)), complaints
        except CheckpointError as error:
            reasons.append(reason := str(error))
            complaints.append(reason if reason.startswith(str(path)) else f"{path} is not used: {reason}")
    advice = "put back what is damaged from a copy, or begin the run again in another folder"
    why = "; ".join(dict.fromkeys(reasons))  # all may fail for the same reason
    raise CheckpointError(f"{folder} holds no whole checkpoint of this run: {why}; {advice}")


def of_run(state: dict[str, Any], spec: RunSpec, folder: RunFolder) -> dict[str, Any]:
    """The checkpoint, if it is of this run, perhaps from before it was extended; otherwise a CheckpointError."""
    if missing := [name for name in ("spec", "agent", "step") if name not in state]:
        raise CheckpointError(f"it has no {missing[0]!r}: it is of another version")
    if type(state["step"]) is not int or state["step"] < 0:
        raise CheckpointError(f"its step is {shortened(state['step'])}, expected a whole number >= 0")
    there = recipes.upgraded(state["spec"])
    if isinstance(there, dict) and FORMER_POSE.items() <= spec.task_options.items():
        there = posed(there)
    if isinstance(there, dict) and type(there.get("steps")) is int and 0 < there["steps"] < spec.steps:
        there = {**there, "steps": spec.steps}
    if differ := difference(there, dataclasses.asdict(spec)):
        raise CheckpointError(f"it is of another run ({differ} in run.json)")
    if "copies" in state and (changed := folder.changed(state["copies"])):
        raise CheckpointError(changed)
    return state
