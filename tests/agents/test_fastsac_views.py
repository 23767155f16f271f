"""FastSAC's options of what networks see of actions, and its falling learning rate."""

import numpy as np
import pytest
import torch
from test_fastsac import LIMITS, PRIVILEGED, B, D, agent, batch

from slewrl.agents.fastsac import FastSACConfig


def test_the_whole_observation_is_normalised_and_the_layer_reads_it_raw():
    fast, data = agent(symmetry=False, normalize_previous=True), batch()
    raw = data.observations.clone()
    rows = fast._rows(data)
    assert torch.equal(torch.cat([rows.history, rows.next_history]), raw[:, -D:])
    seen = torch.cat([rows.observation, rows.next_observation])
    expected = (raw - raw.mean(0)) / (raw.std(0, correction=0) + 1e-2)
    assert torch.allclose(seen, expected, atol=1e-4)
    executed = fast.act(raw).executed
    assert not LIMITS.outside(executed.numpy(), raw[:, -D:].numpy()).any()


def test_the_policy_with_a_normalised_previous_action_is_exported_as_it_acts():
    fast, data = agent(normalize_previous=True), batch()
    seen = data.observations.clone()
    fast.update(data)
    latent = fast.latent_module()(seen[:, PRIVILEGED:])
    acted = fast.act(seen, explore=False).executed
    assert torch.allclose(fast.layer.decide(latent, LIMITS.box(seen[:, -D:], check=False)).executed, acted, atol=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_critics_see_increments_in_units_of_the_limit(whole):
    fast, data = agent(symmetry=False, normalize_previous=whole, critic_input="increment"), batch()
    raw = data.observation.clone()
    rows = fast._rows(data)
    asked = []
    fast.critics.forward = lambda observation, action: asked.append(action) or torch.zeros(2, B, 21)
    fast.critic_loss(rows, torch.zeros(2, B, 21))
    assert torch.allclose(asked[0], (data.action - raw[:, -D:]) / 0.2, atol=1e-5)


def test_the_actor_climbs_what_critics_make_of_increments():
    """A critic that adds up its input has a slope by the action of 1, or of 1 / delta if it sees increments."""
    slopes = []
    for kind in ("action", "increment"):
        fast, data = agent(symmetry=False, critic_input=kind), batch()
        rows = fast._rows(data)
        action, _ = fast._sample(rows.observation, rows.history, torch.zeros(B, D))
        slopes.append(
            torch.autograd.grad(fast.view.seen(action.judged, rows.history).sum(), fast.actor.parameters())[0]
        )
    assert torch.allclose(slopes[1], slopes[0] / 0.2, rtol=1e-3, atol=1e-4) and slopes[0].abs().max() > 0


def test_the_learning_rate_falls_along_a_line():
    fast = agent(learning_rate=1e-3, final_learning_rate=2e-4, decay_updates=4)
    rates = []
    for k in range(6):
        fast.update(batch(k))
        rates.append(
            [getattr(fast, name).param_groups[0]["lr"] for name in ("actor_step", "critic_step", "alpha_step")]
        )
    expected = [1e-3, 8e-4, 6e-4, 4e-4, 2e-4, 2e-4]
    np.testing.assert_allclose(rates, np.repeat(np.array(expected)[:, None], 3, 1), rtol=1e-12)


def test_options_go_on_bit_for_bit():
    options = {"normalize_previous": True, "critic_input": "increment", "decay_updates": 5}
    one, other = agent(**options), agent(**options, seed=1)
    one.update(batch(0))
    other.load_state_dict(one.state_dict())
    for k in (1, 2):
        one.update(batch(k))
        other.update(batch(k))
    assert all(torch.equal(a, b) for a, b in zip(one.averaged.parameters(), other.averaged.parameters(), strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize_previous": True, "normalize": False}, "normalize_previous is true, but normalize is false"),
        ({"critic_input": "latent"}, "critic_input is 'latent', expected 'action' or 'increment'"),
        ({"decay_updates": -1}, "decay_updates is -1, expected a whole number of at least 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        FastSACConfig(**options)
