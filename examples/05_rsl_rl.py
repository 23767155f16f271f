"""rsl_rl's PPO on mjlab's G1 under rate limits, with an exact count at the actuators.

python examples/05_rsl_rl.py [ITERATIONS [ROBOTS]]           needs pip install "slewrl[mjlab]"; 24 steps an iteration
python examples/05_rsl_rl.py [ITERATIONS [ROBOTS]] by-hand   mjlab's own code and the clip people write, for contrast
"""

import sys
from dataclasses import asdict

import mjlab.tasks  # noqa: F401  (registers them)
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

from slewrl import RateLimits
from slewrl.integrations.mjlab_action import ActuatorAudit, rate_limit
from slewrl.integrations.simulator import joint_columns


class ByHand(RslRlVecEnvWrapper):
    """clip(action, prev - delta / scale, prev + delta / scale): mjlab scales the action to radians afterwards."""

    def step(self, actions: torch.Tensor):
        """Clip, and step."""
        self.prev = torch.clamp(actions, self.prev - self.reach, self.prev + self.reach)
        seen = super().step(self.prev)
        self.prev[seen[2].bool()] = 0.0
        return seen


by_hand, said = "by-hand" in sys.argv, [int(word) for word in sys.argv[1:] if word.isdigit()]
iterations, robots = (*said, *(4, 8)[len(said) :])
limits = RateLimits.preset("G1", "paper")  # of legs and waist; the arms hold
cfg, agent = load_env_cfg("Mjlab-Velocity-Flat-Unitree-G1"), load_rl_cfg("Mjlab-Velocity-Flat-Unitree-G1")
cfg.scene.num_envs = robots
if not by_hand:
    rate_limit(cfg, agent, limits, hold_others=True)  # all that slewrl asks for
env = ManagerBasedRlEnv(cfg, device="cpu")
wrapped = (ByHand if by_hand else RslRlVecEnvWrapper)(env)
if by_hand:
    joints, term = joint_columns("G1", env.scene["robot"].joint_names, limits.names), env.action_manager._terms
    wrapped.prev, wrapped.reach = torch.zeros(robots, 29), torch.full((robots, 29), torch.inf)
    wrapped.reach[:, joints] = torch.from_numpy(limits.delta).float() / term["joint_pos"].scale[:, joints]
    limits = RateLimits(limits.delta, -10, 10, names=limits.names)  # this clip knows no range: count the rate alone
audit = ActuatorAudit(env, limits)
MjlabOnPolicyRunner(wrapped, asdict(agent), None, "cpu").learn(iterations)
print(f"{audit.steps:,} steps of a robot, {audit}")
