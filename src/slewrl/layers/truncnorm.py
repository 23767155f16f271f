"""A Gaussian truncated to F_t, sampled by inverse CDF (the policy of TN-SAC, on a moving box).

Mean and standard deviation are in box-normalised units: -1 is the lower edge of F_t, +1 the upper. The distribution of
v on [-1, 1] is computed in float64, since differences of squares of the standardised ends need the precision.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtri

from slewrl.layers import place, squash
from slewrl.layers.base import Action, ActionLayer, Decision
from slewrl.layers.fused import LOG_SQRT_2PI
from slewrl.limits.box import FeasibleBox

MEAN_CAP, STD_FLOOR, STD_CAP, NOISE_CAP = 1e3, 1e-3, 1e3, 30.0
"""Caps in half-widths of F_t (noise: standard deviations), beyond which results change by rounding only."""


@dataclass(frozen=True)
class TruncNorm(ActionLayer):
    """a ~ N(mid + half mean, half std) truncated to F_t. A latent without a std is clipped to F_t."""

    squash = staticmethod(squash.clip)
    placement = place.interval

    def sample(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> tuple[Action, Tensor]:
        """Draw exactly from the truncated Gaussian, differentiably in mean and std, and return the log-density, too.

        Mean and standard deviation are in box-normalised units, capped at +-1000 and kept within [.001, 1000]; the
        quantile of the standard normal noise is the draw's quantile. All have shape (..., d).
        """
        broken = (mean + std + noise).isnan()
        centre = mean.double().nan_to_num(nan=0.0).clamp(-MEAN_CAP, MEAN_CAP)
        scale = std.double().nan_to_num(nan=1.0).clamp(STD_FLOOR, STD_CAP)
        level = noise.double().nan_to_num(nan=0.0).clamp(-NOISE_CAP, NOISE_CAP)
        v: Tensor = _TruncatedDraw.apply(centre, scale, level)  # type: ignore[no-untyped-call]
        action = self(torch.where(broken, torch.nan, v), box)  # the layer holds joints with NaN at prev
        log_density = truncated_log_density(v, centre, scale).sum(-1)
        return action, log_density.to(action.log_det.dtype) - action.log_det

    def draw(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Decision:
        """Sample as ``sample`` does, returning only what acting needs."""
        return Decision(*self.sample(mean, std, noise, box)[0][:2])


def truncated_log_density(v: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return the log-density at v in [-1, 1] of N(mean, std) truncated to [-1, 1], elementwise."""
    z = (v - mean) / std
    return -0.5 * z * z - LOG_SQRT_2PI - torch.log(std) - log_mass(mean, std)


def log_mass(mean: Tensor, std: Tensor) -> Tensor:
    """Return log P(-1 <= N(mean, std) <= 1), accurate even if the mean is far outside."""
    # The interval is symmetric, so the mean can be mirrored to the right, which puts both ends into the left tail.
    right = mean.abs()
    log_high, log_low = log_ndtr((1 - right) / std), log_ndtr((-1 - right) / std)
    return log_high + torch.log1p(-torch.exp(log_low - log_high))


def log_quantile(log_p: Tensor) -> Tensor:
    """Solve log Phi(x) = log_p for x <= 0, given log_p <= log(1/2), even where Phi(x) underflows."""
    direct = ndtri(torch.exp(log_p.clamp_min(-10.0)))
    # Deep in the tail: Newton on the concave log Phi, from below, converges monotonically.
    deep = log_p.clamp_max(-10.0)
    x = -torch.sqrt(-2 * deep)
    for _ in range(6):
        value = log_ndtr(x)
        x = x - (value - deep) * torch.exp(value + 0.5 * x * x + LOG_SQRT_2PI)
    return torch.where(log_p > -10.0, direct, x)


class _TruncatedDraw(torch.autograd.Function):
    """The quantile of N(mean, std) truncated to [-1, 1] at level q = Phi(noise), with the implicit (exact) gradient.

    With z = (v - mean)/std and ends alpha, beta: Phi(z) = (1 - q) Phi(alpha) + q Phi(beta). Differentiating at
    fixed q gives dv/dmean = 1 - w and dv/dstd = z - w', where w = (1 - q) phi(alpha)/phi(z) + q phi(beta)/phi(z)
    and w' weights the same two terms by alpha and beta.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(mean: Tensor, std: Tensor, noise: Tensor) -> Tensor:
        alpha, beta = (-1 - mean) / std, (1 - mean) / std
        log_q, log_rest = log_ndtr(noise), log_ndtr(-noise)
        # log Phi(z) and log Phi(-z); the smaller of the two is the accurate one.
        log_p = torch.logaddexp(log_rest + log_ndtr(alpha), log_q + log_ndtr(beta))
        log_c = torch.logaddexp(log_rest + log_ndtr(-alpha), log_q + log_ndtr(-beta))
        z = torch.where(log_p < log_c, 1.0, -1.0) * log_quantile(torch.minimum(log_p, log_c))
        return (mean + std * z).clamp(-1.0, 1.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        mean, std, noise, v = ctx.saved_tensors
        z, alpha, beta = ((end - mean) / std for end in (v, -1.0, 1.0))
        # (z^2 - alpha^2)/2 as a product, since both are large far from the mean.
        low = torch.exp(log_ndtr(-noise) + 0.5 * (z - alpha) * (z + alpha))
        high = torch.exp(log_ndtr(noise) + 0.5 * (z - beta) * (z + beta))
        return grad * (1 - low - high), grad * (z - low * alpha - high * beta), None
