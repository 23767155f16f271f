"""The measures of calm: equal to hand-computed values, blind to the order of joints, and to dt where they should be."""

import math

import numpy as np
import pytest

from slewrl import RateLimits
from slewrl.calm.metrics import (
    Calm,
    amplitudes,
    calm,
    calm_of_episodes,
    effort,
    effort_of_episodes,
    frequencies,
    high_frequency_share,
    power,
    weighted_frequency,
)

LIMITS = RateLimits([0.5, 1.0], low=[-2.0, -4.0], high=[2.0, 4.0])
# Increments of the first joint over .5: 1, -1, 0, .5; of the second over 1: .25, .25, .25, .25.
COMMANDS = np.array([[0.0, 0.0], [0.5, 0.25], [0.0, 0.5], [0.0, 0.75], [0.25, 1.0]])


def test_by_hand():
    found = calm(COMMANDS, dt=0.02, limits=LIMITS)
    assert found.steps == 4
    assert found.at_limit.tolist() == [0.5, 0.0]
    assert found.reversals.tolist() == [1 / 3, 0.0]  # of (1, -1), (-1, 0), (0, .5) the first
    assert found.second_difference.tolist() == pytest.approx([(2 + 1 + 0.5) / 3, 0.0])
    assert found.second_difference_rms.tolist() == pytest.approx([math.sqrt((4 + 1 + 0.25) / 3), 0.0])
    together = found.together()
    assert together["at_limit"] == 0.25 and together["second_difference"] == pytest.approx(3.5 / 6)
    assert together["second_difference_rms"] == pytest.approx(math.sqrt(5.25 / 6))


def test_without_limits_the_units_are_the_commands_own():
    found = calm(COMMANDS)
    assert np.isnan(found.at_limit).all() and np.isnan(found.high_frequency).all()
    assert found.second_difference.tolist() == pytest.approx([0.5 * 3.5 / 3, 0.0])
    assert found.reversals.tolist() == [1 / 3, 0.0]


def test_each_direction_has_its_own_limit():
    limits = RateLimits(up=[0.5], down=[1.0], low=[-2.0], high=[2.0])
    down, up = limits.down[0], limits.up[0]
    found = calm(np.array([[0.0], [up], [up - down]]), limits=limits)
    assert up != down and found.at_limit.tolist() == [1.0] and found.second_difference.tolist() == [2.0]


def test_a_sine_has_one_component():
    """Three periods in 60 steps of .02 s: 2.5 Hz, of amplitude .7."""
    t = np.arange(60) * 0.02
    sine = 0.3 + 0.7 * np.sin(2 * np.pi * 2.5 * t)[:, None]
    found, hertz = amplitudes(sine)[:, 0], frequencies(60, 0.02)
    assert hertz[2] == pytest.approx(2.5) and found[2] == pytest.approx(0.7)
    assert np.delete(found, 2) == pytest.approx(0, abs=1e-12)
    # Sm = 2 / (30 * 50 Hz) * .7 * 2.5 Hz
    assert weighted_frequency(sine)[0] == pytest.approx(2 / (30 * 50) * 0.7 * 2.5)
    assert high_frequency_share(sine, 0.02, 2.0)[0] == pytest.approx(1) and high_frequency_share(sine, 0.02)[0] < 1e-20


def test_what_is_high_and_what_half_a_range_is():
    """Power at the cut-off itself is not above it; an amplitude of .7 is .35 of half the range [-2, 2]."""
    sine = 0.7 * np.sin(2 * np.pi * 2.5 * np.arange(60) * 0.02)[:, None]
    shares = [high_frequency_share(sine, 0.02, cutoff)[0] for cutoff in (2.4, frequencies(60, 0.02)[2], 2.6)]
    assert shares == pytest.approx([1, 0, 0], abs=1e-12)
    limits = RateLimits([0.5], low=[-2.0], high=[2.0])
    assert calm(sine, 0.02, limits).smoothness[0] == pytest.approx(2 / 30 * 0.35 * 3 / 60)


def test_two_sines_share_the_power():
    """Amplitudes 3 and 4 share it as 9 and 16."""
    t = np.arange(100) * 0.01
    both = (3 * np.sin(2 * np.pi * 2 * t) + 4 * np.sin(2 * np.pi * 20 * t))[:, None]
    assert high_frequency_share(both, 0.01, 5.0)[0] == pytest.approx(16 / 25)


