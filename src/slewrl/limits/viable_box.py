"""The feasible box under acceleration limits: the commands after which every joint can still stop in its range."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.limits import boxmath, viability
from slewrl.limits.box import FeasibleBox, LimitTensors, plain_autograd


class GridTensors(NamedTuple):
    """A ``viability.Grid`` as float64 tensors on one device, and what a box needs besides; (d,) each."""

    unit: Tensor
    up: Tensor
    down: Tensor
    acceleration: Tensor
    deceleration: Tensor
    low: Tensor
    high: Tensor
    working: LimitTensors
    """Rates and range on the grid, in the dtype of the commands."""
    exact: tuple[Tensor, Tensor]
    """Acceleration and deceleration per step as the user wrote them; ``contains`` decides by them."""


def grid_tensors(limits: Any, dtype: torch.dtype, device: torch.device | str) -> GridTensors:
    """The grid of ``limits``, a RateLimits, for commands of a dtype."""
    if dtype in (torch.float32, torch.float64) and (limits.grid.unit < torch.finfo(dtype).tiny).any():
        raise ValueError(f"the grid of commands, {limits.grid.unit.min():g}, is too fine for {dtype}: scale the action")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"prev has dtype {dtype}, expected float32 or float64 with an acceleration limit")
    with torch.inference_mode(False):
        made = {key: torch.from_numpy(x.copy()).to(device) for key, x in limits.grid._asdict().items()}
        if np.array_equal(limits.grid.acceleration, limits.grid.deceleration):
            made["deceleration"] = made["acceleration"]
        working = (made["unit"] * made[key] for key in ("down", "up", "low", "high"))
        exact = (torch.from_numpy(x.copy()).to(device) for x in (limits.acceleration, limits.deceleration))
        return GridTensors(**made, working=LimitTensors(*(x.to(dtype) for x in working)), exact=tuple(exact))  # type: ignore[arg-type]


def viable_box(
    limits: Any, prev: Tensor, velocity: Any, exact: LimitTensors, lowered: bool, check: bool
) -> "ViableBox":
    """F_t under the acceleration limits of ``limits``, a RateLimits, and ``exact``, its limits in this step.

    Args:
        limits: limits with an acceleration.
        prev: the last command, (..., d).
        velocity: the last increment, (..., d).
        exact: the limits of this step, as written.
        lowered: whether its rates are those of this step alone.
        check: whether to refuse a history that cannot be.

    Raises:
        ValueError: the velocity is missing, or no joint could stop from it (with ``check``).
    """
    if limits.grid is None:
        raise ValueError("velocity is given, but these limits have no acceleration")
    if velocity is None:
        raise ValueError(
            "these limits have an acceleration: pass velocity, the last increment (0 at the start), or take "
            "limits.box_after(observation)"
        )
    grid = limits.on_grid(prev.dtype, prev.device)
    last = torch.as_tensor(velocity, dtype=prev.dtype, device=prev.device).detach()
    if last.ndim == 0 or last.shape[-1] != limits.dim:
        raise ValueError(f"velocity has shape {tuple(last.shape)}, expected (..., {limits.dim}): one entry per joint")
    prev = prev.detach()  # no gradient
    if prev.shape != last.shape:
        prev, last = torch.broadcast_tensors(prev, last)  # type: ignore[no-untyped-call]
    if lowered:
        rates = [((rate / grid.unit).floor() - 1).clamp_min(0) for rate in (exact.down, exact.up)]
        down, up = torch.minimum(rates[0], grid.down), torch.minimum(rates[1], grid.up)
        working = grid.working._replace(down=(down * grid.unit).to(prev.dtype), up=(up * grid.unit).to(prev.dtype))
        grid = grid._replace(down=down, up=up, working=working)
    box = ViableBox(prev, grid.working, exact, False, last, grid)
    if check:
        _check_history(limits.names, box)
    return box


def _check_history(names: tuple[str, ...], box: "ViableBox") -> None:
    """Refuse commands off the grid, and a velocity from which a joint could not stop."""
    grid, command, velocity = box.grid, box.units(box.prev), box.units(box.velocity)
    for label, values, whole in (("prev", box.prev, command), ("velocity", box.velocity, velocity)):
        if len(bad := (whole * grid.unit != values.double()).nonzero()):
            where = tuple(bad[0].tolist())
            raise ValueError(
                f"{label} of {names[where[-1]]!r} is {values[where].item()!r}, expected a multiple of "
                f"{grid.unit[where[-1]].item()!r}, the grid of commands; start from limits.clamp(pose) with velocity 0"
            )
    below, above = command - grid.low, grid.high - command
    fine = viability.stops_in_time(velocity, below, above, grid.deceleration, xp=torch)
    if len(bad := (~fine).nonzero()):
        where = tuple(bad[0].tolist())
        i = where[-1]
        slower = viability.brake(velocity, grid.deceleration, xp=torch)
        distance = (viability.stopping_distance(slower, grid.deceleration, xp=torch) * grid.unit)[where].item()
        room = (torch.where(slower > 0, above, below) * grid.unit)[where].item()
        raise ValueError(
            f"velocity of {names[i]!r} is {box.velocity[where].item():g} per step: braking takes {distance:g} more, "
            f"and there is {room:g} left to the end of its range"
        )


@dataclass(frozen=True, eq=False)
class ViableBox(FeasibleBox):
    """F_t = prev + [bottom, top] of ``viability.increments``, with edges on the grid of commands.

    Built by ``RateLimits.box(prev, velocity=...)`` of limits with an acceleration. ``prev`` is on the grid.
    """

    velocity: Tensor = None  # type: ignore[assignment]
    """The last increment, prev minus the action before it; 0 at rest; (..., d), in prev's dtype."""
    grid: GridTensors = None  # type: ignore[assignment]

    @property
    def anchor(self) -> Tensor:
        """The brake point: where full braking leads in this step, and prev for a joint at rest; (..., d)."""
        return torch.clamp(self.prev, self.low, self.high)

    def _make_edges(self) -> list[Tensor]:
        if self._plain():
            return [torch.from_numpy(edge) for edge in numpy_edges(self.prev.numpy(), self.velocity.numpy(), self.grid)]
        unit, low, high = self.grid.unit, self.grid.low, self.grid.high
        command, velocity = (self.units(x) for x in (self.prev, self.velocity))
        below, above = (command - low).clamp_min(0), (high - command).clamp_min(0)
        edges = viability.increments(velocity, below, above, self.grid, xp=torch)
        return [((command + edge) * unit).to(self.prev.dtype) for edge in edges]

    def _plain(self) -> bool:
        """Whether numpy may compute the edges in the tensors' memory, which takes a quarter of the time."""
        tensors = (self.prev, self.velocity, self.grid.unit)
        return (
            plain_autograd()
            and not torch._C._get_tracing_state()
            and all(type(x) is Tensor and x.device.type == "cpu" for x in tensors)
            and self.prev.shape == self.velocity.shape
            and self.grid.up.ndim == self.grid.down.ndim == 1
            and not self.prev.requires_grad
        )

    def units(self, values: Tensor) -> Tensor:
        """Values (..., d) as whole grid units in float64, each the nearest."""
        return torch.round(values.detach().double() / self.grid.unit)

    def contains(self, action: Tensor) -> Tensor:
        """Whether ``action`` keeps rate, range and acceleration, decided in exact arithmetic, per joint (..., d).

        ``action`` and ``prev`` are commands on the grid, so that their difference is exact in float64.
        """
        wide, prev = action.double(), self.prev.double()
        least, most = viability.reachable(self.velocity.double(), *self.grid.exact, xp=torch)
        within = (wide - prev >= least) & (wide - prev <= most) & ~boxmath.outside(wide, prev, *self.exact)
        # Above a rate that was lowered, full braking is what is allowed.
        slower = viability.brake(self.units(self.velocity), self.grid.deceleration, xp=torch)
        braking = wide == (self.units(self.prev) + slower) * self.grid.unit
        return within | (braking & (wide >= self.exact.low) & (wide <= self.exact.high))

    def round(self, command: Tensor) -> Tensor:
        """The grid point nearest to ``command`` (..., d), with the gradient of the identity."""
        rounded: Tensor = _Round.apply(command, self.grid.unit.to(command.dtype))  # type: ignore[no-untyped-call]
        return rounded

    def clamp(self, command: Tensor) -> Tensor:
        """Move towards ``command`` (..., d) as fast as allows to stop there, and not beyond; NaN brakes.

        The gradient is 1 for joints that get there in this step, and 0 for the others.
        """
        target = torch.where(command == command, command.to(self.prev.dtype), self.prev)
        grid, command = self.grid, self.units(self.prev)
        aim = torch.minimum(torch.maximum(self.units(target), grid.low), grid.high)
        way = aim - command
        step = torch.sign(way) * viability.fastest(way.abs(), grid.deceleration, xp=torch)
        moved = torch.clamp(((command + step) * grid.unit).to(self.prev.dtype), self.low, self.high)
        reached: Tensor = _Reach.apply(target, moved, moved == aim * grid.unit)  # type: ignore[no-untyped-call]
        return reached

    def radius(self, latent: Tensor) -> Tensor:
        """The distance from the anchor to the edge on the latent's side, (..., d)."""
        return torch.where(latent >= 0, self.high - self.anchor, self.anchor - self.low)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw a command uniformly from F_t, shape (..., d)."""
        return torch.clamp(self.round(super().sample(generator)), self.low, self.high)


class Spread(NamedTuple):
    """A grid broadcast to a batch (N, d) in memory and in a dtype: numpy is faster on arrays of one kind.

    Whole numbers of grid units below 2^24 are exact in float32, too; stopping distances are not, and are computed in
    float64.
    """

    one: NDArray[Any]
    """1."""
    unit: NDArray[Any]
    per_unit: NDArray[Any]
    """1 / unit."""
    up: NDArray[Any]
    down: NDArray[Any]
    acceleration: NDArray[Any]
    deceleration: NDArray[Any]
    high: NDArray[Any]
    minus_low: NDArray[Any]
    """-low; the same object as ``high`` if they are equal, and ``down`` the same as ``up``."""
    minus_brake: NDArray[Any]
    """-D."""
    half_brake: NDArray[Any]
    """D / 2."""
    twice_brake: NDArray[Any]
    """A little less than 2 D, by more than the rounding errors of the products that it is compared in."""
    twice_per_brake: NDArray[np.float64]
    """2 / D, flat, in float64."""
    half_brakes: NDArray[np.float64]
    """D / 2, flat, in float64."""
    even: bool
    """Whether A = D for all joints."""


@lru_cache(maxsize=16)
def spread(grid: GridTensors, shape: tuple[int, ...], dtype: Any) -> Spread:
    """Broadcast ``grid`` to ``shape`` in memory."""
    unit, up, down, a, d, low, high = (getattr(grid, name).numpy() for name in viability.Grid._fields)
    down, minus_low = (up if np.array_equal(up, down) else down), (high if np.array_equal(high, -low) else -low)
    values = {
        "one": np.ones_like(unit), "unit": unit, "per_unit": 1 / unit, "up": up, "down": down, "acceleration": a,
        "deceleration": d, "high": high, "minus_low": minus_low, "minus_brake": -d, "half_brake": d / 2,
        "twice_brake": 2 * d * (1 - 2.0**-20),
    }  # fmt: skip
    made = {id(x): np.ascontiguousarray(np.broadcast_to(x, shape), dtype) for x in values.values()}
    per_brake, half = (np.ascontiguousarray(np.broadcast_to(x, shape)).ravel() for x in (2 / d, d / 2))
    arrays: dict[str, Any] = {key: made[id(x)] for key, x in values.items()}
    return Spread(**arrays, twice_per_brake=per_brake, half_brakes=half, even=grid.acceleration is grid.deceleration)


def whole_units(values: NDArray[Any], wide: Spread) -> NDArray[Any]:
    """Values (..., d) as whole grid units, each the nearest."""
    units = np.multiply(values, wide.per_unit, out=np.empty_like(wide.unit))
    return np.rint(units, out=units)


def farthest(
    command: NDArray[Any], velocity: NDArray[Any], bound: NDArray[Any], rate: NDArray[Any], wide: Spread
) -> NDArray[Any]:
    """The largest next increment towards the upper ``bound``, in grid units: ``viability.increments`` before its brake.

    Pass -command, -velocity, -low and the rate of falling for the lower side. A stop from v takes at most
    (v + D/2)^2 / 2D, and where there is room for that the bound does not matter: only the others need a square root.
    """
    if wide.even:
        top = velocity + wide.acceleration
    else:
        top = viability.reachable(velocity, wide.acceleration, wide.deceleration)[1]
    np.minimum(top, rate, out=top)
    needs = top + wide.half_brake
    needs *= needs
    room = bound - command
    room *= wide.twice_brake
    if len(near := np.flatnonzero(needs > room)):
        exact = bound.ravel()[near].astype(np.float64) - command.ravel()[near]
        np.maximum(exact, 0, out=exact)
        fastest = viability.fastest_by(exact, wide.twice_per_brake[near], wide.half_brakes[near])
        flat = top.ravel()
        flat[near] = np.minimum(flat[near], fastest)
    return top


def numpy_edges(prev: NDArray[Any], velocity: NDArray[Any], grid: GridTensors) -> tuple[NDArray[Any], NDArray[Any]]:
    """The edges of the box, to the bit as ``viability.increments`` has them, in a fifth of the time."""
    wide = spread(grid, prev.shape, prev.dtype)
    command, last = whole_units(prev, wide), whole_units(velocity, wide)
    top = farthest(command, last, wide.high, wide.up, wide)
    bottom = farthest(-command, -last, wide.minus_low, wide.down, wide)
    np.negative(bottom, out=bottom)
    if (top < bottom).any():  # a limit was lowered while a joint moved, and full braking is all there is
        slower = viability.brake(last, wide.deceleration)
        np.maximum(top, slower, out=top)
        np.minimum(bottom, slower, out=bottom)
    bottom += command
    top += command
    bottom *= wide.unit
    top *= wide.unit
    return bottom, top


class _Round(torch.autograd.Function):
    """Round to multiples of a power of two in the forward pass, identity in the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(command: Tensor, unit: Tensor) -> Tensor:
        return torch.round(command / unit) * unit

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _Reach(torch.autograd.Function):
    """Return ``moved``; the gradient goes to the target of the joints that are ``there``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(target: Tensor, moved: Tensor, there: Tensor) -> Tensor:
        return moved.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return torch.where(ctx.saved_tensors[0], grad, 0.0), None, None
