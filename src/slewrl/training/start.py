"""``--from RUN``: a new run that begins with the networks of another one, and with nothing else of it.

The other run's newest checkpoint is copied into the new run's folder, so later changes of that run do not matter. A run
under an acceleration limit may begin with the networks of one without: they do not look at v_prev at first.
"""

import dataclasses
from pathlib import Path
from typing import Any

from slewrl.agents.base import Agent
from slewrl.agents.config import network_fields
from slewrl.agents.nets import Ensemble
from slewrl.envs.tasks import is_locomotion, is_simulator, make_vec_env
from slewrl.envs.vec_env import Layout
from slewrl.io.trust import code_named
from slewrl.limits import RateLimits
from slewrl.training import checkpoint
from slewrl.training.run_folder import RunFolder, newest_checkpoint
from slewrl.training.setup import make_config, run_limits, run_task
from slewrl.training.spec import RunSpec


def check_start(spec: RunSpec, agent: Agent, limits: RateLimits, layout: Layout | None) -> None:
    """Refuse a run whose weights do not fit its new ``agent``; ``layout`` is None where it is not known yet."""
    folder = RunFolder(Path(spec.start))
    there = folder.spec()
    if there.agent != spec.agent:
        raise _refusal(spec, f"its agent is {there.agent}, this run's is {spec.agent}")
    new, old = make_config(spec), make_config(there, folder.config())
    for name in network_fields(type(new)):
        here, before = getattr(new, name), getattr(old, name)
        if here != before:
            raise _refusal(spec, f"{name} is {before!r} there, {here!r} here (--set agent.{name}=...)")
    other = run_limits(there, folder)
    if other.names != limits.names:
        raise _refusal(spec, f"its joints are {', '.join(other.names)}, this run's are {', '.join(limits.names)}")
    wanted, stood = (x.task_options.get("pose") or "the robot's own" for x in (spec, there))
    if is_locomotion(spec.task) and wanted != stood:  # what the networks see of angles is relative to it
        raise _refusal(spec, f"the default pose is {stood} there, {wanted} here (--set task.pose=...)")
    _check_acceleration(spec, other, limits, getattr(new, "critic_input", ""))
    if layout is not None and (wrong := _other_layout(there, folder, spec, layout, limits.appended)):
        raise _refusal(spec, wrong)
    weights = _read(newest_checkpoint(folder.path), spec)
    if layout is not None:
        _load(agent, weights, spec, limits)


def _check_acceleration(spec: RunSpec, other: RateLimits, limits: RateLimits, critic_input: str) -> None:
    """Refuse what cannot be carried over between limits with and without an acceleration."""
    if other.acceleration is not None and limits.acceleration is None:
        raise _refusal(spec, "its limits have an acceleration, this run's have none")
    if other.acceleration is None and limits.acceleration is not None and critic_input == "increment":
        raise _refusal(spec, "critic_input=increment has another meaning under an acceleration limit; use action")


def begin_with_weights(agent: Agent, spec: RunSpec, folder: RunFolder, limits: RateLimits) -> None:
    """Give a new agent the weights that the run in ``folder`` begins with."""
    _load(agent, _read(folder.start, spec), spec, limits)


def _other_layout(there: RunSpec, folder: RunFolder, spec: RunSpec, layout: Layout, appended: int) -> str:
    """Says how the other run's observations differ from this one's; empty if they do not.

    Nothing is compared if the other run's task is of another simulator, or names code that was not trusted.
    """
    same = (there.task, there.task_options) == (spec.task, spec.task_options) and folder.robot is None
    if same or is_simulator(there.task) or code_named(there.task):
        return ""
    limits = run_limits(there, folder)
    found = make_vec_env(run_task(there, folder), limits, 1, there.task_options, False).layout
    found = dataclasses.replace(found, size=found.size + appended - limits.appended)  # as with this run's history
    for name in ("size", "privileged", "parts"):
        here, before = getattr(layout, name), getattr(found, name)
        if here != before:
            return f"the {name} of {there.task}'s observations is {before!r}, of {spec.task}'s {here!r}"
    return ""


def _read(path: Path, spec: RunSpec) -> dict[str, Any]:
    """The state of the agent in a checkpoint."""
    try:
        state = checkpoint.load(path).get("agent")
    except checkpoint.CheckpointError as error:
        raise _refusal(spec, str(error)) from None
    if not isinstance(state, dict):
        raise _refusal(spec, f"{path} has no agent: it is of another version")
    return state


def _load(agent: Agent, weights: dict[str, Any], spec: RunSpec, limits: RateLimits) -> None:
    try:
        agent.load_weights(weights if limits.acceleration is None else _with_velocity(agent, weights, limits.dim))
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise _refusal(spec, f"its networks are not of this run's size or kind ({reason})") from error


def _with_velocity(agent: Agent, weights: dict[str, Any], joints: int) -> dict[str, Any]:
    """Weights for observations with v_prev, from those of a run without an acceleration limit."""
    nets = {name: net for name, net in vars(agent).items() if name in agent.networks and isinstance(net, Ensemble)}
    if "actor" not in nets or not nets.keys() <= weights.keys():
        return weights
    at = nets["actor"].sizes[0] - 2 * joints  # the critics' inputs have the action behind the observation
    return weights | {name: net.widened(weights[name], at, joints) for name, net in nets.items()}


def _refusal(spec: RunSpec, why: str) -> ValueError:
    return ValueError(f"--from {spec.start}: its weights do not fit this run: {why}")
