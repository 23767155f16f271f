"""The terms for calm commands: gradients against autograd, nothing changed where they are off, resumed bit for bit."""

import math
from dataclasses import replace

import pytest
import torch
from test_sac import LIMITS, SMALL, B, N, agent, batch, judged_by, member

from slewrl import RateLimits, make_layer
from slewrl.agents import smoothness
from slewrl.agents.replay import Batch
from slewrl.agents.sac import SAC, SACConfig
from slewrl.agents.td3 import TD3, TD3Config

TERMS = {
    "calm": {"calm": 0.7},
    "caps": {"caps": 0.3},
    "caps_spatial": {"caps_spatial": 2.0, "caps_noise": 0.3},
    "l2c2": {"l2c2": 3.0},
    "all": {"calm": 0.4, "caps": 0.3, "caps_spatial": 0.5, "caps_noise": 0.2, "l2c2": 0.7},
}
DELTA, HALF_RANGE = torch.tensor([0.2, 0.5]), torch.tensor([1.0, 1.0])


def mean_action(sac, observation):
    """What the critic judges of the mean latent."""
    mean = member(sac.actor, 0, observation)[:, :2]
    mean = torch.tanh(mean) if sac.config.mean_bound == "tanh" else mean
    return sac.layer(mean, LIMITS.box(observation[:, -2:], check=False)).judged


def after_mean(sac, data):
    """The next state, after the command of the mean at s~ instead of the one that was executed."""
    mean = member(sac.actor, 0, data.observation)[:, :2]
    mean = torch.tanh(mean) if sac.config.mean_bound == "tanh" else mean
    following = data.next_observation.clone()
    following[:, -2:] = sac.layer(mean, LIMITS.box(data.observation[:, -2:], check=False)).executed.detach()
    return following


def difference(sac, data, other, x):
    """(1/B) sum over pairs that do not end of |x(other) - x(s~)|^2."""
    squares = (x(sac, other) - x(sac, data.observation)).square().sum(-1)
    return ((1 - data.terminated) * squares).mean()


def increment(sac, observation):
    return (mean_action(sac, observation) - observation[:, -2:]) / DELTA


def plain_terms(sac, data, generator, q_slope):
    """All terms of a config, written plainly; random numbers in the order the agent draws them."""
    config, loss = sac.config, torch.zeros(())
    scaled = lambda sac, observation: mean_action(sac, observation) / HALF_RANGE  # noqa: E731
    if config.calm:
        weight = smoothness.STRONGEST * config.calm**2 * q_slope
        loss = loss + weight * difference(sac, data, after_mean(sac, data), increment)
    loss = loss + config.caps * difference(sac, data, data.next_observation, scaled)
    if config.caps_spatial:
        near = data.observation.clone()
        near[:, : N - 2] += config.caps_noise * torch.randn(B, N - 2, generator=generator)
        loss = loss + config.caps_spatial * difference(sac, data, near, scaled)
    if config.l2c2:
        between = data.observation.clone()
        share = torch.rand(B, N - 2, generator=generator)
        between[:, : N - 2] += share * (data.next_observation - data.observation)[:, : N - 2]
        loss = loss + config.l2c2 * difference(sac, data, between, scaled)
    return loss


@pytest.mark.parametrize(
    ("layer", "terms", "more"),
    [(layer, terms, {}) for layer in ("ddsrad", "post", "interval_srad", "boxpro") for terms in TERMS]
    + [("truncnorm", "calm", {}), ("srad_ball", "all", {})]
    + [("ddsrad", "calm", {"mean_bound": "tanh"}), ("ddsrad", "calm", {"critic_input": "increment"})],
)
def test_gradients_are_autograds(layer, terms, more, monkeypatch):
    """The gradient of an agent with the terms minus that of one without: the same losses, by autograd."""
    monkeypatch.setattr(smoothness, "STRONGEST", 10.0)  # well above the rounding of that difference
    without = agent(layer, replace(SMALL, max_grad_norm=1e9, **more))
    sac = agent(layer, replace(without.config, **TERMS[terms]))
    data = batch()
    without.update(batch())
    generator = torch.Generator()
    generator.set_state(without.generator.get_state())  # where the agent draws what its terms need
    flat = sac.actor.flat.detach().clone().requires_grad_()
    twin = agent(layer, sac.config)
    twin.critics.flat.copy_(without.critics.flat)  # the critics step before the actor
    noise = torch.randn(2 * B, 2, generator=agent(layer).generator)[:B]

    mean, log_std = member(twin.actor, 0, data.observation).chunk(2, -1)
    mean = torch.tanh(mean) if sac.config.mean_bound == "tanh" else mean
    box = LIMITS.box(data.observation[:, -2:], check=False)
    action = twin.layer.sample(mean, log_std.clamp(-20, 2).exp(), noise, box)[0].judged.detach().requires_grad_()
    (slope,) = torch.autograd.grad(judged_by(twin, data.observation, action).amin(0).sum(), action)
    q_slope = float((slope * DELTA).abs().mean())
    twin.actor.weights, twin.actor.biases = twin.actor.views(flat)
    (expected,) = torch.autograd.grad(plain_terms(twin, data, generator, q_slope), flat)

    sac.update(data)
    found = sac.actor.grad - without.actor.grad
    assert expected.abs().max() > 1e-4
    assert torch.allclose(found, expected, rtol=1e-3, atol=2e-6 + 1e-4 * expected.abs().max().item())
    assert torch.equal(sac.critics.flat, without.critics.flat)  # the actor's loss alone has changed


