"""Rebuilds a bundle's policy in torch, and compares it with the graph in ONNX Runtime."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slewrl.agents.normalize import Normalizer
from slewrl.deploy import bundle
from slewrl.deploy.export import OUTPUTS, DeployedPolicy, inputs, random_history
from slewrl.deploy.network import Activation, Clamp, LayerNorm, Normalize, Step, read_network
from slewrl.errors import shortened
from slewrl.io.trust import code_named, require_trust
from slewrl.layers import make_layer
from slewrl.limits import RateLimits


def rebuilt(found: bundle.Bundle, trust: bool = False) -> DeployedPolicy:
    """Rebuild a bundle's policy in torch, from the weights of its graph and the limits and layer of its manifest."""
    trained, limits = bundle.trained(found), found.limits
    spec = trained.spec
    require_trust(code_named(layer=spec["layer"]), "the bundle", trust)
    net = nn.Sequential(*map(_module, read_network(found)))
    if trained.tanh_mean:
        net.append(nn.Tanh())
    try:
        layer = make_layer(spec["layer"], spec["density"], **spec["layer_options"])
    except (TypeError, ValueError, LookupError, AttributeError, ImportError) as error:
        raise bundle.BundleError(f"its layer {shortened(spec['layer'])} cannot be made: {error}") from error
    arrays = {key: getattr(limits, key) for key in ("up", "down", "low", "high", *bundle.ACCELERATION)}
    return DeployedPolicy(net, layer, RateLimits(**arrays, names=limits.names)).eval().requires_grad_(False)


def _module(step: Step) -> nn.Module:
    """Convert one step of a network to a torch module."""
    made: nn.Module
    if isinstance(step, Activation):
        return {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}[step.name]()
    if isinstance(step, Clamp):
        return Clamped(*map(torch.from_numpy, step))
    if isinstance(step, Normalize):
        made, names = Normalizer(len(step.shift), 0), ("shift", "scale")
    elif isinstance(step, LayerNorm):
        made, names = nn.LayerNorm(len(step.weight), step.epsilon), ("weight", "bias")
    else:
        made, names = nn.Linear(*reversed(step.weight.shape)), ("weight", "bias")
    with torch.no_grad():
        for name in names:
            getattr(made, name).copy_(torch.from_numpy(getattr(step, name)))
    return made


class Clamped(nn.Module):
    """A clip of each of n entries to [low, high], (n,) each."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.register_buffer("low", low)
        self.register_buffer("high", high)

    def forward(self, x: Tensor) -> Tensor:
        """Clip x (..., n)."""
        return torch.minimum(torch.maximum(x, self.low), self.high)


def compare(module: DeployedPolicy, found: bundle.Bundle, cases: int, seed: int = 0) -> NDArray[np.float64]:
    """Return the largest difference per joint between torch and ONNX Runtime over random inputs, (d,)."""
    from slewrl.deploy.controller import session

    rng = np.random.default_rng(seed)
    observation = rng.normal(size=(cases, found.observation_size)).astype(np.float32)
    observation *= 10 ** rng.uniform(-2, 2, (cases, 1)).astype(np.float32)
    history = random_history(module.limits, cases, rng)
    given = {"observation": observation, **history}
    theirs = session(found).run(OUTPUTS, given)[0]
    ours = module.trained(*(torch.from_numpy(given[name]) for name in inputs(module.limits))).numpy()
    return np.abs(ours.astype(np.float64) - theirs).max(0)
