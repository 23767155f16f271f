"""DD-SRad and the Gaussian draw as one autograd node each: the same numbers in a third of the time.

The composed layer is the definition; this is the hot path of training on a CPU. By Theorem 2 (docs/guarantee.md), with
|f| <= 1 and guarded limits, prev + R f clipped to the *range* is already in F_t, so the edges of the box are never
computed. The nodes use numpy on the tensors' memory, since for a few thousand numbers torch's dispatch dominates.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.limits.box import FeasibleBox, plain_autograd
from slewrl.limits.viable_box import ViableBox, farthest, spread, whole_units

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
VJP = Callable[[Tensor, Tensor], Tensor]
"""Maps gradients of the judged action (..., d) and the penalty (...) to that of the latent (..., d)."""
DrawVJP = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps gradients of judged action (R, d), log_prob (R,) and penalty (R,) to those of mean and std, (R, d) each."""


def applies(latent: Tensor, box: FeasibleBox) -> bool:
    """Whether the fused node covers this call; otherwise the composed layer is used."""
    if not isinstance(box, FeasibleBox) or not isinstance(latent, Tensor):
        return False  # type: ignore[unreachable]  # the composed layer raises the error
    return (
        latent.dtype == box.prev.dtype
        and latent.dtype in (torch.float32, torch.float64)
        and type(latent) is type(box.prev) is Tensor
        and latent.device.type == box.prev.device.type == "cpu"
        and latent.shape == box.prev.shape
        and box.working.up.ndim == box.working.down.ndim == 1  # batched limits broadcast, in the composed layer
        and not box.tight  # Theorem 2 needs guarded limits
        and not box.prev.requires_grad
        and plain_autograd()
    )


