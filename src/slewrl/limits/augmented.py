"""The one place that knows where the previous action sits in an augmented observation: its last d entries."""

from typing import TypeVar

Array = TypeVar("Array")


def previous_action(observation: Array, joints: int) -> Array:
    """a_prev (..., d) of an augmented observation (..., n), numpy or torch."""
    previous: Array = observation[..., -joints:]  # type: ignore[index]
    return previous
