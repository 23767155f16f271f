"""Files of a run: written atomically, through no symbolic link, and read back with errors that name them."""

import csv
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from slewrl.errors import shortened

FINAL = "final"
"""The folder of a run's final evaluation; ``slewrl evaluate`` writes to another one."""
FOLDERS = ("replay", "checkpoint", "evaluation", FINAL, "tensorboard", "wandb")
"""The folders inside a run that slewrl writes to."""


@contextmanager
def replacing(path: Path, aside: Path | None = None) -> Iterator[Path]:
    """Yields a name to write a file to, ``aside`` or a hidden one, which is synced and renamed to ``path`` at the end.

    A kill leaves the old file or the new one, and an error the old one.
    """
    aside = aside or path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk does not say where
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def written_whole(path: Path, aside: Path) -> Iterator[IO[bytes]]:
    """Yields the open file ``aside``, which is renamed to ``path`` at the end; see ``replacing``."""
    with open_own(aside, "wb") as file, replacing(path, aside):
        yield file
        file.flush()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all; a link in its place is replaced, not followed."""
    aside = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")  # other processes may write it, too
    with written_whole(path, aside) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in a folder durable, before anything that comes after it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a regular file for writing; a symbolic link, which may lead out of the run's folder, is refused."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        kind = "a symbolic link" if path.is_symlink() else "a folder" if path.is_dir() else "no regular file"
        raise OSError(f"{path} is {kind}, expected a file of the run's own: remove it")
    more = os.O_NOFOLLOW | os.O_NONBLOCK  # to open a pipe would block
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags | more, 0o666))


def refuse_linked_folders(run: Path) -> None:
    """Refuse a run with a folder that is a link: it would be written to, and deleted from. The run itself may be."""
    for path in (run / name for name in FOLDERS):
        if path.is_symlink():
            raise OSError(
                f"{path} is a symbolic link, expected a folder of the run's own: put there what it leads to (the whole "
                "run may be a link)"
            )


def is_yaml(name: str | Path) -> bool:
    """Whether a file name is that of a YAML file."""
    return Path(name).suffix.lower() in (".yaml", ".yml")


def read_text(path: Path) -> str:
    """The content of a text file; a file that is not UTF-8 is a ValueError that names it."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text (byte {error.start} is not UTF-8): it is damaged") from None


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if there is no such file."""
    return list(csv.DictReader(read_text(path).splitlines())) if path.exists() else []


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file: to read a pipe would block."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no regular file, expected one")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is a ValueError that names the file."""
    check_regular(path)
    text = read_text(path)
    try:
        data = json.loads(text)
    except ValueError as error:  # also of a number with thousands of digits
        raise ValueError(f"{path} is not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"{path} is not readable as JSON (it is nested too deeply): it is damaged") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds {shortened(data)}, expected names and values in braces: {{...}}")
    return data
