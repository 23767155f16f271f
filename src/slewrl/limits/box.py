"""The feasible box F_t as tensors: the set that every action layer maps into."""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slewrl.limits import boxmath

HALF_TYPES = (torch.float16, torch.bfloat16)


class LimitTensors(NamedTuple):
    """Limits in one dtype on one device; each broadcasts against (..., d)."""

    down: Tensor
    """The largest fall per control step, > 0."""
    up: Tensor
    """The largest rise per control step, > 0."""
    low: Tensor
    """Lower end of the action range."""
    high: Tensor
    """Upper end of the action range."""


@dataclass(frozen=True, eq=False)
class FeasibleBox:
    """F_t = [prev - down, prev + up] within the action range, with float edges that are never outside it.

    Built by ``RateLimits.box(prev)``. ``prev`` always lies in [low, high]. All tensors have shape (..., d) and
    the units of the limits.
    """

    prev: Tensor
    """The action last executed, in the environment's dtype, shape (..., d)."""
    working: LimitTensors
    """The limits in prev's dtype, rounded inward; rates guarded unless ``tight``."""
    exact: LimitTensors
    """The limits as the user wrote them, in float64; ``contains`` decides by them."""
    tight: bool = False
    """Whether the edges are the outermost feasible floats; otherwise they are guarded, which is cheaper."""

    # Filled on first use, since DD-SRad's hot path never needs the edges. (functools.cached_property takes a lock,
    # which torch.compile cannot trace.)
    _edges: list[Tensor] = field(default_factory=list, init=False, repr=False)

    @property
    def low(self) -> Tensor:
        """Lower float edge of F_t, shape (..., d)."""
        return self._both_edges()[0]

    @property
    def high(self) -> Tensor:
        """Upper float edge of F_t, shape (..., d)."""
        return self._both_edges()[1]

    def _both_edges(self) -> list[Tensor]:
        if self._edges:
            return self._edges
        made = self._make_edges()
        if not self.prev.requires_grad:  # otherwise edges cached under no_grad would have no gradient to prev later
            self._edges.extend(made)
        return made

    def _make_edges(self) -> list[Tensor]:
        if self.tight and self.prev.dtype in HALF_TYPES:
            return list(_eager_tight_edges(self.prev, self.working))
        edges: Any = boxmath.tight_edges if self.tight else boxmath.guard_edges
        return list(edges(self.prev, *self.working, xp=torch))

    @property
    def anchor(self) -> Tensor:
        """Where u = 0 and NaN lead, (..., d): prev, unless an acceleration limit makes the joint brake first."""
        return self.prev

    def round(self, command: Tensor) -> Tensor:
        """``command`` (..., d) on the grid of commands, where an acceleration limit asks for one."""
        return command

    def contains(self, action: Tensor) -> Tensor:
        """Whether each joint of ``action`` (..., d) lies in F_t, decided exactly against the user's own limits."""
        return ~boxmath.outside(action.double(), self.prev.double(), *self.exact)

    def clamp(self, command: Tensor) -> Tensor:
        """``command`` (..., d) cast to prev's dtype and clipped to F_t; NaN holds at prev."""
        held = torch.where(command == command, command.to(self.prev.dtype), self.prev)
        return torch.clamp(held, self.low, self.high)

    def radius(self, latent: Tensor) -> Tensor:
        """The effective radius R_eff of Eq. (reff), shape (..., d).

        R+ = min(up, range high - prev) where ``latent`` >= 0, R- = min(down, prev - range low) elsewhere.
        """
        bound = torch.where(latent >= 0, self.working.high, self.working.low)
        return torch.clamp(bound - self.prev, -self.working.down, self.working.up).abs()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw an action uniformly from F_t, shape (..., d); warm-up uses this."""
        uniform = torch.rand(self.low.shape, generator=generator, dtype=self.low.dtype, device=self.low.device)
        return torch.clamp(torch.lerp(self.low, self.high, uniform), self.low, self.high)

    def volume(self) -> Tensor:
        """The volume of F_t, in the product of the joints' units, shape (...)."""
        return (self.high - self.low).prod(-1)


def plain_autograd() -> bool:
    """Whether plain autograd is in use: no compiler, which fuses by itself, and no functorch transform."""
    return not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude ``function`` from compilation, as torch.compiler.disable does, but without importing the compiler."""

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        if "torch._dynamo" not in sys.modules:  # the compiler is not in use
            return function(*args)
        return torch.compiler.disable(function)(*args)  # type: ignore[no-untyped-call]

    return called


@eager
def _eager_tight_edges(prev: Tensor, limits: LimitTensors) -> tuple[Tensor, Tensor]:
    """Tight edges in 16 bits, never compiled: a compiler that keeps values in float32 gets rounding errors wrong."""
    return boxmath.tight_edges(prev, *limits, xp=torch)


class Rounded(NamedTuple):
    """Limits rounded for one dtype."""

    working: LimitTensors
    """The limits rounded inward; rates are guarded unless the edges are tight."""
    exact: LimitTensors
    """The limits as written, in float64."""
    half_gap: Tensor
    """The amount the guard subtracts from a rate, in float64, shape (d,); 0 for tight edges."""


def round_limits(exact: LimitTensors, dtype: torch.dtype, tight: bool) -> Rounded:
    """Round float64 limits inward to ``dtype``."""
    low, high = -_cast_down(-exact.low, dtype), _cast_down(exact.high, dtype)
    down, up = (_cast_down(rate, dtype) for rate in (exact.down, exact.up))
    if tight:
        return Rounded(LimitTensors(down, up, low, high), exact, torch.zeros_like(exact.low))
    down, up = (boxmath.guard(rate, low, high, xp=torch) for rate in (down, up))
    return Rounded(LimitTensors(down, up, low, high), exact, boxmath.half_gap(low, high, xp=torch).double())


def tighten(limits: Rounded, delta: Tensor, tight: bool) -> Rounded:
    """Lower the rates to at most ``delta`` (..., d), without host synchronisation. NaN and negative rates become 0."""
    wide = delta.double().nan_to_num(nan=0.0).clamp_min(0.0)
    exact = limits.exact._replace(down=torch.minimum(wide, limits.exact.down), up=torch.minimum(wide, limits.exact.up))
    dtype = limits.working.low.dtype
    if tight:
        cast = _eager_cast_down if dtype in HALF_TYPES else _cast_down
        down, up = (cast(rate, dtype) for rate in (exact.down, exact.up))
    else:
        # Four rounding errors below delta - half_gap, and the smallest float, which bounds the error near the
        # subnormals, so the cast may round either way. nextafter would not do: a compiler that keeps 16-bit values
        # in float32 steps by the wrong ulp.
        info = torch.finfo(dtype)
        shrink, smallest = 1 - 4 * info.eps, info.tiny * info.eps
        shrunk = ((rate - limits.half_gap) * shrink - smallest for rate in (exact.down, exact.up))
        down, up = (rate.clamp_min(0.0).to(dtype) for rate in shrunk)
    return Rounded(limits.working._replace(down=down, up=up), exact, limits.half_gap)


def _cast_down(wide: Tensor, dtype: torch.dtype) -> Tensor:
    return boxmath.cast_down(wide, wide.to(dtype), xp=torch)


_eager_cast_down = eager(_cast_down)  # for 16 bits, as _eager_tight_edges
