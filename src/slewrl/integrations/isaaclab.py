"""VecEnv of IsaacLab (PhysX on a GPU), for `--task isaaclab:TASK`: its manager-based tasks, as of 2.3.

The task's joint position action gets scale 1, no offset and no clip, so that an action is the actuators' target in
radians (docs/robots.md).
"""

import warnings
from functools import cache
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.integrations import simulator
from slewrl.integrations.simulator import SimulatedVecEnv, Stepped, Stream, as_tensor
from slewrl.limits import RateLimits


class IsaacVecEnv(SimulatedVecEnv):
    """The vectorised environments of an IsaacLab task; see ``SimulatedVecEnv``. A process can hold one of these.

    The measures of an episode leave out its last step, whose state is gone. Environments share one random generator.

    Args:
        task: the id of a registered task, such as "Isaac-Velocity-Rough-H1-v0".
        count: the number of environments N.
        limits: the limits of some or all joints; default: the paper's limits of the robot.
        device: default: "cuda:0" if there is one, else "cpu".
        seed: the seed of what is drawn once for all episodes, such as friction.
    """

    actor = "policy"

    def __init__(
        self, task: str, count: int, limits: RateLimits | None = None, device: str | None = None, seed: int = 0
    ) -> None:
        device = simulator.default_device(device)
        config, action = _configuration(task, count, device)
        config.seed = seed
        self.kept: dict[str, Tensor] = {}
        """Observation group -> observations before the last reset, if a recorder keeps them."""
        self.terminal = _keep_terminal(config, self.kept)
        """Where the last observation of an episode comes from: "final_obs", "recorder" or "lost"."""
        if self.terminal == "lost":
            warnings.warn(
                f"{task}: this IsaacLab shows no last observation of an episode; the first of the next one stands in "
                "for it, which biases the value of episodes that are cut off. IsaacLab 2.3 or later has it",
                stacklevel=2,
            )
        stream = Stream(device)
        with stream.active():
            env = _make(task, config)
        self.term = env.action_manager.get_term(action)
        self.robot = env.scene[self.term.cfg.asset_name]
        ids, joints = self.robot.find_joints(self.term.cfg.joint_names, preserve_order=self.term.cfg.preserve_order)
        default = as_tensor(self.robot.data.default_joint_pos)[0, ids].clone()
        super().__init__(task, count, env, simulator.make_rig(env, joints, default, self.actor), stream, limits)
        # Refuse a task that changes targets before they reach the actuators, before anything is simulated.
        targets = self.targets(self.history.previous)
        self.env.action_manager.process_action(targets)
        self._check_applied(self.term.processed_actions, targets)

    def _simulate(self, targets: Tensor) -> Stepped:
        commanded = None if self.velocity is None else self.velocity.command[:, :2].clone()
        seen, reward, terminated, truncated, extras = self.env.step(targets)
        ended = terminated | truncated
        obs = self._seen(seen)
        next_obs = torch.where(ended[:, None], self._terminal(extras, obs), obs) if ended.any() else obs
        if not (next_obs.isfinite().all() and obs.isfinite().all() and reward.isfinite().all()):
            raise UserFacingError(f"{self.task}: an observation or a reward is not finite: the simulation blew up")
        measures = {}
        if commanded is not None:
            velocity = torch.where(ended[:, None], torch.nan, as_tensor(self.robot.data.root_lin_vel_b)[:, :2])
            measures = simulator.velocity_measures(velocity, commanded)
        exploded = torch.zeros_like(ended)
        return Stepped(self.term.processed_actions, next_obs, obs, reward, terminated, ended, exploded, measures)

    def _terminal(self, extras: dict[str, Any], obs: Tensor) -> Tensor:
        """The last observations (N, m) of the episodes that have just ended, or ``obs`` if they are lost."""
        if self.terminal == "lost":
            return obs
        return self._seen(self.kept if self.terminal == "recorder" else extras["final_obs"])


def _configuration(task: str, count: int, device: str) -> tuple[Any, str]:
    """A task's configuration with actions in radians, and the name of its action term."""
    _launch(device)
    import isaaclab_tasks  # noqa: F401  (registers the tasks)
    from isaaclab.envs.mdp import JointPositionActionCfg
    from isaaclab_tasks.utils import parse_env_cfg

    config = parse_env_cfg(task, device=device, num_envs=count)
    if not hasattr(config, "actions"):
        raise ValueError(
            f"{task} is a direct task, which applies actions by its own code: expected a manager-based one"
        )
    terms = {name: term for name, term in vars(config.actions).items() if term is not None}
    return config, simulator.pass_radians(task, terms, JointPositionActionCfg)


def _make(task: str, config: Any) -> Any:
    return gym.make(task, cfg=config, disable_env_checker=True).unwrapped


@cache
def _launch(device: str) -> Any:
    """Start Isaac Sim, once; IsaacLab's tasks cannot be imported before."""
    try:
        from isaaclab.app import AppLauncher
    except ImportError as error:
        raise UserFacingError(
            f"IsaacLab cannot be imported ({error}): install it with Isaac Sim, and run slewrl by its python"
        ) from error
    return AppLauncher(headless=True, device=device)


def _keep_terminal(config: Any, kept: dict[str, Tensor]) -> str:
    """Configure the task to keep the last observation of an episode, which ``step`` of IsaacLab up to 2.3 hides.

    Returns:
        "final_obs": newer versions return it. "recorder": a recorder term copies into ``kept`` the observations that
        2.3 computes before its reset. "lost": the first observation of the next episode takes its place, which biases
        the value of truncated episodes.
    """
    if hasattr(config, "compute_final_obs"):
        config.compute_final_obs = True
        return "final_obs"
    if getattr(config, "recorders", None) is None:
        return "lost"
    from isaaclab.managers import DatasetExportMode, RecorderTerm, RecorderTermCfg

    class LastObservation(RecorderTerm):  # type: ignore[misc]
        """Copies the observations that IsaacLab computes for recorders before a reset; records nothing."""

        def record_post_step(self) -> tuple[None, None]:
            kept.update({name: group.clone() for name, group in self._env.obs_buf.items()})
            return None, None

    if not any(isinstance(term, RecorderTermCfg) for term in vars(config.recorders).values()):
        config.recorders.dataset_export_mode = DatasetExportMode.EXPORT_NONE  # else a file is opened for nothing
    config.recorders.last_observation = RecorderTermCfg(class_type=LastObservation)
    return "recorder"
