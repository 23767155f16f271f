"""PPO's formulas by hand, its gradient step against autograd, its runs to the byte, and the price of PPO-Lagrangian."""

import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.agents.action_value import ActionValue
from slewrl.agents.ppo import (
    CHUNK,
    PPO,
    PPOConfig,
    adapted_rate,
    clipped_loss,
    divergence,
    log_density,
    normalized,
    outputs,
)
from slewrl.agents.ppo_lag import PPOLag, PPOLagConfig, moved
from slewrl.agents.replay import Batch
from slewrl.agents.rollout import Rollout, gae
from slewrl.cli import main
from slewrl.deploy.c_export import policy_header
from slewrl.deploy.export import deployed, export_bundle
from slewrl.deploy.rebuild import rebuilt
from slewrl.metrics import rate_use
from slewrl.training import checkpoint
from slewrl.training.checks import check_spec
from slewrl.training.policy import load_policy
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import Trainer, train

LIMITS = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
N = 5
SMALL = PPOConfig(rollout=16, minibatch=8, epochs=2, hidden=(8, 8))
SPEC = RunSpec(
    task="Pendulum-v1", agent="ppo", steps=600, evaluate_every=150, evaluate_episodes=1, seed=7,
    agent_options={"rollout": 64, "minibatch": 24, "epochs": 3, "hidden": [16, 16]},
)  # fmt: skip


def agent(layer="ddsrad", config=SMALL, kind=PPO, seed=0, **options):
    return kind(config, LIMITS, make_layer(layer, **options), N, seed)


