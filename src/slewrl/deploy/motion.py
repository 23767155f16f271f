"""Motion: commands under acceleration limits, one step after the other, for a robot's control loop. Needs numpy only.

The state of d joints is their last command and their last increment, both in grid units (``limits/viability.py``), in
which all arithmetic is exact. ``RateLimiter`` uses this when its limits have an acceleration.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.deploy.lines import Lines
from slewrl.limits import viability
from slewrl.limits.viability import Grid

Vector = NDArray[np.float64]
FARTHEST = 2.0**48
"""The largest pose in grid units: beyond it a step would be rounded."""

LOOK_AGAIN = 20
"""How many steps after a bound was near it is looked for again."""


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
        self.command, self.velocity = np.zeros(len(names)), np.zeros(len(names))
        self.waiting = 0
        """The number of joint steps in which a lower deceleration had to wait, and full braking was forced."""
        self.nans = 0
        """How many joints had NaN for their target in the last step."""
        self._join()

    def _join(self) -> None:
        d = len(self.names)
        self._unit, self._per_unit, self._aim = self.full.unit, 1 / self.full.unit, np.empty(d)
        self._low, self._high = self.full.low * self.full.unit, self.full.high * self.full.unit
        self._parts, self._flags, self._fine = np.empty((2, d)), np.empty((2, d), bool), b"\1" * 2 * d
        self._change, self._way = self._parts
        self._prepare()

    def _prepare(self) -> None:
        """Compute what depends on the limits alone, and forget how far the bounds are."""
        grid, full = self.limits, self.full
        self._settled = bool(np.array_equal(grid.deceleration, self.wanted))
        self._even = bool(np.array_equal(grid.acceleration, grid.deceleration))
        self._fall, self._half_per_brake, self._eighth = -grid.down, 0.5 / grid.deceleration, grid.deceleration / 8
        alike, slower = np.minimum(grid.acceleration, grid.deceleration), np.minimum(grid.up, grid.down)
        # A change of the increment, and an increment, that are allowed whatever the last increment was, away from
        # bounds.
        self._plain = np.stack([alike, slower])
        self._lowest = full.low + viability.stopping_distance(full.down, grid.deceleration)
        self._highest = full.high - viability.stopping_distance(full.up, grid.deceleration)
        self._twice_per_brake, self._half_brake = 2 / grid.deceleration, grid.deceleration / 2
        self._free, self._lines = 0, Lines(grid)

    def _is_free(self) -> bool:
        """Whether no bound matters in this step, whatever the increment; mostly known from an earlier step."""
        if self._free == 0:
            above, below = self._highest - self.command, self.command - self._lowest
            steps = np.minimum(above / self.full.up, below / self.full.down).min()
            self._free = int(steps) + 1 if steps >= 0 else -LOOK_AGAIN
        free = self._free > 0
        self._free += -1 if free else 1
        return free

    def _can_stop(self, way: Vector) -> bool:
        """Whether every joint stops within its range after a step of ``way``, which ``_way`` is the size of.

        A stop takes at most v (v + D) / 2D + D / 8.
        """
        needs = (self._way * self._half_per_brake + 0.5) * self._way + self._eighth
        rooms = np.where(way > 0, self.full.high - self.command, self.command - self.full.low)
        return bool((needs <= rooms).all())

    def start(self, pose: Vector, velocity: Vector | None = None) -> Vector:
        """Begin at the grid point nearest to ``pose`` (d,), with the last increment ``velocity`` (d,); returns it.

        Raises:
            ValueError: a pose is too far away for exact steps, or a joint is too fast to stop within its range.
        """
        unit = self.full.unit
        speed = np.zeros_like(pose) if velocity is None else np.rint(velocity / unit)
        nearest = np.rint(pose / unit)
        inside = (pose >= unit * self.full.low - unit) & (pose <= unit * self.full.high + unit)
        nearest = np.where(inside, np.clip(nearest, self.full.low, self.full.high), nearest)
        far = ~(np.abs(nearest) <= FARTHEST)
        if far.any():
            i = int(np.argmax(far))
            most = float(FARTHEST * unit[i])
            raise ValueError(f"pose of {self.names[i]!r} is {float(pose[i])}, expected at most {most:g} in magnitude")
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
        self.command, self.velocity = nearest + 0.0, speed + 0.0  # no negative zeros
        self._free = 0
        return self.command * unit

    def nearest(self, pose: Vector) -> Vector:
        """The point of the grid in the range that is nearest to ``pose`` (d,), in action units."""
        return np.clip(np.rint(pose / self._unit), self.full.low, self.full.high) * self._unit + 0.0

    def step(self, target: Sequence[float] | Vector, out: Vector | None = None) -> Vector:
        """Move towards ``target`` (d,); NaN brakes. Returns the new command in action units, in ``out`` if given."""
        aim, way = self._aim, self._way
        np.minimum(target, self._high, out=aim)
        np.maximum(aim, self._low, out=aim)
        np.multiply(aim, self._per_unit, aim)
        np.rint(aim, aim)
        np.subtract(aim, self.command, way)
        made = None
        if self._settled:
            made = self._lines.follow(way, self.velocity) if self.stop_at_target else self._plainly(way)
        self.nans = 0
        if made is None:
            unknown = way != way
            self.nans = int(np.count_nonzero(unknown))
            np.copyto(way, 0.0, where=unknown)
            made = self._limited(way)
        return self._moved(made, out)

    def brake(self, out: Vector | None = None) -> Vector:
        """Come to rest as fast as allowed, and stay there. Returns the new command in action units."""
        return self._moved(self._limited(np.zeros_like(self.velocity)), out)

    def _moved(self, increment: Vector, out: Vector | None) -> Vector:
        """The command after ``increment``, which becomes the last one, in action units."""
        if self.stop_at_target:
            self._free = 0  # such steps are not counted
        self.velocity = increment
        self.command = self.command + increment
        command: Vector = np.multiply(self.command, self._unit, out)
        return command

    def _plainly(self, way: Vector) -> Vector | None:
        """The ``way`` as it is, if that is plainly within the limits, whatever the last increment was."""
        np.subtract(way, self.velocity, self._change)
        made: Vector = way + 0.0  # no negative zeros
        np.abs(self._parts, self._parts)
        np.less_equal(self._parts, self._plain, self._flags)  # False for NaN
        if self._flags.tobytes() == self._fine and (self._is_free() or self._can_stop(made)):
            return made
        way[:] = made
        return None

    def _limited(self, way: Vector) -> Vector:
        """The increment nearest to ``way``, (d,) in grid units, that the limits allow.

        Where no joint waits for its brakes, each limit is a clip, from the least to the most important: the way, on
        which a joint can stop; the rate; the acceleration. Bounds need no clip if the way ends within them.
        """
        grid, v = self.limits, self.velocity
        if not self._settled or not (self.stop_at_target or self._is_free()):
            return self._clipped(way)
        if self.stop_at_target:
            way = self._stoppable(way)
        way = np.minimum(np.maximum(way, self._fall), grid.up)
        if self._even:
            least, most = v - grid.acceleration, v + grid.acceleration
        else:
            least, most = viability.reachable(v, grid.acceleration, grid.deceleration)
        made: Vector = np.minimum(np.maximum(way, least), most) + 0.0  # no negative zero
        return made

    def _stoppable(self, way: Vector) -> Vector:
        """The increment after which a joint stops at the end of its way."""
        return np.copysign(viability.fastest_by(np.abs(way), self._twice_per_brake, self._half_brake), way)

    def _clipped(self, way: Vector) -> Vector:
        """The increment nearest to ``way`` in the interval of ``viability.increments``."""
        below, above = self._rooms(self.command)
        if not self._settled:
            self._change_brakes(below, above)
        if self.stop_at_target:
            way = self._stoppable(way)
        bottom, top = self._edges(below, above)
        return np.minimum(np.maximum(way, bottom), top) + 0.0

    def _edges(self, below: Vector, above: Vector) -> tuple[Vector, Vector]:
        """The edges of the next increment; full braking is all there is for a joint that waits for its brakes."""
        edges: tuple[Vector, Vector] = viability.increments(self.velocity, below, above, self.limits)
        if self._settled:
            return edges
        waits = self.limits.deceleration != self.wanted
        forced = viability.brake(self.velocity, self.limits.deceleration)
        self.waiting += int(np.count_nonzero(waits))
        return np.where(waits, forced, edges[0]), np.where(waits, forced, edges[1])

    def _rooms(self, command: Vector) -> tuple[Vector, Vector]:
        return np.maximum(command - self.full.low, 0), np.maximum(self.full.high - command, 0)

    # ------------------------------------------------------------------ lower limits

    def set_rates(self, up: Vector, down: Vector) -> None:
        """Lower the rates, in action units per step, (d,); a joint that is faster brakes to them; 0 stops it."""
        rise, fall = (
            np.clip(np.floor(rate / self.full.unit) - 1, 0, full)
            for rate, full in ((up, self.full.up), (down, self.full.down))
        )
        self.limits = self.limits._replace(up=rise, down=fall)
        self._prepare()

    def set_acceleration(self, acceleration: Vector, deceleration: Vector) -> None:
        """Change acceleration and deceleration, in action units per step squared, (d,), to at most the full ones.

        A joint that could no longer stop in its range by a lower deceleration brakes by the old one until it can.
        """
        faster = np.clip(np.floor(acceleration / self._unit) - 1, 1, self.full.acceleration)
        self.wanted = np.clip(np.floor(deceleration / self._unit) - 1, 1, self.full.deceleration)
        self.limits = self.limits._replace(acceleration=faster)
        self._prepare()

    def set_brakes(self, deceleration: Vector) -> None:
        """Set the deceleration in force, in grid units, (d,), which may be above the one that was asked for."""
        self.limits = self.limits._replace(deceleration=deceleration)
        self._prepare()

    def _change_brakes(self, below: Vector, above: Vector) -> None:
        """Adopt the wanted deceleration where a joint can stop by it."""
        ready: NDArray[np.bool_] = viability.stops_in_time(self.velocity, below, above, self.wanted)
        self.limits = self.limits._replace(deceleration=np.where(ready, self.wanted, self.limits.deceleration))
        self._prepare()
