"""VecEnv of mjlab (MuJoCo on a GPU), for `--task mjlab:TASK`.

The task's configuration changes in three ways, so that an action is the actuators' target in radians: the joint
position action gets scale 1, no offset and no clip; there is no encoder bias, which is subtracted from targets; and
resets are explicit, which keeps the last observation of an episode (docs/robots.md).
"""

from typing import Any

import torch
from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.integrations import simulator
from slewrl.integrations.simulator import SimulatedVecEnv, Stepped, Stream
from slewrl.limits import RateLimits


class MjlabVecEnv(SimulatedVecEnv):
    """The vectorised environments of an mjlab task; see ``SimulatedVecEnv``.

    All environments share one random generator. The physics of a GPU is not deterministic to the bit.

    Args:
        task: mjlab's name of the task, such as "Mjlab-Velocity-Flat-Unitree-G1".
        count: the number of environments N.
        limits: the limits of some or all joints; default: the paper's limits of the robot.
        device: default: "cuda:0" if there is one, else "cpu" (slow, for tests).
        seed: the seed of what is drawn once for all episodes, such as friction.
    """

    actor = "actor"

    def __init__(
        self, task: str, count: int, limits: RateLimits | None = None, device: str | None = None, seed: int = 0
    ) -> None:
        config, action = _configuration(task)
        config.scene.num_envs, config.seed = count, seed
        from mjlab.envs import ManagerBasedRlEnv

        device = simulator.default_device(device)
        stream = Stream(device)
        with stream.active():
            env = ManagerBasedRlEnv(config, device=device)
        self.term = env.action_manager.get_term(action)
        self.robot = env.scene[config.actions[action].entity_name]
        default = self.robot.data.default_joint_pos[0, self.term.target_ids].clone()
        rig = simulator.make_rig(env, self.term.target_names, default, self.actor)
        super().__init__(task, count, env, rig, stream, limits)
        # Refuse a task that changes targets before they reach the actuators, before anything is simulated.
        targets = self.targets(self.history.previous)
        self.env.action_manager.process_action(targets)
        self.env.action_manager.apply_action()
        self._check_applied(self._applied(), targets)

    def _simulate(self, targets: Tensor) -> Stepped:
        commanded = None if self.velocity is None else self.velocity.command[:, :2].clone()
        seen, reward, terminated, truncated, _ = self.env.step(targets)
        next_obs, applied = self._seen(seen), self._applied()  # a reset clears the targets
        exploded = ~(next_obs.isfinite().all(1) & reward.isfinite())
        terminated = terminated | exploded
        ended = terminated | truncated
        measures = {}
        if commanded is not None:
            measures = simulator.velocity_measures(self.robot.data.root_link_lin_vel_b[:, :2], commanded)
        obs = next_obs
        if ended.any():  # a reset draws new noise for the other environments, too: they keep their observations
            first = self._seen(self.env.reset(env_ids=ended.nonzero().squeeze(1))[0])
            obs = torch.where(ended[:, None], first, next_obs)
        return Stepped(applied, next_obs, obs, reward, terminated, ended, exploded, measures)

    def _applied(self) -> Tensor:
        """A copy of the actuators' targets, (N, J)."""
        return self.robot.data.joint_pos_target[:, self.term.target_ids]


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
    name = simulator.pass_radians(f"mjlab's {task}", config.actions, JointPositionActionCfg)
    config.events = {key: event for key, event in config.events.items() if event.func is not dr.encoder_bias}
    config.auto_reset = False
    _check_delays(task, config.scene.entities[config.actions[name].entity_name])
    return config, name


def _check_delays(task: str, robot: Any) -> None:
    for actuator in robot.articulation.actuators:
        if actuator.delay_min_lag != actuator.delay_max_lag:
            raise ValueError(
                f"mjlab's {task} delays {actuator.target_names_expr} by {actuator.delay_min_lag} to "
                f"{actuator.delay_max_lag} physics steps, drawn anew as it runs: a delay that shrinks makes two steps "
                "one at the actuator. Expected one lag for all"
            )
