"""Checkpoints that are whole or not there: written aside, synced, renamed, and recognised by their SHA-256.

A checkpoint is a tree of dicts, lists, numbers, strings and tensors. Loading builds nothing else (``weights_only``), so
a file from somebody else runs no code.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

MAGIC = b"slewrl checkpoint 1\n"
KEEP = 2
"""How many are kept: the newest, and the one to fall back on."""


class CheckpointError(ValueError):
    """A file that is no whole checkpoint of this version; the message says what is wrong with it."""


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write ``state`` as the checkpoint of ``step`` and drop the oldest ones; the rename makes it count."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    path = folder / f"{step:012d}.ckpt"
    aside = path.with_suffix(".tmp")
    with open(aside, "wb") as file:
        file.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    _sync_folder(folder)
    for old in checkpoints(folder)[:-KEEP]:
        old.unlink()
    return path


def keep_last(folder: Path) -> None:
    """Drop all but the newest: where a run was interrupted must not show once it is finished."""
    for old in checkpoints(folder)[:-1]:
        old.unlink()


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints of a run, oldest first."""
    return sorted(folder.glob("*.ckpt"))


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint, or say in a CheckpointError why it cannot be one."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise CheckpointError(f"{path} does not begin as {MAGIC.decode().strip()!r}: not one, or of another version")
    digest, payload = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if hashlib.sha256(payload).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 does not match (cut short, or bits flipped)")
    state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True)
    return state


def load_newest(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The newest whole checkpoint, and what was wrong with the newer ones."""
    complaints: list[str] = []
    for path in reversed(checkpoints(folder)):
        try:
            return load(path), complaints
        except CheckpointError as error:
            complaints.append(str(error))
    raise CheckpointError("; ".join([f"{folder} holds no whole checkpoint", *complaints]))


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
