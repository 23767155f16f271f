"""Lines: increments by which joints stop at their targets, without a square root. Python's and numpy's floats only.

A joint that has ``room`` and stops in m steps moves by v = floor((room + D m (m - 1) / 2) / m) first. That is
``viability.fastest(room)`` if (m - 1) D <= v <= m D, whatever room m was found for (docs/acceleration.md, Cost). So a
joint that follows a target stays on its line, which has the m of an earlier step, as long as v stays there; a joint
that leaves it finds its next line by a square root.

Each line has a band of increments, within the rates and at most min(A, D) wide: after one of them, any other is within
the acceleration limit.
"""

import math

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.limits.viability import ABOVE_A_QUARTER, Grid

Vector = NDArray[np.float64]
FEW = 8
"""How many joints may leave their lines in a step; the lines of more are not faster than all limits at once."""
MANY = 64
"""The most joints that are worth lines: of more, some leave theirs in every step."""
LONGEST = 32
"""The most steps without lines after joints have left them, which doubles each time."""


class Lines(Copied):
    """The lines of d joints under the limits of a ``Grid``, in its units."""

    def __init__(self, grid: Grid) -> None:
        self.d = len(grid.up)
        if self.d <= MANY:
            alike = np.minimum(grid.acceleration, grid.deceleration)
            columns = (grid.deceleration, 2 / grid.deceleration, alike, -grid.down, grid.up)
            self._limits = list(zip(*(column.tolist() for column in columns), strict=True))
        self._steps, self._offset, self._least, self._most = np.ones((4, self.d))
        self._flags, self._fine = np.empty((2, self.d), bool), b"\1" * 2 * self.d
        self._known: Vector | None = None
        """The last increments, if they are in the bands."""
        self._pause, self._longer = 0, 1
        self._join()

    def _join(self) -> None:
        self._not_less, self._not_more = self._flags

    def follow(self, way: Vector, velocity: Vector) -> Vector | None:
        """The increments after ``velocity`` by which each joint stops at the end of its ``way``.

        None if a joint cannot take its increment under the limits, or to find out is not worth it now.
        """
        if velocity is not self._known:
            return self._begin(way, velocity)
        made: Vector = way + self._offset
        np.divide(made, self._steps, made)
        np.trunc(made, made)
        np.greater_equal(made, self._least, self._not_less)
        np.less_equal(made, self._most, self._not_more)
        flags = self._flags.tobytes()
        if flags == self._fine or self._turn(flags, way, velocity, made):
            self._known = made
            return made
        return None

    def _begin(self, way: Vector, velocity: Vector) -> Vector | None:
        """Find all lines, now and then."""
        if self.d > MANY:
            return None
        if self._pause:
            self._pause -= 1
            return None
        self._pause, self._longer = self._longer, min(2 * self._longer, LONGEST)
        made: Vector = np.empty(self.d)
        for joint in range(self.d):
            if not self._find(joint, way, velocity, made):
                return None
        self._pause, self._longer, self._known = 0, 1, made
        return made

    def _turn(self, flags: bytes, way: Vector, velocity: Vector, made: Vector) -> bool:
        """Find the lines of the joints that have left theirs; whether all could."""
        if flags.count(0) > FEW:
            return False
        joint = flags.find(0)
        while joint >= 0:
            if not self._find(joint % self.d, way, velocity, made):
                return False
            joint = flags.find(0, joint + 1)
        return True

    def _find(self, joint: int, way: Vector, velocity: Vector, made: Vector) -> bool:
        """Find the line of a joint, and its increment in ``made``; whether the limits allow that."""
        brakes, twice_per_brake, width, least, most = self._limits[joint]
        ahead = way.item(joint)
        room = abs(ahead)
        if room != room:  # NaN
            return False
        m = round(math.sqrt(room * twice_per_brake + ABOVE_A_QUARTER))
        offset = brakes * (m * m - m) / 2
        v = speed = (room + offset) // m
        # The band is around the speed, but within the line; a line of one step is that of both directions.
        low, last = speed - width / 2, m * brakes - width
        first = last + width - brakes if m > 1 else -brakes
        low = first if low < first else last if low > last else low
        high = low + width
        if ahead < 0:
            v, offset, low, high = 0.0 - speed, 0.0 - offset, -high, -low
        if not (least <= v <= most and -width <= v - velocity.item(joint) <= width):
            return False
        made[joint], self._steps[joint], self._offset[joint] = v, m, offset
        self._least[joint], self._most[joint] = (low if low > least else least), (high if high < most else most)
        return True
