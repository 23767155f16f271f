"""A budget over joints: sum_i |da_i| / delta_i <= B, within F_t and without a solver.

This couples joints that share a power supply: with B = 2, two joints may move at full rate at once, or four at half
rate. The set is a polytope that moves with prev. In increments relative to the distance to the edge of F_t,
x_i = da_i / R_i, it is {g(x) <= 1} with the gauge

    g(x) = max(max_i |x_i|, sum_i w_i |x_i| / B),     w_i = R_i / delta_i in [0, 1],

where R_i and delta_i are those of the direction of x_i. The layer maps along rays, x = u f(g(u)) / g(u) with DD-SRad's
squash f, onto the whole set (`squash.radial`), and a = prev + R x. For one joint and B = 1 it is DD-SRad.
docs/layers.md says why f is not tanh.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer, penalise_latent
from slewrl.limits import RateLimits, boxmath
from slewrl.limits.box import FeasibleBox
from slewrl.limits.viable_box import ViableBox

WIDE = torch.finfo(torch.float64)


NO_ACCELERATION = (
    "layer 'budget' does not take limits with an acceleration: braking for a bound may need more than the budget; "
    "take 'ddsrad', or limits without an acceleration"
)


@dataclass(frozen=True)
class Budget(ActionLayer):
    """DD-SRad along rays, within a budget that all joints share.

    Args:
        budget: B, in joints at full rate, in (0, d]; d never binds. Default: d / 2.
    """

    penalty_weight: float = 0.005
    budget: float | None = None
    placement = place.hold
    penalise = penalise_latent

    def __post_init__(self) -> None:
        """Refuse a budget that is not a positive number."""
        super().__post_init__()
        given = self.budget
        number = not isinstance(given, bool) and isinstance(given, int | float)
        if given is not None and not (number and 0 < given < math.inf):
            raise ValueError(f"budget is {given!r}, expected a number of joints > 0")

    def allowance(self, joints: int) -> float:
        """The budget B for this many joints; refuses one that exceeds their number."""
        given = joints / 2 if self.budget is None else float(self.budget)
        if given > joints:
            raise ValueError(f"budget is {given:g}, expected at most {joints}: what all joints spend at full rate")
        return given

    def squash(self, u: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # B is the layer's own
        """Map u to x away from the bounds, where every w_i is 1."""
        return self._radial(u, torch.ones_like(u))

    def normalise(self, u: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor]:
        """Map u to x, with log |det dx/du|."""
        if isinstance(box, ViableBox):
            raise ValueError(NO_ACCELERATION)
        rate = torch.where(u >= 0, box.working.up, box.working.down)
        return self._radial(u, box.radius(u) / rate.clamp_min(torch.finfo(u.dtype).tiny))  # a rate of 0 holds the joint

    def _radial(self, u: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Apply `squash.radial` in float64, since float32 autograd loses the slope along the ray from |u| = 300 on."""
        wide = u.double()
        size = wide.abs()
        spent = (weight * size).sum(-1, keepdim=True) / self.allowance(u.shape[-1])
        x, log_det = squash.radial(wide, torch.maximum(size.amax(-1, keepdim=True), spent))
        return x.to(u.dtype), log_det.to(u.dtype)

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """Move the command exactly into F_t and the budget, which it leaves by rounding only; keep the gradient."""
        limits = (box.prev, box.low, box.high, box.exact.down, box.exact.up)
        return _Enter.apply(command, *limits, self.allowance(command.shape[-1]))  # type: ignore[no-untyped-call]

    def random(self, box: FeasibleBox, generator: torch.Generator | None = None) -> Tensor:
        """Draw a direction from prev as a uniform sample of F_t has it, and a uniform point of the set along it."""
        drawn = box.sample(generator)
        again = torch.rand(drawn[..., :1].shape, generator=generator, dtype=drawn.dtype, device=drawn.device)
        step = drawn - box.prev
        share = self.allowance(step.shape[-1]) / spending(step, box.exact.down, box.exact.up)
        # Beyond the budget, draw another length, with the density ~ t^(d - 1) of a uniform point along a ray.
        length = torch.where(share < 1, share * again.double() ** (1 / step.shape[-1]), 1.0)
        return self.enter((box.prev + length * step).to(drawn.dtype), box)

    def target_entropy(self, limits: RateLimits) -> float:
        """The target entropy with the same distance to uniform as SAC's -d: lower by -log of the volume share."""
        base = super().target_entropy(limits)
        if self.density == "action":
            return base
        share = volume_share(self.allowance(limits.dim), limits.dim)
        return base + math.log(share.numerator) - math.log(share.denominator)

    def check(self, limits: RateLimits) -> None:
        """Refuse a budget that exceeds the number of joints, and limits with an acceleration."""
        self.allowance(limits.dim)
        if limits.grid is not None:
            raise ValueError(NO_ACCELERATION)

    def extra_violations(self, actions: NDArray[np.floating[Any]], limits: RateLimits) -> int:
        """Count the steps of a sequence (T + 1, d) that exceeded the budget, decided exactly."""
        allowance = self.allowance(limits.dim)
        return int(boxmath.over_budget(actions[1:], actions[:-1], limits.down, limits.up, allowance).sum())


