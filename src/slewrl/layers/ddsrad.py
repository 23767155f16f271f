"""DD-SRad: the paper's mapping, and its two variants with the same reachable set."""

from dataclasses import dataclass

import torch
from torch import Tensor

from slewrl.layers import fused, place, squash
from slewrl.layers.base import Action, ActionLayer, Decision, Draw, latent_cap, penalise_latent
from slewrl.limits.box import FeasibleBox


@dataclass(frozen=True)
class DTanh(ActionLayer):
    """D-Tanh: DD-SRad with tanh as the squash, which saturates exponentially instead of polynomially."""

    penalty_weight: float = 0.005
    squash = staticmethod(squash.tanh)
    placement = place.hold
    penalise = penalise_latent


@dataclass(frozen=True)
class DDSRadSmooth(DTanh):
    """DD-SRad without the kink at u = 0: a hyperbolic map anchored at prev, or an eighth of F_t off its edges."""

    squash = staticmethod(squash.spherical)
    placement = place.hyperbolic


@dataclass(frozen=True)
class DDSRad(DTanh):
    """a = prev + R_eff(sign u) u / sqrt(1 + u^2) per joint (Eq. reff, ddsrad); u = 0 holds."""

    squash = staticmethod(squash.spherical)

    def __call__(self, latent: Tensor, box: FeasibleBox) -> Action:
        """Map a latent into the box, by `fused.py` where it applies and by the composed definition elsewhere."""
        if not fused.applies(latent, box):
            return super().__call__(latent, box)
        executed, log_det, penalty = fused.ddsrad(latent, box, latent_cap(latent.dtype))
        if self.density != "normalized":
            log_det = log_det + self.placement.log_scale(latent.nan_to_num(nan=0.0), box)
        return Action(executed, executed, log_det, penalty)

    def decide(self, latent: Tensor, box: FeasibleBox) -> Decision:
        """Return ``executed``, which is also the judged action."""
        if not fused.applies(latent, box):
            return super().decide(latent, box)
        executed = fused.ddsrad_execute(latent, box, latent_cap(latent.dtype))
        return Decision(executed, executed)

    def vjp(self, latent: Tensor, box: FeasibleBox) -> tuple[Tensor, Tensor, fused.VJP]:
        """Return the vector-Jacobian product, analytic where `fused.py` applies."""
        if not fused.applies(latent, box):
            return super().vjp(latent, box)
        return fused.ddsrad_pullback(latent, box, latent_cap(latent.dtype))

    def sample_vjp(self, mean: Tensor, std: Tensor, noise: Tensor, box: FeasibleBox) -> Draw:
        """Sample with a vector-Jacobian product, analytic where `fused.py` applies."""
        alike = mean.shape == std.shape == noise.shape and mean.dtype == std.dtype == noise.dtype
        if self.density != "normalized" or not alike or not fused.applies(mean, box):
            return super().sample_vjp(mean, std, noise, box)
        return Draw(*fused.ddsrad_draw(mean, std, noise, box, latent_cap(mean.dtype)))

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Use u / sqrt(1 + u^2) = sin(atan(u)), which needs no cap on u, and Theorem 2 with a clip to the range."""
        if type(box) is not FeasibleBox:
            return super().exported(latent, box)
        down, up, low, high = box.working
        radius = (torch.where(latent >= 0, high, low) - box.prev).maximum(-down).minimum(up).abs()
        moved = box.prev + radius * latent.atan().sin().clamp(-1, 1)
        # Clip to the range, extended to prev where that lies outside it: from there a joint can only return.
        moved = moved.minimum(box.prev.maximum(high)).maximum(box.prev.minimum(low))
        return torch.where(latent.isnan(), box.prev, moved)
