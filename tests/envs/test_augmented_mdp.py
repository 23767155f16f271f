"""Appendix "Augmented MDP Validity" on a problem small enough to solve exactly: four states, nine actions.

The action before is part of the state, and the maximum is over F(s~'), the actions it allows, not over all of A as the
paper's operator is printed.
"""

import numpy as np
import pytest

GAMMA, DELTA = 0.9, 0.5
ACTIONS = np.linspace(-1, 1, 9)
RNG = np.random.default_rng(0)
REWARD = RNG.normal(size=(4, 9))
STEP = RNG.dirichlet(np.ones(4), size=(4, 9))  # P(s' | s, a)
ALLOWED = np.abs(ACTIONS[:, None] - ACTIONS[None, :]) <= DELTA  # [before, now]


def bellman(q, allowed=ALLOWED):
    """(T Q)(s, before, a) = r(s, a) + gamma E max over F(a) of Q(s', a, .); -inf where a is not allowed."""
    best = np.where(allowed, q, -np.inf).max(-1)  # [s', before']: the action taken becomes the one before
    value = REWARD + GAMMA * np.einsum("san,na->sa", STEP, best)
    return np.broadcast_to(value[:, None, :], q.shape)


def solve(allowed=ALLOWED, start=0.0):
    q = np.full((4, 9, 9), start)
    for _ in range(600):
        q = bellman(q, allowed)
    return q


def test_the_operator_is_a_contraction():
    for _ in range(200):
        one, other = RNG.normal(scale=10, size=(2, 4, 9, 9))
        gap = np.abs(np.where(ALLOWED, one - other, 0)).max()
        assert np.abs(bellman(one) - bellman(other)).max() <= GAMMA * gap + 1e-12


def test_its_fixed_point_is_unique_and_its_greedy_policy_attains_it():
    q = solve()
    assert np.allclose(q, solve(start=100.0), atol=1e-9)
    greedy = np.where(ALLOWED, q, -np.inf).argmax(-1)  # [s, before]
    # The chain of the greedy policy, solved as a linear system on the 36 augmented states.
    kernel, reward = np.zeros((36, 36)), np.zeros(36)
    for s, before in np.ndindex(4, 9):
        a = greedy[s, before]
        assert ALLOWED[before, a]
        reward[9 * s + before] = REWARD[s, a]
        kernel[9 * s + before, a::9] = STEP[s, a]
    value = np.linalg.solve(np.eye(36) - GAMMA * kernel, reward).reshape(4, 9)
    assert np.allclose(value, np.where(ALLOWED, q, -np.inf).max(-1), atol=1e-9)


def test_without_the_action_before_the_state_is_not_enough():
    """The same state is worth different amounts after different actions: the value is a function of both."""
    value = np.where(ALLOWED, solve(), -np.inf).max(-1)
    assert (value.max(1) - value.min(1)).min() > 0.1


def test_a_maximum_over_all_actions_promises_too_much():
    """The operator as printed, max over A: its value is above what any limited policy can earn."""
    limited = np.where(ALLOWED, solve(), -np.inf).max(-1)
    unlimited = solve(np.ones_like(ALLOWED)).max(-1)
    assert (unlimited >= limited - 1e-12).all() and (unlimited - limited).max() > 0.5
    assert unlimited.max(1) == pytest.approx(unlimited.min(1))  # and it does not see the action before at all
