"""Filters of commands: by hand, against scipy's, and what each does to a rate limit."""

import math

import numpy as np
import pytest

from slewrl.calm.filters import Butterworth, DeltaCommand, ExponentialAverage

DT, CUTOFF = 0.02, 4.0


def through(filter, commands):
    """What a filter makes of commands (T, d), from rest at the first."""
    filter.reset(commands[0])
    made = []
    for asked in commands:
        made.append(filter.propose(asked))
        filter.applied(asked, made[-1])
    return np.array(made)


def test_an_average_by_hand():
    found = through(ExponentialAverage(0.25), np.array([[0.0], [1.0], [1.0], [0.0]]))
    assert found[:, 0].tolist() == [0.0, 0.25, 0.4375, 0.328125]
    assert ExponentialAverage.of_cutoff(CUTOFF, DT).alpha == pytest.approx(1 - math.exp(-2 * math.pi * CUTOFF * DT))


def test_butterworth_is_scipys():
    signal = pytest.importorskip("scipy.signal")
    commands = np.random.default_rng(0).normal(size=(200, 3))
    b, a = signal.butter(2, CUTOFF, fs=1 / DT)
    start = signal.lfilter_zi(b, a)[:, None] * commands[:1]
    expected, _ = signal.lfilter(b, a, commands, axis=0, zi=start)
    assert through(Butterworth(CUTOFF, DT), commands) == pytest.approx(expected)


def test_butterworth_halves_the_power_at_its_cutoff():
    t = np.arange(2000) * DT
    found = through(Butterworth(CUTOFF, DT), np.sin(2 * np.pi * CUTOFF * t)[:, None])[1000:]
    assert found.var() == pytest.approx(0.25, rel=1e-3)  # half of a sine's 1/2


@pytest.mark.parametrize("filter", [ExponentialAverage(0.2), Butterworth(CUTOFF, DT), DeltaCommand(0.1)])
def test_at_rest_it_stays(filter):
    command = np.array([0.3, -0.7])
    filter.reset(command)
    asked = np.zeros(2) if isinstance(filter, DeltaCommand) else command
    for _ in range(5):
        assert filter.propose(asked) == pytest.approx(command)
        filter.applied(asked, command)


def test_an_average_keeps_a_rate_limit_and_butterworth_does_not():
    """A ramp at the limit, then a stop: the average's increments are averages of the ramp's, Butterworth overshoots."""
    ramp = np.minimum(np.arange(60) * 0.1, 3.0)[:, None]
    assert np.abs(np.diff(through(ExponentialAverage(0.3), ramp), axis=0)).max() <= 0.1 + 1e-12
    assert np.abs(np.diff(through(Butterworth(CUTOFF, DT), ramp), axis=0)).max() > 0.104


def test_what_was_applied_is_what_it_goes_on_from():
    """A limit that holds the command at 0 for ten steps: no wind-up."""
    for filter in (ExponentialAverage(0.2), DeltaCommand(0.2)):
        filter.reset(np.zeros(1))
        for _ in range(10):
            filter.applied(np.ones(1), np.zeros(1))
        assert filter.propose(np.ones(1)).tolist() == [0.2]
    butterworth = Butterworth(CUTOFF, DT)
    butterworth.reset(np.zeros(1))
    for _ in range(200):
        butterworth.applied(np.ones(1), np.zeros(1))
    b, a = butterworth.b, butterworth.a
    assert butterworth.propose(np.ones(1)) == pytest.approx([sum(b)])  # as if its output had been 0 all along
    assert sum(b) == pytest.approx(1 + sum(a)) and sum(b) < 1


def test_delta_commands_are_clipped_to_their_scale():
    filter = DeltaCommand([0.1, 0.2])
    filter.reset(np.array([1.0, 1.0]))
    assert filter.propose(np.array([0.5, -7.0])).tolist() == pytest.approx([1.05, 0.8])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExponentialAverage(0.0), r"alpha is 0.0, expected a number in \(0, 1\]"),
        (lambda: ExponentialAverage.of_cutoff(25.0, 0.02), "cutoff is 25 Hz, expected one between 0 and 25 Hz"),
        (lambda: Butterworth(5.0, 0.0), "dt is 0.0, expected seconds > 0"),
        (lambda: Butterworth(-1.0, 0.02), "cutoff is -1 Hz"),
        (lambda: DeltaCommand([0.1, -0.1]), "expected finite numbers > 0"),
    ],
)
def test_values_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
