"""What critics see of an action: its increment in units of the limit, or the action as it is."""

import numpy as np
import torch
from torch import Tensor

from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity


class CriticView:
    """Maps the judged action to the critics' input, and gradients back.

    ``kind`` is "action" or "increment", (judged - a_prev) / delta, with the larger delta where up and down differ.
    With an acceleration limit A an increment is what a policy can choose of it: (judged - a_prev - v_prev) / A.
    """

    def __init__(self, limits: RateLimits, kind: str) -> None:
        self.joints, self.kind = limits.dim, kind
        self.moving = limits.acceleration is not None
        unit = np.maximum(limits.up, limits.down)
        if limits.acceleration is not None and limits.deceleration is not None:
            unit = np.maximum(limits.acceleration, limits.deceleration)
        self.per_unit = torch.from_numpy(1 / unit).float()

    def to(self, device: torch.device) -> "CriticView":
        """Itself, on a device."""
        self.per_unit = self.per_unit.to(device)
        return self

    def seen(self, judged: Tensor, observation: Tensor) -> Tensor:
        """The critics' input for ``judged`` (B, d) at augmented observations (B, n), or at what they end in."""
        if self.kind == "action":
            return judged
        increment = judged - previous_action(observation, self.joints)
        if self.moving:
            increment = increment - previous_velocity(observation, self.joints)
        return increment * self.per_unit

    def write(self, out: Tensor, judged: Tensor, observation: Tensor) -> None:
        """Write the critics' input for ``judged`` (B, d) at augmented observations (B, n) into ``out`` (B, d)."""
        if self.kind == "action":
            if out is not judged:
                out.copy_(judged)
            return
        torch.sub(judged, previous_action(observation, self.joints), out=out)
        if self.moving:
            out.sub_(previous_velocity(observation, self.joints))
        out.mul_(self.per_unit)

    def back(self, grad: Tensor) -> Tensor:
        """From the gradient (B, d) of the critics' input to that of the judged action."""
        return grad if self.kind == "action" else grad * self.per_unit
