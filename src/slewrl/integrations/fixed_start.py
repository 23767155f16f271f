"""The reset action of frameworks in which it is one fixed pose for all episodes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slewrl.envs.reset import Unsaid, known_start
from slewrl.errors import shortened
from slewrl.limits import RateLimits


def fixed_start(name: str, limits: RateLimits, given: Any, unsaid: Unsaid) -> NDArray[np.float32]:
    """Read the reset action as ``known_start`` does, but refuse a function, which nothing would call after a reset."""
    if callable(given):
        raise ValueError(
            f"{name}: reset_action is {shortened(given)}, expected one fixed pose: a number for all joints, one per "
            'joint, {joint: number} or "middle"; functions and info["reset_action"] are read by slewrl.RateLimit'
        )
    return known_start(name, limits, given, unsaid)
