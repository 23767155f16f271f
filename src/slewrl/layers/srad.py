"""Spherical radial squashing: the paper's two variants, and the original of Kasaura et al."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer, penalise_latent
from slewrl.limits.box import FeasibleBox


@dataclass(frozen=True)
class SRadBall(ActionLayer):
    """SRad-Strict: a = prev + min delta * u / sqrt(1 + |u|^2), clipped to the range (Eq. srad).

    ``log_det`` is that of the map before the clip at a bound.
    """

    penalty_weight: float = 0.005
    squash = staticmethod(squash.ball)
    placement = place.min_delta_ball
    penalise = penalise_latent

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """Clip to F_t, with no gradient beyond it: near a bound the ball extends outside F_t."""
        return box.clamp(command)


@dataclass(frozen=True)
class SRadQP(SRadBall):
    """SRad-QP: a wide ball around prev, projected onto F_t (for a box the projection is a clip)."""

    radius: Literal["half_range", "min_delta"] = "half_range"
    """"half_range" is consistent with the values that the paper reports; "min_delta" follows its text."""
    placement = place.half_range_ball

    def __post_init__(self) -> None:
        """Choose the placement by ``radius``."""
        super().__post_init__()
        balls = {"half_range": place.half_range_ball, "min_delta": place.min_delta_ball}
        if self.radius not in balls:
            raise ValueError(f"radius is {self.radius!r}, expected one of {', '.join(balls)}")
        object.__setattr__(self, "placement", balls[self.radius])


@dataclass(frozen=True)
class SRadGauge(ActionLayer):
    """Kasaura et al.'s SRad: a = c + (tanh L / L) R u, L = max |u_i|, c and R the middle and half-widths of F_t."""

    squash = staticmethod(squash.gauge)
    placement = place.interval
