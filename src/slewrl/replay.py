"""A replay ring on disk: every observation stored once, in float32, resumable without copying.

Each environment has its own ring of rows. A row holds the observation of a step, what was done and what came of it; the
next observation is the next row's. An episode that ends leaves one more row, with its last observation and nothing
else. The ring has more rows than are ever sampled from, so that what is written between two checkpoints never
overwrites what was live at the first of them: a checkpoint is a flush and two numbers, and a killed run goes on from
the rows it finds.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TERMINATED, LAST = 1, 2
"""Flags of a row: the step ended in a terminal state; the row is only the last observation of an episode."""


class Batch(NamedTuple):
    """B transitions drawn from the replay, all float32."""

    observations: Tensor
    """(2B, n): at the time of the step, then after it, in one piece, so that the actor can see both in one pass."""
    action: Tensor
    """(B, d) what the critic judges."""
    reward: Tensor
    """(B,)"""
    terminated: Tensor
    """(B,) 1 where no value follows."""

    @property
    def observation(self) -> Tensor:
        """(B, n) at the time of the step; the last d entries are the previous executed action."""
        return self.observations[: len(self.reward)]

    @property
    def next_observation(self) -> Tensor:
        """(B, n); at the end of an episode its own last observation, never that of the next reset."""
        return self.observations[len(self.reward) :]


class Replay:
    """See the module.

    Args:
        capacity: rows sampled from, over all environments.
        interval: most steps (over all environments) between two checkpoints.
        environments: how many step in turn.
        observation_size: n, with the previous action in it.
        action_size: d.
        folder: where the rows live; None keeps them in memory.
    """

    def __init__(
        self,
        capacity: int,
        interval: int,
        environments: int,
        observation_size: int,
        action_size: int,
        folder: Path | None = None,
    ) -> None:
        self.window = max(2, capacity // environments)
        # A step writes at most two rows, and one row beyond the last is filled ahead.
        rows = self.window + 2 * -(-interval // environments) + 2
        self.observations = _array(folder, "observations", (environments, rows, observation_size), np.float32)
        self.actions = _array(folder, "actions", (environments, rows, action_size), np.float32)
        self.rewards = _array(folder, "rewards", (environments, rows), np.float32)
        self.flags = _array(folder, "flags", (environments, rows), np.uint8)
        self.written = np.zeros(environments, dtype=np.int64)
        """Rows ever written, by environment; row k lies at k modulo the ring."""

    @property
    def rows(self) -> int:
        """Length of each ring."""
        return self.flags.shape[1]

    def __len__(self) -> int:
        """Rows that can be drawn, last observations included."""
        return int(np.minimum(self.written, self.window).sum())

    def add(
        self,
        env: int,
        observation: NDArray[np.float32],
        action: NDArray[np.float32],
        reward: float,
        next_observation: NDArray[np.float32],
        terminated: bool,
        ended: bool,
    ) -> None:
        """One step of one environment; ``ended`` where the next one starts from a reset."""
        here = self.written[env] % self.rows
        ahead = (here + 1) % self.rows
        self.observations[env, here] = observation
        self.actions[env, here] = action
        self.rewards[env, here] = reward
        self.flags[env, here] = TERMINATED if terminated else 0
        self.observations[env, ahead] = next_observation
        self.written[env] += 1
        if ended:
            self.flags[env, ahead] = LAST
            self.written[env] += 1

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """``size`` transitions, uniform over what is live."""
        env, row = self._draw(size, rng)
        both = np.concatenate([row, (row + 1) % self.rows])
        arrays = (
            self.observations[np.tile(env, 2), both],
            self.actions[env, row],
            self.rewards[env, row],
            (self.flags[env, row] & TERMINATED).astype(np.float32),
        )
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Environments and ring rows, uniform over live rows that begin a step: draw, and draw again for the rest."""
        envs, rows = np.empty(size, np.int64), np.empty(size, np.int64)
        todo = np.arange(size)
        while len(todo):
            env = rng.integers(len(self.written), size=len(todo))
            live = np.minimum(self.written[env], self.window)
            back = (rng.random(len(todo)) * live).astype(np.int64) + 1
            row = (self.written[env] - back) % self.rows
            envs[todo], rows[todo] = env, row
            todo = todo[(self.flags[env, row] & LAST) != 0]
        return envs, rows

    def flush(self) -> None:
        """Write what is in memory to the disk."""
        for array in (self.observations, self.actions, self.rewards, self.flags):
            if isinstance(array, np.memmap):
                array.flush()


def _array(folder: Path | None, name: str, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    if folder is None:
        return np.zeros(shape, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.bin"
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if path.exists() and path.stat().st_size != size:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, expected {size}: it belongs to another run")
    return np.memmap(path, dtype, "r+" if path.exists() else "w+", shape=shape)