@pytest.mark.parametrize("layer", ["ddsrad", "post", "interval_srad"])
@pytest.mark.parametrize("mean_bound", ["linear", "tanh"])
def test_td3s_gradient_is_autograds(layer, mean_bound, monkeypatch):
    """The same term on its latent: what it adds to the gradient of the actor without it."""
    monkeypatch.setattr(smoothness, "STRONGEST", 10.0)
    plain = TD3Config(hidden=(16, 16), mean_bound=mean_bound, max_grad_norm=1e9, policy_delay=1)
    make = lambda config: TD3(config, LIMITS, make_layer(layer), N, 0)  # noqa: E731
    without, td3, twin = make(plain), make(replace(plain, calm=0.7)), make(plain)
    data = batch()
    without.update(batch())
    td3.update(data)
    twin.critics.flat.copy_(without.critics.flat)  # the critics step before the actor

    def latent(observation):
        found = member(twin.actor, 0, observation)
        return torch.tanh(found) if mean_bound == "tanh" else found

    def action(observation):
        return twin.layer(latent(observation), LIMITS.box(observation[:, -2:], check=False))

    judged = action(data.observation).judged.detach().requires_grad_()
    (slope,) = torch.autograd.grad(judged_by(twin, data.observation, judged)[0].sum(), judged)
    following = data.next_observation.clone()
    following[:, -2:] = action(data.observation).executed.detach()
    flat = twin.actor.flat.detach().clone().requires_grad_()
    twin.actor.weights, twin.actor.biases = twin.actor.views(flat)
    v = lambda at: (action(at).judged - at[:, -2:]) / DELTA  # noqa: E731
    squares = (v(following) - v(data.observation)).square().sum(-1)
    loss = 10.0 * 0.7**2 * (slope * DELTA).abs().mean() * ((1 - data.terminated) * squares).mean()
    (expected,) = torch.autograd.grad(loss, flat)
    found = td3.actor.grad - without.actor.grad
    assert expected.abs().max() > 1e-4
    assert torch.allclose(found, expected, rtol=1e-3, atol=2e-6 + 1e-4 * expected.abs().max().item())


def test_no_pair_counts_that_ends_in_a_terminal_state():
    """With every state of the batch terminal the terms are gone, to the bit."""
    found = []
    for terms in ({}, TERMS["all"]):
        sac, data = agent(config=replace(SMALL, **terms)), batch()
        data.terminated.fill_(1.0)
        sac.update(data)
        found.append(sac.actor.grad.clone())
    assert found[0].any() and torch.equal(*found)


def test_off_draws_and_changes_nothing():
    """The noise of ten updates is all that is drawn: for s~ and s~' of a batch, when the actor improves."""
    sac, generator = agent(), torch.Generator()
    generator.set_state(sac.generator.get_state())
    sac._add_smoothness = None  # to call it would raise
    for seed in range(10):
        sac.update(batch(seed))
        torch.randn(2 * B, 2, generator=generator)
    assert not sac.smoothness.on and torch.equal(sac.generator.get_state(), generator.get_state())


@pytest.mark.parametrize("terms", TERMS)
def test_it_goes_on_bit_for_bit(terms):
    config = replace(SMALL, **TERMS[terms])
    sac, other = agent(config=config), agent(config=config, seed=9)
    for seed in range(4):
        sac.update(batch(seed))
    other.load_state_dict(sac.state_dict())
    for one in (sac, other):
        for seed in range(4, 8):
            one.update(batch(seed))
    assert torch.equal(sac.actor.flat, other.actor.flat)
    assert torch.equal(sac.generator.get_state(), other.generator.get_state())


