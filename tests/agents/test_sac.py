"""SAC's four formulas by hand, and its hand-written actor step against autograd, for layers of every kind."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import layer_norm

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.agents.recipes import RECIPES
from slewrl.agents.replay import Batch
from slewrl.agents.sac import SAC, SACConfig, _Heads

LIMITS = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
SMALL = SACConfig(**{**RECIPES["sac"]["paper"].agent, "hidden": (16, 16)})
N, B = 5, 32


def agent(layer="ddsrad", config=SMALL, density="normalized", seed=0):
    return SAC(config, LIMITS, make_layer(layer, density), N, seed)


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    observation, following = torch.randn(2, B, N, generator=generator)
    for x in (observation, following):
        x[:, -2:] = 2 * torch.rand(B, 2, generator=generator) - 1
    observation[:4, -2:] = 1.0  # on a bound
    action = 2 * torch.rand(B, 2, generator=generator) - 1
    terminated = (torch.rand(B, generator=generator) < 0.3).float()
    table = torch.zeros(2 * B, N + 4)
    table[:, :N] = torch.cat([observation, following])
    table[:B, N:] = torch.cat([action, torch.randn(B, 1, generator=generator), terminated[:, None]], -1)
    return Batch(table, N, 2)


def member(net, j, x):
    """Member j of an ensemble, by plain matrix products."""
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        x = x @ weight[j] + bias[j]
        if i < len(net.weights) - 1:
            x = (layer_norm(x, x.shape[-1:]) if net.activation == "norm_relu" else x).relu()
    return x


def judged_by(sac, observation, action):
    """Q of both critics, (2, B), of what they see of an action."""
    if sac.config.critic_input == "increment":
        action = (action - observation[:, -2:]) / torch.tensor([0.2, 0.5])
    x = torch.cat([observation, action], -1)
    return torch.stack([member(sac.critics, j, x)[:, 0] for j in range(2)])


def drawn(sac, observation, noise):
    mean, log_std = member(sac.actor, 0, observation).chunk(2, -1)
    box = LIMITS.box(observation[:, -2:], check=False)
    return sac.layer.sample(mean, log_std.clamp(-20, 2).exp(), noise, box)


def test_critic_target_by_hand():
    sac, data, alpha = agent(), batch(), torch.tensor(0.3)
    noise = torch.randn(2 * B, 2, generator=torch.Generator().manual_seed(5))
    both = drawn(sac, data.observations, noise)
    action, log_prob = drawn(sac, data.next_observation, noise[B:])
    x = torch.cat([data.next_observation, action.judged], -1)
    value = torch.minimum(member(sac.targets, 0, x), member(sac.targets, 1, x))[:, 0] - 0.3 * log_prob
    expected = data.reward + 0.99 * (1 - data.terminated) * value
    target = sac.target(data, both[0].judged, both[1], alpha)
    assert torch.allclose(target, expected, atol=1e-5)
    over = data.terminated == 1
    assert torch.equal(target[over], data.reward[over])


VARIANTS = {
    "plain": {"critic_input": "action"},
    "increment": {"critic_input": "increment"},
    "layer norm": {"critic_input": "increment", "layer_norm": True},
}


@pytest.mark.parametrize(
    ("layer", "density", "variant"),
    [(layer, density, "plain") for layer in LAYERS for density in ("normalized", "action")]
    + [(layer, "normalized", variant) for layer in ("ddsrad", "post", "srad_qp") for variant in VARIANTS],
)
def test_one_update_is_autograds(layer, density, variant):
    """The same losses written plainly, differentiated by autograd, clipped and stepped by torch's Adam."""
    config = replace(SMALL, **VARIANTS[variant])
    sac, data = agent(layer, config, density), batch()
    plain = {name: getattr(sac, name).flat.detach().clone().requires_grad_() for name in ("actor", "critics")}
    adam = {name: torch.optim.Adam([flat], lr=3e-4) for name, flat in plain.items()}
    twin = agent(layer, config, density)  # for its noise, and as a holder of the plain parameters
    noise = torch.randn(2 * B, 2, generator=twin.generator)
    alpha = sac.log_alpha.exp()

    action, log_prob = drawn(twin, data.observations, noise)
    y = twin.target(data, action.judged, log_prob, alpha)
    twin.critics.weights, twin.critics.biases = twin.critics.views(plain["critics"])
    loss = ((judged_by(twin, data.observation, data.action) - y) ** 2).mean(-1).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([plain["critics"]], 1.0)
    adam["critics"].step()

    twin.actor.weights, twin.actor.biases = twin.actor.views(plain["actor"])
    action, log_prob = drawn(twin, data.observation, noise[:B])
    q = judged_by(twin, data.observation, action.judged).amin(0)
    actor_loss = (alpha * log_prob - q + twin.layer.penalty_weight * action.penalty).mean()
    plain["actor"].grad = None
    (plain["actor"].grad,) = torch.autograd.grad(actor_loss, plain["actor"])
    torch.nn.utils.clip_grad_norm_([plain["actor"]], 1.0)
    adam["actor"].step()

    sac.update(data)
    for name, flat in plain.items():
        assert torch.allclose(getattr(sac, name).grad, flat.grad, rtol=1e-3, atol=1e-5), name  # after the clip
        assert torch.allclose(getattr(sac, name).flat, flat, atol=3e-5), name
    # Adam's first step of the temperature: the learning rate, against the sign of entropy - target.
    entropy = -log_prob.mean().item()
    assert sac.log_alpha.item() == pytest.approx(-3e-4 * math.copysign(1, entropy + 2), rel=1e-3)
    assert sac.alpha_step.grad.item() == pytest.approx(entropy - sac.target_entropy, abs=1e-4)
    expected_targets = twin.targets.flat.lerp(plain["critics"].detach(), 0.005)
    assert torch.allclose(sac.targets.flat, expected_targets, atol=1e-6)


