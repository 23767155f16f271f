"""The action layers by name. To add one, write a file with a subclass of ActionLayer and add a line here."""

import dataclasses
import inspect
from typing import Any

from slewrl.layers.base import Action, ActionLayer, Density
from slewrl.limits import RateLimits
from slewrl.registry import Registry, option_names

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
        "budget": "slewrl.layers.budget:Budget",
    },
)
BENCHMARK_LAYERS = Registry("layer", {"qp": "slewrl.paper.rivals.qp:QP", "aram": "slewrl.paper.rivals.aram:ARAM"})
"""Layers for comparison in training and benchmarks only; `qp` calls a solver (extra `bench`)."""


def layer_class(name: str) -> type[ActionLayer]:
    """The layer class of a name in ``LAYERS`` or ``BENCHMARK_LAYERS``, or of a dotted path, which is imported."""
    kind = (BENCHMARK_LAYERS if name in BENCHMARK_LAYERS else LAYERS)[name]
    if not (isinstance(kind, type) and issubclass(kind, ActionLayer)) or inspect.isabstract(kind):
        raise ValueError(f"layer {name!r} is {kind!r}, expected a class that subclasses ActionLayer")
    return kind


def make_layer(name: str, density: Density = "normalized", **options: Any) -> ActionLayer:
    """Make a layer by name (see ``LAYERS``) or by dotted path "package.module:Class".

    Args:
        name: the layer, e.g. "ddsrad"; the names of ``BENCHMARK_LAYERS`` work, too.
        density: the units of the log-probability: "normalized", "action_scaled" or "action" (the paper's).
        options: the layer's own fields, e.g. ``penalty_weight``.
    """
    kind = layer_class(name)
    if dataclasses.is_dataclass(kind):
        known = option_names(kind)
        if unknown := set(options) - set(known):
            raise TypeError(f"layer {name!r} has no option {min(unknown)!r}; it has: {', '.join(known) or 'none'}")
    return kind(density=density, **options)


def hard_layer(given: str | ActionLayer, limits: RateLimits) -> ActionLayer:
    """Make a layer that keeps these limits under any training algorithm; refuses one that cannot."""
    layer = make_layer(given) if isinstance(given, str) else given
    if not layer.hard:
        raise ValueError(f"layer {given!r} limits nothing: leave it out, or take another of docs/layers.md")
    if layer.hook.ours_alone:
        raise ValueError(f"layer {given!r} {layer.hook.ours_alone}")
    layer.check(limits)
    return layer


__all__ = ["BENCHMARK_LAYERS", "LAYERS", "Action", "ActionLayer", "Density", "hard_layer", "layer_class", "make_layer"]