def volume_share(budget: float, joints: int) -> Fraction:
    """The exact share of [-1, 1]^d with sum |x_i| <= B: P(sum of d uniforms <= B) (Irwin-Hall)."""
    b = Fraction(budget)
    terms = ((-1) ** k * math.comb(joints, k) * (b - k) ** joints for k in range(math.floor(b) + 1))
    return min(Fraction(1), sum(terms, Fraction(0)) / math.factorial(joints))


def spending(step: Tensor, down: Tensor, up: Tensor) -> Tensor:
    """An upper bound of sum_i |step_i| / rate_i, (..., 1) in float64, a few rounding errors above the exact sum.

    Each quotient and each sum of non-negative terms has a relative error of at most 2^-53, and underflow adds less than
    ``tiny`` in all. There are d + 3 roundings, including that of ``step`` itself and of the product here.
    """
    size = step.double().abs()
    spent = torch.where(size > 0, size / torch.where(step >= 0, up, down), 0.0).sum(-1, keepdim=True)
    return spent * wide(1 + (step.shape[-1] + 8) * WIDE.eps, size) + wide(WIDE.tiny, size)


def wide(number: float, like: Tensor) -> Tensor:
    """Make a float64 constant, since the ONNX exporter rounds Python numbers to float32."""
    return torch.tensor(number, dtype=torch.float64, device=like.device)


class _Enter(torch.autograd.Function):
    """Clip to F_t and, where the sum exceeds B, move every joint towards prev; identity in the backward pass.

    The result lies in F_t and within the budget, in exact arithmetic (Theorem 3, docs/guarantee.md). A joint whose move
    would be less than the slack, as in boxes only a few floats wide, is held.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        command: Tensor, prev: Tensor, low: Tensor, high: Tensor, down: Tensor, up: Tensor, budget: float
    ) -> Tensor:
        inside = torch.clamp(torch.where(command.isnan(), prev, command), low, high)
        here, there = prev.double(), inside.double()
        step = there - here
        bound = spending(step, down, up)
        share = wide(budget, bound)
        kept = share / bound * wide(1 - 8 * WIDE.eps, bound)
        info = torch.finfo(prev.dtype)
        slack = info.eps * torch.maximum(here.abs(), there.abs()).clamp_min(info.tiny)
        moved = here + step.sign() * (kept * step.abs() - slack).clamp_min(0.0)  # ONNX has no copysign
        return torch.where(bound > share, moved.to(prev.dtype), inside)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None, None]:
        return grad, None, None, None, None, None, None
