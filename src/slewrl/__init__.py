"""slewrl: reinforcement learning under hard actuator rate limits.

Names are imported when first used, so that `import slewrl` is instant and the code that runs on a robot needs no
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slewrl.campaign.frame import load_campaign
    from slewrl.integrations.gymnasium import RateLimit, RateLimitVector
    from slewrl.layers import LAYERS, Action, ActionLayer, make_layer
    from slewrl.limits import RateLimits
    from slewrl.limits.box import FeasibleBox

__version__ = "0.1.0"
__all__ = [
    "LAYERS",
    "Action",
    "ActionLayer",
    "FeasibleBox",
    "RateLimit",
    "RateLimitVector",
    "RateLimits",
    "__version__",
    "load_campaign",
    "make_layer",
]

_HOMES = {
    "FeasibleBox": "slewrl.limits.box",
    "LAYERS": "slewrl.layers",
    "Action": "slewrl.layers",
    "ActionLayer": "slewrl.layers",
    "load_campaign": "slewrl.campaign.frame",
    "make_layer": "slewrl.layers",
    "RateLimit": "slewrl.integrations.gymnasium",
    "RateLimitVector": "slewrl.integrations.gymnasium",
    "RateLimits": "slewrl.limits",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slewrl' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
