"""FastSAC's formulas in plain loops, what its actor must not see, its mirror, and that it resumes and learns."""

import copy
import io
import math
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.agents.fastsac import FastSAC, FastSACConfig
from slewrl.agents.normalize import Normalizer
from slewrl.agents.recipes import RECIPES
from slewrl.agents.replay import Batch, Replay
from slewrl.envs.vec_env import Layout, Mirror
from slewrl.training.spec import RunSpec

LIMITS = RateLimits([0.2, 0.2], low=-1.0, high=1.0)
N, D, B, PRIVILEGED = 7, 2, 32, 2
# Left and right change places: privileged entries, sensors, and joints that turn the other way; a speed changes sign.
MIRROR = Mirror(
    np.array([1, 0, 2, 4, 3, 6, 5]),
    np.array([1, 1, -1, 1, 1, -1, -1], np.float32),
    np.array([1, 0]),
    np.array([-1, -1], np.float32),
)
LAYOUT = Layout(N, PRIVILEGED, MIRROR)
SMALL = {"actor_hidden": (16, 8), "critic_hidden": (24, 12), "atoms": 21, "value_range": (-5.0, 5.0)}
ALWAYS = {"policy_every": 1, "initial_temperature": 0.3}


def agent(layer="ddsrad", seed=0, layout=LAYOUT, limits=LIMITS, **options):
    fast = FastSAC(FastSACConfig(**{**SMALL, **options}), limits, make_layer(layer), N, seed, layout)
    for head in (fast.actor.mean[0], fast.actor.log_std):  # which start at 0, where nothing could go wrong
        nn.init.normal_(head.weight, 0.0, 0.3, torch.Generator().manual_seed(seed))
    fast.averaged.load_state_dict(fast.actor.state_dict())
    return fast


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(2 * B, N + D + 2, generator=generator)
    table[:, N - D : N + D] = 2 * torch.rand(2 * B, 2 * D, generator=generator) - 1
    table[:4, N - D : N] = 1.0  # on a bound
    table[:, -1] = (torch.rand(2 * B, generator=generator) < 0.3).float()
    return Batch(table, N, D)


def imaged(data):
    """The batch in the mirror."""
    table = data.observations.new_zeros(2 * B, N + D + 2)
    index, sign = torch.from_numpy(MIRROR.observation_index), torch.from_numpy(MIRROR.observation_sign)
    table[:, :N] = data.observations[:, index] * sign
    table[:B, N : N + D] = -data.action[:, [1, 0]]
    table[:B, -2], table[:B, -1] = data.reward, data.terminated
    return Batch(table, N, D)


def parameters(fast):
    nets = (fast.actor, fast.critics, fast.targets)
    return torch.cat([nn.utils.parameters_to_vector(net.parameters()) for net in nets]).detach()


# ---------------------------------------------------------------------- one update, plainly


def run(net, x):
    """A network by its parameters: LayerNorm and SiLU written out."""
    layers = list(net)
    for linear, norm in zip(layers[0::3], layers[1::3], strict=False):
        x = x @ linear.weight.t() + linear.bias
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
        x = x * norm.weight + norm.bias
        x = x / (1 + torch.exp(-x))
    if len(layers) % 3:
        x = x @ layers[-1].weight.t() + layers[-1].bias
    return x


def drawn(fast, observation, noise):
    units = run(fast.actor.trunk, observation[:, PRIVILEGED:])
    mean, raw = (units @ head.weight.t() + head.bias for head in (fast.actor.mean[0], fast.actor.log_std))
    std = torch.exp(-5 + 2.5 * (torch.tanh(raw) + 1))
    return fast.layer.sample(mean, std, noise, LIMITS.box(observation[:, -D:], check=False))


def normalized(observations):
    """By numpy, over the rows of this batch, which is all the agent has seen."""
    moving = observations[:, :-D].double().numpy()
    moving = (moving - moving.mean(0)) / (moving.std(0) + 1e-2)
    return torch.cat([torch.from_numpy(moving).float(), observations[:, -D:]], -1)


