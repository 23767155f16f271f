"""The parts of a run from its spec: limits, task and agent."""

import dataclasses
from functools import partial
from typing import Any

import torch

from slewrl.agents import agent_class, recipes
from slewrl.agents.base import Agent
from slewrl.envs.reset import parse_reset
from slewrl.envs.tasks import OWN_ROBOT, is_gymnasium, task_preset
from slewrl.envs.vec_env import Layout
from slewrl.layers import make_layer
from slewrl.limits import RateLimits
from slewrl.limits.resolve import resolve_limits
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec


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


def make_agent(spec: RunSpec, limits: RateLimits, layout: Layout) -> Agent:
    """A new agent for a run."""
    layer = make_layer(spec.layer, spec.density, **spec.layer_options)  # type: ignore[arg-type]
    layer.check(limits)
    return agent_class(spec.agent).make(make_config(spec), limits, layer, layout, spec.seed)


def make_config(spec: RunSpec) -> Any:
    """The config of a run's agent: the recipe's options, overridden by the run's own."""
    options = recipes.agent_options(spec.agent, spec.recipe, spec.agent_options)
    return agent_class(spec.agent).Config(
        **{name: tuple(x) if isinstance(x, list) else x for name, x in options.items()}
    )


def on_any_machine(spec: RunSpec) -> RunSpec:
    """The spec of a run that was trained on a GPU, to act without one."""
    options = recipes.agent_options(spec.agent, spec.recipe, spec.agent_options)
    if "device" not in options or torch.cuda.is_available():
        return spec
    without = {"device": "cpu", "compile": False, "amp": "off"}
    return dataclasses.replace(spec, agent_options={**spec.agent_options, **without})
