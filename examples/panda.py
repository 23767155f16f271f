"""A Franka Panda in MuJoCo as a Gymnasium task: the hand goes to a point and stays there.

    slewrl limits panda_joint_limits.yaml --dt 0.02 --out panda.yaml          (in this folder)
    slewrl train --task panda:PandaReach-v0 --limits panda.yaml

The action is a target position for each of the seven joints, in rad, every 20 ms. Lengths are the Denavit-Hartenberg
parameters that Franka Emika publishes (FCI documentation); links are plain capsules, so masses and inertias are not the
robot's. See docs/datasheet_to_robot.md.
"""

import gymnasium as gym
import mujoco
import numpy as np

DT = 0.02  # s, ten steps of the simulator
HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # rad, Franka's ready pose
LOW = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
HIGH = np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
# a [m], alpha in quarter turns, d [m] of each joint (Craig's convention)
LINKS = ((0, 0, 0.333), (0, -1, 0), (0, 1, 0.316), (0.0825, 1, 0), (-0.0825, -1, 0.384), (0, 1, 0), (0.088, 1, 0))


def model():
    """The arm as MJCF: seven hinges about z, each in the body of the one before."""
    inner, motors = '<site name="hand" pos="0 0 0.107"/>', ""
    for i, (a, turn, d) in reversed(list(enumerate(LINKS))):
        quat = f"0.70710678 {0.70710678 * turn} 0 0" if turn else "1 0 0 0"
        offset = f"{a} {-d * turn} {0 if turn else d}"
        limits = f'range="{LOW[i]} {HIGH[i]}"'
        joint = f'<joint name="panda_joint{i + 1}" axis="0 0 1" {limits}/><geom type="sphere"/>'
        inner = f'<body pos="{offset}" quat="{quat}">{joint}{inner}</body>'
        motors = f'<position joint="panda_joint{i + 1}"/>{motors}'
    options = '<compiler angle="radian"/><option timestep="0.002" integrator="implicitfast" gravity="0 0 0"/>'
    joints = '<joint damping="1" armature="0.1"/><position kp="600" kv="50" inheritrange="1"/>'
    geoms = '<geom size="0.06" density="1000" contype="0" conaffinity="0"/>'
    arm = f"<worldbody>{inner}</worldbody><actuator>{motors}</actuator>"
    return f"<mujoco>{options}<default>{joints}{geoms}</default>{arm}</mujoco>"


class PandaReach(gym.Env):
    """Actions (7,): joint targets in rad. Reward: minus the distance from hand to goal, in m."""

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(model())
        self.data = mujoco.MjData(self.model)
        low, high = self.model.actuator_ctrlrange.T.astype(np.float32)
        self.action_space = gym.spaces.Box(low, high)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (20,), np.float32)

    def reset(self, *, seed=None, options=None):
        """At rest in the ready pose; the goal is where the hand is in some pose nearby."""
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.goal = self._hand(np.clip(HOME + self.np_random.uniform(-0.5, 0.5, 7), LOW, HIGH))
        self._hand(HOME)
        self.data.ctrl[:] = HOME
        return self._observation(), {"reset_action": HOME.copy()}

    def step(self, action):
        """Hand the targets to the motors for 20 ms."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 10)
        return self._observation(), -float(np.linalg.norm(self._away())), False, False, {}

    def _hand(self, pose):
        self.data.qpos[:] = pose
        mujoco.mj_forward(self.model, self.data)
        return self.data.site("hand").xpos.copy()

    def _away(self):
        return self.goal - self.data.site("hand").xpos

    def _observation(self):
        return np.concatenate([self.data.qpos, self.data.qvel, self.goal, self._away()]).astype(np.float32)


gym.register("PandaReach-v0", PandaReach, max_episode_steps=100)