def plain_target(fast, data, following, noise, alpha):
    """Each target network's projection one row and atom at a time, (2, B, K); and log pi, (B,)."""
    action, log_prob = drawn(fast, following, noise)
    masses = [run(net, torch.cat([following, action.judged], -1)).softmax(-1) for net in fast.targets.members]
    target, atoms = torch.zeros(2, B, 21), torch.linspace(-5, 5, 21)
    for i in range(B):
        follow = 0.97 * (1 - data.terminated[i])
        for k in range(21):
            value = data.reward[i] + follow * (atoms[k] - alpha * log_prob[i])
            place = (value.clamp(-5, 5) + 5) / 0.5  # atoms are .5 apart
            share = (1 - (place - torch.arange(21)).abs()).clamp_min(0)
            for j in range(2):
                target[j, i] += masses[j][i, k] * share
    return target, log_prob


@pytest.mark.parametrize("layer", LAYERS)
@torch.no_grad()
def test_critic_target_is_a_plain_loop(layer):
    fast, data = agent(layer, symmetry=False), batch()
    noise = torch.randn(B, D, generator=torch.Generator().manual_seed(5))
    rows = fast._rows(data)
    assert torch.allclose(
        torch.cat([rows.observation, rows.next_observation]), normalized(data.observations), atol=1e-5
    )
    found, log_prob = fast.critic_target(rows, noise, torch.tensor([0.3]))
    expected, expected_log_prob = plain_target(fast, data, rows.next_observation, noise, 0.3)
    assert torch.allclose(found, expected, atol=1e-5) and torch.allclose(log_prob, expected_log_prob, atol=1e-4)
    over = data.terminated == 1  # only the reward counts, for both alike
    assert torch.allclose(found[0, over], found[1, over]) and not torch.allclose(found[0], found[1])


def test_the_critics_target_has_no_gradient_so_that_an_agent_can_be_copied_between_updates():
    fast = agent()
    rows = fast._rows(batch())
    target, log_prob = fast.critic_target(rows, fast._noise(rows.action), torch.tensor([0.3]))
    assert not target.requires_grad and not log_prob.requires_grad
    fast.update(batch())
    other = copy.deepcopy(fast)
    for one in (fast, other):
        one.update(batch(1))
    assert torch.equal(parameters(fast), parameters(other))


def step_as_adamw(twin_net, net, decay):
    """Move the twin by torch's plain AdamW along the gradients ``net`` has, after a look at its own."""
    adam = torch.optim.AdamW(twin_net.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=decay)
    for one, other in zip(twin_net.parameters(), net.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-3, atol=1e-6)
        one.grad = other.grad.clone()
    adam.step()
    assert torch.allclose(*(nn.utils.parameters_to_vector(m.parameters()) for m in (twin_net, net)), atol=1e-7)


@pytest.mark.parametrize("layer", LAYERS)
def test_one_update_is_autograds(layer):
    """The losses written plainly, differentiated by autograd and stepped by torch's own AdamW."""
    fast, twin = (agent(layer, symmetry=False, **ALWAYS) for _ in range(2))
    data, alpha = batch(), 0.3
    log = fast.update(data, log=True)
    observation, following = normalized(data.observations).chunk(2)
    noise, actor_noise = (torch.randn(B, D, generator=twin.generator) for _ in range(2))

    with torch.no_grad():
        target, log_prob = plain_target(twin, data, following, noise, alpha)
    x = torch.cat([observation, data.action], -1)
    loss = sum(-(target[j] * run(net, x).log_softmax(-1)).sum(-1).mean() for j, net in enumerate(twin.critics.members))
    loss.backward()
    step_as_adamw(twin.critics, fast.critics, 1e-3)

    action, actor_log_prob = drawn(twin, observation, actor_noise)
    x = torch.cat([observation, action.judged], -1)
    q = sum(run(net, x).softmax(-1) @ torch.linspace(-5, 5, 21) for net in twin.critics.members) / 2
    (alpha * actor_log_prob - q + 0.2 * twin.layer.penalty_weight * action.penalty).mean().backward()
    step_as_adamw(twin.actor, fast.actor, 1e-3)

    for old, new, moved in zip(*(net.parameters() for net in (twin.targets, fast.critics, fast.targets)), strict=True):
        assert torch.allclose(old + 0.125 * (new - old), moved, atol=1e-7)
    entropy = -log_prob.mean().item()
    expected = {"critic_loss": loss.item(), "q": q.mean().item(), "entropy": entropy, "temperature": alpha}
    assert log == pytest.approx(expected, rel=1e-3, abs=1e-4)
    # AdamW's first step of the temperature: a decay of .01, and the learning rate against the sign.
    away = math.copysign(1, entropy - fast.target_entropy)
    assert fast.log_alpha.grad.item() == pytest.approx(alpha * (entropy - fast.target_entropy), rel=1e-3)
    assert fast.log_alpha.item() == pytest.approx(math.log(alpha) * (1 - 3e-4 * 0.01) - 3e-4 * away, abs=1e-6)


