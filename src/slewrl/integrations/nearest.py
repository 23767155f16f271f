"""The clip of a policy's actions under limits that the policy keeps itself: what lies in F_t passes unchanged."""

import torch
from torch import Tensor

from slewrl.limits import FeasibleBox


def nearest(wanted: Tensor, box: FeasibleBox) -> Tensor:
    """Return the command of F_t nearest to ``wanted`` (..., d), in prev's dtype; NaN brakes.

    Under an acceleration limit ``box.clamp`` brakes for its target, which would change commands of a joint at speed
    that are in F_t already. Without one both are the same.
    """
    held = torch.where(wanted == wanted, wanted.to(box.prev.dtype), box.anchor)
    return torch.clamp(box.round(held), box.low, box.high)
