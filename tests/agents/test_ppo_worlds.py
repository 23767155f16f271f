"""PPO for many worlds: mirror images, entries for critics alone, normalised previous actions, a rate per rollout."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.agents.ppo import PPO, PPOConfig, _flat, _image, outputs
from slewrl.envs.vec_env import Layout, Mirror
from slewrl.layers.base import ActionLayer

LIMITS = RateLimits([0.2, 0.2], low=[-1.0, -0.5], high=[0.5, 1.0])
N, D, WORLDS, STEPS = 7, 2, 3, 8
# Left and right change places: privileged entries, sensors, and joints that turn the other way; a speed changes sign.
MIRROR = Mirror(
    np.array([1, 0, 2, 4, 3, 6, 5]),
    np.array([1, 1, -1, 1, 1, -1, -1], np.float32),
    np.array([1, 0]),
    np.array([-1, -1], np.float32),
)
LAYOUT = Layout(N, 2, MIRROR)
ROWS = STEPS * WORLDS
SMALL = PPOConfig(rollout=STEPS, minibatch=2 * ROWS, epochs=1, hidden=(8, 8), symmetry=True)
LATENT = [name for name, layer in LAYERS.items() if layer.sample is ActionLayer.sample]


def agent(config=SMALL, layer="ddsrad", seed=0):
    return PPO.make(config, LIMITS, make_layer(layer), LAYOUT, seed)


def collect(ppo, seed=0, mirrored=False):
    """A made-up rollout, or its mirror image: noise for observations, and what was executed as the previous action."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(STEPS + 1, WORLDS, N)).astype(np.float32)
    seen[..., -D:] = np.clip(0.2 * seen[..., -D:], -0.5, 0.5)
    latent, reward = rng.normal(size=(STEPS, WORLDS, D)).astype(np.float32), rng.normal(size=(STEPS, WORLDS))
    ppo.act(torch.from_numpy(seen[0]))  # which makes the rollout
    rollout = ppo.rollout
    image = (lambda x, how: _image(x, *how)) if mirrored else (lambda x, how: x)
    rollout.observation[:] = image(_flat(seen[:-1]), MIRROR.of_observations).reshape(rollout.observation.shape)
    rollout.next_observation[:] = image(_flat(seen[1:]), MIRROR.of_observations).reshape(rollout.observation.shape)
    rollout.latent[:] = image(_flat(latent), MIRROR.of_actions).reshape(latent.shape)
    rollout.reward[:], rollout.filled = reward, STEPS


def no_sample():
    raise AssertionError("there is no replay")


def test_a_rollout_and_its_mirror_image_teach_a_symmetric_policy_the_same():
    """A policy whose first weights are 0 is symmetric, so that both rollouts are as likely under it."""
    learned = []
    for mirrored in (False, True):
        ppo = agent(layer="boxpro")  # without a penalty, whose own noise has no image
        for net in (ppo.actor, *ppo.critics):
            net.weights[0].zero_()
            net.biases[-1].zero_()
        collect(ppo, mirrored=mirrored)
        ppo.improve(no_sample)
        learned.append(ppo.grad.clone())
    assert torch.allclose(*learned, atol=1e-6) and learned[0].abs().max() > 1e-2
    alone = agent(replace(SMALL, symmetry=False, minibatch=ROWS))
    assert alone.mirror is None


def test_rows_in_the_mirror_by_hand():
    ppo = agent(replace(SMALL, normalize=True, normalize_previous=True))
    ppo.normalizer.update(torch.randn(50, N, generator=torch.Generator().manual_seed(1)))
    collect(ppo)
    raw, latent = _flat(ppo.rollout.observation), _flat(ppo.rollout.latent)
    seen = ppo.normalizer(torch.from_numpy(raw))
    mean, std = outputs(ppo.actor, seen), ppo._std()
    table = ppo._table(seen.numpy(), mean, std, np.arange(ROWS), [np.ones(ROWS)])
    image = torch.from_numpy(raw[:, MIRROR.observation_index] * MIRROR.observation_sign)
    assert len(table) == 2 * ROWS and np.allclose(table[ROWS:, :N], ppo.normalizer(image))
    assert np.allclose(table[ROWS:, N : N + D], -latent[:, [1, 0]])
    assert np.allclose(table[ROWS:, N + D : N + 2 * D], outputs(ppo.actor, ppo.normalizer(image)))
    assert np.array_equal(table[ROWS:, N + 2 * D : N + 3 * D], -raw[:, [6, 5]])  # the previous action, as it is
    assert np.array_equal(table[:ROWS, N + 3 * D :], table[ROWS:, N + 3 * D :])  # density, advantage, target


