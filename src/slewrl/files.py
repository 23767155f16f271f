"""Files of a run: written whole or not at all, through no link, and read back with errors that name them."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def written_whole(path: Path, aside: Path) -> Iterator[IO[bytes]]:
    """A file to write to, ``aside``, which is synced and becomes ``path`` at the end, or is gone if that fails."""
    with open_own(aside, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(aside, path)
        except BaseException as error:
            aside.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.filename is None:  # a full disk does not say where
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise


def write_atomically(path: Path, text: str) -> None:
    """Write a file that is whole or not there."""
    aside = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")  # others may write it, too
    with written_whole(path, aside) as file:
        file.write(text.encode())


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a file to write to that must be the folder's own: what a link leads to is somebody else's."""
    if path.is_symlink() or path.is_dir():
        kind = "symbolic link" if path.is_symlink() else "folder"
        raise OSError(f"{path} is a {kind}, expected a file of the run's own: remove it")
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))


def read_text(path: Path) -> str:
    """What a text file says; one that holds something else is a ValueError that names it."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text (byte {error.start} is not UTF-8): it is damaged") from None


def check_regular(path: Path) -> None:
    """Refuse what is there and no regular file: a pipe would be waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no regular file, expected one")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is a ValueError that names the file."""
    check_regular(path)
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"{path} is not readable as JSON (it is nested too deeply): it is damaged") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds {short(data)}, expected names and values in braces: {{...}}")
    return data


def short(value: Any, most: int = 40) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
