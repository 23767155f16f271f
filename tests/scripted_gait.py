"""A scripted walk, played without physics: feet on lines and arcs, joint angles by inverse kinematics.

It is a plain one, neither exact nor pretty: nine tenths of the commanded speed, two thirds of the wanted swing height,
and a base whose speed swings by .12 m/s, which lets the standing foot slip.
"""

import mujoco
import numpy as np

from slewrl.locomotion import frames
from slewrl.locomotion.rewards import SWING_HEIGHT
from slewrl.robots.mjcf import mjcf

PACE, LIFT, SWING = 0.9, 2 / 3, 0.12
REACH, HEIGHTS = np.linspace(-0.3, 0.3, 25), np.linspace(0, LIFT * SWING_HEIGHT, 7)


def walk(worlds, seed=0):
    """The returns (N,) of the walk through one episode of each world, whose commands are to go straight ahead."""
    worlds.reset(seed)
    leg = Leg(worlds.robot, worlds.limits)
    physics, total, ground = worlds.physics, np.zeros(worlds.count), worlds.physics.qpos[:, :3].copy()
    for t in range(1, worlds.length + 1):
        ahead, speed = PACE * worlds.command[:, 0], PACE * worlds.command[:, 0] + SWING * np.cos(0.3 * t)
        phase = 2 * np.pi * worlds.frequency * t * worlds.dt + worlds.first_phase
        before, qpos = physics.qpos.copy(), physics.qpos.copy()
        forward = frames.heading(qpos[:, 3:7])
        qpos[:, :2] += forward * (speed * worlds.dt)[:, None]
        qpos[:, 2] = ground[:, 2] - leg.sinks
        qpos[:, 7:] = worlds.pose
        for side, shift in (("left", 0), ("right", np.pi)):
            qpos[:, 7 + leg.columns[side]] = leg.angles(*step(phase + shift, ahead / (4 * worlds.frequency)))
        qvel = np.zeros_like(physics.qvel)
        for k in range(worlds.count):
            mujoco.mj_differentiatePos(physics.models[0], qvel[k], worlds.dt, before[k] if t > 1 else qpos[k], qpos[k])
        physics.place(qpos, qvel)
        total += worlds.judge()[1]
        worlds.disturb()
    return total / worlds.task.return_unit


def step(phase, half):
    """How far ahead of its middle place a foot is, and how high, at a phase: back on a line, forth on an arc."""
    phase = np.mod(phase + np.pi / 2, 2 * np.pi)  # swings below pi
    swings = phase < np.pi
    place = np.where(swings, -np.cos(phase), 3 - 2 * phase / np.pi)
    return half * place, np.where(swings, LIFT * SWING_HEIGHT * np.sin(phase) ** 2, 0.0)


class Leg:
    """Angles of hip, knee and ankle that put a level foot where it is wanted, with the hip as high as ever reaches."""

    def __init__(self, robot, limits):
        self.model = mujoco.MjModel.from_xml_string(mjcf(robot, visuals=False))
        self.data, self.height, self.pose = mujoco.MjData(self.model), robot.base_height, limits
        pitches = ("hip_pitch", "knee", "ankle_pitch" if "left_ankle_pitch" in limits.names else "ankle")
        self.columns = {
            side: np.array([limits.names.index(f"{side}_{joint}") for joint in pitches]) for side in ("left", "right")
        }
        self.first = robot.default_pose.astype(float)
        self.sinks = next(sinks for sinks in np.arange(0, 0.3, 0.005) if self._tabulate(sinks))

    def angles(self, ahead, height):
        """Angles (N, 3), bilinear between those of the table."""
        x = np.clip((ahead - REACH[0]) / (REACH[1] - REACH[0]), 0, len(REACH) - 1.001)
        z = np.clip(height / HEIGHTS[1], 0, len(HEIGHTS) - 1.001)
        i, j = x.astype(int), z.astype(int)
        u, v = (x - i)[:, None], (z - j)[:, None]
        t = self.table
        return (1 - u) * ((1 - v) * t[i, j] + v * t[i, j + 1]) + u * ((1 - v) * t[i + 1, j] + v * t[i + 1, j + 1])

    def _tabulate(self, sinks):
        """Fill the table for a base so much lower than in the default pose; whether all of it is within reach."""
        self.table = np.zeros((len(REACH), len(HEIGHTS), 3))
        home = self._foot(self.first[self.columns["left"]], 0.0)[0]
        return all(
            self._solve(i, j, home + np.array([x, z, 0]), sinks)
            for i, x in enumerate(REACH)
            for j, z in enumerate(HEIGHTS)
        )

    def _solve(self, i, j, wanted, sinks):
        """Newton's method; whether the foot got within a millimetre and a hundredth of a radian."""
        q = self.first[self.columns["left"]].copy()
        for _ in range(60):
            place, slope = self._foot(q, sinks)
            error = wanted - place
            if np.abs(error[:2]).max() < 1e-3 and abs(error[2]) < 1e-2:
                self.table[i, j] = q
                return True
            q = np.clip(q + np.clip(np.linalg.lstsq(slope, error, rcond=1e-3)[0], -0.2, 0.2), -2.5, 2.5)
        return False

    def _foot(self, q, sinks):
        """Place ahead, height and pitch of the left sole, (3,), and their derivatives (3, 3)."""
        self.data.qpos[:] = [0, 0, self.height - sinks, 1, 0, 0, 0, *self.first]
        self.data.qpos[7 + self.columns["left"]] = q
        mujoco.mj_forward(self.model, self.data)
        site, slopes = self.model.sensor("left_foot_pos").objid[0], np.zeros((2, 3, self.model.nv))
        mujoco.mj_jacSite(self.model, self.data, slopes[0], slopes[1], site)
        turn, at = self.data.site_xmat[site].reshape(3, 3), self.data.site_xpos[site]
        columns = 6 + self.columns["left"]
        pitch = np.arctan2(-turn[2, 0], turn[0, 0])
        return np.array([at[0], at[2], pitch]), np.stack([slopes[0, 0], slopes[0, 2], slopes[1, 1]])[:, columns]