@pytest.mark.parametrize("name", LATENT)
def test_layers_commute_with_the_mirror(name):
    """What mirrored latents rest on: the layer of an image is the image of the layer."""
    generator = torch.Generator().manual_seed(0)
    layer, latent = make_layer(name), 2 * torch.randn(200, D, generator=generator)
    prev = LIMITS.clamp(torch.randn(200, D, generator=generator))
    index, sign = torch.from_numpy(MIRROR.action_index), torch.from_numpy(MIRROR.action_sign)
    image = lambda x: x[:, index] * sign  # noqa: E731
    there = layer.decide(image(latent), LIMITS.box(image(prev))).executed
    assert torch.allclose(there, image(layer.decide(latent, LIMITS.box(prev)).executed), atol=1e-6)


def test_the_first_divergence_of_a_lopsided_policy_is_none():
    """It is of the update alone: else no learning rate would be small enough for it."""
    ppo = agent(replace(SMALL, desired_kl=0.01, initial_log_std=-3.0))
    ppo.actor.weights[-1].normal_(generator=torch.Generator().manual_seed(3))
    collect(ppo)
    ppo.improve(no_sample)
    assert ppo.optimiser.learning_rate == SMALL.learning_rate


def test_the_rate_moves_once_a_rollout():
    ppo = agent(replace(SMALL, minibatch=4, epochs=4, desired_kl=1e-6, adapts="rollout"))
    collect(ppo)
    logged = ppo.improve(no_sample)
    assert logged["learning_rate"] == SMALL.learning_rate and logged["kl"] > 2e-6
    assert ppo.optimiser.learning_rate == SMALL.learning_rate / 1.5


@pytest.mark.parametrize("whole", [False, True])
def test_the_actor_does_not_see_privileged_entries_and_is_exported_as_it_acts(whole):
    ppo = agent(replace(SMALL, sees_all=False, normalize=True, normalize_previous=whole))
    ppo.actor.weights[-1].normal_(generator=torch.Generator().manual_seed(3))
    seen = torch.randn(40, N, generator=torch.Generator().manual_seed(2))
    seen[:, -D:] = LIMITS.clamp(seen[:, -D:])
    ppo.normalizer.update(3 * seen + 1)
    acted = ppo.act(seen, explore=False).executed
    other = seen.clone()
    other[:, :2] += 5
    assert torch.equal(acted, ppo.act(other, explore=False).executed)
    latent = ppo.latent_module()(seen[:, 2:])
    assert torch.allclose(ppo.layer.decide(latent, LIMITS.box(seen[:, -D:])).executed, acted, atol=1e-6)
    value = lambda x: outputs(ppo.critics[0], ppo._seen(x))  # noqa: E731
    assert not np.allclose(value(seen), value(other))
    assert torch.equal(ppo.normalizer(seen)[:, -D:], seen[:, -D:]) == (not whole)


def test_what_was_executed_is_within_the_limits_of_the_action_as_it_is():
    ppo = agent(replace(SMALL, normalize=True, normalize_previous=True))
    ppo.normalizer.update(torch.randn(50, N) * 4 + 2)
    seen = torch.randn(100, N)
    seen[:, -D:] = LIMITS.clamp(seen[:, -D:])
    executed = ppo.act(seen).executed.numpy()
    assert not LIMITS.outside(executed, seen[:, -D:].numpy()).any()


def test_the_first_deviation_is_the_options():
    assert np.allclose(agent(replace(SMALL, initial_log_std=-2.0))._std(), np.exp(-2.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize_previous": True}, "normalize_previous is true, but normalize is false"),
        ({"normalize_previous": True, "normalize": True, "advantage": "action"}, "need the action itself"),
        ({"adapts": "epoch"}, "adapts is 'epoch', expected 'minibatch' or 'rollout'"),
        ({"activation": "elu"}, "activation is 'elu', expected 'tanh' or 'relu'"),
        ({"initial_log_std": float("inf")}, "initial_log_std is inf, expected a finite number"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig(**options)