def gaussian(mean: Tensor, std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return u = mean + std noise (..., d) and log N(u; mean, std) (...)."""
    plain = (
        plain_autograd()
        and mean.shape == std.shape == noise.shape
        and all(type(x) is Tensor and x.device.type == "cpu" for x in (mean, std, noise))
    )
    return (_Gaussian.apply if plain else _gaussian)(mean, std, noise)


def _gaussian(mean: Tensor, std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    # log N = -noise^2 / 2 - log std - log sqrt(2 pi)
    return torch.addcmul(mean, std, noise), (torch.log(std) + noise.square() / 2 + LOG_SQRT_2PI).sum(-1).neg()


def _log_density(std: NDArray[Any], noise: NDArray[Any]) -> Any:
    """Return log N(mean + std noise; mean, std), shape (...)."""
    return _row_sums(np.log(std) + 0.5 * (noise * noise), -1.0) - std.shape[-1] * LOG_SQRT_2PI


class _Gaussian(torch.autograd.Function):
    """The Gaussian draw; d mean is d u, and d std is noise d u - d log_density / std."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, std: Tensor, noise: Tensor) -> Any:
        ctx.save_for_backward(std, noise)
        m, s, e = (x.detach().numpy() for x in (mean, std, noise))
        return torch.from_numpy(m + s * e), torch.as_tensor(_log_density(s, e), dtype=mean.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_log: Tensor) -> tuple[Tensor, Tensor, None]:
        std, noise = ctx.saved_tensors
        return grad, grad * noise - grad_log.unsqueeze(-1) / std, None


def ddsrad(latent: Tensor, box: FeasibleBox, cap: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(executed, log_det, |u|^2)`` of DD-SRad, with log_det in normalised units."""
    return _DDSRad.apply(latent, box, cap)  # type: ignore[no-untyped-call]


def ddsrad_execute(latent: Tensor, box: FeasibleBox, cap: float) -> Tensor:
    """Return ``executed`` of DD-SRad alone."""
    if torch.is_grad_enabled() and latent.requires_grad:
        return ddsrad(latent, box, cap)[0]
    u, _, r = _finite(latent, cap)
    return torch.from_numpy(_map(u, r, box)[0])


def _map(u: NDArray[Any], r: NDArray[Any], box: FeasibleBox) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a = prev + R_eff u r, and R_eff (Eq. reff, ddsrad)."""
    if isinstance(box, ViableBox):
        return _viable_map(u, r, box)
    p = np.ascontiguousarray(box.prev.detach().numpy())
    fall, up, low, high = _spread(box.working, p.shape)
    # R_eff: the distance to the bound on u's side, or the rate if that is less.
    radius = np.where(u >= 0, high, low)
    radius -= p
    np.minimum(radius, up, out=radius)
    np.maximum(radius, fall, out=radius)
    np.abs(radius, out=radius)
    # u r may round to just above 1, which Theorem 2 does not allow. The last clip is to the range, extended to prev
    # where that lies outside it.
    executed = u * r
    np.minimum(executed, 1, out=executed)
    np.maximum(executed, -1, out=executed)
    executed *= radius
    executed += p
    np.minimum(executed, np.maximum(p, high), out=executed)
    np.maximum(executed, np.minimum(p, low), out=executed)
    return executed, radius


def _viable_map(u: NDArray[Any], r: NDArray[Any], box: ViableBox) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a = h + R u r on the grid of commands, and R: h is the brake point, R the distance to u's edge.

    Each joint is seen from u's side, where its limits are upper ones, so that one edge of the box is enough.
    """
    wide = spread(box.grid, u.shape, u.dtype)
    side = np.copysign(wide.one, u + 0.0)  # 1 for -0.0
    command, last = (whole_units(x.numpy(), wide) for x in (box.prev, box.velocity))
    command *= side
    last *= side
    radius = farthest(command, last, _on(side, wide.high, wide.minus_low), _on(side, wide.up, wide.down), wide)
    last -= np.minimum(np.maximum(last, wide.minus_brake), wide.deceleration)
    command += last  # the anchor, where full braking leads
    radius -= last
    np.maximum(radius, 0, out=radius)
    executed = u * r
    np.abs(executed, out=executed)
    np.minimum(executed, 1, out=executed)
    executed *= radius
    executed += command
    np.rint(executed, out=executed)
    executed *= side
    executed *= wide.unit
    radius *= wide.unit
    return executed, radius


def _on(side: NDArray[Any], rising: NDArray[Any], falling: NDArray[Any]) -> NDArray[Any]:
    """The limit on u's side."""
    return rising if rising is falling else np.where(side > 0, rising, falling)


@lru_cache(maxsize=16)
def _spread(limits: Any, shape: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
    """Broadcast -down, up, low and high to ``shape`` in memory, since numpy is faster on arrays of equal shape."""
    down, *others = (limit.numpy() for limit in limits)
    return tuple(np.ascontiguousarray(np.broadcast_to(limit, shape)) for limit in (-down, *others))


def ddsrad_pullback(latent: Tensor, box: FeasibleBox, cap: float) -> tuple[Tensor, Tensor, VJP]:
    """Return ``executed``, |u|^2 and their vector-Jacobian product for the latent, without autograd."""
    u, u2, r = _finite(latent, cap)
    executed, radius = _map(u, r, box)

    def vjp_fn(to_executed: Tensor, to_norm2: Tensor) -> Tensor:
        return torch.from_numpy(to_executed.numpy() * radius * r * (r * r) + u * (2 * to_norm2.numpy()[..., None]))

    return torch.from_numpy(executed), torch.from_numpy(_row_sums(u2, 1.0)), vjp_fn


def ddsrad_draw(
    mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox, cap: float
) -> tuple[Tensor, Tensor, Tensor, DrawVJP]:
    """Return ``executed``, log_prob and |u|^2 of u = mean + std noise, and their vector-Jacobian product."""
    s, e = np.ascontiguousarray(std.numpy()), noise.numpy()
    u, u2, r = _finite(mean + std * noise, cap)
    executed, radius = _map(u, r, box)
    log_prob = _log_density(s, e) - _row_sums(_log1p(u2), -1.5)

    def vjp_fn(to_executed: Tensor, to_log_prob: Tensor, to_norm2: Tensor) -> tuple[Tensor, Tensor]:
        rows = to_executed.shape[0]
        to_log, to_norm = to_log_prob.numpy()[:, None], to_norm2.numpy()[:, None]
        r1 = r[:rows]
        r2 = r1 * r1
        to_u = to_executed.numpy() * radius[:rows] * r1 * r2 + u[:rows] * (2 * to_norm + 3 * r2 * to_log)
        return torch.from_numpy(to_u), torch.from_numpy(to_u * e[:rows] - to_log / s[:rows])

    return torch.from_numpy(executed), torch.from_numpy(log_prob), torch.from_numpy(_row_sums(u2, 1.0)), vjp_fn


class _DDSRad(torch.autograd.Function):
    """DD-SRad. With r = 1 / sqrt(1 + u^2), a = prev + R_eff u r and da/du = R_eff r^3 (Eq. ddsrad, jacobian)."""

    @staticmethod
    def forward(ctx: Any, latent: Tensor, box: FeasibleBox, cap: float) -> Any:
        u, u2, r = _finite(latent, cap)
        executed, radius = _map(u, r, box)
        ctx.save_for_backward(latent, *(torch.from_numpy(x) for x in (u, r, radius)))
        ctx.cap = cap
        return tuple(torch.as_tensor(x) for x in (executed, _row_sums(_log1p(u2), -1.5), _row_sums(u2, 1.0)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_log_det: Tensor, grad_norm2: Tensor) -> Any:
        latent, u, r, radius = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, rebuild the graph from the input
            u = latent.nan_to_num(nan=0.0).clamp(-ctx.cap, ctx.cap)
            r = torch.rsqrt(1 + u * u)
        else:
            u, r, radius, grad, grad_log_det, grad_norm2 = (  # type: ignore[assignment]
                x.numpy() for x in (u, r, radius, grad, grad_log_det, grad_norm2)
            )
        r2 = r * r
        # d log_det / du = -3 u r^2 and d |u|^2 / du = 2 u
        grad_u = grad * radius * r * r2 + u * (2 * grad_norm2[..., None] - 3 * r2 * grad_log_det[..., None])
        return torch.as_tensor(grad_u), None, None


def _finite(latent: Tensor, cap: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return u, u^2 and r = 1 / sqrt(1 + u^2); NaN becomes 0, and magnitudes are capped so that u^2 is finite."""
    u: NDArray[Any] = np.minimum(latent.detach().numpy(), cap)
    np.maximum(u, -cap, out=u)
    u[u != u] = 0
    u2 = u * u
    return u, u2, 1 / np.sqrt(1 + u2)


def _log1p(x: NDArray[Any]) -> NDArray[Any]:
    """Return log(1 + x) by torch, since numpy's is six times as slow on processors without AVX-512."""
    return torch.log1p(torch.from_numpy(x)).numpy()


def _row_sums(x: NDArray[Any], factor: float) -> Any:
    """Return ``factor`` times the sum over joints, (...), as a matrix product: faster than ``sum`` on a short axis."""
    return x @ np.full(x.shape[-1], factor, x.dtype)