def test_the_weight_of_calm_is_in_units_of_the_slope_of_q():
    sac = agent(config=replace(SMALL, calm=0.5))
    slope = torch.tensor([[2.0, -4.0], [0.0, 8.0]])
    mean = (2 * 0.2 + 4 * 0.5 + 0 + 8 * 0.5) / 4
    assert sac.smoothness.calm_weight(slope) == pytest.approx(smoothness.STRONGEST * 0.25 * mean)
    assert sac.smoothness.calm_weight(1000 * slope) == pytest.approx(1000 * smoothness.STRONGEST * 0.25 * mean)


def test_more_calm_is_calmer():
    """The more calm, the less the mean's increments differ between successive states of the batch."""
    found = []
    for calm in (0.0, 0.25, 0.5, 1.0):
        sac, data = agent(config=replace(SMALL, calm=calm, learning_rate=3e-3)), batch()
        for _ in range(400):
            sac.update(batch())
        found.append(difference(sac, data, after_mean(sac, data), increment).item())
    assert found == sorted(found, reverse=True) and found[0] > 1.5 * found[-1]


def test_with_acceleration_limits():
    """The history has two entries per joint there, which the noise on the state leaves alone."""
    limits = RateLimits([0.2, 0.5], low=-1.0, high=1.0, acceleration=0.05)
    sac = SAC(replace(SMALL, **TERMS["all"]), limits, make_layer("ddsrad"), N + 2, 0)
    table = torch.zeros(2 * B, N + 6)
    table[:, : N - 2] = torch.randn(2 * B, N - 2, generator=torch.Generator().manual_seed(0))
    data = Batch(table, N + 2, 2)
    seen = sac.smoothness.observations(data, lambda x: torch.full((B, 2), 3.0), torch.Generator().manual_seed(0))
    assert seen.shape == (5 * B, N + 2) and (seen[2 * B :, : N - 2] != 0).all()
    for block, history in enumerate(seen[:, N - 2 :].split(B)):
        assert history.any() == (block == 1), block  # after the mean's own command: an increment, and the command
    assert (seen[B : 2 * B, N - 2 : N] == seen[B : 2 * B, N:]).all() and (seen[B : 2 * B, N:] > 0).all()
    sac.update(data)
    assert math.isfinite(sac.actor.grad.norm()) and sac.actor.grad.norm() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calm": 1.5}, r"calm is 1.5, expected a number in \[0, 1\]"),
        ({"caps": -1.0}, "caps is -1.0, expected a finite number >= 0"),
        ({"l2c2": math.inf}, "l2c2 is inf, expected a finite number >= 0"),
        ({"caps_noise": 0.0}, "caps_noise is 0.0, expected a number > 0"),
    ],
)
def test_values_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        SACConfig(**options)


def test_the_command_and_the_bundle(slewrl, tmp_path):
    """--calm is agent.calm; the policy it trains is exported as any other."""
    from slewrl.deploy.export import deployable
    from slewrl.training.run_folder import RunFolder

    run = ("--task", "Reacher-v5", "--steps", "80", "--learning-starts", "40", "--evaluate-every", "80", "--out", "r")
    result = slewrl("train", *run, "--calm", "0.5", "--set", "agent.hidden=[8]", "--no-tensorboard")
    assert result.returncode == 0, result.stderr
    assert RunFolder(tmp_path / "r").spec().agent_options == {"hidden": [8], "calm": 0.5}
    module = deployable(tmp_path / "r").module
    assert module(torch.zeros(1, 10), torch.zeros(1, 2)).shape == (1, 2)
    for options, message in (
        (("--calm", "2"), "calm is 2.0, expected a number in [0, 1]"),
        (("--calm", "0.5", "--set", "agent.calm=0.1"), "--calm and --set agent.calm are the same option"),
        (("--calm", "0.5", "--agent", "ppo"), "--calm is an option of sac and td3, and --agent is ppo"),
    ):
        wrong = slewrl("train", *run[:-1], "other", *options)
        assert wrong.returncode == 2 and message in wrong.stderr, wrong.stderr
    resumed = slewrl("train", "--resume", "r", "--calm", "0.1")
    assert resumed.returncode == 2 and "leave the other options out" in resumed.stderr
