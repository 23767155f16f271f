"""Motion: commands under acceleration limits, one step after the other, for a robot's control loop. Needs numpy only.

The state of d joints is their last command and their last increment, both in grid units (``limits/viability.py``), in
which all arithmetic is exact. ``RateLimiter`` uses this when its limits have an acceleration.
"""

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.limits import viability
from slewrl.limits.viability import Grid

Vector = NDArray[np.float64]


class Motion(Copied):
    """Commands of d joints that keep rate, acceleration and range.

    Args:
        grid: the limits on the grid of commands.
        names: the joints, for messages.
        stop_at_target: whether a joint brakes for its target, so that it does not swing past one that stays where it
            is. Otherwise each step goes as near to the target as it can, as for the actions of a policy, which has
            its own plan of where to stop.
    """

    def __init__(self, grid: Grid, names: tuple[str, ...], stop_at_target: bool = True) -> None:
        self.full, self.names, self.stop_at_target = grid, names, stop_at_target
        self.limits = grid
        """The present limits: the full ones, or lower."""
        self.wanted = grid.deceleration
        """The deceleration that was asked for; a joint that could not stop by it gets it later."""
        self.command = self.velocity = np.zeros(len(names))
        self.waiting = 0
        """The number of joint steps in which a lower deceleration had to wait, and full braking was forced."""

    def start(self, pose: Vector, velocity: Vector | None = None) -> Vector:
        """Begin at the grid point nearest to ``pose`` (d,), with the last increment ``velocity`` (d,); returns it.

        Raises:
            ValueError: a joint is too fast to stop within its range.
        """
        unit = self.full.unit
        speed = np.zeros_like(pose) if velocity is None else np.rint(velocity / unit)
        nearest = np.rint(pose / unit)
        inside = (pose >= unit * self.full.low - unit) & (pose <= unit * self.full.high + unit)
        nearest = np.where(inside, np.clip(nearest, self.full.low, self.full.high), nearest)
        below, above = self._rooms(nearest)
        fine = viability.stops_in_time(speed, below, above, self.limits.deceleration)
        fine &= (speed <= self.full.up) & (speed >= -self.full.down)
        if not fine.all():
            i = int(np.argmin(fine))
            slower = viability.brake(speed, self.limits.deceleration)
            distance = float((viability.stopping_distance(slower, self.limits.deceleration) * unit)[i])
            room = float((np.where(slower > 0, above, below) * unit)[i])
            raise ValueError(
                f"velocity of {self.names[i]!r} is {float(speed[i] * unit[i]):g} per step: braking takes {distance:g} "
                f"more, and there is {room:g} left; expected one within its rate from which it can stop"
            )
        self.command, self.velocity = nearest, speed
        return nearest * unit

    def step(self, target: Vector) -> Vector:
        """Move towards ``target`` (d,); NaN brakes. Returns the new command in action units."""
        grid = self.limits
        aim = np.rint(target / grid.unit)
        np.copyto(aim, self.command, where=aim != aim)
        way = np.minimum(np.maximum(aim, grid.low), grid.high) - self.command
        self._move(way if not self.stop_at_target else np.sign(way) * viability.fastest(np.abs(way), grid.deceleration))
        return self.command * grid.unit

    def brake(self) -> Vector:
        """Come to rest as fast as allowed, and stay there. Returns the new command in action units."""
        self._move(np.zeros_like(self.velocity))
        return self.command * self.full.unit

    def _move(self, increment: Vector) -> None:
        below, above = self._rooms(self.command)
        if self.limits.deceleration is self.wanted:
            bottom, top = viability.increments(self.velocity, below, above, self.limits)
        else:
            bottom, top = self._change_brakes(below, above)
        self.velocity = np.minimum(np.maximum(increment, bottom), top)
        self.command = self.command + self.velocity

    def _rooms(self, command: Vector) -> tuple[Vector, Vector]:
        return np.maximum(command - self.full.low, 0), np.maximum(self.full.high - command, 0)

    # ------------------------------------------------------------------ lower limits

    def set_rates(self, up: Vector, down: Vector) -> None:
        """Lower the rates, in action units per step, (d,); a joint that is faster brakes to them; 0 stops it."""
        unit = self.full.unit
        rates = (
            np.clip(np.floor(rate / unit) - 1, 0, full) for rate, full in ((up, self.full.up), (down, self.full.down))
        )
        rise, fall = rates
        self.limits = self.limits._replace(up=rise, down=fall)

    def set_acceleration(self, acceleration: Vector, deceleration: Vector) -> None:
        """Change acceleration and deceleration, in action units per step squared, (d,), to at most the full ones.

        A joint that could no longer stop in its range by a lower deceleration brakes by the old one until it can.
        """
        unit, full = self.full.unit, self.full
        faster = np.clip(np.floor(acceleration / unit) - 1, 1, full.acceleration)
        self.wanted = np.clip(np.floor(deceleration / unit) - 1, 1, full.deceleration)
        self.limits = self.limits._replace(acceleration=faster)

    def _change_brakes(self, below: Vector, above: Vector) -> tuple[Vector, Vector]:
        """Adopt the wanted deceleration where a joint can stop by it; elsewhere force full braking by the old one."""
        ready: NDArray[np.bool_] = viability.stops_in_time(self.velocity, below, above, self.wanted)
        mixed = np.where(ready, self.wanted, self.limits.deceleration)
        self.limits = self.limits._replace(deceleration=self.wanted if ready.all() else mixed)
        edges: tuple[Vector, Vector] = viability.increments(self.velocity, below, above, self.limits)
        forced = viability.brake(self.velocity, self.limits.deceleration)
        self.waiting += int(np.count_nonzero(~ready))
        return np.where(ready, edges[0], forced), np.where(ready, edges[1], forced)
