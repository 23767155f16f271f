"""Layers centred on the middle of F_t: the same reachable set as DD-SRad, without a dead half-line at a bound."""

from dataclasses import dataclass

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer, penalise_latent


@dataclass(frozen=True)
class IntervalTanh(ActionLayer):
    """a = mid + half tanh(u) on [low, high] of F_t: ordinary SAC's squash on the moving interval."""

    squash = staticmethod(squash.tanh)
    placement = place.interval


@dataclass(frozen=True)
class IntervalSRad(ActionLayer):
    """a = mid + half u / sqrt(1 + u^2): DD-SRad's squash on the moving interval."""

    penalty_weight: float = 0.005
    squash = staticmethod(squash.spherical)
    placement = place.interval
    penalise = penalise_latent
