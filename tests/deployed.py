"""Small trained runs and their bundles, for the tests of deployment."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from slewrl import RateLimits, make_layer
from slewrl.deploy import bundle
from slewrl.deploy.export import Deployable, DeployedPolicy, describe, export_bundle, to_onnx
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

SPEC = RunSpec("Pendulum-v1", steps=300, learning_starts=200, evaluate_every=300, evaluate_episodes=1, batch_size=16)


def trained(path: Path, **changes) -> Path:
    """A run of a few hundred steps."""
    from dataclasses import replace

    spec = replace(SPEC, **{"agent_options": {"hidden": [16, 16]}, **changes})
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder)
    return path


def bundled(path: Path, **changes) -> Path:
    """The bundle of such a run."""
    run = trained(path / "run", **changes)
    export_bundle(run, path / "policy.bundle")
    return path / "policy.bundle"


def untrained(path: Path, limits: RateLimits, layer: str = "ddsrad", size: int = 5, pose: object = None) -> Path:
    """The bundle of a policy with random weights, for any limits."""
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(size + limits.appended, 16), nn.ReLU(), nn.Linear(16, limits.dim))
    with torch.no_grad():
        for weights in net.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator) / 2)
    module = DeployedPolicy(net, make_layer(layer), limits).eval().requires_grad_(False)
    spec = {
        "task": "none", "agent": "random", "layer": layer, "density": "normalized", "seed": 0, "steps": 0,
        "agent_options": {}, "layer_options": {},
    }  # fmt: skip
    start = (limits.low + limits.high) / 2 if pose is None else np.asarray(pose)
    about = describe(path, module, start, limits.dt, (("observation", size),), {"step": 0, "spec": spec})
    made = Deployable(module, about)
    bundle.write(path, about, to_onnx(module, made.sizes, about))
    return path
