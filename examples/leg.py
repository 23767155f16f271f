"""A leg in MuJoCo as a Gymnasium task: hip, knee and ankle of leg.urdf, hung from a fixed pelvis.

    slewrl train --task leg:Leg-v0 --limits limits.yaml          (in this folder)

The action is what the motors get on the robot, too: a target position for every joint, in rad, every 20 ms. The toe has
to go to a point and stay there. See docs/datasheet_to_robot.md.
"""

import gymnasium as gym
import mujoco
import numpy as np

JOINTS = ("left_hip_pitch_joint", "left_knee_joint", "left_ankle_joint")
DT = 0.02  # s, ten steps of the simulator
MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <default>
    <joint axis="0 1 0" damping="1" armature="0.05"/>
    <position kp="200" kv="10" inheritrange="1"/>
    <geom size="0.04" density="800" contype="0" conaffinity="0"/>
  </default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="left_hip_pitch_joint" range="-3.14 2.53"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4"/>
      <body pos="0 0 -0.4">
        <joint name="left_knee_joint" range="-0.26 2.05"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.4"/>
        <body pos="0 0 -0.4">
          <joint name="left_ankle_joint" range="-0.87 0.52"/>
          <geom type="capsule" fromto="-0.05 0 -0.05 0.15 0 -0.05"/>
          <site name="toe" pos="0.15 0 -0.05"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="left_hip_pitch_joint"/>
    <position joint="left_knee_joint"/>
    <position joint="left_ankle_joint"/>
  </actuator>
</mujoco>
"""


def observe(position, velocity, goal):
    """What the policy sees, (8,): joint positions [rad] and velocities [rad/s], (3,) each, and the goal [m], (2,)."""
    return np.concatenate([position, velocity, goal]).astype(np.float32)


class Leg(gym.Env):
    """Actions (3,): joint targets in rad. Reward: minus the distance from toe to goal, in m."""

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(MODEL)
        self.data = mujoco.MjData(self.model)
        low, high = self.model.actuator_ctrlrange.T.astype(np.float32)
        self.action_space = gym.spaces.Box(low, high)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)

    def reset(self, *, seed=None, options=None):
        """At rest, straight down, give or take; the goal is where the toe is in some random pose.

        The info says where the joints are, so that the first step is limited from there.
        """
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.np_random.uniform(self.model.jnt_range[:, 0] / 3, self.model.jnt_range[:, 1] / 3)
        mujoco.mj_forward(self.model, self.data)
        self.goal = self._toe()
        self.data.qpos[:] = self.np_random.uniform(-0.02, 0.02, 3)
        mujoco.mj_forward(self.model, self.data)
        return observe(self.data.qpos, self.data.qvel, self.goal), {"reset_action": self.data.qpos.copy()}

    def step(self, action):
        """Hand the targets to the motors for 20 ms."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 10)
        reward = -float(np.linalg.norm(self._toe() - self.goal))
        return observe(self.data.qpos, self.data.qvel, self.goal), reward, False, False, {}

    def _toe(self):
        return self.data.site("toe").xpos[[0, 2]].copy()


gym.register("Leg-v0", Leg, max_episode_steps=100)
