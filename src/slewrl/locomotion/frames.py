"""Position, heading and velocity of a floating base, from MuJoCo states. Quaternions are (w, x, y, z)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Base(NamedTuple):
    """N floating bases."""

    position: Floats
    """(N, 3), m."""
    forward: Floats
    """(N, 2): the heading, a horizontal unit vector."""
    velocity: Floats
    """(N, 3): linear velocity in the heading frame (x forward, z up), m/s."""
    turning: Floats
    """(N, 3): angular velocity in the base's frame, rad/s."""
    yaw_rate: Floats
    """(N,): angular velocity about the vertical, rad/s."""
    gravity: Floats
    """(N, 3): the unit vector of gravity in the base's frame."""


def base(qpos: Floats, qvel: Floats) -> Base:
    """The bases of N states, from the free joint's seven positions and six velocities, the first of each row."""
    w, x, y, z = qpos[:, 3:7].T
    up = np.empty((len(qpos), 3))  # the world's z axis in the base's frame
    up[:, 0], up[:, 1], up[:, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    forward = heading(qpos[:, 3:7])
    velocity = qvel[:, :3].copy()
    velocity[:, :2] = to_heading(qvel[:, :2], forward)
    turning = qvel[:, 3:6]
    return Base(qpos[:, :3], forward, velocity, turning, np.einsum("ij,ij->i", up, turning), -up)


def heading(quaternion: Floats) -> Floats:
    """The horizontal direction (..., 2) of a body's x axis, of length 1; arbitrary where the axis is vertical."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    ahead = np.empty((*w.shape, 2))
    ahead[..., 0], ahead[..., 1] = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)
    ahead /= np.maximum(np.hypot(ahead[..., :1], ahead[..., 1:]), 1e-9)
    return ahead


def yaw(forward: Floats) -> Floats:
    """The yaw angle of directions (..., 2), rad."""
    return np.arctan2(forward[..., 1], forward[..., 0])


def to_heading(vector: Floats, forward: Floats) -> Floats:
    """Rotate horizontal world vectors (..., 2) into frames whose x axis is ``forward`` (..., 2)."""
    c, s = forward[..., 0], forward[..., 1]
    x, y = vector[..., 0], vector[..., 1]
    turned = np.empty(vector.shape)
    turned[..., 0], turned[..., 1] = c * x + s * y, c * y - s * x
    return turned


def wrapped(angle: Floats) -> Floats:
    """The same angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
