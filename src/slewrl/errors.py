"""Errors whose message is meant for the person at the terminal."""

import reprlib
import sys
from typing import Any

_BOUNDED = reprlib.Repr()
"""A repr of bounded size: that of a deeply nested list may not fit in memory."""
_BOUNDED.maxlevel = 3
_BOUNDED.maxlist = _BOUNDED.maxtuple = _BOUNDED.maxdict = _BOUNDED.maxset = _BOUNDED.maxfrozenset = 20
_BOUNDED.maxstring = _BOUNDED.maxlong = _BOUNDED.maxother = sys.maxsize


class UserFacingError(RuntimeError):
    """Something outside this library failed (an environment, a driver, a process); the message says what to do."""


def shortened(value: Any, most: int = 60) -> str:
    """A value for an error message: its repr on one line, cut if it is long."""
    try:
        nested = isinstance(value, list | tuple | dict | set | frozenset)
        whole = _BOUNDED.repr(value) if nested else repr(value)
        text = " ".join(line.strip() for line in whole.splitlines())
    except ValueError:  # Python prints no integer of more than 4,300 digits
        return f"a number of type {type(value).__name__} too long to print"
    size = f"{len(value)} entries" if nested else f"{len(text)} characters"
    return text if len(text) <= most else f"{text[: most - 20]}... ({size})"
