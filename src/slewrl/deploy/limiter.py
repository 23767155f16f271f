"""RateLimiter: the last thing before the motors, for any policy. Needs numpy and nothing else.

    limiter = RateLimiter.from_yaml("limits.yaml")
    limiter.start(measured_pose)
    command = limiter.step(wanted)          # in F_t, whatever `wanted` is

Everything is float64, and what comes out lies in

    F_t = [prev - down, prev + up] within [low, high]

in exact arithmetic, not up to rounding (Theorem 1, docs/guarantee.md), and with a budget B for all joints together
sum_i |command_i - prev_i| / rate_i is at most B, as exactly (Theorem 3). `prev` is the command last handed out, so the
only state is what the robot has been told: start again from it, and the commands go on as if nothing had happened.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied
from slewrl.limits.boxmath import LARGEST, as_power

Vector = NDArray[np.float64]
EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
MOST = f"at most {as_power(LARGEST)} in magnitude"
"""So that no sum overflows, for messages."""


class HasLimits(Protocol):
    """What a limiter reads: a RateLimits, a Bundle's limits, or anything with these fields."""

    @property
    def up(self) -> Vector:
        """Largest rise per control step, (d,)."""

    @property
    def down(self) -> Vector:
        """Largest fall per control step, (d,)."""

    @property
    def low(self) -> Vector:
        """Lower end of the range, (d,)."""

    @property
    def high(self) -> Vector:
        """Upper end of the range, (d,)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the joints."""


