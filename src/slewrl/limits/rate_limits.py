"""RateLimits: how far each joint may move in one control step, and where it may be.

    limits = RateLimits(delta=[0.2, 0.5], low=-1.0, high=1.0)
    box = limits.box(prev)                    # F_t, the set of actions allowed after `prev`

Numbers are checked when the object is built and rounded *inward*: a decimal string such as "0.2" means that decimal, a
float means its binary value, and no dtype ever holds a limit wider than the one written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.limits import boxmath
from slewrl.limits.augmented import previous_action, previous_velocity
from slewrl.limits.box import FeasibleBox, LimitTensors, Rounded, eager, round_limits, tighten
from slewrl.limits.boxmath import Number
from slewrl.limits.parse import (
    MIXED,
    UNSAID,
    Values,
    read_acceleration,
    read_groups,
    read_limits,
    read_period,
    read_reset,
)
from slewrl.limits.viability import Grid, make_grid, too_sharp
from slewrl.limits.viable_box import GridTensors, grid_tensors, viable_box

if TYPE_CHECKING:
    from slewrl.limits.rates import Corrections

Edges = Literal["guard", "tight"]
POSITIONS = {"rad", "radian", "radians", "deg", "degree", "degrees", "m", "mm", "metre", "metres", "meter", "meters"}
"""Units of joint positions, for which 0 cannot be assumed as the reset action."""
ENV_ACTION = "env action"
"""The units of the presets for Gymnasium tasks, whose actions are torques."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False, init=False)
class RateLimits:
    """Rate and position limits of d joints. Immutable; arrays are read-only float64.

    Args:
        delta: largest change per control step in either direction, > 0. A number for every joint, a sequence,
            a ``{joint: value}`` mapping, or an array or tensor (..., d) with leading batch dimensions.
        low: lower end of the action range, in the same units and forms (no batch dimension).
        high: upper end of the action range.
        up: largest rise per step where it differs from the largest fall; give with ``down`` instead of delta.
        down: largest fall per step.
        names: joint names, in action order. Default: the keys of the first mapping, else "joint0", "joint1", ...
        groups: one label per joint, or ``{joint: label}``; for tables and plots only.
        dt: control period in seconds, if known; then ``speed`` is delta / dt.
        acceleration: how much the speed of a joint may grow, in the forms of ``low``: per second squared if ``dt`` is
            given, else per control step squared. ``box`` then needs the last increment, too (docs/acceleration.md).
        deceleration: how much it may shrink, where that differs from ``acceleration``.
        units: the unit of the actions ("rad", "normalised torque", ...).
        reset: the action assumed before an episode's first step, in the forms of ``low``, or "middle" for the middle of
            each range. An environment's own reset action takes precedence (docs/integrations/gymnasium.md).

    Raises:
        ValueError: a limit is NaN, infinite, not positive or inverted, or a length does not match.
        KeyError: a mapping names an unknown joint or leaves one out.
    """

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    names: tuple[str, ...]
    groups: tuple[str, ...]
    dt: float | None
    units: str
    reset: NDArray[np.float64] | None
    acceleration: NDArray[np.float64] | None
    """Per control step squared, (d,)."""
    deceleration: NDArray[np.float64] | None
    """Per control step squared, (d,)."""
    grid: Grid | None
    """The limits on the grid of commands, with an acceleration."""
    _rounded: dict[Any, Any] = field(repr=False)

    def __init__(
        self,
        delta: Values | None = None,
        low: Values | None = None,
        high: Values | None = None,
        *,
        up: Values | None = None,
        down: Values | None = None,
        names: Iterable[str] | None = None,
        groups: Iterable[str] | Mapping[str, str] | None = None,
        dt: float | None = None,
        units: str = "action",
        reset: Values | None = None,
        acceleration: Values | None = None,
        deceleration: Values | None = None,
    ) -> None:
        arrays = read_limits(delta, low, high, up, down, names)
        period = read_period(dt)
        faster, slower = read_acceleration(acceleration, deceleration, arrays, period)
        fields: dict[str, Any] = arrays._asdict() | {
            "groups": read_groups(groups, arrays.names),
            "dt": period,
            "units": str(units),
            "reset": None if reset is None else read_reset(reset, arrays),
            "acceleration": faster,
            "deceleration": slower,
            "grid": make_grid(arrays, faster, slower),
            "_rounded": {},
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        with torch.inference_mode(False):
            self._round_all()

    @property
    def delta(self) -> NDArray[np.float64]:
        """The change per step allowed in *both* directions, min(up, down), shape (d,) or (..., d)."""
        return np.minimum(self.up, self.down)

    @property
    def dim(self) -> int:
        """The number of joints d."""
        return len(self.names)

    @property
    def appended(self) -> int:
        """How many entries an augmented observation ends in: d for a_prev, or 2d for v_prev and a_prev."""
        return self.dim if self.grid is None else 2 * self.dim

    @property
    def kappa(self) -> float:
        """The heterogeneity kappa = max delta / min delta (Prop. gradient), >= 1, for joints in one unit."""
        if self.units in (MIXED, UNSAID):
            raise ValueError(
                f"kappa compares rates of one unit, and these limits are in {self.units}; take it of the joints "
                "of one unit, delta[joints].max() / delta[joints].min()"
            )
        return float(self.delta.max() / self.delta.min())

    @property
    def speed(self) -> NDArray[np.float64] | None:
        """delta / dt in units per second, or None when dt is unknown."""
        return None if self.dt is None else self.delta / self.dt

    def box(
        self,
        prev: Tensor | NDArray[Any] | Sequence[float],
        check: bool = True,
        *,
        velocity: Tensor | NDArray[Any] | Sequence[float] | None = None,
        delta: Tensor | NDArray[Any] | Sequence[float] | Mapping[str, float] | None = None,
        edges: Edges = "guard",
    ) -> FeasibleBox:
        """F_t, the set of actions allowed after ``prev``.

        Args:
            prev: the action last executed, (..., d), in the same dtype.
            check: whether to raise on a ``prev`` that is NaN or outside the range. This synchronises with a GPU, so
                training passes False; a joint whose prev is outside the range can then only move back towards it.
            velocity: the last increment, prev minus the action before it, (..., d); 0 at the start. Needed with an
                acceleration limit, and only then.
            delta: rate limits for this step only, such as for a hot motor: (..., d), or ``{joint: value}`` for some
                joints. They can tighten the limits of this object, never widen them; 0 holds a joint.
            edges: "guard" gives up about one ulp of the range per edge and uses only operations that export
                everywhere; "tight" reaches every feasible float.

        Raises:
            ValueError: wrong shape or dtype, a bad prev or delta, or a limit too small for prev's dtype.
        """
        last = self._as_prev(prev)
        if not isinstance(check, bool):
            raise TypeError(f"check is {type(check).__name__}, expected True or False (velocity= is a keyword)")
        limits = self.rounded(last.dtype, last.device, edges)
        if delta is not None:
            limits = self._tightened(limits, self._as_delta(delta).to(last.device), edges == "tight", check)
        if check:
            self._check_prev(last)
        if self.grid is not None or velocity is not None:
            return viable_box(self, last, velocity, limits.exact, delta is not None, check)
        if limits.working.up.ndim > 1:  # one prev under many limits
            last = last.expand(torch.broadcast_shapes(last.shape, limits.working.up.shape))  # type: ignore[no-untyped-call]
        return FeasibleBox(last, limits.working, limits.exact, edges == "tight")

    def box_after(self, observation: Tensor) -> FeasibleBox:
        """F_t of augmented observations (..., n), by the history in them, which is not checked."""
        velocity = None if self.grid is None else previous_velocity(observation, self.dim)
        return self.box(previous_action(observation, self.dim), check=False, velocity=velocity)

    def rounded(self, dtype: torch.dtype, device: torch.device | str = "cpu", edges: Edges = "guard") -> Rounded:
        """The limits rounded for a dtype, on a device; cached.

        On the CPU they are made when this object is built, outside any tracing or inference mode. On another device
        they are made at first use, which should therefore not be inside a compiled function.
        """
        key = (dtype, edges, str(device))
        if key not in self._rounded:
            if (dtype, edges, "cpu") not in self._rounded:
                raise ValueError(
                    f"no limits for dtype {dtype} and edges {edges!r}; expected one of "
                    f"{', '.join(map(str, DTYPES))}, and 'guard' or 'tight'"
                )
            self._rounded[key] = self._moved(self.rounded(dtype, "cpu", edges), device)
        limits = self._rounded[key]
        if isinstance(limits, str):
            raise ValueError(limits)
        return limits

    @eager
    def _moved(self, limits: Rounded, device: torch.device | str) -> Rounded:
        working, exact = (LimitTensors(*(t.to(device) for t in group)) for group in limits[:2])
        return Rounded(working, exact, limits.half_gap.to(device))

    def _round_all(self) -> None:
        """Round the limits for every dtype on the CPU; a dtype that cannot hold them gets the reason instead."""
        arrays = (self.down, self.up, self.low, self.high)
        exact = LimitTensors(*(torch.from_numpy(a.copy()) for a in arrays))
        for dtype in DTYPES:
            for edges in ("guard", "tight"):
                limits = round_limits(exact, dtype, edges == "tight")
                self._rounded[dtype, edges, "cpu"] = self._why_not(limits.working, dtype) or limits

    def on_grid(self, dtype: torch.dtype, device: torch.device | str) -> GridTensors:
        """The limits on the grid of commands, for a dtype on a device; cached."""
        key = ("grid", dtype, str(device))
        if key not in self._rounded:
            self._rounded[key] = grid_tensors(self, dtype, device)
        found: GridTensors = self._rounded[key]
        return found

    def outside(
        self, action: NDArray[Any], prev: NDArray[Any], before: NDArray[Any] | None = None
    ) -> NDArray[np.bool_]:
        """Decide exactly, without torch, which joints of ``action`` (..., d) left F_t(prev); NaN counts as outside.

        With an acceleration limit ``before`` is needed, too: the action before ``prev``; at the start, prev itself.
        For limits of a single step, ``box(prev, delta=...)``, use ``~box.contains(action)``.
        """
        action, prev = np.asarray(action, dtype=np.float64), np.asarray(prev, dtype=np.float64)
        for label, array in (("action", action), ("prev", prev)):
            if array.ndim == 0 or array.shape[-1] != self.dim:
                raise ValueError(f"{label} has shape {array.shape}, expected (..., {self.dim}): one entry per joint")
        with np.errstate(invalid="ignore"):  # infinities are outside, too
            left = boxmath.outside(action, prev, self.down, self.up, self.low, self.high)
        if self.acceleration is None or self.deceleration is None:
            return left
        if before is None:
            raise ValueError(
                "these limits have an acceleration: pass before, the action before prev (at the start: prev itself)"
            )
        return left | too_sharp(action, prev, before, self.acceleration, self.deceleration)

    def clamp(self, position: Tensor | NDArray[Any] | Sequence[float]) -> Tensor:
        """Clip a pose to the action range, in the same dtype, for use as the first ``prev`` after a reset.

        A pose at a joint's stop may lie an ulp beyond it once cast to float32, and ``box`` would refuse it. With an
        acceleration limit the result is the nearest point of the grid of commands.
        """
        pose = self._as_prev(position)
        if self.grid is None:
            working = self.rounded(pose.dtype, pose.device).working
            return torch.clamp(pose, working.low, working.high)
        grid = self.on_grid(pose.dtype, pose.device)
        unit = grid.unit.to(pose.dtype)
        return torch.clamp(torch.round(pose / unit) * unit, grid.working.low, grid.working.high)

    def select(self, joints: Iterable[str]) -> "RateLimits":
        """Return the limits of some joints, in the given order."""
        wanted = tuple(joints)
        for name in wanted:
            if name not in self.names:
                raise KeyError(f"unknown joint {name!r}; these limits have: {', '.join(self.names)}")
        index = [self.names.index(name) for name in wanted]
        arrays = {key: getattr(self, key)[..., index] for key in ("up", "down", "low", "high")}
        accelerations = {key: [values[i] for i in index] for key, values in self._accelerations().items()}
        groups = [self.groups[i] for i in index]
        reset = None if self.reset is None else self.reset[index]
        named = {"names": wanted, "groups": groups, "reset": reset}
        return RateLimits(**self._parts() | arrays | named | accelerations)

    def with_reset(self, reset: Values | None) -> "RateLimits":
        """Return the same limits with another reset action, or none."""
        return RateLimits(**self._parts() | {"reset": reset})

    def with_acceleration(
        self,
        acceleration: Number | Mapping[str, Number | None] | None,
        deceleration: Number | Mapping[str, Number | None] | None = None,
    ) -> "RateLimits":
        """Return the same limits with other accelerations: per second squared if there is a ``dt``, else per step.

        Args:
            acceleration: a number for all joints, or ``{joint: number}``, where a name may be a pattern such as
                ``wrist_*``; "none" for a joint without a limit, or for all. Other joints keep theirs. The deceleration
                is the same where it did not differ.
            deceleration: the same for slowing down, where it differs.

        Raises:
            DatasheetError: some joints would have an acceleration and others not.
        """
        from slewrl.limits.datasheets import Joint
        from slewrl.limits.rates import reaccelerated

        own = self._accelerations()
        faster, slower = (own.get(key, [None] * self.dim) for key in ("acceleration", "deceleration"))
        joints = {
            name: Joint(None, None, None, self.units, False, a, None if a == d else d)
            for name, a, d in zip(self.names, faster, slower, strict=True)
        }
        rates = {name: Fraction(float(rate)) for name, rate in zip(self.names, self.delta, strict=True)}
        changes: Corrections = {"acceleration": acceleration, "deceleration": deceleration}
        parts = {key: value for key, value in self._parts().items() if key not in own}
        return RateLimits(**parts | reaccelerated(joints, rates, self.dt, changes))

    def why_not_zero(self) -> str:
        """Explain why 0 cannot be assumed as the reset action, or return "" if it can.

        It can for the torques of the Gymnasium presets, and for normalised actions: ranges at most 2 wide that are
        symmetric or end at 0, in units that are not those of a position.
        """
        if self.units == ENV_ACTION:
            return ""
        if POSITIONS & set(re.findall(r"[a-z]+", self.units.lower())):
            return f"the limits are in {self.units}"
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not low <= 0 <= high:
                return f"0 is outside the range of {name!r}, [{low:g}, {high:g}]"
            if min(-low, high) > 0 and abs(low + high) > 1e-6 * (high - low):
                return f"the range of {name!r}, [{low:g}, {high:g}], is not symmetric about 0"
            if high - low > 2:
                return f"the range of {name!r}, [{low:g}, {high:g}], may be an angle's"
        return ""

    def __eq__(self, other: object) -> bool:
        """Compare numbers, names, groups, dt, units and reset action."""
        if not isinstance(other, RateLimits):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        """Hash consistently with ``==``."""
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by construction, so that a copy is read-only, too."""
        return partial(RateLimits, **self._parts()), ()

    @classmethod
    def from_urdf(
        cls, path: str | Path, dt: Number, safety: Number = 1, **corrections: Unpack["Corrections"]
    ) -> "RateLimits":
        """Read limits from a URDF: delta = velocity limit * dt * safety, and accelerations times safety, if any.

        Args:
            path: the URDF file.
            dt: control period in seconds.
            safety: share of the datasheet's speeds and accelerations to use, in (0, 1].
            **corrections: ``joints=[name]`` selects joints, in action order (default: every movable, non-mimic joint in
                file order); ``bounds={joint: (low, high)}`` and ``speeds={joint: rad/s or m/s}`` replace those of the
                file; ``acceleration=`` and ``deceleration=`` are rad/s^2 or m/s^2 for all joints, or ``{joint:
                number}``, with "none" for a joint without a limit, or for all; ``exclude=[joint]`` leaves joints out;
                ``continuous=[joint]`` names joints without stops, which get the widest bounds that float32 resolves;
                ``angles="radians"`` or ``"degrees"`` states the unit of a file whose angles look wrong. Names, except
                in ``joints``, may be patterns such as ``wheel_*``.

        Raises:
            DatasheetError: some joints cannot be used; the message names all of them, each with its fix.
        """
        from slewrl.limits import datasheets, files  # here and below: most limits do not come from a file

        return cls(**files.from_sheet(datasheets.read_urdf(path), dt, safety, **corrections).arguments)

    @classmethod
    def from_mjcf(
        cls, path: str | Path, dt: Number, safety: Number = 1, **corrections: Unpack["Corrections"]
    ) -> "RateLimits":
        """Read limits from an MJCF, as ``from_urdf``. It has no speeds: pass ``speeds={joint: rad/s or m/s}``."""
        from slewrl.limits import datasheets, files

        return cls(**files.from_sheet(datasheets.read_mjcf(path), dt, safety, **corrections).arguments)

    @classmethod
    def from_joint_limits_yaml(
        cls,
        path: str | Path,
        dt: Number,
        safety: Number = 1,
        urdf: str | Path | None = None,
        **corrections: Unpack["Corrections"],
    ) -> "RateLimits":
        """Read limits from a ros2_control or MoveIt ``joint_limits.yaml``: delta = max_velocity * dt * safety.

        Where its joints have ``max_acceleration``, so have the limits, times safety. A file in which only some have it
        is refused, unless ``acceleration`` says what holds for the others.

        Args:
            path: the YAML file. Its tags ``!degrees`` and ``!radians`` are understood.
            dt: control period in seconds.
            safety: share of the stated speeds and accelerations to use, in (0, 1].
            urdf: a URDF with the position bounds that the YAML leaves out, as MoveIt files usually do.
            **corrections: as in ``from_urdf``.
        """
        from slewrl.limits import datasheets, files

        sheet = datasheets.read_joint_limits(path, urdf)
        return cls(**files.from_sheet(sheet, dt, safety, **corrections).arguments)

    @classmethod
    def from_yaml(cls, path: str | Path) -> "RateLimits":
        """Read a limits.yaml, as ``to_yaml`` and ``slewrl limits`` write it, bit for bit."""
        from slewrl.limits import files

        return cls(**files.from_yaml(path))

    def to_yaml(self, path: str | Path) -> None:
        """Write the limits as YAML that ``from_yaml`` reads back bit for bit."""
        from slewrl.limits import files

        files.to_yaml(self, path)

    def to_joint_limits_yaml(self, path: str | Path) -> None:
        """Write the limits as a ``joint_limits.yaml`` for ros2_control or MoveIt; needs ``dt``.

        max_velocity is delta / dt rounded down, so that max_velocity * dt never exceeds delta. Where rise and fall
        differ, it is that of the slower one, and a comment in the file says so. An acceleration is written likewise as
        max_acceleration, with max_deceleration where that differs. ``from_joint_limits_yaml`` reads back limits that
        are never wider than these, and at most a few ulps narrower.
        """
        from slewrl.limits import files

        files.to_joint_limits_yaml(self, path)

    @classmethod
    def preset(cls, task: str, name: str) -> "RateLimits":
        """Return the named limits of a task or robot, e.g. ``preset("HalfCheetah-v5", "tight")``."""
        from slewrl.limits import presets

        return presets.preset(task, name)

    def _parts(self) -> dict[str, Any]:
        """The constructor arguments that rebuild this object."""
        keys = ("up", "down", "low", "high", "names", "groups", "dt", "units", "reset")
        return {**{key: getattr(self, key) for key in keys}, **self._accelerations()}

    def _accelerations(self) -> dict[str, list[Fraction]]:
        """The constructor arguments of the acceleration, exactly: per second squared if there is a dt."""
        if self.acceleration is None or self.deceleration is None:
            return {}
        scale = Fraction(1) if self.dt is None else Fraction(self.dt) ** 2
        pairs = {"acceleration": self.acceleration, "deceleration": self.deceleration}
        return {key: [Fraction(float(x)) / scale for x in array] for key, array in pairs.items()}

    def _identity(self) -> tuple[Any, ...]:
        arrays = tuple((a.shape, a.tobytes()) for a in (self.up, self.down, self.low, self.high))
        others = (self.reset, self.acceleration, self.deceleration)
        optional = tuple(None if array is None else array.tobytes() for array in others)
        return (arrays, self.names, self.groups, self.dt, self.units, optional)

    def _as_prev(self, value: Tensor | NDArray[Any] | Sequence[float]) -> Tensor:
        prev = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))  # a list is float64
        if not prev.is_floating_point():
            raise ValueError(f"prev has dtype {prev.dtype}, expected a float tensor (the dtype handed to env.step)")
        if prev.ndim == 0 or prev.shape[-1] != self.dim:
            raise ValueError(f"prev has shape {tuple(prev.shape)}, expected (..., {self.dim}): one entry per joint")
        return prev

    def _as_delta(self, value: Tensor | NDArray[Any] | Sequence[float] | Mapping[str, float]) -> Tensor:
        if isinstance(value, Mapping):
            unknown = [name for name in value if name not in self.names]
            if unknown:
                raise KeyError(f"delta names an unknown joint {unknown[0]!r}; known joints: {', '.join(self.names)}")
            full = self.delta.reshape(-1, self.dim).max(0)
            value = [value.get(name, float(full[i])) for i, name in enumerate(self.names)]
        return value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value, dtype=np.float64))

    def _check_prev(self, prev: Tensor) -> None:
        low, high = (torch.from_numpy(a.copy()).to(prev.device) for a in (self.low, self.high))
        wide = prev.detach().double()
        bad = (~((wide >= low) & (wide <= high))).nonzero()
        if len(bad):
            where = tuple(bad[0].tolist())
            i = where[-1]
            raise ValueError(
                f"prev of {self.names[i]!r} is {prev[where].item()!r} (index {where}), expected a number in "
                f"[{self.low[i]}, {self.high[i]}]; after a reset, start from limits.clamp(pose)"
            )

    def _why_not(self, working: LimitTensors, dtype: torch.dtype) -> str:
        """Why ``dtype`` cannot hold these limits, or "" if it can."""
        largest = boxmath.largest(torch.finfo(dtype))
        most = f"too large for {dtype} (at most {boxmath.as_power(largest)})"
        fastest = np.maximum(self.up, self.down).reshape(-1, self.dim).max(0)
        too_fine = ((working.up <= 0) | (working.down <= 0)).reshape(-1, self.dim).any(0).tolist()
        empty = (working.low >= working.high).tolist()
        for i, name in enumerate(self.names):
            written = f"[{self.low[i]}, {self.high[i]}]"
            if max(-self.low[i], self.high[i]) > largest:
                return f"{name!r}: range {written} is {most}"
            if fastest[i] > largest:
                return f"{name!r}: delta {fastest[i]} is {most}"
            if empty[i]:
                return f"{name!r}: range {written} is empty once rounded to {dtype}"
            if too_fine[i]:
                return (
                    f"{name!r}: delta {self.delta[..., i].min()} is too small to resolve in {dtype} within {written}; "
                    f"use a wider dtype or a larger delta"
                )
        return ""

    def _tightened(self, limits: Rounded, delta: Tensor, tight: bool, check: bool) -> Rounded:
        """The limits tightened for one step. Without ``check`` an invalid or unresolvable delta holds the joint."""
        if delta.ndim == 0 or delta.shape[-1] != self.dim:
            raise ValueError(f"delta has shape {tuple(delta.shape)}, expected (..., {self.dim}): one entry per joint")
        made = tighten(limits, delta.detach(), tight)
        if check:
            dtype = limits.working.low.dtype
            largest = boxmath.largest(torch.finfo(dtype))
            fine = (torch.minimum(made.working.up, made.working.down) > 0) | (delta == 0)
            bad = (~((delta >= 0) & (delta.double() <= largest) & fine)).nonzero()
            if len(bad):
                where = tuple(bad[0].tolist())
                raise ValueError(
                    f"delta of {self.names[where[-1]]!r} is {delta[where].item()!r} (index {where}), expected a "
                    f"positive rate per control step that {dtype} can resolve, at most {boxmath.as_power(largest)}, "
                    "or 0 to hold"
                )
        return made
