"""What the replay holds for many environments at once, and transitions of several steps, by hand."""

import numpy as np
import pytest
import torch

from slewrl.agents.replay import LAST, Replay


def test_adding_many_is_adding_each():
    """Random episode lengths, rings that wrap around: the same rows, to the byte."""
    rng = np.random.default_rng(0)
    one, many = (Replay(60, 6, 4, 3, 2) for _ in range(2))
    for _ in range(100):
        observation, following = rng.standard_normal((2, 4, 3)).astype(np.float32)
        action, reward = rng.standard_normal((4, 2)).astype(np.float32), rng.standard_normal(4).astype(np.float32)
        terminated = rng.random(4) < 0.1
        ended = terminated | (rng.random(4) < 0.1)
        for k in range(4):
            one.add(k, observation[k], action[k], float(reward[k]), following[k], bool(terminated[k]), bool(ended[k]))
        many.add_many(observation, action, reward, following, terminated, ended)
    assert one.written.tolist() == many.written.tolist() and len(set(one.written.tolist())) > 1
    assert one._table.tobytes() == many._table.tobytes()
    assert (one._table[:, -1] == LAST).any()


def episodes(lengths, terminal, capacity=1000):
    """One environment whose step t has reward t + 1 and observation 10 * episode + step; the last one goes on."""
    replay, t = Replay(capacity, 10, 1, 1, 1), 0
    for number, length in enumerate(lengths):
        for k in range(length):
            here, ended = 10 * number + k, k == length - 1 and number < len(lengths) - 1
            row = [np.array([x], np.float32) for x in (here, here + 1)]
            replay.add(0, row[0], np.array([t], np.float32), t + 1.0, row[1], ended and terminal, ended)
            t += 1
    return replay


def by_start(batch):
    """first observation -> (reward, next observation, terminated, follow)."""
    columns = (batch.observation[:, 0], batch.reward, batch.next_observation[:, 0], batch.terminated, batch.discount)
    return {row[0]: pytest.approx(row[1:]) for row in torch.stack(columns, 1).tolist()}


@pytest.mark.parametrize("terminal", [True, False])
def test_three_step_returns_by_hand(terminal):
    """Episodes of 4 steps (rewards 1 2 3 4) and 2 so far (5 6), discount .5."""
    replay = episodes([4, 2], terminal)
    over, lost = float(terminal), 1 - float(terminal)
    expected = {
        0: (1 + 2 / 2 + 3 / 4, 3, 0, 1 / 8),
        1: (2 + 3 / 2 + 4 / 4, 4, over, lost / 8),  # its last step ends the episode
        2: (3 + 4 / 2, 4, over, lost / 4),  # only two steps are left, and its own last observation is the next
        3: (4, 4, over, lost / 2),
        10: (5 + 6 / 2, 12, 0, 1 / 4),  # what comes next has not happened yet
        11: (6, 12, 0, 1 / 2),
    }
    found = by_start(replay.sample(400, np.random.default_rng(0), n_steps=3, discount=0.5))
    assert set(found) == set(expected)
    assert all(found[start] == expected[start] for start in expected)
    action = replay.sample(400, np.random.default_rng(0), 3, 0.5).action  # of the first step
    assert set(action[:, 0].tolist()) == set(range(6))


def test_returns_hold_where_the_ring_wraps():
    """Old rows lie where the newest ones end, and must not be read: rewards are t + 1, so each sum is known."""
    replay = episodes([2000], True, capacity=64)
    batch = replay.sample(5000, np.random.default_rng(0), n_steps=4, discount=1.0)
    t = batch.action[:, 0].numpy()
    steps = np.minimum(4, 2000 - t)
    assert set(steps) == {1, 2, 3, 4} and t.min() == 2000 - 64
    assert np.array_equal(batch.reward.numpy(), steps * (t + 1) + steps * (steps - 1) / 2)
    assert np.array_equal(batch.next_observation[:, 0].numpy(), t + steps)
    assert (batch.discount.numpy() == 1).all() and (batch.terminated.numpy() == 0).all()


def test_one_step_is_as_before():
    """The same draws and rows with and without the argument, also after draws of several steps."""
    replay, tables = episodes([7, 5, 9, 3], True), []
    for arguments in ((), (1, 0.9)):
        replay.sample(50, np.random.default_rng(3), 5, 0.9)
        batch = replay.sample(50, np.random.default_rng(3), *arguments)
        assert batch.discount is None
        tables.append(torch.cat([batch.inputs, batch.reward[:, None], batch.terminated[:, None]], 1))
    assert torch.equal(*tables)
