"""Files of a run: written whole or not at all, through no link, and read back with errors that name them."""

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
"""Folder of a run's last evaluation; ``slewrl evaluate`` writes elsewhere, so a look at a run changes no result."""
FOLDERS = ("replay", "checkpoint", "evaluation", FINAL, "tensorboard", "wandb")
"""Those inside a run that slewrl writes to."""


@contextmanager
def replacing(path: Path, aside: Path | None = None) -> Iterator[Path]:
    """A name beside ``path`` to write a file to, which is synced and becomes ``path`` at the end, or is gone.

    This is the one place that puts files where they belong: a kill leaves the old file or the new one.

    Args:
        path: where the file belongs.
        aside: the name to write to; default: a hidden one with the same ending.
    """
    aside = aside or path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield aside
        _sync(aside)
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk does not say where
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def written_whole(path: Path, aside: Path) -> Iterator[IO[bytes]]:
    """A file to write to, ``aside``, which becomes ``path`` at the end; see ``replacing``."""
    with open_own(aside, "wb") as file, replacing(path, aside):
        yield file
        file.flush()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file that is whole or not there; a link in its place is replaced, not followed."""
    aside = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")  # others may write it, too
    with written_whole(path, aside) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in a folder survive a power cut, before anything that comes after it."""
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy_own(source: str | Path, path: str | Path) -> None:
    """Copy a file to one of the run's own."""
    write_atomically(Path(path), Path(source).read_bytes())


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a file to write to that must be the folder's own: what a link leads to is somebody else's."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        kind = "a symbolic link" if path.is_symlink() else "a folder" if path.is_dir() else "no regular file"
        raise OSError(f"{path} is {kind}, expected a file of the run's own: remove it")
    more = os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for whoever is at its other end
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags | more, 0o666))


def refuse_linked_folders(run: Path) -> None:
    """Refuse a run one of whose folders is a link: it would be written to, and deleted from. The run may be one."""
    for path in (run / name for name in FOLDERS):
        if path.is_symlink():
            raise OSError(
                f"{path} is a symbolic link, expected a folder of the run's own: put there what it leads to (the whole "
                "run may be a link)"
            )


def is_yaml(name: str | Path) -> bool:
    """Whether a name is that of a YAML file, there or not."""
    return Path(name).suffix.lower() in (".yaml", ".yml")


def read_text(path: Path) -> str:
    """What a text file says; one that holds something else is a ValueError that names it."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text (byte {error.start} is not UTF-8): it is damaged") from None


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if there is no such file."""
    return list(csv.DictReader(read_text(path).splitlines())) if path.exists() else []


def check_regular(path: Path) -> None:
    """Refuse what is there and no regular file: a pipe would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no regular file, expected one")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is a ValueError that names the file."""
    check_regular(path)
    text = read_text(path)
    try:
        data = json.loads(text)
    except ValueError as error:  # that of a number of thousands of digits is no JSONDecodeError
        raise ValueError(f"{path} is not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"{path} is not readable as JSON (it is nested too deeply): it is damaged") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds {shortened(data)}, expected names and values in braces: {{...}}")
    return data
