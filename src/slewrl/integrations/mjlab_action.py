"""mjlab's joint position action under hard rate limits (see `action_term.py`), and an audit at the actuators.

    cfg.actions["joint_pos"] = RateLimitedJointPositionActionCfg(**vars(cfg.actions["joint_pos"]), limits="G1:paper")

clips whatever a policy asks for. ``rate_limit`` sets a task up for PPO, with a layer instead of the clip.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slewrl.envs.history import ActionHistory
from slewrl.errors import UserFacingError
from slewrl.integrations.action_term import PREVIOUS, Given, Guard, LimitedCommands, previous_action
from slewrl.integrations.simulator import joint_columns
from slewrl.limits import RateLimits

try:
    from mjlab.envs.mdp.actions import JointPositionAction, JointPositionActionCfg
    from mjlab.managers.observation_manager import ObservationGroupCfg, ObservationTermCfg
except ImportError as error:
    raise UserFacingError(f"mjlab cannot be imported ({error}): pip install 'slewrl[mjlab]'") from error

__all__ = [
    "ActuatorAudit",
    "RateLimitedJointPositionAction",
    "RateLimitedJointPositionActionCfg",
    "previous_action",
    "rate_limit",
]


class RateLimitedJointPositionAction(JointPositionAction):  # type: ignore[misc]
    """Joint position targets that change by at most delta rad per control step and stay in range, exactly.

    mjlab subtracts an encoder bias from commands. A difference of floats is rounded, so two things are limited: the
    commands, which the policy sees and a robot would send, and the actuators' targets.
    """

    _processed_actions: Tensor

    def __init__(self, cfg: Any, env: Any) -> None:
        robot = env.scene[cfg.entity_name]
        _, driven = robot.find_joints_by_actuator_names(cfg.actuator_names)
        self.guard = Guard(cfg, robot, driven, env.step_dt)
        super().__init__(replace(cfg, actuator_names=self.guard.patterns), env)
        self.targets = LimitedCommands(self.guard.limits, self.guard.start(self._bias()))

    def process_actions(self, actions: Tensor) -> None:
        """Compute the limited targets; called once per control step."""
        super().process_actions(actions)
        self._processed_actions = self.guard.move(actions, self._processed_actions)
        self.targets.follow(self._processed_actions - self._bias())

    def apply_actions(self) -> None:
        """Pass the targets to the actuators; called every physics step."""
        self._entity.set_joint_position_target(self.targets.last, joint_ids=self._target_ids)
        self.guard.hold()

    def reset(self, env_ids: Any = None) -> None:
        """Restart from the default pose."""
        super().reset(env_ids)
        self.guard.commands.restart(self.guard.start(), env_ids)
        self.targets.restart(self.guard.start(self._bias()), env_ids)

    def _bias(self) -> Tensor:
        return self._entity.data.encoder_bias[:, self._target_ids]


@dataclass(kw_only=True)
class RateLimitedJointPositionActionCfg(JointPositionActionCfg):  # type: ignore[misc]
    """A ``JointPositionActionCfg`` with limits."""

    limits: Given
    """The limits in rad per control step; see ``Guard``. mjlab's `train` writes its configuration to YAML, which takes
    a name, a path or numbers, but no RateLimits."""
    layer: str | None = None
    """None: actions are scaled joint positions, clipped to F_t. A layer's name: actions are latents."""
    hold_others: bool = False
    """Whether joints without limits hold the default pose, outside the action; otherwise they are refused."""

    def build(self, env: Any) -> RateLimitedJointPositionAction:
        """Build the term; called by mjlab's action manager."""
        return RateLimitedJointPositionAction(self, env)


