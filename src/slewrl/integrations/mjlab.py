"""VecEnv of mjlab (MuJoCo on a GPU), for `--task mjlab:TASK`.

Of the task's configuration three things change, so that a number handed over is the actuators' target in radians:
its joint position action gets scale 1, no offset and no clip; the encoder bias is left out, since it is subtracted
from the target (and a sum of floats is rounded); and resets are asked for, which keeps an episode's last observation.
Penalties of the raw action's rate are in radians, too, then: smaller than in mjlab's own units.
"""

from typing import Any

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

ACTOR = "actor"
"""mjlab's name of the group of observations that the policy sees."""


class MjlabWorlds(SimulatedWorlds):
    """See the module and ``SimulatedWorlds``.

    All worlds draw from one generator. The physics of a GPU is not deterministic to the bit.

    Args:
        task: a name mjlab knows, such as "Mjlab-Velocity-Flat-Unitree-G1".
        count: N.
        limits: of some or all of the task's joints; default: the paper's of the robot that has them.
        device: default: "cuda:0" if there is one, else "cpu" (slow, for tests).
        seed: of what is drawn once for all episodes, such as friction.
    """

    def __init__(
        self, task: str, count: int, limits: RateLimits | None = None, device: str | None = None, seed: int = 0
    ) -> None:
        config, action = _configuration(task)
        config.scene.num_envs, config.seed = count, seed
        from mjlab.envs import ManagerBasedRlEnv

        device = device or ("cuda:0" if torch.cuda.is_available() else "cpu")
        stream = Stream(device)
        with stream.own():
            self.env = ManagerBasedRlEnv(config, device=device)
        self.term = self.env.action_manager.get_term(action)
        self.robot = self.env.scene[config.actions[action].entity_name]
        self.velocity = velocity_command(self.env.command_manager)
        default = self.robot.data.default_joint_pos[0, self.term.target_ids].clone()
        rig = make_rig(self.term.target_names, default, self.env.step_dt, self.env.observation_manager, ACTOR)
        super().__init__(task, count, rig, stream, limits)
        self._try_targets()

    def _try_targets(self) -> None:
        """Refuse a task that changes targets on their way, before anything is simulated."""
        targets = self.targets(self.history.previous)
        self.env.action_manager.process_action(targets)
        self.env.action_manager.apply_action()
        self._check_applied(self._applied(), targets)

    def _restart(self, seed: int) -> Tensor:
        return side_by_side(self.env.reset(seed=seed)[0], ACTOR)

    def _simulate(self, targets: Tensor) -> Stepped:
        asked = None if self.velocity is None else self.velocity.command[:, :2].clone()
        seen, reward, terminated, truncated, _ = self.env.step(targets)
        last, applied = side_by_side(seen, ACTOR), self._applied()  # a reset will forget the targets
        exploded = ~(last.isfinite().all(1) & reward.isfinite())
        terminated = terminated | exploded
        ended = terminated | truncated
        measures = {}
        if asked is not None:
            measures = velocity_measures(self.robot.data.root_link_lin_vel_b[:, :2], asked)
        # A reset draws new noise for the other worlds' observations, too: they keep what they have seen.
        fresh = last
        if ended.any():
            begun = side_by_side(self.env.reset(env_ids=ended.nonzero().squeeze(1))[0], ACTOR)
            fresh = torch.where(ended[:, None], begun, last)
        return Stepped(applied, last, fresh, reward, terminated, ended, exploded, measures)

    def _applied(self) -> Tensor:
        """(N, J): the actuators' targets, a copy."""
        applied: Tensor = self.robot.data.joint_pos_target[:, self.term.target_ids]
        return applied


def _configuration(task: str) -> tuple[Any, str]:
    """A task's configuration with actions in radians, and the name of its action term."""
    try:
        import mjlab.tasks  # noqa: F401  (registers the tasks)
        from mjlab.envs.mdp import dr
        from mjlab.envs.mdp.actions import JointPositionActionCfg
        from mjlab.tasks.registry import list_tasks, load_env_cfg
    except ImportError as error:
        raise UserFacingError(f"mjlab cannot be imported ({error}): pip install 'slewrl[mjlab]'") from error
    if task not in list_tasks():
        raise ValueError(f"mjlab has no task {task!r}; it has: {', '.join(list_tasks())}")
    config = load_env_cfg(task)
    name, *others = config.actions
    action = config.actions[name]
    if others or type(action) is not JointPositionActionCfg:
        raise ValueError(f"mjlab's {task} has actions {config.actions}, expected joint position targets alone")
    action.scale, action.offset, action.use_default_offset, action.clip = 1.0, 0.0, False, None
    config.events = {key: event for key, event in config.events.items() if event.func is not dr.encoder_bias}
    config.auto_reset = False
    _check_delays(task, config.scene.entities[action.entity_name])
    return config, name


def _check_delays(task: str, robot: Any) -> None:
    for actuator in robot.articulation.actuators:
        if actuator.delay_min_lag != actuator.delay_max_lag:
            raise ValueError(
                f"mjlab's {task} delays {actuator.target_names_expr} by {actuator.delay_min_lag} to "
                f"{actuator.delay_max_lag} physics steps, drawn anew as it runs: a delay that shrinks makes two steps "
                "one at the actuator. Expected one lag for all"
            )
