"""The history of commands: what it keeps, forgets, counts and loads, against lists kept by hand."""

import numpy as np
import pytest

from slewrl import RateLimits
from slewrl.envs.history import ActionHistory, CountedHistory

LIMITS = RateLimits(0.25, -1, 1, names=["a", "b"])
COUNT = 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_what_lists_kept_by_hand_are(dtype):
    """Random resets of random rows, actions within and beyond the limits."""
    rng = np.random.default_rng(0)
    history = CountedHistory(LIMITS, np.zeros((COUNT, 2), dtype))
    lists = [[np.zeros(2, dtype)] for _ in range(COUNT)]
    assert not history.begun
    history.restart(np.zeros(2))
    for _ in range(200):
        executed = rng.uniform(-0.3, 0.3, (COUNT, 2)).astype(dtype)
        assert np.array_equal(history.outside(executed), LIMITS.outside(executed, history.previous))
        history.append(executed)
        for one, action in zip(lists, executed, strict=True):
            one.append(action.copy())
        executed[:] = np.nan  # an environment writes to what it was handed
        which, first = rng.random(COUNT) < 0.1, rng.uniform(-1, 1, (COUNT, 2)).astype(dtype)
        history.restart(first, which)
        for k in np.flatnonzero(which):
            lists[k] = [first[k]]
        for k, one in enumerate(lists):
            assert np.array_equal(history.actions(k), np.stack(one)) and history.actions(k).dtype == dtype
            assert np.array_equal(history.previous[k], one[-1]) and np.array_equal(history.first[k], one[0])
            assert history.rate_use(k).violations == history.violations[k]
    assert history.begun and history.violations.any()


def test_it_forgets_what_is_nobodys():
    history = ActionHistory(LIMITS, np.zeros((2, 2)))
    for step in range(100):
        history.append(np.zeros((2, 2)))
        history.restart(np.zeros(2), np.array([step % 2 == 0, step % 2 == 1]))
    assert len(history._taken) <= 2
    last = ActionHistory(LIMITS, np.zeros((2, 2)), whole=False)
    last.append(np.ones((2, 2)))
    assert not last._taken and (last.previous == 1).all()
    with pytest.raises(AssertionError, match="only the previous"):
        last.actions()


def test_loaded_it_goes_on():
    rng = np.random.default_rng(1)
    history = CountedHistory(LIMITS, np.zeros((3, 2), np.float32))
    for which in ([True, False, False], [False, False, False], [False, True, False], [False, False, True]):
        history.append(rng.uniform(-1, 1, (3, 2)).astype(np.float32))
        history.restart(np.full(2, 0.5), np.array(which))
    twin = CountedHistory(LIMITS, np.zeros((3, 2), np.float32))
    twin.load([history.actions(k) for k in range(3)])
    twin.violations[:] = history.violations
    for _ in range(2):
        for k in range(3):
            assert np.array_equal(history.actions(k), twin.actions(k))
        assert twin.begun and np.array_equal(history.previous, twin.previous)
        step = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        history.append(step)
        twin.append(step)
    assert np.array_equal(history.violations, twin.violations)


def test_what_it_keeps_cannot_be_written_to():
    history = ActionHistory(LIMITS, np.zeros((2, 2)))
    history.append(np.ones((2, 2)))
    for kept in (history.first, history.previous):
        with pytest.raises(ValueError, match="read-only"):
            kept[:] = 1
