"""The layout of augmented observations: the previous action is in the last d entries."""

from typing import TypeVar

Array = TypeVar("Array")


def previous_action(observation: Array, joints: int) -> Array:
    """Return the previous action (..., d) of an augmented observation (..., n), numpy or torch."""
    return observation[..., -joints:]  # type: ignore[index]
