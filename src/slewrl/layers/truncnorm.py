"""A Gaussian truncated to F_t, sampled by inverse CDF (the policy of TN-SAC, on a moving box).

Mean and standard deviation are in box-normalised units: -1 is the lower edge of F_t, +1 the upper.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, ndtri

from slewrl.box import FeasibleBox
from slewrl.layers import place, squash
from slewrl.layers.base import Action, ActionLayer, finite_latent, widen

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class TruncNorm(ActionLayer):
    """a ~ N(mid + half mean, half std) truncated to F_t. Given a bare latent (a mean to execute), it clips."""

    squash = staticmethod(squash.clip)
    placement = place.interval

    def sample(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> tuple[Action, Tensor]:
        """An exact draw from the truncated Gaussian, differentiable in mean and std, and its log-density.

        Args:
            mean: in box-normalised units, any real, shape (..., d).
            std: in box-normalised units, > 0, shape (..., d).
            noise: standard normal, shape (..., d); its quantile is the draw's quantile.
            box: F_t.
        """
        wide = widen(box)
        clean = [finite_latent(x, wide).clamp(-1e6, 1e6) for x in (mean, noise)]
        scale = std.to(wide.prev.dtype).nan_to_num(nan=1.0).clamp(1e-6, 1e6)
        v: Tensor = _TruncatedDraw.apply(clean[0], scale, ndtr(clean[1]))  # type: ignore[no-untyped-call]
        v = torch.where((mean + std + noise).isnan(), torch.nan, v)  # the layer holds NaN at prev
        action = self(v, box)
        v = v.nan_to_num(nan=0.0)
        log_prob = truncated_log_density(v, clean[0], scale).sum(-1) - action.log_det
        return action, log_prob


def truncated_log_density(v: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log density at v in [-1, 1] of N(mean, std) truncated to [-1, 1], elementwise."""
    z = (v - mean) / std
    return -0.5 * z * z - LOG_SQRT_2PI - torch.log(std) - log_mass(mean, std)


def log_mass(mean: Tensor, std: Tensor) -> Tensor:
    """log P(-1 <= N(mean, std) <= 1), accurate however far outside the mean lies."""
    # The interval is symmetric, so the mean may be moved to the right: both ends are then in the left tail.
    right = mean.abs()
    log_high, log_low = log_ndtr((1 - right) / std), log_ndtr((-1 - right) / std)
    return log_high + torch.log1p(-torch.exp(log_low - log_high))


def log_quantile(log_p: Tensor) -> Tensor:
    """x with log Phi(x) = log_p, for log_p <= 0, also where Phi(x) underflows."""
    direct = ndtri(torch.exp(log_p.clamp_min(-10.0)))
    # Deep in the tail: Newton on the concave log Phi, from below, converges monotonically.
    x = -torch.sqrt(-2 * log_p.clamp_max(-10.0))
    for _ in range(6):
        log_phi = -0.5 * x * x - LOG_SQRT_2PI
        value = log_ndtr(x)
        x = x - (value - log_p.clamp_max(-10.0)) * torch.exp(value - log_phi)
    return torch.where(log_p > -10.0, direct, x)


class _TruncatedDraw(torch.autograd.Function):
    """The q-quantile of N(mean, std) truncated to [-1, 1], with the implicit (exact) gradient.

    With z = (v - mean)/std and ends alpha, beta: Phi(z) = (1 - q) Phi(alpha) + q Phi(beta). Differentiating at
    fixed q gives dv/dmean = 1 - w and dv/dstd = z - w', where w = (1 - q) phi(alpha)/phi(z) + q phi(beta)/phi(z)
    and w' weights the same two terms by alpha and beta.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
        flip = torch.where(mean < 0, -1.0, 1.0).to(mean.dtype)
        right, quantile = mean.abs(), torch.where(mean < 0, 1 - q, q)
        log_low, log_high = log_ndtr((-1 - right) / std), log_ndtr((1 - right) / std)
        # log[(1 - q) Phi(alpha) + q Phi(beta)]
        log_p = torch.logaddexp(log_low + torch.log1p(-quantile), log_high + torch.log(quantile))
        return (flip * (right + std * log_quantile(log_p))).clamp(-1.0, 1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        mean, std, q, v = ctx.saved_tensors
        z, alpha, beta = ((end - mean) / std for end in (v, -1.0, 1.0))
        low = (1 - q) * torch.exp((0.5 * (z * z - alpha * alpha)).clamp_max(60.0))
        high = q * torch.exp((0.5 * (z * z - beta * beta)).clamp_max(60.0))
        return grad * (1 - low - high), grad * (z - low * alpha - high * beta), None