def act_and_record(ppo, steps, environments=2, seed=0):
    """Steps of a made-up environment: noise for observations, and what was executed as the previous action."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(environments, N)).astype(np.float32)
    seen[:, -2:] = 0
    for t in range(steps):
        executed = ppo.act(torch.from_numpy(seen)).executed.numpy()
        following = rng.normal(size=(environments, N)).astype(np.float32)
        following[:, -2:] = executed
        terminated, ended = np.full(environments, t == 5), np.full(environments, t in (5, 9))
        due = ppo.record(rng.normal(size=environments).astype(np.float32), following, terminated, ended)
        assert due == (t == ppo.config.rollout - 1)
        seen = following.copy()
        seen[ended, -2:] = 0


# ---------------------------------------------------------------------- formulas by hand


def test_gae_by_hand_with_a_termination_and_a_truncation():
    """gamma .5, lambda .5. Step 1 ends in a terminal state, step 2 is cut off with value 8 after it."""
    reward, value = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[1.0], [2.0], [4.0], [2.0]])
    following = np.array([[2.0], [100.0], [8.0], [6.0]])
    terminated = np.array([[False], [True], [False], [False]])
    ended = np.array([[False], [True], [True], [False]])
    # delta: 1 + .5 2 - 1 = 1;  2 - 2 = 0;  3 + .5 8 - 4 = 3;  4 + .5 6 - 2 = 5 (the rollout's own end keeps its value)
    advantage = gae(reward, value, following, terminated, ended, 0.5, 0.5)
    assert advantage.ravel().tolist() == [1 + 0.25 * 0, 0.0, 3.0, 5.0]
    # Had nothing ended: 0 + .5 100, then 3 + .25 5, ...
    going = gae(reward, value, following, terminated & False, ended & False, 0.5, 0.5)
    assert going.ravel().tolist() == [1 + 0.25 * (50 + 0.25 * 4.25), 50 + 0.25 * 4.25, 4.25, 5.0]


@pytest.mark.parametrize("normalize", [False, True])
def test_the_value_after_a_cut_off_is_that_of_the_true_last_observation(normalize):
    ppo = agent(config=replace(SMALL, normalize=normalize))
    ppo.normalizer.update(5 * torch.randn(100, N, generator=torch.Generator().manual_seed(0)) + 3)
    act_and_record(ppo, 16)
    rollout, flat = ppo.rollout, lambda x: ppo._seen(torch.from_numpy(x.reshape(-1, N)))
    value = ppo.critics[0].forward(flat(rollout.observation))[0].numpy().reshape(16, 2).copy()
    after = ppo.critics[0].forward(flat(rollout.next_observation))[0].numpy().reshape(16, 2).copy()
    advantage, target = ppo.estimate(ppo.critics[0], flat(rollout.observation), rollout.reward)
    assert not np.array_equal(rollout.next_observation[9], rollout.observation[10])  # a reset lies between
    assert np.allclose(advantage[9], rollout.reward[9] + 0.99 * after[9] - value[9], atol=1e-6)
    assert np.allclose(advantage[5], rollout.reward[5] - value[5], atol=1e-6)
    assert np.allclose(advantage[15], rollout.reward[15] + 0.99 * after[15] - value[15], atol=1e-6)
    error = rollout.reward[4] + 0.99 * after[4] - value[4]
    assert np.allclose(advantage[4], error + 0.99 * 0.95 * advantage[5], atol=1e-6)
    assert np.array_equal(target, advantage + value)


def test_density_and_ratio_by_hand():
    std = np.array([1.0, 2.0])
    latent, mean = np.array([[1.0, 2.0]]), np.array([[0.0, 0.0]])
    # -(1 + 1) / 2 - log 2 - log 2 pi
    assert log_density(latent, mean, std) == pytest.approx(-1 - math.log(2) - math.log(2 * math.pi))
    # The mean moves by (.5, 1): z goes from (1, 1) to (.5, .5), and the ratio is exp(1 - .25).
    ratio = np.exp(log_density(latent, mean + np.array([0.5, 1.0]), std) - log_density(latent, mean, std))
    assert ratio == pytest.approx(math.exp(0.75))


def test_clipped_loss_by_hand():
    ratio, advantage = np.array([1.0, 1.5, 1.5, 0.5, 0.5]), np.array([2.0, 2.0, -2.0, 2.0, -2.0])
    loss, slope = clipped_loss(ratio, advantage, 0.2)
    assert np.allclose(loss, [-2.0, -2.4, 3.0, -1.0, 1.6])
    assert np.allclose(slope, [-2.0, 0.0, 3.0, -1.0, 0.0])


def test_divergence_by_hand_and_by_torch():
    one = np.ones(1)
    # N(0, 1) to N(1, 1): 1/2.  N(0, 1) to N(0, 2): log 2 + 1/8 - 1/2.
    assert divergence(0 * one[None], one, one[None], one) == pytest.approx(0.5)
    assert divergence(0 * one[None], one, 0 * one[None], 2 * one) == pytest.approx(math.log(2) + 1 / 8 - 1 / 2)
    a, b, s, t = np.random.default_rng(0).uniform(0.5, 2, (4, 3, 2))
    normal = torch.distributions.Normal
    theirs = torch.distributions.kl_divergence(normal(*map(torch.tensor, (a, s))), normal(*map(torch.tensor, (b, t))))
    assert np.allclose(divergence(a, s, b, t), theirs.sum(-1).numpy())


def test_the_rate_follows_the_divergence():
    """rsl_rl: beyond twice the desired it sinks by 1.5, below half it rises by 1.5, within [1e-5, 1e-2]."""
    assert adapted_rate(3e-4, 0.021, 0.01) == pytest.approx(2e-4)
    assert adapted_rate(2e-4, 0.004, 0.01) == pytest.approx(3e-4)
    assert adapted_rate(3e-4, 0.02, 0.01) == adapted_rate(3e-4, 0.005, 0.01) == adapted_rate(3e-4, 0.0, 0.01) == 3e-4
    assert adapted_rate(1.2e-5, 1.0, 0.01) == 1e-5 and adapted_rate(9e-3, 1e-6, 0.01) == 1e-2


def test_an_adaptive_rate_moves_and_a_fixed_one_does_not():
    for desired, moves in ((1e-6, True), (0.0, False)):
        ppo = agent(config=replace(SMALL, desired_kl=desired))
        act_and_record(ppo, 16)
        assert (ppo.improve(None)["learning_rate"] < 3e-4) == moves


@pytest.mark.parametrize(("desired", "rate"), [(0.31, 2e-4), (0.33, 3e-4)])
def test_the_divergence_is_from_what_the_rollout_was_collected_with(desired, rate):
    """Deviations that go from 1 to 2 after it, for two joints: 2 (log 2 + 1/8 - 1/2) = .636, which is twice .318."""
    ppo = agent(config=replace(SMALL, minibatch=32, epochs=1, desired_kl=desired))
    act_and_record(ppo, 16)

    def judge(seen, sample):
        ppo.log_std.fill_(math.log(2))
        return np.zeros((16, 2)), [np.zeros((16, 2))], {}

    ppo.judge = judge
    assert ppo.improve(None)["learning_rate"] == pytest.approx(rate)


def test_advantages_are_normalised_as_torch_does():
    x = np.array([1.0, 2.0, 4.0, 9.0])
    assert np.allclose(normalized(x), (x - 4) / np.std(x, ddof=1))


# ---------------------------------------------------------------------- the gradient step


def plain_networks(ppo):
    """The same parameters as modules of torch's."""

    def module(net):
        layers = []
        for weight, bias in zip(net.weights, net.biases, strict=True):
            linear = nn.Linear(*weight.shape[1:])
            linear.weight, linear.bias = nn.Parameter(weight[0].t().clone()), nn.Parameter(bias[0].clone())
            layers += [linear, nn.Tanh()]
        return nn.Sequential(*layers[:-1])

    return module(ppo.actor), module(ppo.critics[0]), nn.Parameter(ppo.log_std.clone())


