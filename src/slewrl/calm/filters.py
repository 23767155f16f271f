"""Filters of commands, as people put them between a policy and a robot: numpy alone, one call per step.

A filter ``propose``s a command for what the policy asked for, and is told what was ``applied``, since a rate limit may
stand behind it: then it goes on from there instead of from what it proposed (no wind-up).
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class CommandFilter(ABC):
    """A filter of commands (d,), with its memory."""

    memories = 1
    """How many numbers it remembers of each joint."""
    memory: Array
    """(memories, d): all that its next command depends on, besides what is asked for."""

    @abstractmethod
    def reset(self, command: Array) -> None:
        """Begin at rest at a command (d,)."""

    @abstractmethod
    def propose(self, asked: Array) -> Array:
        """The filtered command (d,) for what is asked for; changes nothing."""

    @abstractmethod
    def applied(self, asked: Array, command: Array) -> None:
        """Remember what was asked for and the command that was applied."""


class ExponentialAverage(CommandFilter):
    """y_t = y_{t-1} + alpha (u_t - y_{t-1}): the exponential moving average, a low-pass of first order.

    Args:
        alpha: in (0, 1]; 1 is no filter. ``of_cutoff`` has it from a frequency.
    """

    def __init__(self, alpha: float) -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha is {alpha}, expected a number in (0, 1]")
        self.alpha = alpha

    @classmethod
    def of_cutoff(cls, cutoff: float, dt: float) -> "ExponentialAverage":
        """The average with the time constant 1 / (2 pi cutoff): alpha = 1 - exp(-2 pi cutoff dt)."""
        _check(cutoff, dt)
        return cls(-math.expm1(-2 * math.pi * cutoff * dt))

    def reset(self, command: Array) -> None:
        """See ``CommandFilter``."""
        self.memory = np.array(command, np.float64)[None]

    def propose(self, asked: Array) -> Array:
        """See ``CommandFilter``."""
        return np.asarray(self.memory[0] + self.alpha * (asked - self.memory[0]))

    def applied(self, asked: Array, command: Array) -> None:
        """See ``CommandFilter``."""
        self.memory = np.array(command, np.float64)[None]


class Butterworth(CommandFilter):
    """A Butterworth low-pass of second order, by the bilinear transform: -3 dB at ``cutoff`` Hz, 0 dB at rest.

    With K = tan(pi cutoff dt) and c = 1 / (1 + sqrt(2) K + K^2): b = K^2 c (1, 2, 1), a_1 = 2 (K^2 - 1) c,
    a_2 = (1 - sqrt(2) K + K^2) c, in the transposed direct form II. Its step response overshoots by 4 %: the increments
    of what it makes of a rate-limited command may be beyond the limit.
    """

    memories = 2

    def __init__(self, cutoff: float, dt: float) -> None:
        _check(cutoff, dt)
        k = math.tan(math.pi * cutoff * dt)
        c = 1 / (1 + math.sqrt(2) * k + k * k)
        self.b = (k * k * c, 2 * k * k * c, k * k * c)
        self.a = (2 * (k * k - 1) * c, (1 - math.sqrt(2) * k + k * k) * c)

    def reset(self, command: Array) -> None:
        """See ``CommandFilter``."""
        at = np.array(command, np.float64)
        second = (self.b[2] - self.a[1]) * at
        self.memory = np.stack([(self.b[1] - self.a[0]) * at + second, second])

    def propose(self, asked: Array) -> Array:
        """See ``CommandFilter``."""
        return np.asarray(self.b[0] * asked + self.memory[0])

    def applied(self, asked: Array, command: Array) -> None:
        """See ``CommandFilter``."""
        u, y = asked.astype(np.float64), command.astype(np.float64)
        first = self.b[1] * u - self.a[0] * y + self.memory[1]
        self.memory = np.stack([first, self.b[2] * u - self.a[1] * y])


class DeltaCommand(CommandFilter):
    """y_t = y_{t-1} + scale w_t, for w in [-1, 1]: a policy that asks for changes ("delta actions").

    Args:
        scale: the largest change per step, in units of the command, (d,) or a number.
    """

    def __init__(self, scale: Any) -> None:
        self.scale = np.asarray(scale, np.float64)
        if not (np.isfinite(self.scale) & (self.scale > 0)).all():
            raise ValueError(f"scale is {scale}, expected finite numbers > 0")

    def reset(self, command: Array) -> None:
        """See ``CommandFilter``."""
        self.memory = np.array(command, np.float64)[None]

    def propose(self, asked: Array) -> Array:
        """See ``CommandFilter``."""
        return np.asarray(self.memory[0] + self.scale * np.clip(asked, -1, 1))

    def applied(self, asked: Array, command: Array) -> None:
        """See ``CommandFilter``."""
        self.memory = np.array(command, np.float64)[None]


def _check(cutoff: float, dt: float) -> None:
    if not dt > 0:
        raise ValueError(f"dt is {dt}, expected seconds > 0")
    if not 0 < cutoff < 0.5 / dt:
        raise ValueError(f"cutoff is {cutoff:g} Hz, expected one between 0 and {0.5 / dt:g} Hz, half of 1 / dt")
