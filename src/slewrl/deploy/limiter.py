"""RateLimiter: the last operation before the motors, for any policy. It needs numpy only.

    limiter = RateLimiter.from_yaml("limits.yaml")
    limiter.start(measured_pose)
    command = limiter.step(wanted)          # in F_t, whatever `wanted` is

All arithmetic is float64, and every command lies in F_t = [prev - down, prev + up] within [low, high] in exact
arithmetic, not just up to rounding (Theorem 1, docs/guarantee.md). With a budget B over all joints,
sum_i |command_i - prev_i| / rate_i <= B holds exactly, too (Theorem 3). `prev` is the last command, and the
only state that steps change: a limiter started from it continues with the same commands.

With an acceleration limit F_t depends on the last increment, too, `velocity`, and a joint brakes for its target
(docs/acceleration.md): `limiter.start(prev, velocity)` continues with the same commands.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.deploy.motion import Motion
from slewrl.errors import shortened
from slewrl.io.files import is_yaml
from slewrl.limits.boxmath import LARGEST, as_power
from slewrl.limits.viability import make_grid

if TYPE_CHECKING:
    from slewrl.deploy.bundle import JointLimits
    from slewrl.limits import RateLimits
    from slewrl.limits.parse import Limits

    AnyLimits = RateLimits | JointLimits | Limits | SimpleNamespace

Vector = NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
MOST = f"at most {as_power(LARGEST)} in magnitude"
"""The bound on magnitudes, which keeps sums from overflowing, as text for messages."""


class RateLimiter(Copied):
    """Moves every command into F_t.

    Args:
        limits: limits of d joints, without batch dimensions: a RateLimits, a bundle's limits, or any object with
            their up, down, low, high and names and, if there are any, acceleration and deceleration per step squared;
            a limits.yaml; or TASK:PRESET such as "G1:paper". ``derate`` can lower the rates later.
        dt: nominal control period in seconds; default: the limits' own. Needed only for ``step(..., dt=)``.
        longest: the most that a late step may move, in nominal steps, >= 1; 1 never makes up for lost time.
        budget: B, the largest sum over joints of |change| / rate, in (0, d], where the rates are those of the step:
            derated, and scaled by its dt. Default: no budget.
    """

    def __init__(
        self,
        limits: "AnyLimits | str | Path",
        dt: float | None = None,
        longest: float = 1.0,
        budget: float | None = None,
    ) -> None:
        limits = _resolved(limits)
        self.names, d = tuple(limits.names), len(limits.names)
        self.low, self.high = _vector(limits.low, d, "low"), _vector(limits.high, d, "high")
        self.up, self.down = _vector(limits.up, d, "up"), _vector(limits.down, d, "down")
        dt = getattr(limits, "dt", None) if dt is None else dt
        if dt is not None and not 0 < _number(dt) < math.inf:
            raise ValueError(f"dt is {shortened(dt)}, expected a positive control period in seconds")
        if budget is not None and not 0 < _number(budget) <= d:
            expected = f"a number in (0, {d}]: joints at full rate at once, or None"
            raise ValueError(f"budget is {shortened(budget)}, expected {expected}")
        if not 1 <= _number(longest) < math.inf:
            raise ValueError(f"longest is {shortened(longest)}, expected a finite number of nominal steps >= 1")
        self.dt, self.longest = None if dt is None else float(dt), float(longest)
        self.budget = None if budget is None else float(budget)
        self._validate()
        self.motion = self._motion(limits)
        """What moves joints with an acceleration limit; None without one."""
        self.nans = 0
        """The number of joint commands that were NaN, and held."""
        self.holding = False
        """Whether every step holds the last command, until ``release``."""
        self._full = np.stack([self.up, self.down])
        self._prev: Vector | None = None
        """The last command, which steps change in place; with a motion only whether there is one."""
        self._inside = False
        """Whether prev is in the range, where it then stays."""
        self._join()

    def _motion(self, limits: Any) -> Motion | None:
        """The motion under the acceleration of the limits, if they have one, in their own numbers."""
        pair = [getattr(limits, key, None) for key in ("acceleration", "deceleration")]
        if pair[0] is None:
            if pair[1] is not None:
                raise ValueError("the limits have a deceleration without an acceleration: expected both, or neither")
            return None
        faster = _vector(pair[0], len(self.names), "acceleration")
        slower = faster if pair[1] is None else _vector(pair[1], len(self.names), "deceleration")
        for label, values in (("acceleration", faster), ("deceleration", slower)):
            for name, value in zip(self.names, values.tolist(), strict=True):
                if not 0 < value <= LARGEST:
                    raise ValueError(f"{label} of {name!r} is {value}, expected a positive number, {MOST}")
        if self.budget is not None:
            raise ValueError("budget is given, but the limits have an acceleration: expected no budget with one")
        if self.longest != 1:
            raise ValueError(f"longest is {self.longest}, expected 1: with an acceleration limit steps take one period")
        self._accelerations = self._full_accelerations = np.stack([faster, slower])
        grid = make_grid(self, faster, slower)
        return None if grid is None else Motion(grid, self.names)

    def _join(self) -> None:
        """Allocate the buffers and the views of their rows; a step then allocates only its result."""
        d = len(self.names)
        # Row 0 is up, row 1 is down. Full arrays, since numpy takes three times as long to broadcast a column.
        self._signs = np.repeat([[1.0], [-1.0]], d, axis=1)
        self._inward = -np.inf * self._signs
        self._rates, self._signed, self._edges, self._part, self._error, self._from = (
            np.empty((2, d)) for _ in range(6)
        )
        self._top, self._bottom = self._edges
        self._flags, self._nan = np.empty((2, d), bool), np.empty(d, bool)
        self._rise, self._fall = self._part
        self._command, self._before, self._shape = np.empty(d), np.empty(d), (d,)

    def __repr__(self) -> str:
        """Show the joints, their rates, and the budget if there is one."""
        joints = ", ".join(f"{n} +{u:g}/-{d:g}" for n, u, d in zip(self.names, self.up, self.down, strict=True))
        return f"RateLimiter({joints}{'' if self.budget is None else f'; budget {self.budget:g}'})"

    @classmethod
    def from_yaml(cls, path: str | Path, longest: float = 1.0, budget: float | None = None) -> "RateLimiter":
        """Make a limiter from a limits.yaml, bit for bit as ``RateLimits.to_yaml`` writes it; this needs pyyaml."""
        return cls(_from_yaml(path), None, longest, budget)

    def _validate(self) -> None:
        """Refuse invalid limits, since an object other than RateLimits may not have checked them."""
        for i, name in enumerate(self.names):
            low, high, up, down = (float(x[i]) for x in (self.low, self.high, self.up, self.down))
            if not -LARGEST <= low < high <= LARGEST:
                raise ValueError(f"{name!r}: range [{low}, {high}], expected low < high, each {MOST}")
            if not (0 < up <= LARGEST and 0 < down <= LARGEST):
                raise ValueError(f"{name!r}: rates up {up}, down {down}, expected positive numbers, each {MOST}")
            if not max(up, down) * self.longest <= LARGEST:
                raise ValueError(
                    f"longest is {self.longest}: {name!r} moves {max(up, down)} in a nominal step, "
                    f"and a late step may move {MOST}"
                )

    def start(
        self, pose: Sequence[float] | NDArray[Any], velocity: Sequence[float] | NDArray[Any] | None = None
    ) -> None:
        """Start, or restart, from ``pose`` (d,): the measured joint positions, or the last command.

        The limit does not cover this moment: the next command is near ``pose``, wherever the last one was. While the
        drives follow commands, start from the last command. A pose outside the range is accepted; from there a joint
        can only return, within its rate.

        Args:
            pose: joint positions (d,). With an acceleration limit the nearest point of the grid of commands counts.
            velocity: the last increment (d,), for limits with an acceleration; default: at rest.

        Raises:
            ValueError: a joint is too fast to stop within its range.
        """
        pose = _vector(pose, len(self.names), "pose")
        usable = np.abs(pose) <= LARGEST
        if not usable.all():
            i = int(np.argmin(usable))
            raise ValueError(
                f"pose of {self.names[i]!r} is {pose[i]}, expected a finite number, {MOST}: is the encoder read?"
            )
        if self.motion is not None:
            pose = self.motion.start(pose, self._velocity(velocity))
        elif velocity is not None:
            raise ValueError("velocity is given, but these limits have no acceleration")
        self._prev = pose
        self._inside = self._in_range(pose)

    def _velocity(self, given: Sequence[float] | NDArray[Any] | None) -> Vector | None:
        if given is None:
            return None
        velocity = _vector(given, len(self.names), "velocity")
        for name, value in zip(self.names, velocity.tolist(), strict=True):
            if not abs(value) <= LARGEST:
                raise ValueError(f"velocity of {name!r} is {value}, expected a finite number, {MOST}")
        return velocity

    def _in_range(self, pose: Vector) -> bool:
        return bool(((pose >= self.low) & (pose <= self.high)).all())

    @property
    def prev(self) -> Vector:
        """A copy of the last command, (d,)."""
        prev = self._started()
        return prev.copy() if self.motion is None else prev

    @property
    def velocity(self) -> Vector:
        """The last increment, (d,), of a limiter with an acceleration limit; 0 at rest."""
        self._started()
        if self.motion is None:
            raise AttributeError("there is no velocity: these limits have no acceleration")
        return self.motion.velocity * self.motion.full.unit

    @property
    def waiting(self) -> int:
        """The number of joint steps in which a lower deceleration had to wait until the joint could stop by it."""
        return 0 if self.motion is None else self.motion.waiting

    def step(
        self, command: Sequence[float] | NDArray[Any], dt: float | None = None, out: Vector | None = None
    ) -> Vector:
        """Return the point of F_t nearest to ``command``, (d,). NaN holds the joint, infinities saturate.

        Where that exceeds the budget, the steps of all joints are scaled down by the same factor. With an acceleration
        limit a joint goes towards its command as fast as lets it stop there, and to hold means to come to rest first.

        Args:
            command: desired command (d,), any floats.
            dt: measured seconds since the last step; default: one nominal step. A short step moves less, a late one
                at most ``longest`` nominal steps; zero, negative or NaN holds. Refused with an acceleration limit:
                increments of different times are different speeds.
            out: float64 array (d,) to write to; default: a new one.
        """
        prev = self._prev
        if prev is None:
            prev = self._started()
        if out is None:
            out = np.empty_like(prev)
        elif out.shape != prev.shape or out.dtype != np.float64 or not out.flags.writeable:
            # A narrower dtype would round the command that prev keeps.
            raise ValueError(f"out is {out.dtype} {out.shape}, expected writable float64 {prev.shape}")
        if self.motion is not None:
            return self._accelerated(self.motion, command, dt, out)
        if not self.holding:
            limit = self._limit if self.budget is None else self._limit_with_budget
            limit(command, prev, self._full if dt is None else self._scaled(dt))
        out[:] = prev
        return out

    def _accelerated(
        self, motion: Motion, command: Sequence[float] | NDArray[Any], dt: float | None, out: Vector
    ) -> Vector:
        """Move towards ``command`` under the acceleration limit; a hold brakes."""
        if dt is not None:
            raise ValueError(
                f"step got dt {shortened(dt)}, but the limits have an acceleration: its steps take one period; for a "
                "faster loop make a limiter with limits of its dt"
            )
        if not (type(command) is np.ndarray and command.dtype is FLOAT64 and command.shape == self._shape):
            fill(self._command, command, "command")
            command = self._command
        if self.holding:
            return motion.brake(out)
        motion.step(command, out)
        self.nans += motion.nans
        return out

    def _limit(self, command: Sequence[float] | NDArray[Any], prev: Vector, rates: Vector) -> None:
        """Move ``prev``, in place, to the point of F_t nearest to ``command``."""
        wanted = self._command
        fill(wanted, command, "command")
        if self._inside:
            np.minimum(wanted, self.high, out=wanted)
            np.maximum(wanted, self.low, out=wanted)
            # If the rounded difference is below the rate, so is the exact one: rounding is monotone. (False for NaN.)
            np.subtract(wanted, prev, out=self._rise)
            np.subtract(prev, wanted, out=self._fall)
            np.less(self._part, rates, out=self._flags)
            if np.count_nonzero(self._flags) == self._flags.size:
                prev[:] = wanted
                return
        self._clip(wanted, prev, rates)

    def _clip(self, wanted: Vector, prev: Vector, rates: Vector) -> None:
        """Clip to the outermost floats of F_t, as ``boxmath.tight_edges`` computes them, in preallocated buffers."""
        signs, signed, edges, part, error = self._signs, self._signed, self._edges, self._part, self._error
        np.not_equal(wanted, wanted, out=self._nan)
        if nans := np.count_nonzero(self._nan):
            self.nans += int(nans)
            np.copyto(wanted, prev, where=self._nan)
        # TwoSum (Knuth): edges + error = prev +- rates exactly. A sum rounded outward is moved back by one float.
        both = self._from
        both[:] = prev
        np.multiply(rates, signs, out=signed)
        np.add(both, signed, out=edges)
        np.subtract(edges, both, out=part)
        np.subtract(edges, part, out=error)
        np.subtract(both, error, out=error)
        np.subtract(signed, part, out=part)
        np.add(error, part, out=error)
        np.multiply(error, signs, out=error)
        np.less(error, 0.0, out=self._flags)
        np.nextafter(edges, self._inward, out=edges, where=self._flags)
        if not self._inside:  # within the range, and never on the far side of prev
            np.minimum(self._top, self.high, out=self._top)
            np.maximum(self._top, prev, out=self._top)
            np.maximum(self._bottom, self.low, out=self._bottom)
            np.minimum(self._bottom, prev, out=self._bottom)
        np.maximum(wanted, self._bottom, out=wanted)
        np.minimum(wanted, self._top, out=prev)
        self._inside = self._inside or self._in_range(prev)

    def _limit_with_budget(self, command: Sequence[float] | NDArray[Any], prev: Vector, rates: Vector) -> None:
        """Move ``prev`` as ``_limit`` does, within the budget."""
        before, inside = self._before, self._inside
        before[:] = prev
        self._limit(command, prev, rates)
        self._fit_budget(before, prev, rates)
        self._inside = inside or self._in_range(prev)  # a scaled step back towards the range may end outside it

    def _fit_budget(self, before: Vector, command: Vector, rates: Vector) -> None:
        """Scale the step from ``before`` to ``command``, which is in F_t, where it may exceed the budget.

        This is the last operation of Theorem 3 (docs/guarantee.md), with the margins of its proof for float64: each
        step is shortened by more than all rounding errors here, so that F_t and the budget hold exactly.
        """
        (step, size), (spent, slack), budget = self._part, self._error, self.budget or 0.0
        np.subtract(command, before, out=step)
        np.abs(step, out=size)
        spent[:] = 0.0  # a joint that does not move uses no budget, whatever its rate; with a rate of 0 it never moves
        for rate, moving in zip(rates, (step > 0, step < 0), strict=True):
            np.divide(size, rate, out=spent, where=moving)
        bound = float(spent.sum()) * (1 + (len(step) + 8) * EPS) + TINY
        if bound <= budget:
            return
        np.maximum(np.abs(before), np.abs(command), out=slack)
        np.multiply(np.maximum(slack, TINY, out=slack), EPS, out=slack)
        np.multiply(size, budget / bound * (1 - 8 * EPS), out=size)
        np.maximum(np.subtract(size, slack, out=size), 0.0, out=size)
        np.add(before, np.copysign(size, step, out=size), out=command)

    def _scaled(self, dt: float) -> Vector:
        """The rates of a step of ``dt`` seconds, rounded towards 0."""
        if self.dt is None:
            raise ValueError("step got dt, but the limits have none: RateLimiter(limits, dt=0.02)")
        if type(dt) is not float:
            dt = _seconds(dt)  # a float32 quotient would be too coarse
        steps = math.nextafter(dt / self.dt, 0.0) if dt > 0 else 0.0  # the quotient may have rounded up; NaN gives 0
        if dt >= self.dt:
            steps = max(steps, 1.0)
        steps = min(steps, self.longest)
        if steps == 1.0:
            return self._full
        np.multiply(self._full, steps, out=self._rates)
        return np.nextafter(self._rates, 0.0, out=self._rates)

    @property
    def rates(self) -> Vector:
        """A copy of the present rates: largest rise and fall per step, (2, d)."""
        return self._full.copy()

    def derate(self, rates: Mapping[str, float] | None) -> None:
        """Lower the rates of some joints from now on, ``{joint: largest change per step}``; None restores all.

        Other joints keep their rates. A rate above the original limit is that limit; 0 holds the joint. With an
        acceleration limit a joint that is faster brakes to its rate.
        """
        if rates is not None and not isinstance(rates, Mapping):
            raise ValueError(f"rates are {shortened(rates)}, expected {{joint: largest change per step}}, or None")
        full = np.stack([self.up, self.down])
        changed = full if rates is None else self.rates
        for name, rate in (rates or {}).items():
            if name not in self.names:
                raise KeyError(f"unknown joint {name!r}; known joints: {', '.join(self.names)}")
            if not 0 <= _number(rate) <= LARGEST:
                raise ValueError(
                    f"rate of {name!r} is {shortened(rate)}, expected a finite number >= 0, {MOST} (0 holds the joint)"
                )
            i = self.names.index(name)
            changed[:, i] = np.minimum(full[:, i], float(rate))
        self._set_rates(changed)

    def _set_rates(self, rates: Vector) -> None:
        self._full = rates
        if self.motion is not None:
            self.motion.set_rates(*rates)

    @property
    def accelerations(self) -> Vector:
        """A copy of the present acceleration and deceleration per step squared, (2, d), as they were asked for."""
        if self.motion is None:
            raise AttributeError("there are no accelerations: these limits have none")
        return self._accelerations.copy()

    def derate_acceleration(
        self, acceleration: Mapping[str, float] | None, deceleration: Mapping[str, float] | None = None
    ) -> None:
        """Lower the acceleration of some joints from now on, ``{joint: per step squared}``; None restores all.

        Deceleration is lowered to the same numbers unless they are given. A number above the original limit is that
        limit, as in ``derate``. A joint that could not stop in its range by a lower deceleration keeps the old one
        until it can, and brakes until then; ``waiting`` counts these steps.
        """
        if self.motion is None:
            raise ValueError("derate_acceleration is for limits with an acceleration: these have none")
        full = self._full_accelerations
        slower = acceleration if deceleration is None else deceleration
        changed = full.copy() if acceleration is None and deceleration is None else self.accelerations
        for row, values in enumerate((acceleration, slower)):
            if values is not None and not isinstance(values, Mapping):
                raise ValueError(
                    f"accelerations are {shortened(values)}, expected {{joint: per step squared}}, or None"
                )
            for name, value in (values or {}).items():
                if name not in self.names:
                    raise KeyError(f"unknown joint {name!r}; known joints: {', '.join(self.names)}")
                i = self.names.index(name)
                least = 2 * float(self.motion.full.unit[i])
                if not least <= _number(value) <= LARGEST:
                    raise ValueError(
                        f"{('acceleration', 'deceleration')[row]} of {name!r} is {shortened(value)}, expected a number "
                        f">= {least:g}, two units of the grid of commands, {MOST}"
                    )
                changed[row, i] = min(full[row, i], float(value))
        self._accelerations = changed
        self.motion.set_acceleration(*changed)

    def set_accelerations(
        self, accelerations: Sequence[Sequence[float]] | Vector, brakes: Sequence[float] | Vector
    ) -> None:
        """Set what the property ``accelerations`` has, (2, d), and the deceleration in force in grid units, (d,)."""
        if self.motion is None:
            raise ValueError("set_accelerations is for limits with an acceleration: these have none")
        made, force, full = numbers(accelerations), numbers(brakes), self.motion.full
        if made is None or made.shape != self._full_accelerations.shape:
            raise ValueError(f"accelerations have shape {_shape(accelerations)}, expected {self._full.shape}")
        if force is None or force.shape != (len(self.names),):
            raise ValueError(f"brakes have shape {_shape(brakes)}, expected ({len(self.names)},)")
        usable = (made >= 2 * full.unit) & (made <= self._full_accelerations)
        usable &= (force >= 1) & (force <= full.deceleration) & (np.rint(force) == force)
        if not usable.all():
            i = int(np.argwhere(~usable)[0, 1])
            raise ValueError(
                f"accelerations of {self.names[i]!r} are {made[:, i].tolist()} with brakes of {force[i]}, expected at "
                f"least two grid units and at most the limits, and whole brakes of 1 to {full.deceleration[i]:.0f}"
            )
        self._accelerations = made
        self.motion.set_acceleration(*made)
        self.motion.set_brakes(force)

    def set_rates(self, rates: Sequence[Sequence[float]] | Vector) -> None:
        """Set the rates of all joints: largest rise and fall per step, (2, d), as the property ``rates`` has them."""
        made, wanted = numbers(rates), self._full.shape
        if made is None or made.shape != wanted:
            raise ValueError(f"rates have shape {_shape(rates)}, expected numbers of shape {wanted}, finite and >= 0")
        usable = (made >= 0) & (made <= LARGEST)
        if not usable.all():
            where = tuple(np.argwhere(~usable)[0])
            raise ValueError(f"rate of {self.names[where[1]]!r} is {made[where]}, expected a number >= 0, {MOST}")
        self._set_rates(np.minimum(made, np.stack([self.up, self.down])))

    def hold(self) -> None:
        """Hold the last command from now on, whatever is commanded; with an acceleration limit, come to rest first."""
        self.holding = True

    def release(self) -> None:
        """Follow commands again, starting from the last one."""
        self.holding = False

    def _started(self) -> Vector:
        if self._prev is None:
            raise RuntimeError("call start(pose) first: the limit is on the change from the last command")
        return self._prev if self.motion is None else self.motion.command * self.motion.full.unit


def _resolved(limits: "AnyLimits | str | Path") -> "AnyLimits":
    """Limits as a user writes them, as an object that has them; a limits.yaml is read without torch."""
    if isinstance(limits, str | Path):
        if is_yaml(limits):
            return _from_yaml(limits)
        from slewrl.limits.resolve import resolve_limits

        return resolve_limits(limits)
    if missing := [key for key in ("names", "up", "down", "low", "high") if not hasattr(limits, key)]:
        raise ValueError(
            f"limits are {shortened(limits)}, which have no {missing[0]!r}, expected RateLimits, the limits of a "
            "bundle, a limits.yaml, or TASK:PRESET such as 'G1:paper'"
        )
    return limits


def _from_yaml(path: str | Path) -> SimpleNamespace:
    """The limits of a limits.yaml."""
    from slewrl.limits.files import from_yaml
    from slewrl.limits.parse import read_acceleration, read_limits

    read = from_yaml(path)
    limits = read_limits(None, read["low"], read["high"], read["up"], read["down"], None)
    faster, slower = read_acceleration(read.get("acceleration"), read.get("deceleration"), limits, read["dt"])
    return SimpleNamespace(**limits._asdict(), dt=read["dt"], acceleration=faster, deceleration=slower)


def fill(buffer: NDArray[Any], values: Sequence[float] | NDArray[Any], label: str) -> None:
    """Copy values of shape (n,) into a buffer; unlike numpy, do not broadcast."""
    try:
        if len(values) != len(buffer):
            raise ValueError
        buffer[:] = values
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{label} has shape {_shape(values)}, expected numbers of shape {buffer.shape}") from None


def numbers(values: Any) -> Vector | None:
    """Copy values to float64; return None if any is not a real number, such as strings and booleans."""
    try:
        given = np.array(values)
    except ValueError:  # ragged
        return None
    return given.astype(np.float64) if given.dtype.kind in "fiu" else None


def _shape(values: Any) -> Any:
    try:
        return np.shape(values)
    except ValueError:
        return "ragged"


def _vector(values: Sequence[float] | NDArray[Any], d: int, label: str) -> Vector:
    """Copy values to a float64 vector of d entries."""
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (d,):
        raise ValueError(f"{label} has shape {vector.shape}, expected ({d},): one entry per joint")
    return vector


def _seconds(dt: Any) -> float:
    """Convert a measured dt to float; NaN is accepted, and holds."""
    if isinstance(dt, str | bytes | bool) or not hasattr(dt, "__float__"):
        raise ValueError(f"dt is {shortened(dt)}, expected seconds since the last step")
    return float(dt)


def _number(value: Any) -> float:
    """Return a number as it is, and NaN, which is in no range, for anything else."""
    number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    return value if number else math.nan
