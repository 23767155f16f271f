"""VecEnv of IsaacLab (PhysX on a GPU), for `--task isaaclab:TASK`: its manager-based tasks, as of 2.3.

The task's joint position action gets scale 1, no offset and no clip, so that a number handed over is the actuators'
target in radians. Penalties of the raw action's rate are in radians, too, then.

IsaacLab begins the next episode within ``step`` and, up to 2.3, does not show the last observation of the one that
ended. ``IsaacWorlds.terminal`` says where it comes from: "final_obs", which newer versions hand over; "recorder", a
recorder term, for which 2.3 computes observations before its reset; or "lost": then the first observation of the next
episode stands in, which biases the value of an episode that was cut off (one that was terminated has none).
"""

import warnings
from functools import cache
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.integrations.simulator import (
    SimulatedWorlds,
    Stepped,
    Stream,
    make_rig,
    side_by_side,
    velocity_command,
    velocity_measures,
)
from slewrl.limits import RateLimits

ACTOR = "policy"
"""IsaacLab's name of the group of observations that the policy sees."""


class IsaacWorlds(SimulatedWorlds):
    """See the module and ``SimulatedWorlds``. A process holds one of them: Isaac Sim is one simulation.

    The measures of an episode leave out its last step, whose state is gone. All worlds draw from one generator.

    Args:
        task: an id IsaacLab registered, such as "Isaac-Velocity-Rough-H1-v0".
        count: N.
        limits: of some or all of the task's joints; default: the paper's of the robot that has them.
        device: default: "cuda:0" if there is one, else "cpu".
        seed: of what is drawn once for all episodes, such as friction.
    """

    def __init__(
        self, task: str, count: int, limits: RateLimits | None = None, device: str | None = None, seed: int = 0
    ) -> None:
        device = device or ("cuda:0" if torch.cuda.is_available() else "cpu")
        config, action = _configuration(task, count, device)
        config.seed = seed
        self.kept: dict[str, Tensor] = {}
        """Observations before the last reset, by group, if a recorder keeps them."""
        self.terminal = _keep_terminal(config, self.kept)
        if self.terminal == "lost":
            warnings.warn(
                f"{task}: this IsaacLab shows no last observation of an episode; the first of the next one stands in "
                "for it, which biases the value of episodes that are cut off. IsaacLab 2.3 or later has it",
                stacklevel=2,
            )
        stream = Stream(device)
        with stream.own():
            self.env = _make(task, config)
        self.term = self.env.action_manager.get_term(action)
        self.robot = self.env.scene[self.term.cfg.asset_name]
        self.velocity = velocity_command(self.env.command_manager)
        ids, joints = self.robot.find_joints(self.term.cfg.joint_names, preserve_order=self.term.cfg.preserve_order)
        default = _tensor(self.robot.data.default_joint_pos)[0, ids].clone()
        rig = make_rig(joints, default, self.env.step_dt, self.env.observation_manager, ACTOR)
        super().__init__(task, count, rig, stream, limits)
        self._try_targets()

    def _try_targets(self) -> None:
        """Refuse a task that changes targets on their way, before anything is simulated."""
        targets = self.targets(self.history.previous)
        self.env.action_manager.process_action(targets)
        self._check_applied(self.term.processed_actions, targets)

    def _restart(self, seed: int) -> Tensor:
        return side_by_side(self.env.reset(seed=seed)[0], ACTOR)

    def _simulate(self, targets: Tensor) -> Stepped:
        asked = None if self.velocity is None else self.velocity.command[:, :2].clone()
        seen, reward, terminated, truncated, extras = self.env.step(targets)
        ended = terminated | truncated
        fresh = side_by_side(seen, ACTOR)
        last = torch.where(ended[:, None], self._terminal(extras, fresh), fresh) if ended.any() else fresh
        if not (last.isfinite().all() and fresh.isfinite().all() and reward.isfinite().all()):
            raise UserFacingError(f"{self.task}: an observation or a reward is not finite: the simulation blew up")
        measures = {}
        if asked is not None:
            velocity = torch.where(ended[:, None], torch.nan, _tensor(self.robot.data.root_lin_vel_b)[:, :2])
            measures = velocity_measures(velocity, asked)
        exploded = torch.zeros_like(ended)
        return Stepped(self.term.processed_actions, last, fresh, reward, terminated, ended, exploded, measures)

    def _terminal(self, extras: dict[str, Any], fresh: Tensor) -> Tensor:
        """(N, m): right in worlds whose episode has just ended, unless it is lost."""
        if self.terminal == "lost":
            return fresh
        return side_by_side(self.kept if self.terminal == "recorder" else extras["final_obs"], ACTOR)


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
    name, *others = terms
    if others or type(terms[name]) is not JointPositionActionCfg:
        raise ValueError(f"{task} has actions {terms}, expected joint position targets alone")
    action = terms[name]
    action.scale, action.offset, action.use_default_offset, action.clip = 1.0, 0.0, False, None
    return config, name


def _make(task: str, config: Any) -> Any:
    return gym.make(task, cfg=config, disable_env_checker=True).unwrapped


@cache
def _launch(device: str) -> Any:
    """Start Isaac Sim, once; nothing of IsaacLab's tasks can be imported before."""
    try:
        from isaaclab.app import AppLauncher
    except ImportError as error:
        raise UserFacingError(
            f"IsaacLab cannot be imported ({error}): install it with Isaac Sim, and run slewrl by its python"
        ) from error
    return AppLauncher(headless=True, device=device)


def _keep_terminal(config: Any, kept: dict[str, Tensor]) -> str:
    """Have the last observation of an episode kept, if there is a way to; returns which, see ``IsaacWorlds``."""
    if hasattr(config, "compute_final_obs"):
        config.compute_final_obs = True
        return "final_obs"
    if getattr(config, "recorders", None) is None:
        return "lost"
    from isaaclab.managers import DatasetExportMode, RecorderTerm, RecorderTermCfg

    class LastObservation(RecorderTerm):  # type: ignore[misc]
        """Copies what IsaacLab computes for recorders before it resets; records nothing."""

        def record_post_step(self) -> tuple[None, None]:
            kept.update({name: group.clone() for name, group in self._env.obs_buf.items()})
            return None, None

    if not any(isinstance(term, RecorderTermCfg) for term in vars(config.recorders).values()):
        config.recorders.dataset_export_mode = DatasetExportMode.EXPORT_NONE  # else a file is opened for nothing
    config.recorders.last_observation = RecorderTermCfg(class_type=LastObservation)
    return "recorder"


def _tensor(value: Any) -> Tensor:
    """IsaacLab 2.3's data are tensors; 3.0's have them under this name."""
    tensor: Tensor = getattr(value, "torch", value)
    return tensor
