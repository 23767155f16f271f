"""Where a floating base is, looks and moves, from rows of MuJoCo states. Quaternions are (w, x, y, z)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Base(NamedTuple):
    """N floating bases."""

    position: Floats
    """(N, 3), m."""
    forward: Floats
    """(N, 2): the unit vector where the base looks, on the ground."""
    velocity: Floats
    """(N, 3): in the heading frame (x where the base looks, z up), m/s."""
    turning: Floats
    """(N, 3): angular velocity as a gyroscope on the base has it, rad/s."""
    yaw_rate: Floats
    """(N,): about the vertical, rad/s."""
    gravity: Floats
    """(N, 3): the unit vector down, as the base sees it."""


def base(qpos: Floats, qvel: Floats) -> Base:
    """Of the first seven positions and six velocities of each row: a free joint's."""
    w, x, y, z = qpos[:, 3:7].T
    up = np.empty((len(qpos), 3))  # the world's z as the base sees it
    up[:, 0], up[:, 1], up[:, 2] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    forward = heading(qpos[:, 3:7])
    velocity = qvel[:, :3].copy()
    velocity[:, :2] = to_heading(qvel[:, :2], forward)
    turning = qvel[:, 3:6]
    return Base(qpos[:, :3], forward, velocity, turning, np.einsum("ij,ij->i", up, turning), -up)


def heading(quaternion: Floats) -> Floats:
    """(..., 2): the body's x axis on the ground, of length 1; of a body that looks straight up, any direction."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    ahead = np.empty((*w.shape, 2))
    ahead[..., 0], ahead[..., 1] = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)
    ahead /= np.maximum(np.hypot(ahead[..., :1], ahead[..., 1:]), 1e-9)
    return ahead


def yaw(forward: Floats) -> Floats:
    """Angle of directions (..., 2), rad."""
    return np.arctan2(forward[..., 1], forward[..., 0])


def to_heading(vector: Floats, forward: Floats) -> Floats:
    """Horizontal world vectors (..., 2) in frames whose x is ``forward`` (..., 2)."""
    c, s = forward[..., 0], forward[..., 1]
    x, y = vector[..., 0], vector[..., 1]
    turned = np.empty(vector.shape)
    turned[..., 0], turned[..., 1] = c * x + s * y, c * y - s * x
    return turned


def wrapped(angle: Floats) -> Floats:
    """The same angle in [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
