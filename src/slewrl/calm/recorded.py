"""Commands recorded anywhere, read from a CSV file: one row per control step, one column per joint."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.io.files import read_text

TIMES = ("t", "time", "timestamp", "stamp", "seconds", "sec", "time_s", "t_s")
"""Names of a column that holds the time of each row, in seconds; it is no joint."""
JITTER = 0.5
"""The largest part of dt by which the time between two rows may differ from it: more is a row lost."""
LEAST = 3
"""The fewest rows of which there is a second difference."""
LARGEST = 1e100
"""The largest command: of larger ones the squares are no numbers."""


class Recorded(NamedTuple):
    """The commands of a file."""

    commands: NDArray[np.float64]
    """(N, d), one row per step."""
    names: tuple[str, ...]
    """Names of the columns; joint 1, joint 2, ... of a file without names."""
    dt: float | None = None
    """Seconds from one row to the next, by the file's column of times."""


def read_commands(path: Path, dt: float | None = None, joints: tuple[str, ...] = ()) -> Recorded:
    """Read a file of commands; refuses gaps, NaN and whatever is no table of numbers, naming the line.

    Args:
        path: the file. Its first line may name the columns; a column of the time (``TIMES``) is checked against ``dt``.
        dt: seconds from one row to the next.
        joints: the columns to read, by name and in this order; all if there are none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r} with commands: a CSV, one row per step, one column per joint")
    rows = _rows(path)
    names = None
    if _names_columns(rows[0][1]):
        names = [name.strip() for name in rows.pop(0)[1]]
        names[0] = names[0].removeprefix("#").strip()  # as numpy.savetxt writes a header
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{path} has two columns {twice[0]!r}, expected each name once")
    if len(rows) < LEAST:
        raise ValueError(f"{path} has {len(rows)} rows of commands, expected at least {LEAST}: one is no shaking yet")
    width = len(names) if names else len(rows[0][1])
    found = np.array([_numbers(path, line, row, width, names) for line, row in rows])
    names = names or [f"joint {i + 1}" for i in range(width)]
    found, names, period = _without_time(path, found, names, [line for line, _ in rows], dt)
    return _chosen(path, found, names, joints)._replace(dt=period)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows with their lines; blank lines may be at either end alone, since one between two rows is a row lost."""
    try:
        rows = list(enumerate(csv.reader(read_text(path).removeprefix("\ufeff").splitlines()), 1))
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV ({error}), expected one row per step, one column per joint") from None
    filled = [i for i, (_, row) in enumerate(rows) if any(cell.strip() for cell in row)]
    if not filled:
        raise ValueError(f"{path} is empty, expected one row per step, one column per joint")
    return rows[filled[0] : filled[-1] + 1]


def _names_columns(row: list[str]) -> bool:
    """Whether a first row names the columns; 0,1,2 are the names that pandas gives."""
    numbers = all(_is_number(cell) or not cell.strip() for cell in row)
    return not numbers or (len(row) > 1 and row == [str(i) for i in range(len(row))])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python allows in a number


def _numbers(path: Path, line: int, row: list[str], width: int, names: list[str] | None) -> list[float]:
    """The numbers of a row, all finite."""
    if not row:
        raise ValueError(f"{path}, line {line} is empty, expected a row per step: what is missing there is a gap")
    if len(row) != width:
        hint = "; are its columns separated by commas?" if width == 1 else ""
        raise ValueError(f"{path}, line {line} has {len(row)} entries, expected {width}{hint}")
    for k, cell in enumerate(row):
        column = repr(names[k]) if names else k + 1
        if not cell.strip():
            raise ValueError(f"{path}, line {line}: column {column} is empty, expected a number in every row")
        if not _is_number(cell) or not abs(float(cell)) < LARGEST:
            commas = ", and commas between columns" if any(mark in cell for mark in ";\t ") else ""
            raise ValueError(
                f"{path}, line {line}: column {column} is {cell.strip()!r}, expected a finite number{commas}"
            )
    return [float(cell) for cell in row]


def _without_time(
    path: Path, found: NDArray[np.float64], names: list[str], lines: list[int], dt: float | None
) -> tuple[NDArray[np.float64], list[str], float | None]:
    """The table without its column of times, which must have no gap and agree with dt; and the time between rows."""
    timed = [i for i, name in enumerate(names) if name.lower() in TIMES]
    if not timed:
        return found, names, None
    i = timed[0]
    steps = np.diff(found[:, i])
    rest = np.delete(found, i, axis=1), names[:i] + names[i + 1 :]
    if not rest[1]:
        raise ValueError(f"{path} has a column {names[i]!r} alone, expected one per joint beside it")
    usual = float(np.median(steps))
    if usual <= 0:
        raise ValueError(f"{path}: column {names[i]!r} does not rise, expected the time of each row, in seconds")
    if dt is not None and abs(usual - dt) > 0.1 * dt:
        raise ValueError(
            f"--dt is {dt:g} s, but the rows of {path} are {usual:g} s apart, by its column {names[i]!r}: one of them "
            "is wrong"
        )
    if (late := np.abs(steps - usual) > JITTER * usual).any():
        k = int(np.flatnonzero(late)[0])
        raise ValueError(
            f"{path}, line {lines[k + 1]}: {steps[k]:.4g} s after the row before, expected {usual:.4g} s: rows are "
            "missing, and a second difference across the gap would mean nothing; cut the file there"
        )
    return *rest, usual


def _chosen(path: Path, found: NDArray[np.float64], names: list[str], joints: tuple[str, ...]) -> Recorded:
    if missing := [joint for joint in joints if joint not in names]:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has: {', '.join(names)}")
    columns = [names.index(joint) for joint in joints] or list(range(len(names)))
    return Recorded(found[:, columns], tuple(names[i] for i in columns))
