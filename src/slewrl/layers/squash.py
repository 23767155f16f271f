"""Squashes map a latent u in R^d to a normalised increment v in [-1, 1]^d, with log |det dv/du| in closed form.

They are the first half of every action layer: u (..., d) -> v (..., d), log_det (...). `place.py` has the second half,
which maps v into the box. Latents are finite here (see `base.finite_latent`), so nothing overflows.
"""

import math
from typing import Any

import torch
from torch import Tensor


def spherical(u: Tensor) -> tuple[Tensor, Tensor]:
    """v = u / sqrt(1 + u^2) per joint (Eq. ddsrad); log_det = -1.5 sum log(1 + u^2) (Eq. logdet without R)."""
    return _Spherical.apply(u)  # type: ignore[no-untyped-call]


def tanh(u: Tensor) -> tuple[Tensor, Tensor]:
    """v = tanh(u) per joint; log_det = sum log sech^2(u)."""
    return torch.tanh(u), log_sech2(u).sum(-1)


def ball(u: Tensor) -> tuple[Tensor, Tensor]:
    """v = u / sqrt(1 + |u|^2), the open unit ball (Eq. srad); log_det = -(d + 2)/2 log(1 + |u|^2)."""
    norm2 = u.square().sum(-1, keepdim=True)
    log_det = (-0.5 * (u.shape[-1] + 2)) * torch.log1p(norm2).squeeze(-1)
    return u * torch.rsqrt(1 + norm2), log_det


def gauge(u: Tensor) -> tuple[Tensor, Tensor]:
    """v = (tanh L / L) u with L = max |u_i|: radial squashing onto the open cube (Kasaura et al. 2023).

    log_det = (d - 1) log(tanh L / L) + log sech^2 L, from d - 1 tangential directions and one radial one.
    """
    # tanh L / L is 1 to the last bit below this L, and the quotient stays defined.
    length = u.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(u.dtype).tiny)
    ratio = torch.tanh(length) / length
    log_det = (u.shape[-1] - 1) * torch.log(ratio) + log_sech2(length)
    return ratio * u, log_det.squeeze(-1)


def radial(u: Tensor, gauge: Tensor) -> tuple[Tensor, Tensor]:
    """v = u f(g) / g with f(g) = g / sqrt(1 + g^2) maps R^d onto the open set {gauge < 1}, along rays.

    The gauge g is convex, and g(s u) = s g(u) for s > 0. With phi = f(g) / g the Jacobian is phi I + phi' u grad(g)^T,
    and u . grad(g) = g (Euler), so det = phi^(d - 1) (phi + g phi') = phi^(d - 1) f'(g) = (1 + g^2)^{-(d + 2)/2}.

    Args:
        u: latent, shape (..., d).
        gauge: g(u), shape (..., 1).
    """
    # To the last bit, f is 1 above the upper bound, and f(g) / g is 1 below the lower.
    g = gauge.clamp(torch.finfo(u.dtype).tiny, 2.0**50)
    reach, log_slope = spherical(g)
    return u * (reach / gauge.clamp_min(torch.finfo(u.dtype).tiny)), (u.shape[-1] + 2) / 3 * log_slope


def clip(u: Tensor) -> tuple[Tensor, Tensor]:
    """v = u clipped to [-1, 1]; log_det = 0, that of the identity before the clip."""
    return u.clamp(-1.0, 1.0), torch.zeros_like(u[..., 0])


def log_sech2(u: Tensor) -> Tensor:
    """Return log(1 - tanh(u)^2) elementwise, without cancellation."""
    size = u.abs()
    return 2 * (math.log(2) - size - torch.nn.functional.softplus(-2 * size))


VALUES: dict[Any, Any] = {tanh: torch.tanh}
"""Squash -> a function that computes v alone, where log_det would take most of the time."""


class _Spherical(torch.autograd.Function):
    """`spherical` with an analytic backward.

    Autograd of u / sqrt(1 + u^2) subtracts two nearly equal terms: in float32 the slope is 2 % off at |u| = 300 and
    lost at 4000. Here it is computed directly as (1 + u^2)^{-3/2} (Eq. jacobian).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor) -> tuple[Tensor, Tensor]:
        u2 = u * u
        return u * torch.rsqrt(1 + u2), -1.5 * torch.log1p(u2).sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_v: Tensor, grad_log_det: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        r = torch.rsqrt(1 + u * u)
        # d log_det / du = -3 u / (1 + u^2)
        return r * r * (grad_v * r - (3 * grad_log_det).unsqueeze(-1) * u)