WHOLE = replace(SMALL, epochs=3, minibatch=32, entropy_weight=0.01, learning_rate=0.02)
PARTS = replace(WHOLE, minibatch=12, normalize_advantage=False, desired_kl=0.01, learning_rate=0.002)  # 12, 12 and 8


@pytest.mark.parametrize("config", [WHOLE, PARTS], ids=["whole", "parts"])
@pytest.mark.parametrize("layer", ["none", "ddsrad", "boxpre", "interval_srad", "srad_ball"])
def test_an_update_is_autograds(layer, config):
    """The same loss written plainly, differentiated by autograd, clipped and stepped by torch's Adam."""
    ppo = agent(layer, config)
    actor, critic, log_std = plain_networks(ppo)
    act_and_record(ppo, 16)
    rollout = ppo.rollout
    seen, latent = torch.from_numpy(rollout.observation.reshape(-1, N)), torch.from_numpy(rollout.latent.reshape(-1, 2))
    advantage, target = (
        torch.from_numpy(x.ravel()).float() for x in ppo.estimate(ppo.critics[0], seen, rollout.reward)
    )
    generator = torch.Generator()
    generator.set_state(ppo.generator.get_state())
    log = ppo.improve(None)

    parameters = [*actor.parameters(), *critic.parameters(), log_std]
    adam = torch.optim.Adam(parameters, config.learning_rate, eps=1e-5)
    before = torch.distributions.Normal(actor(seen).detach(), log_std.detach().exp())
    orders = (torch.randperm(32, generator=generator).split(config.minibatch) for _ in range(3))
    for order in itertools.chain.from_iterable(orders):
        policy = torch.distributions.Normal(actor(seen[order]), log_std.exp())
        if config.desired_kl:
            there = torch.distributions.Normal(before.mean[order], before.stddev[order])
            kl = torch.distributions.kl_divergence(there, policy).sum(-1).mean().item()
            adam.param_groups[0]["lr"] = adapted_rate(adam.param_groups[0]["lr"], kl, config.desired_kl)
        log_ratio = (policy.log_prob(latent[order]) - before.log_prob(latent)[order]).sum(-1)
        scaled = advantage[order]
        if config.normalize_advantage:
            scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
        loss = -torch.min(scaled * log_ratio.exp(), scaled * log_ratio.exp().clamp(0.8, 1.2)).mean()
        loss = loss + 0.5 * (critic(seen[order])[:, 0] - target[order]).square().mean()
        loss = loss - 0.01 * policy.entropy().sum(-1).mean()
        if ppo.layer.penalty_weight:
            drawn = policy.mean + policy.stddev * torch.randn(len(order), 2, generator=generator)
            penalty = ppo.layer(drawn, LIMITS.box(seen[order][:, -2:], check=False)).penalty
            loss = loss + ppo.layer.penalty_weight * penalty.mean()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        adam.step()
    for net, plain in ((ppo.actor, actor), (ppo.critics[0], critic)):
        for weight, linear in zip(net.weights, plain[::2], strict=True):
            assert torch.allclose(weight[0].t(), linear.weight, atol=2e-5)
    assert torch.allclose(ppo.log_std, log_std, atol=2e-5)
    after = torch.distributions.Normal(actor(seen), log_std.exp())
    assert log["kl"] == pytest.approx(torch.distributions.kl_divergence(before, after).sum(-1).mean().item(), rel=1e-2)
    assert log["entropy"] == pytest.approx(after.entropy().sum(-1).mean().item(), abs=1e-4)
    assert log["learning_rate"] == pytest.approx(adam.param_groups[0]["lr"])
    assert (log["learning_rate"] != config.learning_rate) == (config is PARTS)


