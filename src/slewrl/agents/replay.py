"""A replay ring on disk: every observation stored once, in float32, resumable without copying.

Each environment has its own ring of rows. A row holds the observation of a step, what was done and what came of it; the
next observation is the next row's, so that a draw reads two neighbours in memory. An episode that ends leaves one more
row, with its last observation and nothing else. The ring has more rows than are ever sampled from, so that what is
written between two checkpoints never overwrites what was live at the first of them: a checkpoint is a flush and a few
numbers, and a killed run goes on from the rows it finds, once their checksums match.
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
"""The file of the rows."""
TERMINATED, LAST = 1.0, 2.0
"""Marks of a row: the step ended in a terminal state; the row is only the last observation of an episode."""


class Batch(Copied):
    """B transitions as rows of one table, all float32: ``[observation | action | reward | terminated]``.

    The first B rows are the transitions, the next B the rows that follow them, whose observation is the next one and
    whose action is free: an agent writes there (and, once the stored one has served, over ``action``) what it wants
    judged, and the critics read ``inputs`` in place. So a batch serves one update, and no observation is copied.

    Args:
        table: (2B, n + d + 2).
        observation_size: n; the last d entries are the previous executed action.
        action_size: d.
    """

    def __init__(self, table: Tensor, observation_size: int, action_size: int) -> None:
        self._table, self._sizes = table, (observation_size, action_size)
        self.follow: Tensor | None = None
        """(B,): what the value of the next observation counts for, where several steps were summed; else None."""
        self._join()

    def _join(self) -> None:
        table, (n, d), size = self._table, self._sizes, len(self._table) // 2
        self.size = size
        """B."""
        self.observations = table[:, :n]
        """(2B, n): of the step, then after it; at the end of an episode its own last one, never the next reset's."""
        self.observation, self.next_observation = self.observations[:size], self.observations[size:]
        self.action, self.next_action = table[:size, n : n + d], table[size:, n : n + d]
        """(B, d) each: what the critic judges; the second is for the agent to write."""
        self.inputs, self.next_inputs = table[:size, : n + d], table[size:, : n + d]
        """(B, n + d) each: observation and action."""
        self.reward, self.terminated = table[:size, n + d], table[:size, n + d + 1]
        """(B,) each; terminated is 1 where no value follows."""


