"""A replay buffer on disk: every observation stored once, in float32, resumable without copying.

Each environment has its own ring of rows. A row holds the observation, action, reward and end of a step; the next
observation is that of the next row, and an episode that ends leaves one more row with its last observation. The ring
has more rows than are sampled from, so that rows written between two checkpoints never overwrite those that were live
at the first: a checkpoint is a flush and a few numbers.
"""

import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.copying import Copied
from slewrl.io.checksums import RingSums, blocks
from slewrl.io.files import open_own, sync_folder

ROWS = "rows.bin"
"""Name of the file of rows."""
TERMINATED, LAST = 1.0, 2.0
"""Flags of a row: the step ended in a terminal state; the row is only the last observation of an episode."""


class Batch(Copied):
    """B transitions as rows of one table, all float32: ``[observation | action | reward | terminated]``.

    The first B rows are the transitions, the next B hold their next observations. An agent may overwrite ``action`` and
    ``next_action``, and critics read ``inputs`` in place: a batch serves one update, and no observation is copied.
    """

    def __init__(self, table: Tensor, observation_size: int, action_size: int) -> None:
        self._table, self._sizes = table, (observation_size, action_size)
        self.discount: Tensor | None = None
        """(B,): the factor of the next value in multi-step returns; None for single steps."""
        self._join()

    def _join(self) -> None:
        table, (n, d), size = self._table, self._sizes, len(self._table) // 2
        self.size = size
        """B."""
        self.observations = table[:, :n]
        """(2B, n): before the step, then after it; at the end of an episode its last one, not that of the reset."""
        self.observation, self.next_observation = self.observations[:size], self.observations[size:]
        self.action, self.next_action = table[:size, n : n + d], table[size:, n : n + d]
        """(B, d) each: the judged actions; the agent writes the second."""
        self.inputs, self.next_inputs = table[:size, : n + d], table[size:, : n + d]
        """(B, n + d) each: observation and action."""
        self.reward, self.terminated = table[:size, n + d], table[:size, n + d + 1]
        """(B,) each; terminated is 1 after a terminal state."""


