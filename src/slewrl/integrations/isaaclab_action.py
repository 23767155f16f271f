"""IsaacLab's joint position action under hard rate limits (`action_term.py`). Import it once Isaac Sim runs."""

import copy
from typing import Any

from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.integrations.action_term import Given, Guard, previous_action

try:
    from isaaclab.envs.mdp.actions import JointPositionAction, JointPositionActionCfg
    from isaaclab.utils import configclass
except ImportError as error:
    raise UserFacingError(
        f"IsaacLab cannot be imported ({error}): install it with Isaac Sim, and start its AppLauncher first"
    ) from error

__all__ = ["RateLimitedJointPositionAction", "RateLimitedJointPositionActionCfg", "previous_action"]


class RateLimitedJointPositionAction(JointPositionAction):  # type: ignore[misc]
    """Joint position targets that change by at most delta rad per control step and stay in range, exactly."""

    _processed_actions: Tensor

    def __init__(self, cfg: Any, env: Any) -> None:
        robot = env.scene[cfg.asset_name]
        _, driven = robot.find_joints(cfg.joint_names, preserve_order=cfg.preserve_order)
        self.guard = Guard(cfg, robot, driven, env.step_dt)
        narrowed = copy.copy(cfg)
        narrowed.joint_names = self.guard.patterns
        super().__init__(narrowed, env)

    def process_actions(self, actions: Tensor) -> None:
        """Compute the limited targets; called once per control step."""
        super().process_actions(actions)
        self._processed_actions = self.guard.move(actions, self._processed_actions)

    def apply_actions(self) -> None:
        """Pass the targets to the simulator; called every physics step."""
        super().apply_actions()
        self.guard.hold()

    def reset(self, env_ids: Any = None) -> None:
        """Restart from the default pose."""
        super().reset(env_ids)
        self.guard.commands.restart(self.guard.start(), env_ids)


@configclass
class RateLimitedJointPositionActionCfg(JointPositionActionCfg):  # type: ignore[misc]
    """A ``JointPositionActionCfg`` with limits."""

    class_type: type = RateLimitedJointPositionAction
    limits: Given | None = None
    """The limits in rad per control step; required. See ``Guard``."""
    layer: str | None = None
    """None: actions are scaled joint positions, clipped to F_t. A layer's name: actions are latents."""
    hold_others: bool = False
    """Whether joints without limits hold the default pose, outside the action; otherwise they are refused."""