def test_the_actor_moves_at_the_second_of_every_four_updates():
    fast, moved = agent(), []
    for k in range(8):
        before = nn.utils.parameters_to_vector(fast.actor.parameters()).clone()
        fast.update(batch(k))
        moved.append(not torch.equal(before, nn.utils.parameters_to_vector(fast.actor.parameters())))
    assert moved == [False, True, False, False, False, True, False, False]
    assert "q" not in agent().update(batch(), log=True)  # no actor has been judged yet


def test_several_steps_count_as_the_batch_says():
    fast, data = agent(n_steps=3, symmetry=False), batch()
    with pytest.raises(ValueError, match="n_steps is 3, but the batch holds single steps"):
        fast.update(data)
    data.discount = torch.rand(B)
    assert torch.equal(fast._rows(data).discount, data.discount)


# ---------------------------------------------------------------------- what is seen by whom


def test_privileged_entries_reach_the_critics_alone():
    fast, data = agent(), batch()
    fast.update(data)
    other = data.observation.clone()
    other[:, :PRIVILEGED] = torch.randn(B, PRIVILEGED)
    actions = [fast.act(x, explore=False).executed for x in (data.observation, other)]
    assert torch.equal(*actions)
    assert not torch.equal(*(fast.critics(x, data.action) for x in (data.observation, other)))
    other = data.observation.clone()
    other[:, PRIVILEGED] += 1
    assert not torch.equal(fast.act(other, explore=False).executed, actions[0])


def test_the_normaliser_is_numpys_over_all_it_saw():
    rng, normalizer = np.random.default_rng(0), Normalizer(5, 2)
    x = torch.from_numpy(rng.standard_normal((8, 5)).astype(np.float32))
    assert torch.equal(normalizer(x), x)  # nothing seen yet
    seen = [(rng.standard_normal((size, 5)) * [1, 0.1, 0, 1, 1] + [3, 1000, 7, 0, 0]) for size in (64, 7, 300)]
    for rows in seen:
        normalizer.update(torch.from_numpy(rows.astype(np.float32)))
    every = np.concatenate(seen).astype(np.float32).astype(np.float64)
    assert np.allclose(normalizer.mean.numpy(), every[:, :3].mean(0), rtol=1e-6)
    assert np.allclose(normalizer.variance.numpy(), every[:, :3].var(0), rtol=1e-3, atol=1e-9)
    expected = (x[:, :3].numpy() - every[:, :3].mean(0)) / (every[:, :3].std(0) + 1e-2)
    assert np.allclose(normalizer(x)[:, :3].numpy(), expected, rtol=1e-3)
    assert torch.equal(normalizer(x)[:, 3:], x[:, 3:])  # the previous action, to the bit
    assert torch.equal(normalizer(x[:, 2:]), normalizer(x)[:, 2:])  # of the last entries only, as actors see them


def test_observations_after_the_step_and_in_the_mirror_count_too():
    fast, data = agent(), batch()
    fast.update(data)
    every = torch.cat([data.observations, imaged(data).observations])[:, :-D].double()
    assert fast.normalizer.count.item() == 4 * B
    assert torch.allclose(fast.normalizer.mean, every.mean(0), atol=1e-6)
    assert torch.allclose(fast.normalizer.variance, every.var(0, correction=0), atol=1e-6)
    plain = agent(normalize=False)
    assert torch.equal(plain._rows(data).observation[:B], data.observation) and plain.normalizer.count == 0


def test_actions_stay_in_the_box_and_the_mean_is_deterministic():
    fast, data = agent(amp="bf16"), batch()
    prev = data.observation[:, -D:]
    for _ in range(20):
        fast.update(data)
        executed = fast.act(1e6 * data.observation * torch.tensor([1, 1, 1, 1, 1, 0, 0]) + data.observation).executed
        assert not LIMITS.outside(executed.numpy(), prev.numpy()).any()
    assert torch.equal(*(fast.act(data.observation, explore=False).executed for _ in range(2)))


