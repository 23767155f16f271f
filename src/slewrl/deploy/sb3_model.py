"""A model of `sb3.py`, ready to be written to a bundle."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
from gymnasium import spaces

from slewrl.deploy.export import Deployable, DeployedPolicy, describe
from slewrl.envs.augment import start_action
from slewrl.errors import UserFacingError
from slewrl.integrations.sb3 import load
from slewrl.layers import LAYERS
from slewrl.layers.base import ActionLayer


def deployable_model(path: Path) -> Deployable:
    """The policy of a model that ``save`` wrote, acting without exploration."""
    model: Any = load(path)
    policy = model.policy
    if not isinstance(policy.observation_space, spaces.Box):
        raise UserFacingError(f"{path} sees {policy.observation_space}, but a bundle's observations are flat")
    if model.normalized:
        raise UserFacingError(
            f"{path} was trained on observations that VecNormalize normalised, which are no part of the file: "
            "train without (norm_obs=False) to export"
        )
    limits, layer = policy.limits, policy.layer
    net = policy.actor.latent_module().cpu().eval().requires_grad_(False)
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
    return Deployable(
        DeployedPolicy(net, layer, limits).eval(), describe(path, limits, pose, limits.dt, parts, provenance)
    )


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