def test_what_is_learned_from_is_what_was_drawn_and_what_it_did():
    """The rollout keeps the latent itself, drawn about the actor's mean with its own deviation for each joint."""
    ppo = agent(config=replace(SMALL, rollout=1))
    ppo.log_std.copy_(torch.tensor([-3.0, 1.0]))
    seen = torch.zeros(4_000, N)
    executed = ppo.act(seen).executed
    latent = torch.from_numpy(ppo.rollout.latent[0])
    assert torch.equal(ppo.layer.decide(latent, LIMITS.box(seen[:, -2:])).executed, executed)
    spread = (latent - ppo.actor.forward(seen)[0]).std(0)
    assert torch.allclose(spread, torch.tensor([math.exp(-3), math.exp(1)]), rtol=0.05)


def test_the_first_ratios_are_one_though_observations_are_normalised(monkeypatch):
    """The second rollout is learned from with the statistics it was collected with."""
    ppo, ratios = agent(config=replace(SMALL, normalize=True)), []
    for seed in range(2):
        act_and_record(ppo, 16, seed=seed)
        monkeypatch.setattr("slewrl.agents.ppo.clipped_loss", lambda r, *a: (ratios.append(r), clipped_loss(r, *a))[1])
        ppo.improve(None)
    updates = len(ratios) // 2
    assert np.allclose(ratios[0], 1, atol=1e-4) and np.allclose(ratios[updates], 1, atol=1e-4)
    assert not np.allclose(ratios[-1], 1, atol=1e-4)


@pytest.mark.parametrize(
    ("minibatch", "sizes"), [(31, [32]), (8, [8] * 4), (12, [12, 12, 8]), (64, [32]), (1, [1] * 32)]
)
def test_no_minibatch_is_a_single_step(minibatch, sizes):
    """... whose advantage could not be normalised, unless all are to be."""
    ppo = agent(config=replace(SMALL, minibatch=minibatch))
    table = np.arange(32 * 12, dtype=np.float32).reshape(32, 12)
    batches = [batch.table.copy() for batch in ppo._shuffled(table)]
    assert [len(batch) for batch in batches] == sizes
    assert np.array_equal(np.sort(np.concatenate(batches), axis=0), table)


def test_long_rollouts_pass_in_chunks():
    ppo = agent()
    x = torch.randn(2 * CHUNK + 904, N)
    whole = ppo.latent_module()(x)
    assert torch.allclose(torch.from_numpy(outputs(ppo.actor, x)), whole, atol=1e-6)


def test_an_abandoned_episode_is_cut_off_where_it_is():
    ppo = agent()
    ppo.abandon()  # nothing is under way yet
    act_and_record(ppo, 8)
    ppo.abandon()
    assert ppo.rollout.ended[:8].all(1).tolist() == [t in (5, 7) for t in range(8)]
    assert ppo.rollout.terminated[:8].all(1).tolist() == [t == 5 for t in range(8)]


def test_half_a_rollout_is_saved_whole():
    ppo = agent()
    act_and_record(ppo, 12)
    again = Rollout.from_state(ppo.rollout.state_dict())
    assert again.filled == 12 and again.terminated.sum() == 2 and again.ended.sum() == 4
    for name, part in vars(ppo.rollout).items():
        assert np.array_equal(getattr(again, name), part), name


def test_it_begins_as_stable_baselines3_does():
    """Orthogonal with gains sqrt 2, sqrt 2 and .01 (critic: 1), biases 0, standard deviation 1."""
    ppo = PPO(PPOConfig(), LIMITS, make_layer("none"), 30, 0)
    for net, last in ((ppo.actor, 0.01), (ppo.critics[0], 1.0)):
        for weight, bias, gain in zip(net.weights, net.biases, (math.sqrt(2), math.sqrt(2), last), strict=True):
            values = torch.linalg.svdvals(weight[0])
            assert torch.allclose(values, torch.full_like(values, gain), rtol=1e-4) and not bias.any()
    assert not ppo.log_std.any()
    config = PPOConfig()
    assert (config.rollout, config.minibatch, config.epochs, config.learning_rate) == (2048, 64, 10, 3e-4)
    assert (config.clip_range, config.gae_lambda, config.discount, config.hidden) == (0.2, 0.95, 0.99, (64, 64))
    assert (config.max_grad_norm, config.value_weight, config.entropy_weight) == (0.5, 0.5, 0.0)