def rate_limit(env: Any, agent: Any, limits: Given, layer: str = "ddsrad", hold_others: bool = False) -> None:
    """Set up a task's two configurations for rsl_rl's PPO under rate limits; nothing else is needed.

    Args:
        env: ``load_env_cfg(task)``; gets a limited joint position action and the previous action as an observation.
        agent: ``load_rl_cfg(task)``; gets actor, critic and algorithm of `rsl_rl.py`, which see the previous action.
        limits: see ``Guard``.
        layer: the name of the layer.
        hold_others: whether joints without limits hold the default pose.
    """
    name, *others = env.actions
    action = env.actions[name]
    if others or type(action) is not JointPositionActionCfg:
        kinds = ", ".join(f"{key} ({type(term).__name__})" for key, term in env.actions.items())
        raise ValueError(f"the task has actions {kinds}, expected one JointPositionActionCfg")
    env.actions[name] = RateLimitedJointPositionActionCfg(
        entity_name=action.entity_name,
        actuator_names=action.actuator_names,
        limits=limits,
        layer=layer,
        hold_others=hold_others,
    )
    env.observations[PREVIOUS] = ObservationGroupCfg(terms={PREVIOUS: ObservationTermCfg(func=previous_action)})
    agent.obs_groups = {key: (*groups, PREVIOUS) for key, groups in agent.obs_groups.items()}
    for part, cls in (("algorithm", "PPO"), ("actor", "Actor"), ("critic", "Critic")):
        getattr(agent, part).class_name = f"slewrl.integrations.rsl_rl:RateLimited{cls}"


class ActuatorAudit:
    """Counts exactly the joint commands outside F_t at the simulator's controls, whatever computed them.

    An episode begins at the default pose, less the encoder bias; every control of a control step is compared with the
    last one of the step before. It reads back the controls of every physics step, so it is for tests.

    Args:
        env: mjlab's ManagerBasedRlEnv.
        limits: the limits of some of the robot's joints.
        entity: the robot's name.
    """

    def __init__(self, env: Any, limits: RateLimits, entity: str = "robot") -> None:
        self.env, self.limits, self.robot = env, limits, env.scene[entity]
        self.steps = 0
        """The number of control steps, summed over robots."""
        self.violations = 0
        """The number of joint commands outside F_t, of ``steps * limits.dim``."""
        self.worst = 0.0
        """The largest excess over a rate limit, rad."""
        self.joints = joint_columns(entity, self.robot.joint_names, limits.names)
        self.columns = _control_columns(env.sim.mj_model, entity, [self.robot.joint_names[i] for i in self.joints])
        self.now = self._start()
        self.history = ActionHistory(limits, self.now, whole=False)
        """The controls at the end of each control step."""
        self.broken = np.zeros(self.now.shape, bool)
        self._process, self._step = env.action_manager.process_action, env.sim.step
        env.action_manager.process_action, env.sim.step = self._note_action, self._note_controls

    def __str__(self) -> str:
        """The counts in words."""
        counted = f"{self.steps * self.limits.dim:,} joint commands, {self.violations:,} beyond a limit"
        return f"{counted}, by up to {self.worst:.1e} rad" if self.worst else counted

    def _start(self) -> NDArray[np.float32]:
        pose = (self.robot.data.default_joint_pos - self.robot.data.encoder_bias)[:, self.joints]
        return self.limits.clamp(pose).cpu().numpy()

    def _note_action(self, action: Tensor) -> None:
        begun = self.env.episode_length_buf.cpu().numpy() == 0
        self.history.append(self.now)
        self.history.restart(self._start(), begun | (self.steps == 0))
        self.broken[:] = False
        self.steps += len(begun)
        self._process(action)

    def _note_controls(self) -> None:
        self.now = self.env.sim.data.ctrl[:, self.columns].cpu().numpy().copy()
        broken = self.history.outside(self.now)
        self.violations += int((broken & ~self.broken).sum())
        self.broken |= broken
        moved = self.now.astype(np.float64) - self.history.previous
        self.worst = max(self.worst, float((moved - self.limits.up).max()), float((-moved - self.limits.down).max()))
        self._step()


def _control_columns(model: Any, entity: str, joints: list[str]) -> list[int]:
    """The index of the control that drives each joint."""
    driven = [model.joint(model.actuator_trnid[i, 0]).name for i in range(model.nu)]
    return [driven.index(f"{entity}/{joint}") for joint in joints]
