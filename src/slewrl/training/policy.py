"""A trained policy, loaded from its run folder, to act with and to evaluate."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.agents.base import Agent
from slewrl.envs.tasks import is_locomotion, make_vec_env
from slewrl.envs.vec_env import Layout
from slewrl.errors import UserFacingError
from slewrl.io.files import refuse_linked_folders
from slewrl.io.trust import code_named, require_trust
from slewrl.limits import RateLimits
from slewrl.training import checkpoint
from slewrl.training.run_folder import RunFolder, write_csv
from slewrl.training.setup import make_agent, on_any_machine, run_limits, run_task
from slewrl.training.spec import EVALUATION_SEED, RunSpec

if TYPE_CHECKING:
    from slewrl.robots.spec import RobotSpec
    from slewrl.training.evaluate import Act, Evaluation


@dataclass(frozen=True)
class Policy:
    """What a run has learned, without exploration."""

    act: "Act"
    agent: Agent
    spec: RunSpec
    task: str
    """The spec's task, or the run's own copy of the user's robot."""
    limits: RateLimits
    layout: Layout
    reset_action: NDArray[np.float32]
    """The action (d,) that counts as executed before the first step."""
    dt: float | None
    """Control period in seconds, where the limits or the task have one."""
    robot: "RobotSpec | None"
    """The robot of a walking task of ours."""
    step: int
    """The step of the checkpoint."""
    complaints: list[str]
    """What was wrong with newer checkpoints."""

    def evaluate(self, episodes: int, seed: int = EVALUATION_SEED) -> "Evaluation":
        """Evaluate the policy in seeded episodes of the run's task."""
        from slewrl.training.evaluate import make_evaluator  # export and play act without it

        evaluator = make_evaluator(self.task, self.spec.task_options, self.limits, self.agent.layer.extra_violations)
        return evaluator(self.act, episodes, seed)


def load_policy(run: Path, trust: bool = False) -> Policy:
    """The policy of a run's newest whole checkpoint; ``trust`` lets code run that its run.json names."""
    torch.set_num_threads(1)
    folder = RunFolder(run)
    spec = folder.spec()
    require_trust(code_named(spec.task, spec.layer, spec.agent), run, trust)
    limits = run_limits(spec, folder)
    if not checkpoint.checkpoints(folder.checkpoints):
        raise FileNotFoundError(f"{run} has no checkpoint yet: train it first (slewrl train --resume {run})")
    policy, complaints = checkpoint.use_newest(
        folder.checkpoints, lambda state: _policy(checkpoint.of_run(state, spec, folder), spec, folder, limits)
    )
    return replace(policy, complaints=complaints)


def _policy(state: dict[str, Any], spec: RunSpec, folder: RunFolder, limits: RateLimits) -> Policy:
    try:
        task = run_task(spec, folder)
        vec_env = make_vec_env(task, limits, 1, spec.task_options, training=False)
    except ImportError as error:
        raise UserFacingError(
            f"task {spec.task!r}: {error} (a run folder does not hold its environment's module: put it where you "
            "stand, or on PYTHONPATH)"
        ) from error
    try:
        agent = make_agent(on_any_machine(spec), limits, vec_env.layout, folder.config())
        agent.load_state_dict(state["agent"])
    except UserFacingError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:  # forged, or of another version
        reason = f"{type(error).__name__} {str(error)[:200]}"
        raise checkpoint.CheckpointError(f"its agent does not fit the one of run.json ({reason})") from error
    return Policy(
        lambda x: agent.act(x, explore=False),
        agent,
        spec,
        task,
        limits,
        vec_env.layout,
        vec_env.reset_action,
        limits.dt or vec_env.dt,
        getattr(vec_env, "robot", None),
        state["step"],
        [],
    )


def evaluate_run(
    run: Path, episodes: int, into: str = "evaluation", trust: bool = False
) -> "tuple[Policy, Evaluation]":
    """Evaluate a run's policy and write its tables, the one of the episodes last, to a folder of the run."""
    refuse_linked_folders(run)
    policy = load_policy(run, trust)
    from slewrl.locomotion.statue import statue_return  # export and play act without it

    result = policy.evaluate(episodes)
    names = policy.limits.names
    write_csv(run / into / "density.csv", result.density(names))
    write_csv(run / into / "increments.csv", result.some_increments(names))
    write_csv(run / into / "calm.csv", result.by_joint(names))
    write_csv(run / into / "commands.csv", result.some_commands(names))
    if is_locomotion(policy.task):
        earned = statue_return(policy.task, policy.limits, policy.spec.task_options)
        write_csv(run / into / "statue.csv", [{"return": earned}])
    write_csv(run / into / "episodes.csv", result.episodes())
    return policy, result
