"""The parts of a run from its spec: limits, task and agent."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from slewrl.agents import agent_class, recipes
from slewrl.agents.base import Agent
from slewrl.envs.reset import parse_reset
from slewrl.envs.tasks import OWN_ROBOT, is_gymnasium, task_preset
from slewrl.envs.vec_env import Layout
from slewrl.errors import UserFacingError
from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.limits.resolve import resolve_limits
from slewrl.registry import option_names
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec

PLAIN = (bool, int, float, str, list, tuple, type(None))


def run_limits(spec: RunSpec, folder: RunFolder) -> RateLimits:
    """The limits of a run: its own copy of the file they came from, or a preset."""
    limits = load_limits(run_task(spec, folder), str(folder.limits) if folder.limits.exists() else spec.limits)
    return with_reset_action(spec, limits)


def load_limits(task: str, limits: str) -> RateLimits:
    """Limits by preset name or from a limits.yaml."""
    return resolve_limits(limits, partial(task_preset, task), label="--limits")


def with_reset_action(spec: RunSpec, limits: RateLimits) -> RateLimits:
    """The limits with the run's own reset action, if it has one."""
    if not spec.reset_action:
        return limits
    if not is_gymnasium(spec.task):
        raise ValueError(f"--reset-action is for Gymnasium tasks: {spec.task} starts from its robot's default pose")
    return limits.with_reset(parse_reset(spec.reset_action))


def run_task(spec: RunSpec, folder: RunFolder) -> str:
    """The task of a run; a user's own robot is read from the run's copy of its file."""
    return f"{OWN_ROBOT}{folder.robot}" if folder.robot else spec.task


def make_agent(spec: RunSpec, limits: RateLimits, layout: Layout, config: Mapping[str, Any] | None = None) -> Agent:
    """A new agent for a run; ``config`` is what its run.json holds of one that has begun."""
    layer = make_layer(spec.layer, spec.density, **spec.layer_options)  # type: ignore[arg-type]
    layer.check(limits)
    return agent_class(spec.agent).make(make_config(spec, config), limits, layer, layout, spec.seed)


def make_config(spec: RunSpec, config: Mapping[str, Any] | None = None) -> Any:
    """The config of a run's agent: the recipe's options, or the ``config`` of a run that has begun, and its own."""
    kind = agent_class(spec.agent).Config
    options = recipes.agent_options(spec.agent, spec.recipe, {**(config or {}), **spec.agent_options})
    if config and (unknown := config.keys() - set(option_names(kind))):
        raise UserFacingError(
            f"run.json has {min(unknown)!r} in the config of its agent, which this slewrl does not know: use the one "
            "it came from"
        )
    return kind(**{name: tuple(x) if isinstance(x, list) else x for name, x in options.items()})


def settings(config: Any) -> dict[str, Any]:
    """A config's values for run.json, without those that JSON cannot hold, as a user's own agent may have."""
    values = {name: getattr(config, name) for name in option_names(config)}
    return {name: list(x) if isinstance(x, tuple) else x for name, x in values.items() if isinstance(x, PLAIN)}


def on_any_machine(spec: RunSpec) -> RunSpec:
    """The spec of a run that was trained on a GPU, to act without one."""
    options = recipes.agent_options(spec.agent, spec.recipe, spec.agent_options)
    if "device" not in options or torch.cuda.is_available():
        return spec
    without = {"device": "cpu", "compile": False, "amp": "off"}
    return dataclasses.replace(spec, agent_options={**spec.agent_options, **without})
