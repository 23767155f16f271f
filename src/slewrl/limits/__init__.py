"""Rate limits: the numbers, the box they make around the previous action, and the files they come from.

Names are imported when first used: the arithmetic (`boxmath`) and the parsing need no torch, the box does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slewrl.limits.box import FeasibleBox
    from slewrl.limits.rate_limits import RateLimits

__all__ = ["FeasibleBox", "RateLimits"]

_HOMES = {
    "FeasibleBox": "slewrl.limits.box",
    "RateLimits": "slewrl.limits.rate_limits",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slewrl.limits' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)