class Replay(Copied):
    """See the module.

    Args:
        capacity: rows sampled from, over all environments.
        interval: most steps (over all environments) between two checkpoints.
        environments: how many step in turn.
        observation_size: n, with the previous action in it.
        action_size: d.
        folder: where the rows live; None keeps them in memory.
        least: a file made for fewer rows than ``capacity``, but for no fewer than these, is grown; None refuses it.
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
        """Numbers of a row."""
        self.path = None if folder is None else folder / ROWS
        if self.path and least is not None:
            _grow(self.path, range(window(least, environments) + spare, self.rows), environments, self.row_width)
        self._stored = _array(self.path, (environments * self.rows, self.row_width))
        self.written = np.zeros(environments, dtype=np.int64)
        """Rows ever written, by environment; row k lies at k modulo the ring."""
        self._join()

    def _join(self) -> None:
        self._table = np.asarray(self._stored)  # without the memmap class, whose every index costs microseconds
        self._sums = [RingSums(self._table[k * self.rows :][: self.rows]) for k in range(len(self.written))]
        self._batches: dict[int, tuple[NDArray[np.float32], Batch]] = {}

    def __getstate__(self) -> dict[str, Any]:
        if self.path is not None:
            raise TypeError(f"a Replay on the disk cannot be copied, as both would write to {self.path}: copy the run")
        return vars(self)

    @property
    def nbytes(self) -> int:
        """What the rings take."""
        return int(self._table.nbytes)

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
        n, written = self.observation_size, int(self.written[env])
        here, ahead = self._row(env, written), self._row(env, written + 1)
        here[:n] = observation
        here[n:-2] = action
        here[-2] = reward
        here[-1] = TERMINATED if terminated else 0.0
        ahead[:n] = next_observation
        if ended:
            ahead[-1] = LAST
        self.written[env] += 2 if ended else 1

    def add_many(
        self,
        observation: NDArray[np.float32],
        action: NDArray[np.float32],
        reward: NDArray[np.float32],
        next_observation: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        ended: NDArray[np.bool_],
    ) -> None:
        """One step of every environment, as ``add`` of each in turn: (N, n), (N, d), (N,), (N, n), (N,) and (N,)."""
        n, first = self.observation_size, self.rows * np.arange(len(self.written))
        here, ahead = first + self.written % self.rows, first + (self.written + 1) % self.rows
        self._table[here, :n] = observation
        self._table[here, n:-2] = action
        self._table[here, -2] = reward
        self._table[here, -1] = np.where(terminated, TERMINATED, 0.0)
        self._table[ahead, :n] = next_observation
        self._table[ahead[ended], -1] = LAST
        self.written += 1 + ended

    def sample(self, size: int, rng: np.random.Generator, n_steps: int = 1, discount: float = 1.0) -> Batch:
        """``size`` transitions, uniform over what is live; the next call with this size overwrites them.

        With ``n_steps`` > 1 a transition is up to that many steps: the reward is their sum, each ``discount`` times
        less than the one before it, and the next observation the one after the last of them. The end of the episode,
        or of what has happened so far, cuts a transition short after m steps; ``Batch.follow`` is discount^m, and 0
        where it ended in a terminal state.
        """
        if size not in self._batches:
            table = np.zeros((2 * size, self._table.shape[1]), np.float32)
            self._batches[size] = table, Batch(torch.from_numpy(table), self.observation_size, self.action_size)
        table, batch = self._batches[size]
        base, row = self._draw(size, rng)
        steps: Any = 1 if n_steps == 1 else self._steps(base, row, n_steps)
        index = np.concatenate([base + row, base + (row + steps) % self.rows])
        self._table.take(index, axis=0, out=table, mode="clip")  # "clip": the default would copy twice
        batch.follow = None if n_steps == 1 else self._sum_up(table[:size], base, row, steps, discount)
        return batch

    def _steps(self, base: NDArray[np.int64], row: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """How many steps (B,), of at most ``most``, lie between a row and the end of its episode or of the writing."""
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
        """Make the first steps (B, width) stand for so many each; returns ``Batch.follow``."""
        for k in range(1, steps.max()):
            later = self._table[base + (row + k) % self.rows, -2]
            table[:, -2] += np.where(k < steps, np.float32(discount**k) * later, 0)
        table[:, -1] = self._table[base + (row + steps - 1) % self.rows, -1]
        return torch.from_numpy((discount**steps * (table[:, -1] != TERMINATED)).astype(np.float32))

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Beginnings of rings and rows in them, uniform over live rows that begin a step: draw until all do."""
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
        """End an episode that will not go on: what was seen last is its last observation."""
        written = int(self.written[env])
        if written and self._row(env, written - 1)[-1] != LAST:
            self._row(env, written)[-1] = LAST
            self.written[env] += 1

    def _row(self, env: int, k: int) -> NDArray[np.float32]:
        """Row k ever written of an environment."""
        row: NDArray[np.float32] = self._table[env * self.rows + k % self.rows]
        return row

    # ------------------------------------------------------------------ checkpoints

    def flush(self) -> None:
        """Write what is in memory to the disk."""
        if isinstance(self._stored, np.memmap):
            self._stored.flush()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to hold for ``restore`` to find the same rows, or to see that they are not."""
        live = zip(self._sums, self._live(self.written), strict=True)
        sums = [total for ring, rows in live for total in ring.of(*rows)]
        ahead = np.stack([self._ahead(env) for env in range(len(self.written))])
        return {
            "replay_written": torch.from_numpy(self.written.copy()),
            "replay_sums": torch.tensor(sums, dtype=torch.int64),
            "replay_ahead": torch.from_numpy(ahead),
        }

    def damage(self, state: dict[str, Tensor]) -> str:
        """What is wrong with the rows that were live at a checkpoint; empty if nothing is, or it has no checksums."""
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
        """Go on from the rows of a checkpoint."""
        self.written[:] = state["replay_written"].numpy()
        for env, ahead in enumerate(state.get("replay_ahead", ())):
            self._row(env, int(self.written[env]))[: self.observation_size] = ahead

    def _live(self, written: NDArray[np.int64]) -> list[tuple[int, int]]:
        """First row that can be drawn of each environment, and the one after the last."""
        return [(max(0, end - self.window), end) for end in written.tolist()]

    def _ahead(self, env: int) -> NDArray[np.float32]:
        """The observation of the row that is still to be filled; zeros where the last step ended an episode."""
        written, n = int(self.written[env]), self.observation_size
        under_way = written and self._row(env, written - 1)[-1] != LAST
        return self._row(env, written)[:n].copy() if under_way else np.zeros(n, np.float32)


def window(capacity: int, environments: int) -> int:
    """Rows of each ring that are sampled from."""
    return max(2, capacity // environments)


def spare_rows(interval: int, environments: int) -> int:
    """Rows of each ring beyond them: a step writes at most two, and one row beyond the last is filled ahead."""
    return 2 * -(-interval // environments) + 2


def capacity_of(folder: Path, interval: int, environments: int, row_width: int) -> int:
    """Which capacity the rows in ``folder`` were laid out for, by the size of their file."""
    rows = -(-(folder / ROWS).stat().st_size // (4 * environments * row_width))  # of one that was cut: what it had
    return (rows - spare_rows(interval, environments)) * environments


def _grow(path: Path, shorter: range, environments: int, row_width: int) -> None:
    """Lay rings of a length in ``shorter`` out anew at the length it stops before; a file of any other is left alone.

    Their rows stay where they are in the ring, so none may have wrapped yet. A kill leaves the old file or the new one.
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
    """A file beside ``path``, to be renamed to it, whose whole space is taken: a full disk later would be a SIGBUS.

    Not ``io.files.replacing``: space is taken before anything is written, and is written through a map.
    """
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