def test_observations_are_normalised_after_they_were_learned_from_and_previous_actions_never():
    ppo = agent(config=replace(SMALL, normalize=True))
    act_and_record(ppo, 16)
    seen = torch.randn(4, N)
    assert torch.equal(ppo._seen(seen), seen)  # nothing was counted in yet
    first = ppo.rollout.observation.reshape(-1, N).copy()
    ppo.improve(None)
    assert torch.equal(ppo._seen(seen)[:, -2:], seen[:, -2:])
    assert np.allclose(ppo._seen(torch.from_numpy(first))[:, :3].mean(0), 0, atol=1e-5)


# ---------------------------------------------------------------------- the action-conditioned advantage


def test_the_advantage_of_an_action_is_its_own_baselines_distance():
    """A critic that is the sum of the action: A is that of the action less its mean over the draws."""
    value = ActionValue(3, 2, (8,), 3e-4, 0.5, torch.Generator().manual_seed(0))
    value.critics.flat.zero_()
    for j in range(2):
        value.critics.weights[0][j, 3:, 0] = 1.0  # one hidden unit: the sum of the actions, kept positive by its bias
        value.critics.biases[0][j, 0] = 10.0
        value.critics.weights[1][j, 0, 0] = 1.0
    draws = iter([torch.zeros(1, 2), torch.ones(1, 2)])
    advantage = value.advantage(torch.zeros(1, 3), torch.tensor([[2.0, 3.0]]), lambda seen: next(draws), 2)
    assert advantage == pytest.approx(5 - (0 + 2) / 2)
    # y = r + gamma Q', where the step did not end in a terminal state: 1 + .5 (10 + 4), and 1.
    table = torch.zeros(4, 7)
    table[:2, 5], table[1, 6] = 1.0, 1.0
    value.targets.flat.copy_(value.critics.flat)
    assert value.target(Batch(table, 3, 2), lambda seen: torch.full((2, 2), 2.0)).tolist() == [8.0, 1.0]


def test_twin_critics_are_pessimistic_and_their_targets_follow_slowly():
    value = ActionValue(3, 2, (8,), 3e-4, 0.5, torch.Generator().manual_seed(0))
    value.targets.flat.zero_()
    value.targets.biases[1][:, 0] = torch.tensor([3.0, 7.0])
    table = torch.randn(8, 7, generator=torch.Generator().manual_seed(1))
    table[:4, 6] = 0
    batch, reward = Batch(table, 3, 2), table[:4, 5].clone()
    assert torch.allclose(value.target(batch, lambda seen: torch.zeros(4, 2)), reward + 0.5 * 3)
    targets, critics = value.targets.flat.clone(), value.critics.flat.clone()
    value.update(batch, lambda seen: torch.zeros(4, 2))
    # Adam's first step moves each parameter by the learning rate.
    assert (value.critics.flat - critics).abs().max().item() == pytest.approx(3e-4, rel=1e-2)
    assert torch.allclose(value.targets.flat, 0.995 * targets + 0.005 * value.critics.flat, atol=1e-7)


@pytest.mark.parametrize("normalize", [False, True])
def test_ppo_judges_what_was_executed_by_its_critics(normalize):
    """With a policy that has all but stopped exploring, the baseline is Q of the mean latent's action."""
    ppo = agent(config=replace(SMALL, advantage="action", normalize=normalize, q_updates=0.25))
    ppo.normalizer.update(5 * torch.randn(100, N, generator=torch.Generator().manual_seed(0)) + 3)
    act_and_record(ppo, 16)
    rollout, critics = ppo.rollout, ppo.action_value
    ppo.log_std.fill_(-20)
    critics.step.learning_rate = 0.0  # as they are
    rows = [torch.rand(16, N + 4, generator=torch.Generator().manual_seed(k)) for k in range(9)]
    given = iter([Batch(table.clone(), N, 2) for table in rows])
    used = []
    flat = [torch.from_numpy(x.reshape(-1, N)) for x in (rollout.observation, rollout.next_observation)]
    seen = ppo._seen(flat[0])
    advantage, targets, log = ppo.judge(seen, lambda: (used.append(next(given)), used[-1])[1])
    assert len(used) == 8 and targets == [] and ppo.critics == [] and log["q_loss"] > 0
    assert torch.equal(used[0].observations, ppo._seen(rows[0][:, :N]))
    executed, resting = flat[1][:, -2:], ppo.act(flat[0], explore=False).executed
    q = [critics.critics.forward(torch.cat([seen, a], -1))[..., 0].mean(0).clone() for a in (executed, resting)]
    assert np.allclose(advantage.ravel(), q[0] - q[1], atol=1e-5) and np.abs(advantage).max() > 1e-3


