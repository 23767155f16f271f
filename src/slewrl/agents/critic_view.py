"""What critics see of an action: its increment in units of the limit, or the action as it is.

Next to a previous action of the same size, the increment of .02 to .2 that a policy can choose is a small difference of
two large inputs, and its gradient is all that an actor gets.
"""

import numpy as np
import torch
from torch import Tensor

from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action


class CriticView:
    """From what a layer says is judged to what critics see, and gradients back.

    Args:
        limits: of the d joints; where up and down differ, the larger is the unit.
        kind: "increment", (judged - a_prev) / delta, or "action".
    """

    def __init__(self, limits: RateLimits, kind: str) -> None:
        self.joints, self.kind = limits.dim, kind
        self.per_unit = torch.from_numpy(1 / np.maximum(limits.up, limits.down)).float()

    def write(self, out: Tensor, judged: Tensor, observation: Tensor) -> None:
        """Into ``out`` (B, d) what critics see of ``judged`` (B, d) at augmented observations (B, n)."""
        if self.kind == "action":
            if out is not judged:
                out.copy_(judged)
            return
        torch.sub(judged, previous_action(observation, self.joints), out=out)
        out.mul_(self.per_unit)

    def back(self, grad: Tensor) -> Tensor:
        """From the gradient (B, d) of what critics see to that of what is judged."""
        return grad if self.kind == "action" else grad * self.per_unit
