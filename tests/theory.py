"""The paper's theorems as functions; where a statement is false, the true one (docs/theory.md lists both).

Limits-only quantities are plain floats; quantities at a point take a latent (..., d) and the box.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.limits import RateLimits
from slewrl.limits.box import FeasibleBox


def l2_clip(increment: Tensor, delta: Tensor) -> Tensor:
    """Eq. (clip_l2): the increment (..., d) scaled down to norm ||delta||_2 where it is longer.

    It never acts on a feasible increment: |da_i| <= delta_i for all i gives ||da||^2 = sum da_i^2
    <= sum delta_i^2 = ||delta||^2. So it is no safety net either: it moves only what already broke a limit, and
    not into the box.
    """
    length = increment.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(increment.dtype).tiny)
    scale = delta.norm(dim=-1, keepdim=True) / length
    return increment * scale.clamp_max(1.0)


def reachable_box(prev: NDArray[np.float64], limits: RateLimits) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eq. (reach_tight): the closure of what DD-SRad reaches, which is F_t itself; float64 edges (..., d)."""
    low = np.maximum(prev - limits.down, limits.low)
    high = np.minimum(prev + limits.up, limits.high)
    return low, high


def jacobian(latent: Tensor, box: FeasibleBox) -> Tensor:
    """Eq. (jacobian): the diagonal R_eff / (1 + u^2)^{3/2} of DD-SRad's Jacobian, shape (..., d)."""
    return box.radius(latent) * torch.rsqrt(1 + latent * latent) ** 3


def lipschitz(limits: RateLimits) -> float:
    """The smallest Lipschitz constant of u -> a in the 2-norm, over all prev: max_i min(delta_i, range_i).

    The paper states ||delta||_2, which is an upper bound but never attained for d > 1: the Jacobian is diagonal,
    so its norm is the largest entry.
    """
    return float(np.minimum(np.maximum(limits.up, limits.down), limits.high - limits.low).max())


def condition_number(latent: Tensor, box: FeasibleBox) -> Tensor:
    """cond J(u) = max_i J_ii / min_i J_ii at this latent, shape (...). Infinite where u pushes a joint into its bound.

    Not bounded by kappa, as Prop. gradient (ii) has it: delta = (.5, .2), u = (0, 1) gives 7.07, kappa is 2.5.
    """
    diagonal = jacobian(latent, box)
    smallest = diagonal.amin(-1)
    return torch.where(smallest > 0, diagonal.amax(-1) / smallest, torch.inf)


def condition_bound(limits: RateLimits, latent_max: float) -> float:
    """The true bound on cond J(u) over |u_i| <= latent_max, away from the bounds: kappa (1 + latent_max^2)^{3/2}."""
    kappa = np.maximum(limits.up, limits.down).max() / limits.delta.min()
    return float(kappa * (1 + latent_max**2) ** 1.5)


def actor_gradient_bound(limits: RateLimits, grad_q: Tensor, latent: Tensor, penalty_weight: float) -> Tensor:
    """Eq. (grad_bound): max delta ||grad_a Q|| + 2 lambda ||u||, an upper bound on ||grad_u L_actor||; shape (...).

    For the deterministic backbone; SAC adds alpha ||grad_u log pi||.
    """
    return lipschitz(limits) * grad_q.norm(dim=-1) + 2 * penalty_weight * latent.norm(dim=-1)
