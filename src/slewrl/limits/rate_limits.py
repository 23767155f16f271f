"""RateLimits: how far each joint may move in one control step, and where it may be.

    limits = RateLimits(delta=[0.2, 0.5], low=-1.0, high=1.0)
    box = limits.box(prev)                    # F_t, the set of actions allowed after `prev`

Numbers are checked when the object is built and rounded *inward*: a decimal string such as "0.2" means the
decimal, a float means its own bits, and no dtype ever holds a limit wider than what was written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.limits import boxmath
from slewrl.limits.augmented import previous_action
from slewrl.limits.box import FeasibleBox, LimitTensors, Rounded, eager, round_limits, tighten
from slewrl.limits.boxmath import Number
from slewrl.limits.parse import MIXED, UNSAID, Values, read_groups, read_limits, read_period, read_reset
from slewrl.limits.rates import Beside

Edges = Literal["guard", "tight"]
POSITIONS = {"rad", "radian", "radians", "deg", "degree", "degrees", "m", "mm", "metre", "metres", "meter", "meters"}
"""Units of a joint's position, of which 0 is one like any other."""
ENV_ACTION = "env action"
"""Units of our presets for Gymnasium's tasks: torques."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False, init=False)
class RateLimits:
    """Rate and position limits of d joints. Immutable; arrays are read-only float64.

    Args:
        delta: largest change per control step in either direction, > 0. A number for every joint, a sequence,
            a ``{joint: value}`` mapping, or an array/tensor (..., d) whose leading dimensions vary by sample.
        low: lower end of the action range, in the same units and forms (no batch dimension).
        high: upper end of the action range.
        up: largest rise per step where it differs from the largest fall; give with ``down`` instead of delta.
        down: largest fall per step.
        names: joint names, in action order. Default: the keys of the first mapping, else "joint0", "joint1", ...
        groups: one label per joint, or ``{joint: label}``; for tables and plots only.
        dt: control period in seconds, if known; then ``speed`` is delta / dt.
        units: what one unit of action is ("rad", "normalised torque", ...).
        reset: where the joints are before an episode's first step, in the forms of ``low``, or "middle" for the middle
            of each range. Environments that know better come first (docs/integrations/gymnasium.md).

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
    _rounded: dict[Any, Rounded | str] = field(repr=False)

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
    ) -> None:
        arrays = read_limits(delta, low, high, up, down, names)
        joints = arrays.names
        period, start = read_period(dt), None if reset is None else read_reset(reset, arrays)
        fields: dict[str, Any] = dict(groups=read_groups(groups, joints), dt=period, units=str(units), reset=start)
        fields["_rounded"] = {}
        for key, value in {**arrays._asdict(), **fields}.items():
            object.__setattr__(self, key, value)
        with torch.inference_mode(False):
            self._round_all()

    # ------------------------------------------------------------------ what the limits are

    @property
    def delta(self) -> NDArray[np.float64]:
        """The change per step allowed in *both* directions, min(up, down), shape (d,) or (..., d)."""
        return np.minimum(self.up, self.down)

    @property
    def dim(self) -> int:
        """The number of joints d."""
        return len(self.names)

    @property
    def kappa(self) -> float:
        """Heterogeneity kappa = max delta / min delta (Prop. gradient), >= 1; of joints in one unit.

        Raises:
            ValueError: some joints are in metres and some in radians, or may be.
        """
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

    # ------------------------------------------------------------------ the feasible set

    def box(
        self,
        prev: Tensor | NDArray[Any] | Sequence[float],
        check: bool = True,
        *,
        delta: Tensor | NDArray[Any] | Sequence[float] | Mapping[str, float] | None = None,
        edges: Edges = "guard",
    ) -> FeasibleBox:
        """F_t, the set of actions allowed after ``prev``.

        Args:
            prev: the action last handed to the environment, in the very dtype it was handed over in, (..., d).
            check: raise on a ``prev`` that is NaN or outside the range. Reading the values synchronises with a
                GPU, so training passes False; a prev outside the range may then only come back towards it.
            delta: limits of this step, for a hot motor or a sagging battery: (..., d), or ``{joint: value}`` for
                some joints. They can only tighten the limits of this object, never widen them; 0 holds a joint.
            edges: "guard" gives up about one ulp of the range per edge and needs no special instruction, so it
                exports anywhere; "tight" reaches every feasible float.

        Raises:
            ValueError: wrong shape or dtype, a bad prev or delta, or a limit too small for prev's dtype.
        """
        last = self._as_prev(prev)
        limits = self.rounded(last.dtype, last.device, edges)
        if delta is not None:
            limits = self._tightened(limits, self._as_delta(delta).to(last.device), edges == "tight", check)
        if check:
            self._check_prev(last)
        if limits.working.up.ndim > 1:  # one prev under many limits
            last = last.expand(torch.broadcast_shapes(last.shape, limits.working.up.shape))  # type: ignore[no-untyped-call]
        return FeasibleBox(last, limits.working, limits.exact, edges == "tight")

    def box_after(self, observation: Tensor) -> FeasibleBox:
        """F_t of augmented observations (..., n), by the previous action in them, which is not checked."""
        return self.box(previous_action(observation, self.dim), check=False)

    def rounded(self, dtype: torch.dtype, device: torch.device | str = "cpu", edges: Edges = "guard") -> Rounded:
        """The limits made ready for a dtype on a device; made once.

        On the CPU that is when this object is built, so that neither a tracer nor an inference mode can be part of
        it; on another device, at the first use, which should therefore not be inside a compiled function.
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
        """Fill the table of rounded limits for the CPU; a dtype that cannot hold them gets the reason instead."""
        arrays = (self.down, self.up, self.low, self.high)
        exact = LimitTensors(*(torch.from_numpy(a.copy()) for a in arrays))
        for dtype in DTYPES:
            for edges in ("guard", "tight"):
                limits = round_limits(exact, dtype, edges == "tight")
                self._rounded[dtype, edges, "cpu"] = self._why_not(limits.working, dtype) or limits

    def outside(self, action: NDArray[Any], prev: NDArray[Any]) -> NDArray[np.bool_]:
        """Which joints of ``action`` (..., d) left F_t(prev), decided exactly, without torch; NaN counts.

        For limits of one step (``box(prev, delta=...)``) ask that box: ``~box.contains(action)``.
        """
        action, prev = np.asarray(action, dtype=np.float64), np.asarray(prev, dtype=np.float64)
        for label, array in (("action", action), ("prev", prev)):
            if array.ndim == 0 or array.shape[-1] != self.dim:
                raise ValueError(f"{label} has shape {array.shape}, expected (..., {self.dim}): one entry per joint")
        result: NDArray[np.bool_] = boxmath.outside(action, prev, self.down, self.up, self.low, self.high)
        return result

    def clamp(self, position: Tensor) -> Tensor:
        """The nearest action within the range, in the same dtype: what to start from after a reset.

        A pose on a joint's stop, cast to float32, may lie an ulp beyond it, and ``box`` would refuse it as prev.
        """
        working = self.rounded(position.dtype, position.device).working
        return torch.clamp(self._as_prev(position), working.low, working.high)

    def select(self, joints: Iterable[str]) -> "RateLimits":
        """The same limits for some joints, in the order given."""
        wanted = tuple(joints)
        for name in wanted:
            if name not in self.names:
                raise KeyError(f"unknown joint {name!r}; these limits have: {', '.join(self.names)}")
        index = [self.names.index(name) for name in wanted]
        return RateLimits(
            up=self.up[..., index],
            down=self.down[..., index],
            low=self.low[index],
            high=self.high[index],
            names=wanted,
            groups=[self.groups[i] for i in index],
            dt=self.dt,
            units=self.units,
            reset=None if self.reset is None else self.reset[index],
        )

    def with_reset(self, reset: Values | None) -> "RateLimits":
        """The same limits with another reset action; None for none."""
        return RateLimits(**self._parts() | {"reset": reset})

    def why_not_zero(self) -> str:
        """Why a joint cannot be taken to be at 0 before the first step, or "" if 0 is clearly meant.

        It is of our presets' torques, and of normalised actions: ranges within [-1, 1] that are symmetric or end at 0,
        in units that are no position's.
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
        """Same numbers, names, groups, dt, units and reset action."""
        if not isinstance(other, RateLimits):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        """Consistent with ``==``."""
        return hash(self._identity())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by building anew, so that a copy is as read-only as the original."""
        return partial(RateLimits, **self._parts()), ()

    # ------------------------------------------------------------------ where limits come from

    @classmethod
    def from_urdf(
        cls,
        path: str | Path,
        dt: Number,
        safety: Number = 1,
        joints: Iterable[str] | None = None,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        **said: Unpack[Beside],
    ) -> "RateLimits":
        """delta = velocity limit * dt * safety, from a URDF.

        Args:
            path: the URDF file.
            dt: control period in seconds.
            safety: share of the datasheet speed to use, in (0, 1].
            joints: which joints, in action order. Default: every movable, non-mimic joint in file order.
            bounds: {joint: (low, high)} in rad or m, instead of what the file says. Here and below a name may be a
                pattern such as ``wheel_*``.
            **said: ``speeds={joint: rad/s or m/s}``, instead of what the file says; ``exclude=[joint]``, to leave out;
                ``continuous=[joint]``, for joints without stops, whose bounds are then where float32 would no longer
                resolve a step; ``angles="radians"`` or ``"degrees"``, the unit of a file that is refused because its
                angles cannot be radians.

        Raises:
            DatasheetError: a ValueError that names every joint that cannot be used, and what to do about each.
        """
        from slewrl.limits import files

        return cls(**files.from_urdf(path, dt, safety, joints, bounds, **said))

    @classmethod
    def from_mjcf(
        cls,
        path: str | Path,
        dt: Number,
        safety: Number = 1,
        joints: Iterable[str] | None = None,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        **said: Unpack[Beside],
    ) -> "RateLimits":
        """As ``from_urdf``, from an MJCF, which has no speeds: give them as ``speeds={joint: rad/s or m/s}``."""
        from slewrl.limits import files

        return cls(**files.from_mjcf(path, dt, safety, joints, bounds, **said))

    @classmethod
    def from_joint_limits_yaml(
        cls,
        path: str | Path,
        dt: Number,
        safety: Number = 1,
        urdf: str | Path | None = None,
        joints: Iterable[str] | None = None,
        bounds: Mapping[str, tuple[Number, Number]] | None = None,
        **said: Unpack[Beside],
    ) -> "RateLimits":
        """delta = max_velocity * dt * safety, from a ros2_control or MoveIt ``joint_limits.yaml``.

        Args:
            path: the YAML file. Its tags ``!degrees`` and ``!radians`` are understood.
            dt: control period in seconds.
            safety: share of the stated speed to use, in (0, 1].
            urdf: where to read position bounds the YAML leaves out (MoveIt files usually do).
            joints: as in ``from_urdf``.
            bounds: as in ``from_urdf``.
            **said: as in ``from_urdf``.
        """
        from slewrl.limits import files

        return cls(**files.from_joint_limits_yaml(path, dt, safety, urdf, joints, bounds, **said))

    @classmethod
    def from_yaml(cls, path: str | Path) -> "RateLimits":
        """Read what ``to_yaml`` wrote (or a person, in that format); bit-for-bit."""
        from slewrl.limits import files

        return cls(**files.from_yaml(path))

    def to_yaml(self, path: str | Path) -> None:
        """Write the limits as YAML that ``from_yaml`` reads back bit-for-bit."""
        from slewrl.limits import files

        files.to_yaml(self, path)

    def to_joint_limits_yaml(self, path: str | Path) -> None:
        """Write the limits as a ``joint_limits.yaml`` for ros2_control or MoveIt; needs ``dt``.

        max_velocity = delta / dt rounded down, so that max_velocity * dt is never above delta; where rise and fall
        differ, the slower one's (ROS has one speed per joint), which the file says. ``from_joint_limits_yaml`` reads
        limits from it that are never wider than these, and a few ulps narrower at most.
        """
        from slewrl.limits import files

        files.to_joint_limits_yaml(self, path)

    @classmethod
    def preset(cls, task: str, name: str) -> "RateLimits":
        """A named row of the paper's constraint tables, e.g. ``preset("HalfCheetah-v5", "tight")``."""
        from slewrl.limits import presets

        return presets.preset(task, name)

    # ------------------------------------------------------------------ checks

    def _parts(self) -> dict[str, Any]:
        """What it is made of, as arguments."""
        keys = ("up", "down", "low", "high", "names", "groups", "dt", "units", "reset")
        return {key: getattr(self, key) for key in keys}

    def _identity(self) -> tuple[Any, ...]:
        arrays = tuple((a.shape, a.tobytes()) for a in (self.up, self.down, self.low, self.high))
        reset = None if self.reset is None else self.reset.tobytes()
        return (arrays, self.names, self.groups, self.dt, self.units, reset)

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
            own = self.delta.reshape(-1, self.dim).max(0)
            value = [value.get(name, float(own[i])) for i, name in enumerate(self.names)]
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
        """Limits for this step only. Without ``check`` a bad or unresolvable delta holds the joint."""
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