def test_the_baseline_is_of_as_many_draws_as_were_asked_for():
    ppo, draws = agent(config=replace(SMALL, advantage="action", q_updates=0.01, q_draws=3)), []
    act_and_record(ppo, 16)
    ppo._draw = lambda seen: (draws.append(len(seen)), torch.zeros(len(seen), 2))[1]
    ppo.judge(torch.zeros(32, N), lambda: Batch(torch.zeros(10, N + 4), N, 2))
    assert draws == [5, 32, 32, 32]  # the critics' one update of five transitions, then the rollout's 32 steps


def test_actions_drawn_to_be_judged_are_within_the_limits():
    ppo = agent(config=replace(SMALL, advantage="action"))
    seen = torch.randn(500, N)
    seen[:, -2:] = seen[:, -2:].clamp(-1, 1)
    drawn = ppo._draw(seen)
    assert LIMITS.box(seen[:, -2:]).contains(drawn).all() and not torch.equal(drawn, ppo._draw(seen))


def test_the_actor_learns_from_that_advantage_alone():
    """There is no V to share the gradient's norm with, and what had a large advantage becomes likelier."""
    config = replace(WHOLE, advantage="action", epochs=1, entropy_weight=0.0)
    ppo = agent("none", config)
    act_and_record(ppo, 16)
    advantage = np.linspace(-1, 1, 32).reshape(16, 2)
    ppo.judge = lambda seen, sample: (advantage, [], {"q_loss": 0.0})
    before, seen = ppo.flat.clone(), torch.from_numpy(ppo.rollout.observation.reshape(-1, N))
    latent = ppo.rollout.latent.reshape(-1, 2).copy()
    old = log_density(latent, outputs(ppo.actor, seen), ppo._std())
    log = ppo.improve(None)
    gained = log_density(latent, outputs(ppo.actor, seen), ppo._std()) - old
    assert advantage.ravel() @ gained > 0
    assert "critic_loss" not in log and set(log) == set(ppo.columns)
    assert len(ppo.flat) == len(ppo.actor.flat) + 2 and not torch.equal(ppo.flat, before)


# ---------------------------------------------------------------------- PPO-Lagrangian


def test_the_multiplier_by_hand():
    assert moved(0.5, 0.3, 0.1, 2.0) == pytest.approx(0.9)
    assert moved(0.1, 0.0, 0.2, 1.0) == 0.0  # never a reward for violating
    assert moved(0.7, 0.0, 0.0, 1.0) == 0.7  # a limit of 0 never lets it sink


def test_costs_are_the_audits_and_the_lagrangian_is_their_sum():
    config = PPOLagConfig(rollout=16, minibatch=8, epochs=1, hidden=(8, 8), multiplier_rate=2.0, initial_multiplier=0.5)
    lag = agent("none", config, PPOLag)
    act_and_record(lag, 16)
    rollout = lag.rollout
    executed, previous = rollout.next_observation[..., -2:], rollout.observation[..., -2:]
    outside = np.abs(executed.astype(np.float64) - previous) > [0.2, 0.5]
    assert np.array_equal(lag.cost(), outside.mean(-1)) and 0 < outside.mean() < 1
    seen = torch.from_numpy(rollout.observation.reshape(-1, N))
    both = [lag.estimate(c, seen, s) for c, s in zip(lag.critics, (rollout.reward, lag.cost()), strict=True)]
    (gain, to_gain), (harm, to_harm) = both
    advantage, targets, log = lag.judge(seen, None)
    multiplier = 0.5 + 2.0 * outside.mean()
    assert log == {"cost": pytest.approx(outside.mean()), "multiplier": pytest.approx(multiplier)}
    assert np.allclose(advantage, (gain - multiplier * harm) / (1 + multiplier))
    assert np.array_equal(targets[0], to_gain) and np.array_equal(targets[1], to_harm)
    before = [critic.flat.clone() for critic in lag.critics]
    losses = [np.square(lag.critics[k].forward(seen)[0].numpy().ravel() - targets[k].ravel()).mean() for k in (0, 1)]
    for _ in range(30):
        lag.rollout.filled = 16
        lag.improve(None)
    assert not any(torch.equal(critic.flat, flat) for critic, flat in zip(lag.critics, before, strict=True))
    fitted = [np.square(lag.critics[k].forward(seen)[0].numpy().ravel() - targets[k].ravel()).mean() for k in (0, 1)]
    assert fitted[0] < losses[0] and fitted[1] < losses[1]


