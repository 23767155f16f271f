"""slewrl: reinforcement learning under hard actuator rate limits."""

from slewrl.box import FeasibleBox
from slewrl.layers import LAYERS, Action, ActionLayer, make_layer
from slewrl.limits import RateLimits

__version__ = "0.1.0"
__all__ = ["LAYERS", "Action", "ActionLayer", "FeasibleBox", "RateLimits", "__version__", "make_layer"]
