"""TD3's formulas by hand, and its hand-written steps against autograd, for layers of every kind."""

import pytest
import torch
from test_sac import LIMITS, VARIANTS, B, N, batch, judged_by, member

from slewrl import LAYERS, make_layer
from slewrl.agents.td3 import TD3, TD3Config

PLAIN = {"learning_rate": 3e-4, "max_grad_norm": 1.0, "critic_input": "action", "layer_norm": False}
SMALL = TD3Config(hidden=(16, 16), **PLAIN)


def agent(layer="ddsrad", config=SMALL, seed=0):
    return TD3(config, LIMITS, make_layer(layer), N, seed)


def box(observation):
    return LIMITS.box(observation[:, -2:], check=False)


def test_target_by_hand():
    """Noise of .2 clipped at .5 on the latent, the smaller of two critics, nothing after a terminal state."""
    td3, data = agent(), batch()
    noise = 4 * torch.randn(B, 2, generator=torch.Generator().manual_seed(1))  # so that some is clipped
    latent = member(td3.target_actor, 0, data.next_observation) + (0.2 * noise).clamp(-0.5, 0.5)
    assert (0.2 * noise).abs().max() > 0.5
    action = td3.layer(latent, box(data.next_observation)).judged
    x = torch.cat([data.next_observation, action], -1)
    value = torch.minimum(member(td3.target_critics, 0, x), member(td3.target_critics, 1, x))[:, 0]
    expected = data.reward + 0.99 * (1 - data.terminated) * value
    assert torch.allclose(td3.target(data, noise), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "mean_bound", "variant"),
    [(layer, mean_bound, "plain") for layer in LAYERS for mean_bound in ("linear", "tanh")]
    + [(layer, "linear", variant) for layer in ("ddsrad", "post") for variant in VARIANTS],
)
def test_two_updates_are_autograds(layer, mean_bound, variant):
    """The critics twice and, with a delay of two, the actor and the targets once."""
    config = TD3Config(hidden=(16, 16), mean_bound=mean_bound, **{**PLAIN, **VARIANTS[variant]})
    td3, data = agent(layer, config), batch()
    plain = {name: getattr(td3, name).flat.detach().clone().requires_grad_() for name in ("actor", "critics")}
    adam = {name: torch.optim.Adam([flat], lr=3e-4) for name, flat in plain.items()}
    twin = agent(layer, config)
    twin.critics.weights, twin.critics.biases = twin.critics.views(plain["critics"])
    twin.actor.weights, twin.actor.biases = twin.actor.views(plain["actor"])
    for _ in range(2):
        y = twin.target(data, torch.randn(B, 2, generator=twin.generator))
        loss = ((judged_by(twin, data.observation, data.action) - y) ** 2).mean(-1).sum()
        (plain["critics"].grad,) = torch.autograd.grad(loss, plain["critics"])
        torch.nn.utils.clip_grad_norm_([plain["critics"]], 1.0)
        adam["critics"].step()
    latent = member(twin.actor, 0, data.observation)
    action = twin.layer(latent.tanh() if mean_bound == "tanh" else latent, box(data.observation))
    q = judged_by(twin, data.observation, action.judged)[0]
    loss = (-q + twin.layer.penalty_weight * action.penalty).mean()
    (plain["actor"].grad,) = torch.autograd.grad(loss, plain["actor"])
    torch.nn.utils.clip_grad_norm_([plain["actor"]], 1.0)
    before = td3.actor.flat.clone()
    td3.update(batch())
    assert torch.equal(td3.actor.flat, before)  # the first update leaves the actor alone
    td3.update(batch())
    adam["actor"].step()
    for name, flat in plain.items():
        assert torch.allclose(getattr(td3, name).grad, flat.grad, rtol=1e-3, atol=1e-5), name  # after the clip
        assert torch.allclose(getattr(td3, name).flat, flat, atol=5e-5), name
    assert torch.allclose(td3.target_actor.flat, before.lerp(plain["actor"].detach(), 0.005), atol=1e-6)


def test_noise_never_leaves_the_box():
    td3, data = agent(config=TD3Config(hidden=(16, 16), exploration_noise=1e6)), batch()
    prev = data.observation[:, -2:]
    for _ in range(50):
        executed = td3.act(data.observation).executed
        assert not LIMITS.outside(executed.numpy(), prev.numpy()).any()
    assert agent().exploration_noise == 1.0 and agent("boxpro").exploration_noise == 0.1  # in units of the latent
    first, second = (td3.act(data.observation, explore=False).executed for _ in range(2))
    assert torch.equal(first, second)


def test_state_dict_goes_on_bit_for_bit():
    td3 = agent()
    for seed in range(5):
        td3.update(batch(seed))
    other = agent(seed=9)
    other.load_state_dict(td3.state_dict())
    for one in (td3, other):
        for seed in range(5):
            one.update(batch(seed))
    assert torch.equal(td3.actor.flat, other.actor.flat)
    assert torch.equal(td3.target_critics.flat, other.target_critics.flat)
    assert torch.equal(td3.act(batch().observation).executed, other.act(batch().observation).executed)


@pytest.mark.parametrize(("noise", "share"), [(0.2, 0.27), (1.0, 0.66)])
def test_small_latent_noise_hardly_explores(noise, share):
    """Increments add up to a random walk: the share of the range a joint with delta = .2 visits in 100 steps."""
    generator, prev = torch.Generator().manual_seed(0), torch.zeros(256, 2)
    low, high = prev, prev
    for _ in range(100):
        u = noise * torch.randn(256, 2, generator=generator)
        prev = make_layer("ddsrad").execute(u, LIMITS.box(prev, check=False))
        low, high = torch.minimum(low, prev), torch.maximum(high, prev)
    assert ((high - low)[:, 0] / 2).mean() == pytest.approx(share, abs=0.02)