class RateLimiter(Copied):
    """Moves every command into F_t.

    Args:
        limits: of d joints, one set for all time (rates may be lowered later: ``derate``).
        dt: control period in seconds the rates are for; default: the limits' own. Needed only for ``step(..., dt=)``.
        longest: how many nominal steps' worth a late step may move, >= 1; 1 never makes up for lost time.
        budget: B, how many joints' full rates a step of all of them may add up to, in (0, d], the rates being those of
            that step: lowered, scaled by its dt. None: each joint for itself.
    """

    def __init__(
        self, limits: HasLimits, dt: float | None = None, longest: float = 1.0, budget: float | None = None
    ) -> None:
        self.names, d = tuple(limits.names), len(limits.names)
        self.low, self.high = _vector(limits.low, d, "low"), _vector(limits.high, d, "high")
        self.up, self.down = _vector(limits.up, d, "up"), _vector(limits.down, d, "down")
        self.dt = _period(getattr(limits, "dt", None) if dt is None else dt)
        if not 1 <= _number(longest) < math.inf:
            raise ValueError(f"longest is {_said(longest)}, expected a finite number of nominal steps >= 1")
        self.longest = float(longest)
        self._validate()
        self.budget = _allowance(budget, d)
        self.nans = 0
        """How many joints were held because their command was NaN."""
        self.holding = False
        """Whether every step holds, until ``release``."""
        self._full = np.stack([self.up, self.down])
        self._prev: Vector | None = None
        self._inside = False
        """Whether prev is in the range: then it stays there."""
        self._join()

    def _join(self) -> None:
        """Buffers, and views of their rows: a step allocates nothing but its result."""
        d = len(self.names)
        # Row 0 is up, row 1 is down. Full arrays, for numpy takes thrice as long to repeat a column.
        self._signs = np.repeat([[1.0], [-1.0]], d, axis=1)
        self._inward = -np.inf * self._signs
        self._rates, self._signed, self._edges, self._part, self._error, self._from = (
            np.empty((2, d)) for _ in range(6)
        )
        self._top, self._bottom = self._edges
        self._flags, self._nan = np.empty((2, d), bool), np.empty(d, bool)
        self._rise, self._fall = self._part
        self._command, self._before = np.empty(d), np.empty(d)

    def __repr__(self) -> str:
        """Its joints and their rates, and the budget if there is one."""
        joints = ", ".join(f"{n} +{u:g}/-{d:g}" for n, u, d in zip(self.names, self.up, self.down, strict=True))
        return f"RateLimiter({joints}{'' if self.budget is None else f'; budget {self.budget:g}'})"

    @classmethod
    def from_yaml(cls, path: str | Path, longest: float = 1.0, budget: float | None = None) -> "RateLimiter":
        """A limiter for the limits in a file that ``slewrl limits`` or ``RateLimits.to_yaml`` wrote, bit for bit.

        Needs pyyaml besides numpy.
        """
        from slewrl.limits.files import from_yaml
        from slewrl.limits.parse import read_limits

        said = from_yaml(path)
        limits = read_limits(None, said["low"], said["high"], said["up"], said["down"], None)
        return cls(limits, said["dt"], longest, budget)

    def _validate(self) -> None:
        """Refuse limits that limit nothing: whatever gave them may not have checked them."""
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

    # ------------------------------------------------------------------ before the first step

    def start(self, pose: Sequence[float] | NDArray[Any]) -> None:
        """Begin, or begin again, from where the joints are or from the command last handed out; (d,).

        This is the one moment the limit does not cover: the next command is near ``pose``, wherever the last one was.
        While a drive follows commands, start from the last of them. A pose outside the range is taken as it is: from
        there a joint may only come back, within its rate.
        """
        pose = _vector(pose, len(self.names), "pose")
        usable = np.abs(pose) <= LARGEST
        if not usable.all():
            i = int(np.argmin(usable))
            raise ValueError(
                f"pose of {self.names[i]!r} is {pose[i]}, expected a finite number, {MOST}: is the encoder read?"
            )
        self._prev = pose
        self._inside = self._in_range(pose)

    def _in_range(self, pose: Vector) -> bool:
        return bool(((pose >= self.low) & (pose <= self.high)).all())

    @property
    def prev(self) -> Vector:
        """The command last handed out, (d,); a copy."""
        return self._begun().copy()

    # ------------------------------------------------------------------ every step

    def step(
        self, command: Sequence[float] | NDArray[Any], dt: float | None = None, out: Vector | None = None
    ) -> Vector:
        """The command nearest to ``command`` that is in F_t, (d,); NaN holds that joint, infinities saturate.

        Where that is over the budget, every joint goes the same part of its way.

        Args:
            command: what is wanted, (d,), any floats.
            dt: seconds since the last step, if they were measured: a short step moves less, a late one no more than
                ``longest`` nominal steps; zero, negative or NaN holds.
            out: array (d,) to write to instead of a new one.
        """
        prev = self._begun()
        if out is None:
            out = np.empty_like(prev)
        elif out.shape != prev.shape or out.dtype != np.float64 or not out.flags.writeable:
            # A narrower one would round what prev keeps.
            raise ValueError(f"out is {out.dtype} {out.shape}, expected writable float64 {prev.shape}")
        if not self.holding:
            limit = self._limit if self.budget is None else self._limit_together
            limit(command, prev, self._full if dt is None else self._scaled(dt))
        out[:] = prev
        return out

    def _limit(self, command: Sequence[float] | NDArray[Any], prev: Vector, rates: Vector) -> None:
        """Move ``prev``, in place, to the nearest of F_t."""
        wanted = self._command
        fill(wanted, command, "command")
        if self._inside:
            np.minimum(wanted, self.high, out=wanted)
            np.maximum(wanted, self.low, out=wanted)
            # A difference that rounds to less than the rate is less: rounding keeps order. (False for NaN.)
            np.subtract(wanted, prev, out=self._rise)
            np.subtract(prev, wanted, out=self._fall)
            np.less(self._part, rates, out=self._flags)
            if np.count_nonzero(self._flags) == self._flags.size:
                prev[:] = wanted
                return
        self._clip(wanted, prev, rates)

    def _clip(self, wanted: Vector, prev: Vector, rates: Vector) -> None:
        """As ``boxmath.tight_edges``, into buffers: clip to the outermost floats of F_t."""
        signs, signed, edges, part, error = self._signs, self._signed, self._edges, self._part, self._error
        np.not_equal(wanted, wanted, out=self._nan)
        if nans := np.count_nonzero(self._nan):
            self.nans += int(nans)
            np.copyto(wanted, prev, where=self._nan)
        # TwoSum (Knuth): edges + error = prev +- rates exactly. A sum that rounded outward steps back one float.
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

    def _limit_together(self, command: Sequence[float] | NDArray[Any], prev: Vector, rates: Vector) -> None:
        """As ``_limit``, and within the budget."""
        before, inside = self._before, self._inside
        before[:] = prev
        self._limit(command, prev, rates)
        self._pull(before, prev, rates)
        self._inside = inside or self._in_range(prev)  # a joint pulled on its way back may be outside still

    def _pull(self, before: Vector, command: Vector, rates: Vector) -> None:
        """Where ``command``, in F_t of ``before``, could be over the budget, pull every joint back by the same factor.

        The last operation of Theorem 3 (docs/guarantee.md), whose proof has these margins, for float64: what is left
        of each move is rounded down by more than all roundings here, so F_t and the budget hold in exact arithmetic.
        """
        (step, size), (spent, slack), budget = self._part, self._error, self.budget or 0.0
        np.subtract(command, before, out=step)
        np.abs(step, out=size)
        spent[:] = 0.0  # a joint that stays spends nothing, whatever its rate: one of 0 stays
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
        """The rates of a step that took ``dt`` seconds, rounded towards 0."""
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

    # ------------------------------------------------------------------ now and then

    @property
    def rates(self) -> Vector:
        """Largest rise and fall per step as they are now, (2, d); a copy."""
        return self._full.copy()

    def derate(self, rates: Mapping[str, float] | None) -> None:
        """Lower the rates of some joints from now on, ``{joint: largest change per step}``; None restores all.

        The others keep what they have. A rate never exceeds the limits this was made with. 0 holds a joint.
        """
        if rates is not None and not isinstance(rates, Mapping):
            raise ValueError(f"rates are {_said(rates)}, expected {{joint: largest change per step}}, or None")
        full = np.stack([self.up, self.down])
        changed = full if rates is None else self.rates
        for name, rate in (rates or {}).items():
            if name not in self.names:
                raise KeyError(f"unknown joint {name!r}; known joints: {', '.join(self.names)}")
            if not 0 <= _number(rate) <= LARGEST:
                raise ValueError(
                    f"rate of {name!r} is {_said(rate)}, expected a finite number >= 0, {MOST} (0 holds the joint)"
                )
            i = self.names.index(name)
            changed[:, i] = np.minimum(full[:, i], float(rate))
        self._full = changed

    def set_rates(self, rates: Sequence[Sequence[float]] | Vector) -> None:
        """As ``derate``, for all joints at once: largest rise and fall, (2, d), such as ``rates`` gave before."""
        made, wanted = numbers(rates), self._full.shape
        if made is None or made.shape != wanted:
            raise ValueError(f"rates have shape {_shape(rates)}, expected numbers of shape {wanted}, finite and >= 0")
        usable = (made >= 0) & (made <= LARGEST)
        if not usable.all():
            where = tuple(np.argwhere(~usable)[0])
            raise ValueError(f"rate of {self.names[where[1]]!r} is {made[where]}, expected a number >= 0, {MOST}")
        self._full = np.minimum(made, np.stack([self.up, self.down]))

    def hold(self) -> None:
        """Stay where the last command was, from now on, whatever is asked for."""
        self.holding = True

    def release(self) -> None:
        """Follow commands again, from the one last handed out."""
        self.holding = False

    def _begun(self) -> Vector:
        if self._prev is None:
            raise RuntimeError("start(pose) comes first: the limit is on the change from somewhere")
        return self._prev


