"""The action layers by name. To add one: a file with a subclass of ActionLayer, and a line here."""

from typing import Any

from slewrl.layers.base import Action, ActionLayer, Density
from slewrl.registry import Registry

LAYERS = Registry(
    "layer",
    {
        "ddsrad": "slewrl.layers.ddsrad:DDSRad",
        "ddsrad_smooth": "slewrl.layers.ddsrad:DDSRadSmooth",
        "dtanh": "slewrl.layers.ddsrad:DTanh",
        "boxpre": "slewrl.layers.projection:BoxPre",
        "post": "slewrl.layers.projection:Post",
        "boxpro": "slewrl.layers.projection:BoxPro",
        "srad_ball": "slewrl.layers.srad:SRadBall",
        "srad_qp": "slewrl.layers.srad:SRadQP",
        "srad_gauge": "slewrl.layers.srad:SRadGauge",
        "interval_tanh": "slewrl.layers.interval:IntervalTanh",
        "interval_srad": "slewrl.layers.interval:IntervalSRad",
        "truncnorm": "slewrl.layers.truncnorm:TruncNorm",
        "none": "slewrl.layers.projection:NoLimit",
    },
)


def make_layer(name: str, density: Density = "normalized", **options: Any) -> ActionLayer:
    """A layer by name (see ``LAYERS``) or by dotted path "package.module:Class".

    Args:
        name: e.g. "ddsrad".
        density: units of the log-probability: "normalized", "action_scaled" or "action" (the paper's).
        options: the layer's own fields, e.g. ``penalty_weight``.
    """
    layer: ActionLayer = LAYERS[name](density=density, **options)
    return layer


__all__ = ["LAYERS", "Action", "ActionLayer", "Density", "make_layer"]
