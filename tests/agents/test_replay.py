"""The replay ring: each observation once, ends of episodes right, nothing live overwritten between checkpoints."""

import resource

import numpy as np
import pytest
import torch

from slewrl.agents.replay import Replay


def fill(replay, steps, episode=7, env=0, start=0):
    """Observations count up; an episode of ``episode`` steps ends by turns in a terminal state and by time."""
    for t in range(start, start + steps):
        in_episode, number = t % episode, t // episode
        here = 100 * number + in_episode
        ended = in_episode == episode - 1
        row = [np.full(3, x, np.float32) for x in (here, here + 1)]
        replay.add(env, row[0], np.full(2, t, np.float32), float(t), row[1], ended and number % 2 == 0, ended)


@pytest.mark.parametrize("steps", [5, 40, 500])
def test_transitions_come_back_whole(steps, tmp_path):
    replay = Replay(64, 20, 1, 3, 2, tmp_path)
    fill(replay, steps)
    batch = replay.sample(2000, np.random.default_rng(0))
    t = batch.reward.numpy().astype(int)
    assert np.array_equal(batch.observation[:, 0].numpy(), 100 * (t // 7) + t % 7)
    assert np.array_equal(batch.next_observation[:, 0].numpy(), 100 * (t // 7) + t % 7 + 1)  # its own last one
    assert np.array_equal(batch.action[:, 0].numpy(), t)
    assert np.array_equal(batch.terminated.numpy(), (t % 7 == 6) & (t // 7 % 2 == 0))
    assert t.max() == steps - 1 and t.min() >= steps - 64


def test_draws_are_uniform_over_what_is_live():
    replay = Replay(2000, 10, 2, 3, 2)
    fill(replay, 300, env=0)
    fill(replay, 300, env=1, start=7000, episode=1)  # twice the rows
    t = replay.sample(60_000, np.random.default_rng(0)).reward.numpy()
    counts = np.unique(t, return_counts=True)[1]
    assert len(counts) == 600 and abs(counts - 100).max() < 60  # 100 +- 10 each


def test_what_was_live_at_a_checkpoint_survives_until_the_next(tmp_path):
    replay = Replay(64, 20, 1, 3, 2, tmp_path)
    fill(replay, 200, episode=1)  # the worst case: two rows a step
    replay.flush()
    written = replay.written.copy()
    before = replay.sample(500, np.random.default_rng(1)).inputs.clone()
    fill(replay, 20, episode=1, start=200)
    again = Replay(64, 20, 1, 3, 2, tmp_path)  # a killed run comes back
    again.written[:] = written
    assert torch.equal(again.sample(500, np.random.default_rng(1)).inputs, before)


def test_humanoid_fits():
    """One million rows of Humanoid-v5 with its previous action: at most 1.6 GB."""
    replay = Replay(1_000, 5_000, 1, 348 + 17, 17)
    assert (
        replay._table.nbytes / replay.rows * (1_000_000 + 2 * 2 * 5_000 + 2) <= 1.6e9
    )  # spare rows for two checkpoints


def test_a_file_of_another_run_is_refused(tmp_path):
    Replay(64, 20, 1, 3, 2, tmp_path)
    with pytest.raises(ValueError, match="rows.bin has .* bytes, expected .* another run"):
        Replay(65, 20, 1, 3, 2, tmp_path)


def test_a_full_disk_is_an_error_before_the_first_step(tmp_path):
    """The system itself refuses the space: no file may grow beyond 4 kB here."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="no room for the replay, 0 MB: File too large"):
            Replay(1000, 20, 1, 30, 2, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