def test_ppo_lag_logs_and_counts_its_violations(tmp_path):
    spec = replace(SPEC, agent="ppo_lag", layer="none", steps=1100)
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder)
    rows = np.genfromtxt(folder.path / "train.csv", delimiter=",", names=True)
    assert rows["violations"][-1] > 0 and rows["cost"][-1] > 0
    assert 0 < rows["multiplier"][0] < rows["multiplier"][-1] <= 0.1 * 1100 / 64


# ---------------------------------------------------------------------- runs


def finished(path: Path, spec: RunSpec) -> RunFolder:
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder)
    return folder


def fingerprint(folder: RunFolder):
    """Every number of the last checkpoint, and the logs."""

    def leaves(tree, name):
        if isinstance(tree, dict):
            return [leaf for key, value in tree.items() for leaf in leaves(value, f"{name}.{key}")]
        return [(name, tree.numpy().tobytes() if isinstance(tree, torch.Tensor) else tree)]

    state = checkpoint.use_newest(folder.checkpoints, dict)[0]
    return leaves(state["agent"], "agent"), [(folder.path / f"{name}.csv").read_text() for name in ("train", "eval")]


VARIANTS = {
    "plain": SPEC,
    "everything": replace(SPEC, environments=3, batch_size=16, agent_options={
        **SPEC.agent_options, "advantage": "action", "normalize": True, "desired_kl": 0.01, "q_updates": 0.1,
        "q_hidden": [8, 8], "rollout": 40,
    }),
    "lagrangian": replace(SPEC, agent="ppo_lag", layer="none"),
}  # fmt: skip


class Killed(Exception):
    """Stands in for a kill."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_resumes_bit_for_bit(variant, tmp_path):
    """Killed after an evaluation and before its checkpoint: each time the steps since the last one, an update among
    them, are lost, and the last one lies in the middle of a rollout."""
    spec = VARIANTS[variant]
    expected = fingerprint(finished(tmp_path / "whole", spec))
    folder = RunFolder(tmp_path / "parts")
    folder.create(spec)
    for fatal in (300, 450):

        def report(row, fatal=fatal):
            if row.get("step") == fatal:
                raise Killed

        with pytest.raises(Killed):
            train(spec, folder, report)
        assert checkpoint.use_newest(folder.checkpoints, dict)[0]["agent"]["rollout"]["filled"] > 0
    assert train(spec, folder)
    assert fingerprint(folder) == expected
    assert (tmp_path / "whole" / "replay").exists() == (variant == "everything")


def test_divergence_stops_the_run(tmp_path):
    """In these words, not in a warning of numpy's about log 0."""
    trainer = Trainer(SPEC, RunFolder(tmp_path))
    trainer.agent.log_std.fill_(-1e3)  # a deviation of 0
    with pytest.raises(FloatingPointError, match="training diverged by step 64: .*'kl': nan"):
        for _ in range(64):
            trainer.advance()


def test_no_violation_under_tight_limits(tmp_path):
    trainer = Trainer(replace(SPEC, task="HalfCheetah-v5"), RunFolder(tmp_path))
    while trainer.step < 300:  # four updates
        trainer.advance()
    use = rate_use(trainer.vec_env.envs[0].actions, trainer.limits)
    assert use.steps == 300 and use.violations == trainer.train_row()["violations"] == 0
    assert use.utilisation > 0.3


@pytest.mark.slow
def test_it_learns_a_pendulum_without_limits(tmp_path):
    """A random policy is at about -1200; some 20 CPU-seconds."""
    options = {"rollout": 1024, "learning_rate": 1e-3, "discount": 0.9, "normalize": True}
    spec = RunSpec("Pendulum-v1", agent="ppo", layer="none", steps=65_536, environments=4, evaluate_every=70_000)
    folder = finished(tmp_path / "run", replace(spec, evaluate_episodes=10, agent_options=options))
    assert float(np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)["return_mean"]) > -400


