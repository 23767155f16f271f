"""A model of `sb3.py`, ready to be written to a bundle."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from torch import nn

from slewrl.agents.normalize import Normalizer
from slewrl.deploy.export import Clamped, Deployable, DeployedPolicy, describe
from slewrl.envs.augment import start_action
from slewrl.errors import UserFacingError
from slewrl.integrations.sb3 import load
from slewrl.layers import LAYERS
from slewrl.layers.base import ActionLayer


def deployable_model(path: Path, trust: bool = False) -> Deployable:
    """The policy of a model that ``save`` wrote, acting without exploration."""
    model: Any = load(path)
    policy = model.policy
    if not isinstance(policy.observation_space, spaces.Box):
        raise UserFacingError(f"{path} sees {policy.observation_space}, but a bundle's observations are flat")
    limits, layer = policy.limits, policy.layer
    net = policy.actor.latent_module()
    if model.normalizer:
        net = nn.Sequential(*_normalizer(limits.dim, **model.normalizer), *net)
    net = net.cpu().eval().requires_grad_(False)
    pose = start_action(limits, None, np.float32)
    parts = (("observation", policy.observation_space.shape[0] - limits.dim),)
    spec = {
        "task": model.task,
        "agent": f"Stable-Baselines3's {type(model).__name__}",
        "seed": model.seed,
        "steps": model._total_timesteps,
        "agent_options": {},
        **_recipe(layer),
    }
    provenance = {
        "step": model.num_timesteps,
        "spec": spec,
        "trained_with": {"stable-baselines3": stable_baselines3.__version__},
    }
    module = DeployedPolicy(net, layer, limits).eval()
    return Deployable(module, describe(path, module, pose, limits.dt, parts, provenance))


def _normalizer(joints: int, mean: Any, variance: Any, epsilon: float, clip: float) -> tuple[Normalizer, Clamped]:
    """What VecNormalize does to observations (N, n), of which the last ``joints`` are the previous action."""
    scaled, clamped, n = Normalizer(len(mean), joints), Clamped(len(mean)), len(mean) - joints
    scaled.shift[:n] = torch.from_numpy(mean[:n])
    scaled.scale[:n] = torch.from_numpy(1 / np.sqrt(variance[:n] + epsilon))
    clamped.high[:n], clamped.high[n:] = clip, torch.finfo(torch.float32).max
    clamped.low.copy_(-clamped.high)
    return scaled, clamped


def _recipe(layer: ActionLayer) -> dict[str, Any]:
    """How ``make_layer`` makes this one."""
    kind = type(layer)
    names = [name for name in LAYERS if LAYERS[name] is kind]
    options = {field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)}
    density = options.pop("density")
    return {
        "layer": names[0] if names else f"{kind.__module__}:{kind.__qualname__}",
        "density": density,
        "layer_options": options,
    }
