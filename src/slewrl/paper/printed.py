"""Runs as the paper prints them, where ours differ (docs/deviations.md). Needs no torch."""

from dataclasses import replace
from typing import Any

from slewrl.agents.recipes import RECIPES
from slewrl.training.spec import RunSpec, with_recipe

AGENTS = ("sac", "td3", "fastsac")
"""The paper's agents."""
ENTROPIES = ("sac", "fastsac")
"""The paper's agents with an entropy, which it measures in units of the action."""
TANH_OVER_RANGE = ("boxpre", "post", "boxpro", "none", "qp", "aram")
"""Layers whose squash is a tanh over the action range. With another one on the mean they would reach .76 of it."""
LAYER_OPTIONS: dict[str, dict[str, Any]] = {"boxpre": {"penalty_weight": 0.005}, "srad_qp": {"radius": "min_delta"}}
COMMAND_NOISE = 0.1
"""Exploration noise of TD3 on the latent of those layers; the paper prints none, and 1 suits increments alone."""
LIMITS = {("Humanoid-v5", "tight"): "tight_env_units"}
"""(Task, the paper's name of limits) -> ours, where they differ."""


def as_printed(spec: RunSpec) -> RunSpec:
    """The run as the paper prints it; the run's own options, warm-up and budget stay."""
    if spec.agent not in AGENTS:
        raise ValueError(f"the paper says nothing of {spec.agent}; its agents are: {', '.join(AGENTS)}")
    agent, layer = options(spec.agent, spec.layer)
    return replace(
        with_recipe(spec, "paper" if "paper" in RECIPES[spec.agent] else spec.recipe),
        density="action" if spec.agent in ENTROPIES else spec.density,
        limits=limits(spec.task, spec.limits),
        agent_options={**agent, **spec.agent_options},
        layer_options={**layer, **spec.layer_options},
    )


def as_ours(spec: RunSpec) -> RunSpec:
    """The inverse, but for the limits: our recipe, and what ``as_printed`` sets left out again."""
    ours = with_recipe(spec, "" if spec.recipe == "paper" else spec.recipe)
    if not is_printed(spec):
        return ours
    agent, layer = options(spec.agent, spec.layer)
    return replace(
        ours,
        density=RunSpec().density,
        agent_options={name: x for name, x in spec.agent_options.items() if agent.get(name) != x},
        layer_options={name: x for name, x in spec.layer_options.items() if layer.get(name) != x},
    )


def is_printed(spec: RunSpec) -> bool:
    """Whether a run does as the paper prints it; it may set options besides."""
    names = ("recipe", "density", "limits", "agent_options", "layer_options")
    return spec.agent in AGENTS and all(getattr(as_printed(spec), n) == getattr(spec, n) for n in names)


def options(agent: str, layer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The agent's and the layer's options that ``as_printed`` sets; empty for agents that are not the paper's."""
    if agent not in AGENTS:
        return {}, {}
    commands = layer in TANH_OVER_RANGE
    chosen: dict[str, Any] = {} if commands else {"mean_bound": "tanh"}
    if commands and agent == "td3":
        chosen["exploration_noise"] = COMMAND_NOISE
    return chosen, LAYER_OPTIONS.get(layer, {})


def limits(task: str, name: str) -> str:
    """Our name of the paper's limits on a task."""
    return LIMITS.get((task, name), name)
