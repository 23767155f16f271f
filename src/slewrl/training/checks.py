"""Checks of a spec before its run begins: task, agent, layer and numbers must be able to train together."""

import dataclasses
from typing import Any

from slewrl.agents import agent_class
from slewrl.agents.base import Agent
from slewrl.envs.smoothing import Smoothing
from slewrl.envs.tasks import (
    check_gymnasium_task,
    check_simulator,
    check_task_options,
    is_gymnasium,
    is_simulator,
    make_vec_env,
)
from slewrl.envs.vec_env import Layout
from slewrl.layers import layer_class
from slewrl.registry import did_you_mean, option_names
from slewrl.training.setup import load_limits, make_agent, with_reset_action
from slewrl.training.spec import RunSpec, check_numbers
from slewrl.training.start import check_start


def check_spec(spec: RunSpec) -> None:
    """Refuse a run that could not begin, before anything is written."""
    if not spec.task:
        raise ValueError("--task is missing, e.g. --task HalfCheetah-v5 (or --resume RUN)")
    check_numbers(spec)
    kind = agent_class(spec.agent)
    check_options("agent", kind.Config, spec.agent_options)
    check_options("layer", layer_class(spec.layer), spec.layer_options)
    check_task_options(spec.task, spec.task_options)
    if is_gymnasium(spec.task):
        check_gymnasium_task(spec.task)
        check_smoothing(spec)
    if spec.steps <= spec.learning_starts and not kind.on_policy:
        raise ValueError(
            f"steps is {spec.steps}, but the first {spec.learning_starts} only fill the replay: nothing is learned "
            "(--steps more, or --learning-starts fewer)"
        )
    limits, layout = with_reset_action(spec, load_limits(spec.task, spec.limits)), None
    if is_simulator(spec.task):  # its environments may take a minute to make, and a process may have them only once
        check_simulator(spec.task)
    else:
        vec_env = make_vec_env(spec.task, limits, 1, spec.task_options)
        limits, layout = vec_env.limits, vec_env.layout
    agent = make_agent(spec, limits, layout or Layout(limits.appended + 1))
    check_agent(spec, agent)
    if spec.start:
        check_start(spec, agent, limits, layout)


def check_smoothing(spec: RunSpec) -> None:
    """Refuse options of a filter without one."""
    smoothing = Smoothing(**spec.task_options)
    if not smoothing.filter and (idle := sorted({"cutoff", "observed"} & spec.task_options.keys())):
        raise ValueError(f"task.{idle[0]} is of a filter, and there is none: add --set task.filter=ema or butterworth")


def check_agent(spec: RunSpec, agent: Agent) -> None:
    """Refuse an agent that could not learn in the steps of the run, or not with this layer."""
    first = agent.steps_before_learning(spec.environments)
    if spec.steps < first:
        raise ValueError(
            f"steps is {spec.steps}, but {spec.agent} collects {first} (agent.rollout x environments) before it first "
            "learns: nothing is learned (--steps more, or --set agent.rollout fewer)"
        )
    agent.layer.hook(agent.layer).check(spec.layer, spec.agent)
    if spec.density != RunSpec().density and not agent.measures_entropy:
        raise ValueError(
            f"density is {spec.density!r}, but {spec.agent} measures no entropy of actions: leave --density out"
        )


def check_options(owner: str, kind: Any, options: dict[str, Any]) -> None:
    """Refuse options that ``kind``, a dataclass, does not have."""
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"{owner} has the options {kind!r}, expected a dataclass")
    known = option_names(kind)
    if unknown := set(options) - set(known):
        hint = did_you_mean(min(unknown), known)
        raise ValueError(
            f"--set {owner}.{min(unknown)}: the {owner} has no such option; it has: {', '.join(known)}.{hint}"
        )
