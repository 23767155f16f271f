"""Errors whose message is meant for the person at the terminal."""

from typing import Any


class UserFacingError(RuntimeError):
    """Something outside this library failed (an environment, a driver, a process); the message says what to do."""


def shortened(value: Any, most: int = 60) -> str:
    """A value as a message shows it: its repr, on one line, cut if it is long."""
    try:
        text = " ".join(line.strip() for line in repr(value).splitlines())
    except ValueError:  # Python prints no integer of more than 4,300 digits
        return f"a number of type {type(value).__name__} too long to print"
    return text if len(text) <= most else f"{text[: most - 20]}... ({len(text)} characters)"
