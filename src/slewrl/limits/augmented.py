"""The layout of augmented observations: the previous action is in the last d entries.

With acceleration limits the last increment v_prev is in the d entries before it: (s, v_prev, a_prev).
"""

from typing import TypeVar

Array = TypeVar("Array")


def previous_action(observation: Array, joints: int) -> Array:
    """Return the previous action (..., d) of an augmented observation (..., n), numpy or torch."""
    return observation[..., -joints:]  # type: ignore[index]


def previous_velocity(observation: Array, joints: int) -> Array:
    """Return the last increment (..., d) of an augmented observation (..., n) under acceleration limits."""
    return observation[..., -2 * joints : -joints]  # type: ignore[index]
