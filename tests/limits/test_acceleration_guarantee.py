"""A small ``benchmarks/guarantee.py --acceleration``: chains that break nothing, and a judge that would say so."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from slewrl.limits import boxmath, viability

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def chains(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import acceleration

    return acceleration


@pytest.fixture
def limits(chains):
    return chains.side_by_side([*chains.robots().values(), chains.lopsided()])


@pytest.mark.parametrize("stop", [True, False])
def test_motion_breaks_nothing(chains, limits, stop):
    count = chains.by_motion(limits, 1_500_000, stop=stop)
    assert count.joint_steps >= 1_500_000 and not count.broken.any()
    assert count.lowered > 100_000 and count.waiting > 0 and count.restarts > 50


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["ddsrad", "boxpro", "interval_tanh"])
def test_layers_break_nothing(chains, limits, name, dtype):
    count = chains.by_layer(name, limits, dtype, 200 * limits.dim * 64)
    assert not count.broken.any() and count.lowered > 0 and count.restarts > 0


def test_the_brake_of_continuous_time_is_caught(chains, limits, monkeypatch):
    monkeypatch.setattr(viability, "fastest", lambda room, d, xp=np: xp.floor(xp.sqrt(2 * d * room)))
    broken = dict(zip(chains.KINDS, chains.by_motion(limits, 200_000, stop=False).broken.sum(1), strict=True))
    assert broken["bounds"] > 100 and broken["dead ends"] > 100 and not broken["rate"]


@pytest.mark.parametrize("name", ["ddsrad", "interval_tanh"])
def test_it_is_caught_in_layers(chains, limits, name, monkeypatch):
    monkeypatch.setattr(viability, "fastest", lambda room, d, xp=np: xp.floor(xp.sqrt(2 * d * room)))
    broken = chains.by_layer(name, limits, torch.float32, 200 * limits.dim * 64).broken.sum(1)
    assert dict(zip(chains.KINDS, broken, strict=True))["dead ends"] > 100


@pytest.mark.parametrize("field", ["up", "acceleration", "deceleration", "high"])
def test_two_units_too_many_are_caught(chains, limits, field, monkeypatch):
    """Limits on the grid that are two units beyond the written ones, of which rounding inward takes two at most."""
    real = chains.tiled
    wider = limits.grid._replace(**{field: getattr(limits.grid, field) + 2})
    monkeypatch.setattr(chains, "tiled", lambda grid, lanes: real(wider, lanes))
    broken = dict(zip(chains.KINDS, chains.by_motion(limits, 500_000).broken.sum(1), strict=True))
    assert broken[{"up": "rate", "high": "bounds"}.get(field, "acceleration")] > 100


def test_the_judge_agrees_with_rational_numbers(chains):
    """On commands of a few units around the limits, in which all cases occur."""
    limits = chains.lopsided()
    grid, rng, shape = limits.grid, np.random.default_rng(0), (200, limits.dim)
    before = chains.starts(limits, np.zeros(shape, bool), rng)
    velocity = np.rint(rng.uniform(-2, 2, shape) * np.choose(rng.integers(3, size=shape), [0, 1, grid.deceleration]))
    velocity = np.clip(velocity, -grid.down, grid.up)
    edges = np.stack(viability.reachable(velocity, grid.acceleration, grid.deceleration))
    step = np.where(rng.random(shape) < 0.5, *edges) + rng.integers(-3, 4, shape)
    prev = before + velocity * grid.unit
    action = prev + step * grid.unit
    full = chains.written(limits, shape)
    found = chains.judge(action, prev, before, full, chains.Grid(*(np.broadcast_to(x, shape) for x in grid)))
    exactly = viability.too_sharp(action, prev, before, limits.acceleration, limits.deceleration)
    np.testing.assert_array_equal(found["acceleration"], exactly)
    assert 0.1 < exactly.mean() < 0.9
    braking = step == viability.brake(velocity, grid.deceleration)
    np.testing.assert_array_equal(
        (found["rate"] | found["bounds"])[~braking],
        boxmath.outside(action, prev, limits.down, limits.up, limits.low, limits.high)[~braking],
    )


def test_the_summary_counts_every_mover(chains):
    results = [chains.run_chain(chain) for chain in chains.chains(10_000)]
    lines = chains.summary(results)
    assert "0 rate, 0 acceleration, 0 bounds, 0 dead ends, 0 not float32" in lines[0]
    assert {chain.mover for chain, count in results if count.joint_steps} == {*chains.HARD, chains.BRAKING, chains.FREE}
    assert len(chains.chain_rows(results)) == 5


@pytest.mark.slow
def test_the_command_prints_its_table():
    command = [sys.executable, str(BENCHMARKS / "guarantee.py"), "--acceleration", "3e5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 rate, 0 acceleration, 0 bounds, 0 dead ends, 0 not float32" in done.stdout
