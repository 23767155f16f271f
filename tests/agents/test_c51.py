"""The categorical projection: numbers by hand, what it keeps, and the definition in a plain loop."""

import pytest
import torch

from slewrl.agents.c51 import project


def projected(mass, shift, scale, low=-2.0, high=2.0):
    shift, scale = torch.tensor([shift]), torch.tensor([scale])
    return project(torch.tensor([mass]), low, high, shift, scale)[0].tolist()


# The atoms are -2, -1, 0, 1, 2.
@pytest.mark.parametrize(
    ("mass", "shift", "scale", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.3, 0.1], 0.0, 1.0, [0.1, 0.2, 0.3, 0.3, 0.1]),  # nothing moves
        ([0.0, 0.0, 1.0, 0.0, 0.0], 0.25, 1.0, [0.0, 0.0, 0.75, 0.25, 0.0]),  # 0 moves to .25
        ([0.0, 0.0, 1.0, 0.0, 0.0], 1.0, 1.0, [0.0, 0.0, 0.0, 1.0, 0.0]),  # onto an atom
        ([0.5, 0.0, 0.0, 0.0, 0.5], 0.0, 0.5, [0.0, 0.5, 0.0, 0.5, 0.0]),  # +-2 to +-1
        ([0.0, 0.4, 0.0, 0.6, 0.0], 0.2, 0.5, [0.0, 0.4 * 0.3, 0.4 * 0.7 + 0.6 * 0.3, 0.6 * 0.7, 0.0]),  # to -.3, .7
        ([0.2, 0.2, 0.2, 0.2, 0.2], -0.5, 0.0, [0.0, 0.5, 0.5, 0.0, 0.0]),  # a terminal reward of -.5
        ([0.0, 0.0, 0.5, 0.0, 0.5], 3.0, 1.0, [0.0, 0.0, 0.0, 0.0, 1.0]),  # clipped above
        ([0.5, 0.0, 0.5, 0.0, 0.0], -1.5, 1.0, [0.75, 0.25, 0.0, 0.0, 0.0]),  # -3.5 clipped to -2, -1.5 between
    ],
)
def test_projection_by_hand(mass, shift, scale, expected):
    assert projected(mass, shift, scale) == pytest.approx(expected, abs=1e-6)


def plain(mass, low, high, shift, scale):
    """Bellemare et al. 2017, Algorithm 1, one atom at a time, in float64."""
    count = len(mass)
    gap, result = (high - low) / (count - 1), [0.0] * count
    for j in range(count):
        moved = min(max(shift + scale * (low + j * gap), low), high)
        place = (moved - low) / gap
        for i in range(count):
            result[i] += mass[j] * max(0.0, 1 - abs(place - i))
    return result


def test_projection_is_the_plain_loop():
    """Two critics, rows of every kind: inside, clipped on either side, terminal."""
    generator = torch.Generator().manual_seed(0)
    mass = torch.randn(2, 40, 101, generator=generator).mul(3).softmax(-1)
    shift = 15 * torch.randn(40, generator=generator)
    scale = torch.tensor([0.97, 0.0, 0.97**3, 1.0]).repeat(10)
    found = project(mass, -20.0, 20.0, shift, scale)
    for j in range(2):
        for row in range(40):
            expected = plain(mass[j, row].tolist(), -20.0, 20.0, shift[row].item(), scale[row].item())
            assert found[j, row].tolist() == pytest.approx(expected, abs=1e-5)  # a place of 60 has an ulp of 4e-6


def test_mass_is_kept_always_and_the_mean_inside():
    generator = torch.Generator().manual_seed(1)
    mass = torch.randn(1000, 101, generator=generator).softmax(-1)
    atoms = torch.linspace(-20, 20, 101)
    shift, scale = 100 * torch.randn(1000, generator=generator), torch.rand(1000, generator=generator)
    moved = project(mass, -20.0, 20.0, shift, scale)
    assert (moved >= 0).all() and torch.allclose(moved.sum(-1), torch.ones(1000), atol=1e-5)
    shift = 20 * (1 - scale) * (2 * torch.rand(1000, generator=generator) - 1)  # so that +-20 stay inside
    moved = project(mass, -20.0, 20.0, shift, scale)
    assert torch.allclose(moved @ atoms, shift + scale * (mass @ atoms), atol=1e-4)