@pytest.mark.parametrize("count", [9, 10])
def test_power_sums_to_the_variance(count):
    commands = np.random.default_rng(0).normal(size=(count, 3))
    assert power(commands).sum(0) == pytest.approx(commands.var(0))


def test_the_fastest_shaking_there_is():
    """+-1 at every step: all power at Nyquist, amplitude 1, so Sm = 2 / n * 1/2."""
    shaking = np.resize([1.0, -1.0], (40, 1))
    assert weighted_frequency(shaking)[0] == pytest.approx(2 / 20 * 0.5)
    assert high_frequency_share(shaking, 0.02)[0] == pytest.approx(1)


def random_walk(seed=0, steps=200):
    return np.random.default_rng(seed).uniform(-0.1, 0.1, (steps, 2)).cumsum(0)


def test_the_order_of_joints_does_not_matter():
    commands = random_walk()
    one, other = calm(commands, 0.02, LIMITS), calm(commands[:, ::-1], 0.02, LIMITS.select([*reversed(LIMITS.names)]))
    for name, value in one.together().items():
        assert other.together()[name] == pytest.approx(value)
        assert getattr(other, name)[::-1] == pytest.approx(getattr(one, name))


def test_dt_matters_to_the_frequencies_in_hertz_alone():
    commands = random_walk()
    one, other = calm(commands, 0.02, LIMITS).together(), calm(commands, 0.01, LIMITS).together()
    assert other.pop("high_frequency") > one.pop("high_frequency") > 0 and one == other


def test_a_cutoff_in_steps_makes_the_share_blind_to_dt():
    commands = random_walk()
    assert high_frequency_share(commands, 0.02, 5.0) == pytest.approx(high_frequency_share(commands, 0.002, 50.0))


def test_units_of_delta_make_a_scaled_robot_the_same():
    commands = random_walk()
    larger = RateLimits(10 * LIMITS.delta, low=10 * LIMITS.low, high=10 * LIMITS.high)
    one, other = calm(commands, 0.02, LIMITS).together(), calm(10 * commands, 0.02, larger).together()
    assert one == pytest.approx(other)


def test_what_is_not_defined_is_nan():
    still = calm(np.zeros((50, 2)), 0.02, LIMITS).together()
    assert set(still.values()) == {0.0}
    assert np.isnan(calm(np.zeros((50, 2)), 0.1, LIMITS).high_frequency).all()  # 5 Hz is Nyquist's
    short = calm(COMMANDS[:2], 0.02, LIMITS)
    assert short.steps == 1 and np.isnan(short.second_difference).all() and short.at_limit.tolist() == [1.0, 0.0]
    none = calm(COMMANDS[:1], 0.02, LIMITS)
    assert none.steps == 0 and np.isnan(list(none.together().values())).all()


def test_episodes_count_by_their_length():
    a, b = calm(COMMANDS, 0.02, LIMITS), calm(COMMANDS[:3], 0.02, LIMITS)
    found = calm_of_episodes([a, b, calm(COMMANDS[:1], 0.02, LIMITS)])
    assert found.steps == 6
    assert found.at_limit[0] == pytest.approx((4 * 0.5 + 2 * 1.0) / 6)
    squares = (4 * a.second_difference_rms[0] ** 2 + 2 * b.second_difference_rms[0] ** 2) / 6
    assert found.second_difference_rms[0] == pytest.approx(math.sqrt(squares))
    assert isinstance(found, Calm) and found.of_joint(0)["at_limit"] == found.at_limit[0]


def test_effort_by_hand():
    torques, speeds = np.array([[1.0, 0.0], [-2.0, 0.0], [2.0, 3.0]]), np.array([[1.0, 5.0], [3.0, 5.0], [0.5, -1.0]])
    found = effort(torques, speeds, 0.1)
    assert found.work.tolist() == pytest.approx([0.1 * (1 + 6 + 1), 0.1 * 3])
    assert found.torque_rms.tolist() == pytest.approx([math.sqrt(9 / 3), math.sqrt(9 / 3)])
    assert found.torque_rate.tolist() == pytest.approx([math.sqrt((30**2 + 40**2) / 2), math.sqrt(30**2 / 2)])
    assert found.together() == pytest.approx(
        {"work": 1.1, "torque_rms": math.sqrt(3), "torque_rate": math.sqrt((900 + 1600 + 900) / 4)}
    )
    twice = effort_of_episodes([found, found])
    assert twice.work == pytest.approx(found.work) and twice.torque_rate == pytest.approx(found.torque_rate)