def fill(buffer: NDArray[Any], values: Sequence[float] | NDArray[Any], label: str) -> None:
    """Copy into a buffer (n,) what has that very shape: numpy alone would repeat a single number."""
    try:
        if len(values) != len(buffer):
            raise ValueError
        buffer[:] = values
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{label} has shape {_shape(values)}, expected numbers of shape {buffer.shape}") from None


def numbers(values: Any) -> Vector | None:
    """A copy, float64; None of what holds anything but real numbers, such as strings and booleans."""
    try:
        given = np.array(values)
    except ValueError:  # of different lengths
        return None
    return given.astype(np.float64) if given.dtype.kind in "fiu" else None


def _shape(values: Any) -> Any:
    try:
        return np.shape(values)
    except ValueError:
        return "ragged"


def _vector(values: Sequence[float] | NDArray[Any], d: int, label: str) -> Vector:
    """A copy, float64."""
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (d,):
        raise ValueError(f"{label} has shape {vector.shape}, expected ({d},): one entry per joint")
    return vector


def _period(dt: float | None) -> float | None:
    if dt is not None and not 0 < _number(dt) < math.inf:
        raise ValueError(f"dt is {_said(dt)}, expected a positive control period in seconds")
    return None if dt is None else float(dt)


def _allowance(budget: float | None, d: int) -> float | None:
    if budget is not None and not 0 < _number(budget) <= d:
        raise ValueError(
            f"budget is {_said(budget)}, expected a number in (0, {d}]: joints at full rate at once, or None"
        )
    return None if budget is None else float(budget)


def _seconds(dt: Any) -> float:
    """Of a step: any number, NaN too, which holds."""
    if isinstance(dt, str | bytes | bool) or not hasattr(dt, "__float__"):
        raise ValueError(f"dt is {_said(dt)}, expected seconds since the last step")
    return float(dt)


def _number(value: Any) -> float:
    """Itself; NaN, which is in no range, of what is no number."""
    number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    return value if number else math.nan


def _said(value: Any) -> str:
    """What was given, for a message."""
    return repr(value)[:60]
