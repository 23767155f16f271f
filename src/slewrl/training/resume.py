"""Which checkpoint a run can resume from: one of the same run, with its replay buffer and logs intact.

The budget decides the rows that only a last step logs and the size of the replay buffer, so a run that was extended
finds here what it keeps of both.
"""

import dataclasses
from typing import Any

from slewrl.agents.replay import Replay, window
from slewrl.layers import layer_class
from slewrl.training import checkpoint
from slewrl.training.checkpoint import CheckpointError, of_run
from slewrl.training.run_folder import LOGS, RunFolder
from slewrl.training.spec import RunSpec

LOG_EVERY = 1_000
"""Steps between rows of train.csv; with many environments it is 16 of all of them."""


def usable(state: dict[str, Any], spec: RunSpec, folder: RunFolder, replay: Replay | None) -> dict[str, Any]:
    """The checkpoint as this run resumes from it; a CheckpointError if it does not fit or something is damaged."""
    of_run(state, spec, folder)
    if "worlds" not in state:
        raise CheckpointError("it is of an older slewrl: go on with that one")
    state = without_last_rows(state, spec)
    if wrong := folder.lost(state["csv"], state.get("csv_digests", {})):
        raise CheckpointError(wrong)
    if replay is not None and (wrong := forgotten(state, spec) or replay.damage(state)):
        raise CheckpointError(wrong)
    return state


def without_last_rows(state: dict[str, Any], spec: RunSpec) -> dict[str, Any]:
    """The checkpoint without the rows that only the last step of a smaller budget logs."""
    budget = state["spec"]["steps"]
    if budget == spec.steps or state["step"] < budget or due_logs(state["step"], spec) == LOGS:
        return state
    if "before_last" not in state:
        raise CheckpointError(
            f"it is the last of a run of {budget:,} steps by an older slewrl: its logs have rows that a run of "
            f"{spec.steps:,} steps would not have"
        )
    return {**state, **state["before_last"]}


def forgotten(state: dict[str, Any], spec: RunSpec) -> str:
    """Says that the replay of a smaller budget has dropped rows which this one would sample; empty if it has not."""
    before, now = (window(replay_sizes(s)[0], s.environments) for s in (budget_of(state, spec), spec))
    if int(state["replay_written"].max()) <= before or before == now:
        return ""
    return f"its replay samples from {before} rows an environment, and has dropped some that {spec.steps:,} steps need"


def budget_of(state: dict[str, Any], spec: RunSpec) -> RunSpec:
    """The spec with the budget of a checkpoint."""
    return dataclasses.replace(spec, steps=state["spec"]["steps"])


def replay_sizes(spec: RunSpec) -> tuple[int, int]:
    """Capacity of the replay buffer, and the steps since the oldest checkpoint whose rows it must not overwrite."""
    per_step = 2 + layer_class(spec.layer).hook.extra_rows  # rows a step writes at most
    # The replay buffer itself counts two rows per step.
    return min(spec.capacity, per_step * spec.steps), -(-checkpoint.KEEP * spec.evaluate_every * per_step // 2)


def due_logs(step: int, spec: RunSpec) -> tuple[str, ...]:
    """The LOGS that get a row after a step, whatever the budget."""
    every = {"train.csv": max(LOG_EVERY, 16 * spec.environments), "eval.csv": spec.evaluate_every}
    return tuple(name for name in LOGS if step % every[name] < spec.environments)