@pytest.mark.parametrize("mean_bound", ["linear", "tanh"])
def test_the_module_for_export_is_the_policy(mean_bound):
    fast, data = agent(mean_bound=mean_bound), batch()
    fast.update(data)
    latent = fast.latent_module()(data.observation[:, PRIVILEGED:])
    mean, _ = fast.averaged(fast.normalizer(data.observation[:, PRIVILEGED:]))
    assert torch.equal(latent, mean) and (mean_bound == "linear" or latent.abs().max() < 1)
    box = LIMITS.box(data.observation[:, -D:])
    assert torch.equal(fast.layer.execute(latent, box), fast.act(data.observation, explore=False).executed)


# ---------------------------------------------------------------------- the mirror


def given_noise(fast, noise):
    fast._noise = lambda like: noise
    return fast


@pytest.mark.parametrize("layer", ["ddsrad", "boxpro", "srad_ball"])
def test_a_batch_and_its_mirror_image_teach_the_same(layer):
    """Each row with its own noise: only the order of the sums differs."""
    noise = torch.randn(2 * B, D, generator=torch.Generator().manual_seed(3))
    first = given_noise(agent(layer, **ALWAYS), noise)
    second = given_noise(agent(layer, **ALWAYS), noise.roll(B, 0))
    alone = given_noise(agent(layer, symmetry=False, **ALWAYS), noise[:B])
    first.update(batch())
    second.update(imaged(batch()))
    alone.update(batch())
    for name in ("actor", "critics"):
        grads = [torch.cat([p.grad.flatten() for p in getattr(f, name).parameters()]) for f in (first, second, alone)]
        assert torch.allclose(grads[0], grads[1], rtol=1e-3, atol=1e-6), name
        assert not torch.allclose(grads[0], grads[2], rtol=1e-1, atol=1e-4)
    assert torch.allclose(first.normalizer.mean, second.normalizer.mean, atol=1e-7)
    assert torch.allclose(first.log_alpha, second.log_alpha)


def test_rows_in_the_mirror_by_hand():
    fast, data = agent(normalize=False), batch()
    rows = fast._rows(data)
    s, image = data.observation[0], rows.observation[B]
    assert image.tolist() == [s[1], s[0], -s[2], s[4], s[3], -s[6], -s[5]]
    assert rows.action[B].tolist() == [-data.action[0, 1], -data.action[0, 0]]
    assert torch.equal(rows.reward[B:], data.reward) and torch.equal(
        rows.next_observation[B:], imaged(data).next_observation
    )
    assert torch.equal(rows.discount, 0.97 * (1 - data.terminated.repeat(2)))
    assert len(agent(layout=Layout(N))._rows(data).reward) == len(agent(layout=None)._rows(data).reward) == B


# ---------------------------------------------------------------------- saving


@pytest.mark.parametrize("layer", [name for name in LAYERS if LAYERS[name].hard])
def test_state_dict_goes_on_bit_for_bit(layer):
    fast, other = agent(layer, policy_every=2), agent(layer, seed=9, policy_every=2)
    for seed in range(3):
        fast.update(batch(seed))
    file = io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    logs = []
    for one in (fast, other):
        logs.append([one.update(batch(seed), log=True) for seed in range(4)])
    assert logs[0] == logs[1]
    assert torch.equal(parameters(fast), parameters(other)) and torch.equal(fast.log_alpha, other.log_alpha)
    assert torch.equal(*(one.act(batch().observation).executed for one in (fast, other)))


def test_the_seed_is_all_the_randomness_there_is():
    before = torch.get_rng_state()
    runs = []
    for seed in (3, 3, 4):
        fast = agent(seed=seed)
        for k in range(3):
            fast.update(batch(k))
            fast.act(batch().observation)
        runs.append(parameters(fast))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------------------- options


def test_the_target_entropy_and_the_first_policy():
    """-1 per joint by default; the first latent has a mean of 0 and a spread of e^-2.5, whose entropy is -1.08."""
    assert agent().target_entropy == -2 and agent(target_entropy_per_joint=0.0).target_entropy == 0
    fast = FastSAC(FastSACConfig(**SMALL), LIMITS, make_layer("ddsrad"), N, 0, LAYOUT)
    mean, std = fast.actor(batch().observation[:, PRIVILEGED:])
    assert (mean == 0).all() and torch.allclose(std, torch.tensor(math.exp(-2.5)))
    held = fast.act(batch().observation, explore=False).executed
    assert torch.equal(held, batch().observation[:, -D:])
    entropies = [fast.update(batch(k), log=True)["entropy"] for k in range(2)]
    assert np.mean(entropies) == pytest.approx(2 * (0.5 * math.log(2 * math.pi * math.e) - 2.5), abs=0.3)