@pytest.mark.slow
def test_it_learns_under_tight_limits_without_a_violation(tmp_path):
    """Standing still earns 0, acting at random less; some 20 CPU-seconds. The seed's own: 710 after 30 000 steps."""
    spec = RunSpec("HalfCheetah-v5", agent="ppo", limits="tight", steps=30_000, evaluate_every=30_000)
    path = finished(tmp_path / "run", replace(spec, agent_options={"rollout": 500})).path
    trained, evaluated = (np.genfromtxt(path / f"{name}.csv", delimiter=",", names=True) for name in ("train", "eval"))
    assert trained["violations"][-1] == 0 and evaluated["violations"] == 0
    assert float(evaluated["return_mean"]) > 400


def test_policies_are_exported_as_they_act(tmp_path):
    spec = VARIANTS["everything"]
    run = finished(tmp_path / "run", spec).path
    policy = load_policy(run)
    seen = torch.randn(64, policy.layout.size)
    seen[:, -1].clamp_(-2, 2)
    expected = policy.act(seen).executed
    assert torch.allclose(deployed(policy).trained(seen[:, :-1], seen[:, -1:]), expected, atol=1e-6)
    pytest.importorskip("onnxscript", reason='ONNX is not installed: pip install "slewrl[onnx]"')
    found = export_bundle(run, tmp_path / "policy.bundle")
    assert torch.allclose(rebuilt(found).trained(seen[:, :-1], seen[:, -1:]), expected, atol=1e-6)
    header = policy_header(found)
    assert header.count("slewrl_tanh(layer") == 2 and header.count("slewrl_normalize(input") == 1


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_has_a_latent_but_the_truncated_normal(layer):
    if layer != "truncnorm":
        assert agent(layer).act(torch.zeros(1, N)).executed.shape == (1, 2)
        return
    with pytest.raises(ValueError, match="TruncNorm does not map one draw of a Gaussian latent.*interval_tanh"):
        agent(layer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rollout": 0}, "rollout is 0, expected a whole number of at least 1"),
        ({"clip_range": 0.0}, "clip_range is 0.0, expected a number > 0"),
        ({"gae_lambda": 1.1}, r"gae_lambda is 1.1, expected a number in \[0, 1\]"),
        ({"advantage": "q"}, "advantage is 'q', expected 'gae' or 'action'"),
        ({"desired_kl": -1.0}, "desired_kl is -1.0, expected a finite number >= 0"),
        ({"normalize": 1}, "normalize is 1, expected true or false"),
        ({"q_updates": 0}, "q_updates is 0, expected a number > 0"),
        ({"hidden": (True,)}, r"hidden is \(True,\), expected widths"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig(**options)


def test_what_no_run_could_do_is_refused():
    with pytest.raises(ValueError, match="DDSRad never violates a limit.*expected --layer none"):
        agent("ddsrad", PPOLagConfig(), PPOLag)
    with pytest.raises(ValueError, match=r"cost_limit is 25.0, expected a number in \[0, 1\]"):
        PPOLagConfig(cost_limit=25.0)
    with pytest.raises(ValueError, match="advantage is 'action', but ppo_lag weighs two estimates"):
        PPOLagConfig(advantage="action")
    with pytest.raises(ValueError, match="steps is 600, but ppo collects 4096 .* before it first learns"):
        check_spec(replace(SPEC, environments=2, agent_options={}))
    with pytest.raises(ValueError, match="density is 'action', but ppo measures no entropy of actions"):
        check_spec(replace(SPEC, density="action"))
    with pytest.raises(RuntimeError, match="act first"):
        agent().improve(None)
    rollout = Rollout(1, 1, N, 2)
    rollout.end(np.zeros(1), np.zeros((1, N)), np.zeros(1, bool), np.zeros(1, bool))
    with pytest.raises(RuntimeError, match="holds its 1 steps already"):
        rollout.begin(np.zeros((1, N)), np.zeros((1, 2)))


@pytest.fixture
def slewrl(monkeypatch, capsys):
    """Run the command in this process: its exit code and what it said."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["slewrl", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, "".join(capsys.readouterr())

    return run


def test_the_command_line(slewrl, tmp_path):
    options = ("--task", "Pendulum-v1", "--agent", "ppo", "--steps", "300", "--evaluate-episodes", "1", "--out")
    sets = ("--set", "agent.rollout=100", "agent.hidden=(8,8)", "agent.epochs=1")
    code, said = slewrl("train", *options, tmp_path / "run", *sets, "--no-tensorboard")
    assert code == 0 and "finished" in said
    assert slewrl("evaluate", tmp_path / "run", "--episodes", "1")[0] == 0
    code, said = slewrl("train", *options, tmp_path / "other", "--paper-mode")
    assert code != 0 and "says nothing of ppo" in said