def test_temperature_moves_towards_the_target_entropy():
    """Adam's first step is the learning rate times the sign: up where the entropy is too low, down where too high."""
    for entropy, sign in ((-5.0, 1), (5.0, -1)):  # the target is -2
        sac = agent()
        before = sac.log_alpha.item()
        assert before == 0.0  # alpha starts at 1
        sac._update_temperature(torch.tensor(entropy))
        assert sac.log_alpha.item() - before == pytest.approx(sign * 3e-4, rel=1e-3)
    assert agent().target_entropy == -2
    assert agent(density="action_scaled").target_entropy == pytest.approx(-2 + math.log(0.1))


def test_actions_stay_in_the_box_and_the_mean_is_deterministic():
    sac, data = agent(), batch()
    prev = data.observation[:, -2:]
    for _ in range(50):
        executed = sac.act(1e6 * data.observation * torch.tensor([1, 1, 1, 0, 0]) + data.observation).executed
        assert not LIMITS.outside(executed.numpy(), prev.numpy()).any()
    first, second = (sac.act(data.observation, explore=False).executed for _ in range(2))
    assert torch.equal(first, second)
    capped = agent(config=SACConfig(hidden=(16, 16), mean_bound="tanh"))
    step = (capped.act(data.observation, explore=False).executed - prev).abs()
    assert (step <= math.sqrt(0.5) * torch.tensor([0.2, 0.5]) + 1e-6).all()  # f(1) = .707
    with pytest.raises(ValueError, match="mean_bound is 'sigmoid'"):
        SACConfig(mean_bound="sigmoid")


@pytest.mark.parametrize("density", ["normalized", "action_scaled", "action"])
def test_a_thousand_updates_on_bounds_stay_finite(density):
    """Every previous action on a bound, where the paper's log R is -inf."""
    sac, data = agent(density=density), batch()
    data.observation[:, -2:] = data.next_observation[:, -2:] = 1.0
    for _ in range(1000):
        log = sac.update(data, log=True)
    assert all(math.isfinite(value) for value in log.values())
    assert all(getattr(sac, name).flat.isfinite().all() for name in ("actor", "critics", "targets"))


def test_state_dict_goes_on_bit_for_bit():
    sac, data = agent(), batch()
    for _ in range(5):
        sac.update(data)
    other = agent(seed=9)
    other.load_state_dict(sac.state_dict())
    for one in (sac, other):
        for seed in range(5):
            one.update(batch(seed))
    assert torch.equal(sac.actor.flat, other.actor.flat) and torch.equal(sac.targets.flat, other.targets.flat)
    assert torch.equal(sac.act(data.observation).executed, other.act(data.observation).executed)
    assert sac.log_alpha.item() == other.log_alpha.item()


def test_the_same_seed_gives_the_same_agent():
    runs = []
    for _ in range(2):
        sac = agent(seed=3)
        for seed in range(3):
            sac.update(batch(seed))
        runs.append(sac.actor.flat.clone())
    assert torch.equal(*runs)


@pytest.mark.parametrize("mean_bound", ["linear", "tanh"])
def test_heads_go_back_as_autograd_does(mean_bound):
    """Through the mean's bound and the clip of the log standard deviation, on either side of it."""
    sac = agent(config=SACConfig(hidden=(16, 16), mean_bound=mean_bound, log_std_range=(-0.5, 0.5)))
    output = torch.randn(B, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
    weights = torch.randn(2, B, 2, generator=torch.Generator().manual_seed(2))
    heads = sac._heads(output)
    (expected,) = torch.autograd.grad(heads[:2], output, tuple(weights))
    heads = _Heads(*(x.detach() for x in heads))
    assert torch.allclose(sac._heads_backward(heads, *weights), expected, atol=1e-6)
    assert (expected == 0).any() and (expected[:, 2:] != 0).any()


def test_the_actor_waits_for_its_turn():
    """With policy_delay 2 the critics and targets learn from every batch, actor and temperature from every other."""
    sac = agent(config=replace(SMALL, policy_delay=2))
    before = {name: value.clone() for name, value in state(sac).items()}
    assert "q" not in sac.update(batch(1), log=True)
    moved = {name for name, value in state(sac).items() if not torch.equal(value, before[name])}
    assert moved == {"critics", "targets"}
    log = sac.update(batch(2), log=True)
    assert log.keys() == {"critic_loss", "q", "entropy", "temperature"}
    assert all(not torch.equal(value, before[name]) for name, value in state(sac).items())


def state(sac):
    return {name: getattr(sac, name).flat for name in ("actor", "averaged", "critics", "targets")} | {
        "log_alpha": sac.log_alpha
    }


def test_a_critic_update_alone_is_the_one_of_both():
    """What the critics learn from a batch does not depend on whether the actor learns from it as well."""
    one, other = (agent(config=replace(SMALL, policy_delay=delay)) for delay in (1, 2))
    noise = torch.randn(2 * B, 2, generator=torch.Generator().manual_seed(5))
    one._noise = lambda like: noise
    other._noise = lambda like: noise[B:]
    for sac in (one, other):
        sac.update(batch(1))
    assert torch.allclose(one.critics.flat, other.critics.flat, atol=1e-7)