def test_recipes_are_valid_and_the_gpu_one_is_as_published():
    runs = {name: (RunSpec(**recipe.run), FastSACConfig(**recipe.agent)) for name, recipe in RECIPES["fastsac"].items()}
    spec, config = runs["gpu"]
    assert (spec.environments, spec.batch_size, spec.capacity, spec.learning_starts) == (4096, 8192, 4_194_304, 40_960)
    assert (config.actor_hidden, config.critic_hidden) == ((512, 256, 128), (768, 384, 192))
    assert (config.updates, config.policy_every, config.discount, config.target_rate) == (8, 4, 0.97, 0.125)
    assert (config.amp, config.compile, config.atoms, config.value_range) == ("bf16", True, 101, (-20.0, 20.0))
    spec, config = runs["cpu"]
    assert spec.capacity >= 1_000_000 and spec.learning_starts > spec.batch_size and config.device == "cpu"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actor_hidden": ()}, r"actor_hidden is \(\), expected widths"),
        ({"value_range": (1.0, 1.0)}, "value_range is .* low < high"),
        ({"updates": 0}, "updates is 0, expected a whole number of at least 1"),
        ({"n_steps": 1.5}, "n_steps is 1.5, expected a whole number"),
        ({"atoms": 1}, "atoms is 1, expected a whole number of at least 2"),
        ({"amp": "fp8"}, "amp is 'fp8', expected 'off' or 'bf16'"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0, expected a finite number >= 0"),
        ({"target_entropy_per_joint": math.nan}, "target_entropy_per_joint is nan"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FastSACConfig(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_so():
    with pytest.raises(ValueError, match="device is 'cuda', but torch sees no GPU"):
        agent(device="cuda")


def test_bfloat16_learns_the_same_within_its_precision():
    exact, half = agent(**ALWAYS), agent(amp="bf16", **ALWAYS)
    logs = [one.update(batch(), log=True) for one in (exact, half)]
    assert logs[0] == pytest.approx(logs[1], rel=0.05, abs=0.05) and logs[0] != logs[1]
    assert parameters(half).dtype == torch.float32 and parameters(half).isfinite().all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", ["ddsrad", "truncnorm"])
def test_compiled_is_the_same(layer):
    if shutil.which("g++") is None:
        pytest.skip("torch.compile's default backend needs g++, which this machine does not have")
    plain, compiled = agent(layer, **ALWAYS), agent(layer, compile=True, **ALWAYS)
    for seed in range(2):
        logs = [one.update(batch(seed), log=True) for one in (plain, compiled)]
        assert logs[0] == pytest.approx(logs[1], rel=1e-3, abs=1e-3)
    torch._dynamo.reset()


# ---------------------------------------------------------------------- learning


def test_it_learns_to_track():
    """Sixteen pairs of joints that are to go to a random goal each: holding stays .5 away, and learning arrives."""
    options = {"atoms": 21, "value_range": (-8.0, 1.0), "discount": 0.8, "learning_rate": 3e-3, "policy_every": 2}
    config = FastSACConfig(actor_hidden=(32, 16), critic_hidden=(32, 16), **options)
    rng, fast = np.random.default_rng(0), FastSAC(config, LIMITS, make_layer("ddsrad"), 4, 0)
    replay = Replay(10_000, 100, 16, 4, 2)

    def episode(explore, learn):
        goal, action = rng.uniform(-1, 1, (16, 2)).astype(np.float32), np.zeros((16, 2), np.float32)
        for t in range(12):
            here = np.concatenate([goal, action], 1)
            action = fast.act(torch.from_numpy(here), explore).executed.numpy()
            there, ended = np.concatenate([goal, action], 1), np.full(16, t == 11)
            replay.add_many(here, action, -np.square(action - goal).sum(1), there, np.zeros(16, bool), ended)
            for _ in range(learn):
                fast.update(replay.sample(64, rng))
        return np.abs(action - goal).mean()

    before = episode(explore=False, learn=0)
    for _ in range(20):
        episode(explore=True, learn=2)
    assert before > 0.4 and np.mean([episode(explore=False, learn=0) for _ in range(4)]) < 0.15