class Replay(Copied):
    """The replay buffer.

    Args:
        capacity: rows sampled from, over all environments.
        interval: most steps (over all environments) between two checkpoints.
        environments: how many environments step together.
        observation_size: n, of the augmented observation.
        action_size: d.
        folder: where the rows are stored; None keeps them in memory.
        least: a file made for a smaller capacity, but at least this one, is grown; None refuses it.
    """

    def __init__(
        self,
        capacity: int,
        interval: int,
        environments: int,
        observation_size: int,
        action_size: int,
        folder: Path | None = None,
        least: int | None = None,
    ) -> None:
        self.window, spare = window(capacity, environments), spare_rows(interval, environments)
        self.rows = self.window + spare
        """Length of each ring."""
        self.observation_size, self.action_size = observation_size, action_size
        self.row_width = observation_size + action_size + 2
        """How many numbers a row has."""
        self.path = None if folder is None else folder / ROWS
        if self.path and least is not None:
            _grow(self.path, range(window(least, environments) + spare, self.rows), environments, self.row_width)
        self._stored = _array(self.path, (environments * self.rows, self.row_width))
        self.written = np.zeros(environments, dtype=np.int64)
        """Rows ever written, per environment; row k lies at k modulo the ring's length."""
        self._join()

    def _join(self) -> None:
        self._table = np.asarray(self._stored)  # not a memmap, whose indexing is slow
        self._sums = [RingSums(self._table[k * self.rows :][: self.rows]) for k in range(len(self.written))]
        self._batches: dict[int, tuple[NDArray[np.float32], Batch]] = {}

    def __getstate__(self) -> dict[str, Any]:
        if self.path is not None:
            raise TypeError(f"a Replay on the disk cannot be copied, as both would write to {self.path}: copy the run")
        return vars(self)

    def add(
        self,
        env: Any,
        observation: NDArray[np.float32],
        action: NDArray[np.float32],
        reward: Any,
        next_observation: NDArray[np.float32],
        terminated: Any,
        ended: Any,
    ) -> None:
        """Add one step of environment ``env``, or of several: (k,), (k, n), (k, d), (k,), (k, n), (k,) and (k,).

        ``ended`` marks a step after which the environment was reset.
        """
        n, first, written = self.observation_size, env * self.rows, self.written[env]
        here, ahead = first + written % self.rows, first + (written + 1) % self.rows
        self._table[here, :n] = observation
        self._table[here, n:-2] = action
        self._table[here, -2] = reward
        self._table[here, -1] = np.where(terminated, TERMINATED, 0.0)
        self._table[ahead, :n] = next_observation
        self._table[ahead, -1] = np.where(ended, LAST, self._table[ahead, -1])
        self.written[env] += 1 + ended

    def add_many(self, *step: Any) -> None:
        """Add one step of every environment; the arguments are those of ``add``, without ``env``."""
        self.add(np.arange(len(self.written)), *step)

    def sample(self, size: int, rng: np.random.Generator, n_steps: int = 1, discount: float = 1.0) -> Batch:
        """``size`` transitions, uniform over live rows; the next call with this size overwrites them.

        With ``n_steps`` > 1 the reward is the discounted sum over up to that many steps, and the next observation the
        one after the last of them. A transition is cut short after m steps where the episode, or the data so far, ends;
        ``Batch.discount`` is discount^m, and 0 where it ended in a terminal state.
        """
        if size not in self._batches:
            table = np.zeros((2 * size, self._table.shape[1]), np.float32)
            self._batches[size] = table, Batch(torch.from_numpy(table), self.observation_size, self.action_size)
        table, batch = self._batches[size]
        base, row = self._draw(size, rng)
        steps: Any = 1 if n_steps == 1 else self._steps(base, row, n_steps)
        index = np.concatenate([base + row, base + (row + steps) % self.rows])
        self._table.take(index, axis=0, out=table, mode="clip")  # "clip": the default would copy twice
        batch.discount = None if n_steps == 1 else self._sum_up(table[:size], base, row, steps, discount)
        return batch

    def _steps(self, base: NDArray[np.int64], row: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """How many steps (B,), at most ``most``, there are from a row to the end of its episode or of the data."""
        written_after = (self.written[base // self.rows] - row - 1) % self.rows
        steps, going = np.ones_like(row), np.ones(len(row), np.bool_)
        for k in range(1, most):
            going &= (k <= written_after) & (self._table[base + (row + k) % self.rows, -1] != LAST)
            steps += going
        return steps

    def _sum_up(
        self,
        table: NDArray[np.float32],
        base: NDArray[np.int64],
        row: NDArray[np.int64],
        steps: NDArray[np.int64],
        discount: float,
    ) -> Tensor:
        """Turn single steps (B, width) into multi-step transitions, in place; returns ``Batch.discount``."""
        for k in range(1, steps.max()):
            later = self._table[base + (row + k) % self.rows, -2]
            table[:, -2] += np.where(k < steps, np.float32(discount**k) * later, 0)
        table[:, -1] = self._table[base + (row + steps - 1) % self.rows, -1]
        return torch.from_numpy((discount**steps * (table[:, -1] != TERMINATED)).astype(np.float32))

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First rows of rings and rows in them, uniform over live rows that begin a step: others are drawn again."""
        bases, rows = np.empty(size, np.int64), np.empty(size, np.int64)
        ends = np.minimum(self.written, self.window).cumsum()  # live rows, one environment after the other
        todo = np.arange(size)
        while len(todo):
            nth = (rng.random(len(todo)) * ends[-1]).astype(np.int64)
            env = ends.searchsorted(nth, side="right")
            base, row = env * self.rows, (self.written[env] - (ends[env] - nth)) % self.rows
            bases[todo], rows[todo] = base, row
            todo = todo[self._table[base + row, -1] == LAST]
        return bases, rows

    def abandon(self, env: int) -> None:
        """End the current episode with the observation seen last."""
        written = int(self.written[env])
        if written and self._row(env, written - 1)[-1] != LAST:
            self._row(env, written)[-1] = LAST
            self.written[env] += 1

    def _row(self, env: int, k: int) -> NDArray[np.float32]:
        """Where row k of all that an environment ever wrote lies."""
        return self._table[env * self.rows + k % self.rows]

    # ------------------------------------------------------------------ checkpoints

    def flush(self) -> None:
        """Write the rows to the disk."""
        if isinstance(self._stored, np.memmap):
            self._stored.flush()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds for ``restore`` and ``damage``: row counts and checksums."""
        live = zip(self._sums, self._live(self.written), strict=True)
        sums = [total for ring, rows in live for total in ring.of(*rows)]
        ahead = np.stack([self._ahead(env) for env in range(len(self.written))])
        return {
            "replay_written": torch.from_numpy(self.written.copy()),
            "replay_sums": torch.tensor(sums, dtype=torch.int64),
            "replay_ahead": torch.from_numpy(ahead),
        }

    def damage(self, state: dict[str, Tensor]) -> str:
        """What is wrong with the rows that were live at a checkpoint; empty if nothing, or without checksums."""
        if "replay_sums" not in state:
            return ""
        sums = iter(state["replay_sums"].tolist())
        for env, (first, end) in enumerate(self._live(state["replay_written"].numpy())):
            expected = list(islice(sums, len(blocks(first, end))))
            if rows := self._sums[env].damaged(first, end, expected):
                where = f"rows {rows[0]} to {rows[-1]} of environment {env}"
                return f"{self.path} is damaged: {where} do not match their checksum"
        return ""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from the rows of a checkpoint."""
        self.written[:] = state["replay_written"].numpy()
        for env, ahead in enumerate(state.get("replay_ahead", ())):
            self._row(env, int(self.written[env]))[: self.observation_size] = ahead

    def _live(self, written: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The first live row of each environment, and the one after the last."""
        return [(max(0, end - self.window), end) for end in written.tolist()]

    def _ahead(self, env: int) -> NDArray[np.float32]:
        """The observation of the row still to be filled; zeros where the last step ended an episode."""
        written, n = int(self.written[env]), self.observation_size
        under_way = written and self._row(env, written - 1)[-1] != LAST
        return self._row(env, written)[:n].copy() if under_way else np.zeros(n, np.float32)


def window(capacity: int, environments: int) -> int:
    """Rows of each ring that are sampled from."""
    return max(2, capacity // environments)


def spare_rows(interval: int, environments: int) -> int:
    """Rows of each ring beyond those: a step writes at most two, and the row after the last is written ahead."""
    return 2 * -(-interval // environments) + 2


def capacity_of(folder: Path, interval: int, environments: int, row_width: int) -> int:
    """The capacity that the file of rows in ``folder`` was made for, by its size."""
    rows = -(-(folder / ROWS).stat().st_size // (4 * environments * row_width))  # rounds up a truncated file
    return (rows - spare_rows(interval, environments)) * environments


def _grow(path: Path, shorter: range, environments: int, row_width: int) -> None:
    """Grow rings whose length is in ``shorter`` to the length ``shorter.stop``; leave any other file alone.

    Rows keep their place in the ring, so none may have wrapped yet. A kill leaves the old file or the new one.
    """
    rows, rest = divmod(path.stat().st_size, 4 * environments * row_width)
    if rest or rows not in shorter:
        return
    aside = _reserved(path, 4 * environments * shorter.stop * row_width)
    with open_own(path, "rb") as old, open_own(aside, "r+b") as new:
        there = np.memmap(old, np.float32, "r", shape=(environments, rows, row_width))
        longer = np.memmap(new, np.float32, "r+", shape=(environments, shorter.stop, row_width))
        longer[:, :rows] = there
        longer.flush()
        os.fsync(new.fileno())
    os.replace(aside, path)
    sync_folder(path.parent)


def _array(path: Path | None, shape: tuple[int, int]) -> NDArray[np.float32]:
    if path is None:
        return np.zeros(shape, np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    size = 4 * shape[0] * shape[1]
    if not path.exists():
        os.replace(_reserved(path, size), path)
    with open_own(path, "r+b") as file:
        if (found := os.fstat(file.fileno()).st_size) != size:
            why = "it was cut short" if found < size else "it was added to"
            raise ValueError(f"{path} has {found} bytes, expected {size}: {why}, or it belongs to another run")
        return np.memmap(file, np.float32, "r+", shape=shape)


def _reserved(path: Path, size: int) -> Path:
    """A file beside ``path``, to be renamed to it, with its whole space allocated: a full disk would be a SIGBUS."""
    aside = path.with_suffix(".tmp")
    with open_own(aside, "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            aside.unlink()
            raise OSError(
                error.errno, f"no room for the replay, {size / 1e6:,.0f} MB: {error.strerror}", str(path)
            ) from error
    return aside
