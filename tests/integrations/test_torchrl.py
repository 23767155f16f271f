"""TorchRL: every action that reaches the environment is legal, exactly; log-probabilities and gradients are right."""

import importlib
import math
import runpy
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.agents.recipes import RECIPES
from slewrl.agents.replay import Batch
from slewrl.agents.sac import SAC, SACConfig
from slewrl.errors import UserFacingError
from slewrl.layers.inverse import invert

pytest.importorskip("torchrl", reason='needs TorchRL: pip install "slewrl[torchrl]"')
with warnings.catch_warnings():  # TorchRL's own are its own business
    warnings.simplefilter("ignore")
    import tensordict
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl import collectors, data, envs, modules, objectives
    from torchrl.envs.utils import check_env_specs, step_mdp

    from slewrl.integrations import torchrl as subject
    from slewrl.integrations.torchrl import RateLimitedNormal, RateLimitTransform, executed, uniform_policy

pytestmark = pytest.mark.filterwarnings("ignore")

LIMITS = RateLimits([0.2, 0.5], low=-1.0, high=1.0)
PENDULUM = RateLimits.preset("Pendulum-v1", "tight")  # 0.4 in [-2, 2]
SHARP = RateLimits(**PENDULUM._parts() | {"acceleration": 0.03125, "deceleration": 0.0625})
ONE_ACTION = [name for name in LAYERS if name not in ("post", "boxpre", "none")]
INVERTIBLE = ["ddsrad", "ddsrad_smooth", "dtanh", "interval_tanh", "interval_srad", "srad_gauge"]


# ---------------------------------------------------------------------- the distribution


def normal(layer="ddsrad", rows=64, seed=0, dtype=torch.float32, reach=0.95, limits=LIMITS):
    generator = torch.Generator().manual_seed(seed)
    loc, scale, prev = torch.rand(3, rows, limits.dim, generator=generator, dtype=dtype)
    loc, scale = (2 * loc - 1).requires_grad_(), (0.2 + scale).requires_grad_()
    return RateLimitedNormal(loc, scale, reach * (2 * prev - 1), limits=limits, layer=layer)


def outside(action, prev, limits=LIMITS):
    return int(limits.outside(action.detach().numpy(), prev.numpy()).sum())


@pytest.mark.parametrize("layer", ONE_ACTION)
def test_every_sample_is_feasible_whatever_the_parameters(layer):
    """Means and deviations over 76 decades, infinite and NaN; previous actions inside, on a bound and next to one."""
    extremes = torch.tensor([0.0, 1e-38, 1e-3, 1.0, 1e5, 1e38, torch.inf, torch.nan])
    bound = torch.tensor([-1.0, -0.99999994, -0.3, 0.1, 0.99999994, 1.0])
    loc, scale, prev = torch.cartesian_prod(torch.cat([extremes, -extremes]), extremes, bound)[:, :, None].unbind(1)
    loc, scale, prev = (x.expand(-1, 2) for x in (loc, scale, prev))
    policy = RateLimitedNormal(loc, scale, prev, limits=LIMITS, layer=layer)
    for action in (policy.rsample(), policy.sample((3,)), policy.rsample_and_log_prob()[0], policy.mode):
        assert outside(action, prev.expand_as(action)) == 0
    held = loc.isnan()
    assert torch.equal(policy.mode[held], prev[held])  # NaN holds


@pytest.mark.parametrize("density", ["normalized", "action"])
@pytest.mark.parametrize("layer", INVERTIBLE)
def test_log_prob_is_the_change_of_variables(layer, density):
    """log N(u) - log |det da/du|, the determinant by central differences in float64."""
    policy = normal(make_layer(layer, density), 8, dtype=torch.float64, reach=0.4)
    action = policy.rsample()
    latent = policy._drawn[1].detach()
    h = 1e-6
    columns = []
    for i in range(2):
        step = h * torch.eye(2, dtype=torch.float64)[i]
        up, down = (policy.layer.execute(latent + s * step, LIMITS.box(policy.previous_action)) for s in (1, -1))
        columns.append((up - down) / (2 * h))
    jacobian = torch.stack(columns, -1)
    gauss = torch.distributions.Normal(policy.loc, policy.scale).log_prob(latent).sum(-1)
    expected = gauss - torch.linalg.slogdet(jacobian).logabsdet
    if density == "normalized":  # the density of v: without the placement's own factor
        v, _ = policy.layer.squash(latent)
        expected = expected + policy.layer.placement.log_scale(v, LIMITS.box(policy.previous_action))
    assert torch.allclose(policy.log_prob(action), expected, atol=1e-5)


@pytest.mark.parametrize("layer", [*INVERTIBLE, "truncnorm"])
def test_the_density_of_actions_integrates_to_one(layer):
    limits = RateLimits([0.2], low=-1.0, high=1.0)
    prev = torch.tensor([[-0.5], [0.0], [0.9]], dtype=torch.float64)  # the last with less room above
    parameters = (torch.full_like(prev, x) for x in (0.3, 0.8))
    policy = RateLimitedNormal(*parameters, prev, limits=limits, layer=make_layer(layer, "action"))
    box = limits.box(prev)
    share = torch.linspace(0, 1, 200_001, dtype=torch.float64)[:, None, None]
    grid = torch.lerp(box.low, box.high, share)
    mass = torch.trapezoid(policy.log_prob(grid).exp(), grid[..., 0], dim=0)
    assert torch.allclose(mass, torch.ones_like(mass), atol=2e-3)


@pytest.mark.parametrize("density", ["normalized", "action_scaled", "action"])
@pytest.mark.parametrize("layer", ONE_ACTION)
def test_drawing_and_scoring_agree_in_value_and_gradient(layer, density, monkeypatch):
    policy = normal(make_layer(layer, density))
    noise = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))
    monkeypatch.setattr(subject, "_noise", lambda like: noise)
    action, log_prob = policy.rsample_and_log_prob()
    drawn = policy.rsample()
    assert torch.equal(action, drawn)
    again = policy.log_prob(drawn)
    assert torch.allclose(log_prob, again, atol=1e-4)
    expected, found = (torch.autograd.grad(x.sum(), (policy.loc, policy.scale)) for x in (log_prob, again))
    for a, b in zip(expected, found, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("layer", [*INVERTIBLE, "truncnorm"])
def test_log_prob_of_a_stored_action(layer):
    """Inverted from its 24 bits: what a replay holds, as PPO would score it."""
    policy = normal(layer)
    action, log_prob = policy.sample_and_log_prob()
    assert torch.allclose(policy.log_prob(action.clone()), log_prob, atol=2e-3)


def test_the_score_of_a_detached_sample():
    policy = normal()
    action, log_prob = policy.sample_and_log_prob()
    assert not action.requires_grad
    z = (policy._drawn[1] - policy.loc) / policy.scale
    to_loc, to_scale = torch.autograd.grad(log_prob.sum(), (policy.loc, policy.scale))
    assert torch.allclose(to_loc, z / policy.scale, atol=1e-5)
    assert torch.allclose(to_scale, (z.square() - 1) / policy.scale, atol=1e-4)


def test_shapes_and_rows():
    policy = normal(rows=5)
    assert policy.batch_shape == (5,) and policy.event_shape == (2,)
    action, log_prob = policy.rsample_and_log_prob((7,))
    assert action.shape == (7, 5, 2) and log_prob.shape == (7, 5) == policy.log_prob(action).shape
    held = RateLimitedNormal(torch.zeros(5, 2), torch.ones(5, 2), policy.previous_action, limits=LIMITS)
    assert torch.equal(held.deterministic_sample, policy.previous_action)  # DD-SRad at u = 0, each row at its own
    # R+ = 0.2 from -0.5 and f(1) = 1/sqrt(2).
    one = torch.ones(1, 2)
    moved = RateLimitedNormal(one, one, -0.5 * one, limits=LIMITS).mode
    assert moved.flatten().tolist() == pytest.approx([-0.5 + 0.2 / math.sqrt(2), -0.5 + 0.5 / math.sqrt(2)], abs=1e-6)


def test_what_the_distribution_refuses():
    one = torch.ones(3, 2)
    with pytest.raises(ValueError, match=r"no 'previous_action': put RateLimitTransform\(limits\)"):
        RateLimitedNormal(one, one, None, limits=LIMITS)
    with pytest.raises(ValueError, match=r"loc has shape \(3, 1\), expected \(..., 2\)"):
        RateLimitedNormal(one[:, :1], one, one, limits=LIMITS)
    for layer in ("post", "boxpre", "none"):
        with pytest.raises(ValueError, match="judge an action that is not executed.*'boxpro'"):
            RateLimitedNormal(one, one, one, limits=LIMITS, layer=layer)
    clipped = RateLimitedNormal(one, one, one, limits=LIMITS, layer="boxpro")
    with pytest.raises(NotImplementedError, match="BoxPro has no inverse.*rsample_and_log_prob"):
        clipped.log_prob(one)
    for layer in set(LAYERS) - set(INVERTIBLE):
        with pytest.raises(NotImplementedError):
            invert(make_layer(layer), one, LIMITS.box(one))


def test_without_torchrl_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl.data", None)
    monkeypatch.delitem(sys.modules, "slewrl.integrations.torchrl")
    with pytest.raises(UserFacingError, match=r'pip install "slewrl\[torchrl\]"'):
        importlib.import_module("slewrl.integrations.torchrl")


# ---------------------------------------------------------------------- the environment, watched from inside


class Watched(gym.Wrapper):
    """Gymnasium's side of the fence: every action handed to step, judged against the one before it in its episode."""

    def __init__(self, env, limits, reset_action=0.0):
        super().__init__(env)
        self.limits, self.steps, self.violations, self.resets = limits, 0, 0, 0
        self.start = np.full(limits.dim, reset_action, np.float32)

    def reset(self, **options):
        self.prev = self.before = self.start
        self.resets += 1
        return self.env.reset(**options)

    def step(self, action):
        self.violations += int(self.limits.outside(action, self.prev, self.before).sum())
        self.before, self.prev, self.steps = self.prev, np.array(action), self.steps + 1
        return self.env.step(action)


def watched(length=50, task="Pendulum-v1", limits=PENDULUM):
    return Watched(gym.make(task, max_episode_steps=length), limits)


def limited(gymnasium_env, *more, limits=PENDULUM):
    return envs.TransformedEnv(envs.GymWrapper(gymnasium_env), envs.Compose(RateLimitTransform(limits), *more))


def batched(count, length, limits=PENDULUM):
    """``count`` watched environments whose episodes end at different steps, and the watchers."""
    watchers = [watched(length + i, limits=limits) for i in range(count)]
    make = [lambda w=w: envs.GymWrapper(w) for w in watchers]
    return envs.TransformedEnv(envs.SerialEnv(count, make), RateLimitTransform(limits)), watchers


def make_actor(size, limits, layer="ddsrad"):
    network = torch.nn.Sequential(
        modules.MLP(size + limits.appended, 2 * limits.dim, num_cells=[32]), modules.NormalParamExtractor()
    )
    history = ["previous_action"] if limits.grid is None else ["previous_velocity", "previous_action"]
    heads = TensorDictModule(
        lambda *seen: network(torch.cat(seen, -1)),
        in_keys=["observation", *history],
        out_keys=["loc", "scale"],
    )
    heads.network = network
    return modules.ProbabilisticActor(
        heads,
        in_keys=["loc", "scale", *history],
        distribution_class=RateLimitedNormal,
        distribution_kwargs={"limits": limits, "layer": layer},
        default_interaction_type=tensordict.nn.InteractionType.RANDOM,
    )


def test_the_environment_conforms():
    env = limited(watched())
    check_env_specs(env)
    spec = env.observation_spec["previous_action"]
    assert spec.shape == (1,) and spec.space.low.item() == -2 and spec.dtype == torch.float32


def test_warm_up_noise_nan_and_resets_stay_legal_at_the_environments_own_step():
    watcher = watched()
    env, actor = limited(watcher, envs.StepCounter()), make_actor(3, PENDULUM)
    noisy = modules.AdditiveGaussianModule(env.action_spec, sigma_init=3.0, sigma_end=3.0)
    broken = TensorDictModule(lambda prev: prev * torch.nan, in_keys=["previous_action"], out_keys=["action"])
    far = TensorDictModule(lambda prev: prev * 0 - torch.inf, in_keys=["previous_action"], out_keys=["action"])
    policies = [None, actor, tensordict.nn.TensorDictSequential(actor, noisy), broken, far, uniform_policy(PENDULUM)]
    moved = []
    for policy in policies:
        before = env.transform[0].counts.moved
        rollout = env.rollout(60, policy, break_when_any_done=False)
        moved.append(env.transform[0].counts.moved - before)
        assert PENDULUM.outside(rollout["next", "previous_action"], rollout["previous_action"]).sum() == 0
    counts = env.transform[0].counts
    assert watcher.violations == counts.violations == 0 and watcher.steps == counts.steps == 360
    assert watcher.resets >= 6
    random, ours, noise, nan, infinite, uniform = moved
    assert ours == uniform == 0  # legal actions pass bit for bit
    assert nan == infinite == 60 and min(random, noise) > 30


def test_nan_holds_and_infinity_goes_to_the_edge():
    env = limited(watched())
    td = env.reset()
    for asked, expected in ((0.3, 0.3), (torch.nan, 0.3), (torch.inf, 0.7), (-torch.inf, 0.3), (5.0, 0.7)):
        td["action"] = torch.tensor([asked])
        td = step_mdp(env.step(td))
        assert td["previous_action"].dtype == torch.float32
        assert td["previous_action"].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_actions_in_other_dtypes(dtype):
    watcher = watched()
    env = limited(watcher)
    policy = TensorDictModule(lambda p: 4 * torch.rand(1, dtype=dtype) - 2, ["previous_action"], ["action"])
    rollout = env.rollout(60, policy, break_when_any_done=False)[:-1]
    assert watcher.violations == 0 and rollout["previous_action"].dtype == torch.float32
    assert torch.equal(rollout["action"].float(), rollout["next", "previous_action"])


def test_partial_resets_start_their_own_rows_afresh():
    env, watchers = batched(3, 40)
    td = env.reset()
    assert torch.equal(td["previous_action"], torch.zeros(3, 1))
    td["action"] = torch.tensor([[0.1], [0.2], [0.3]])
    td = step_mdp(env.step(td))
    td["_reset"] = torch.tensor([[False], [True], [False]])
    td = env.reset(td)
    assert td["previous_action"].flatten().tolist() == pytest.approx([0.1, 0.0, 0.3])
    td["action"] = torch.full((3, 1), 2.0)  # each row may rise by 0.4 from where it is
    td = env.step(td)
    assert td["next", "previous_action"].flatten().tolist() == pytest.approx([0.5, 0.4, 0.7], abs=1e-6)
    env.rollout(150, break_when_any_done=False)
    assert [w.violations for w in watchers] == [0, 0, 0] and env.transform.counts.violations == 0
    assert sum(w.steps for w in watchers) == env.transform.counts.steps == 6 + 450


def test_rows_that_do_not_step_keep_their_previous_action():
    env, watchers = batched(3, 5)
    rollout = env.rollout(20, break_when_any_done=False, break_when_all_done=True)
    assert rollout.shape == (3, 7)  # episodes of 5, 6 and 7 steps
    assert [w.steps for w in watchers] == [5, 6, 7] and env.transform.counts.steps == 18
    assert sum(w.violations for w in watchers) == 0


@pytest.mark.parametrize("mode", ["SAME_STEP", "DISABLED"])
def test_gymnasiums_own_vector_environments(mode):
    options = {"autoreset_mode": gym.vector.AutoresetMode[mode]}
    vector = gym.vector.SyncVectorEnv([lambda i=i: watched(9 + i) for i in range(2)], **options)
    env = envs.TransformedEnv(envs.GymWrapper(vector), RateLimitTransform(PENDULUM), auto_unwrap=False)
    for watcher in vector.envs:  # TorchRL steps what it wraps at random, once, to learn its specs: before any transform
        watcher.violations = 0
    rollout = env.rollout(60, break_when_any_done=False)
    assert sum(w.violations for w in vector.envs) == 0 == env.transform.counts.violations
    done = rollout["next", "done"][..., 0]
    after = rollout["previous_action"][:, 1:][done[:, :-1]]
    ends = rollout["next", "previous_action"][done]
    assert len(after) >= 9 and (after == 0).all() and (ends != 0).any()  # an end keeps its own action


def test_repeated_frames_belong_to_the_same_history():
    """FrameSkipTransform steps a rebuilt copy of the transforms before it."""
    watcher = watched(39)
    env = limited(watcher, envs.FrameSkipTransform(4))
    rollout = env.rollout(100, break_when_any_done=False)
    assert watcher.violations == 0 and env.transform[0].counts.steps == watcher.steps == 400
    assert torch.equal(rollout["action"][:-1], rollout["next", "previous_action"][:-1])


def test_a_clone_for_another_environment_has_its_own_history():
    """As TorchRL's SAC example makes its evaluation environment."""
    first, second = watched(), watched()
    train = limited(first)
    evaluate = envs.TransformedEnv(envs.GymWrapper(second), train.transform.clone())
    a, b = train.reset(), evaluate.reset()
    for _ in range(30):
        for env, action in ((train, 2.0), (evaluate, -2.0)):
            td = a if env is train else b
            td["action"] = torch.tensor([action])
            a, b = (step_mdp(env.step(td)), b) if env is train else (a, step_mdp(env.step(td)))
    assert a["previous_action"].item() == 2 and b["previous_action"].item() == -2
    assert first.violations == second.violations == 0
    assert train.transform[0].counts.steps == evaluate.transform[0].counts.steps == 30


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_collector_stores_what_was_executed(device):
    watcher = watched()
    env = limited(watcher, envs.StepCounter())
    collector = collectors.Collector(
        env, make_actor(3, PENDULUM), frames_per_batch=60, total_frames=120, init_random_frames=60, device=device
    )
    for batch in collector:
        assert torch.equal(batch["action"], batch["next", "previous_action"])
        assert PENDULUM.outside(batch["action"], batch["previous_action"]).sum() == 0
    assert env.transform[0].counts.moved > 30 and watcher.violations == 0  # the random half
    collector.shutdown()


def test_a_loop_by_hand_stores_what_was_executed():
    env = limited(watched())
    buffer = data.TensorDictReplayBuffer(storage=data.LazyTensorStorage(10), batch_size=10)
    buffer.append_transform(executed)
    td = env.reset()
    for _ in range(10):
        td = env.rand_step(td)
        buffer.add(td)
        td = step_mdp(td)
    batch = buffer.sample()
    assert PENDULUM.outside(batch["action"], batch["previous_action"]).sum() == 0
    assert torch.equal(batch["action"], batch["next", "previous_action"])


# ---------------------------------------------------------------------- acceleration limits


def test_under_an_acceleration_limit_the_environment_conforms_and_shows_the_last_increment():
    env = limited(watched(limits=SHARP), limits=SHARP)
    check_env_specs(env)
    spec = env.observation_spec["previous_velocity"]
    assert spec.shape == (1,) and 0.39 < spec.space.high.item() < 0.4 and spec.dtype == torch.float32
    rollout = env.rollout(80, break_when_any_done=False)
    moved = rollout["next", "previous_action"] - rollout["previous_action"]
    assert torch.equal(rollout["next", "previous_velocity"], moved) and moved.abs().max() > 0.03125
    done = rollout["next", "done"][:-1, 0]
    assert done.sum() == 1 and (rollout["previous_velocity"][1:][done] == 0).all()


def test_warm_up_noise_nan_and_resets_keep_the_acceleration_limit_at_the_environments_own_step():
    watcher = watched(limits=SHARP)
    env, actor = limited(watcher, envs.StepCounter(), limits=SHARP), make_actor(3, SHARP)
    noisy = modules.AdditiveGaussianModule(env.action_spec, sigma_init=3.0, sigma_end=3.0)
    far = TensorDictModule(lambda prev: prev * 0 - torch.inf, in_keys=["previous_action"], out_keys=["action"])
    others = tensordict.nn.TensorDictSequential(actor, noisy)
    moved = []
    for policy in (actor, uniform_policy(SHARP), None, others, far):
        before = env.transform[0].counts.moved
        rollout = env.rollout(120, policy, break_when_any_done=False)
        moved.append(env.transform[0].counts.moved - before)
        prev = rollout["previous_action"]
        before = prev - rollout["previous_velocity"]
        assert not SHARP.outside(rollout["next", "previous_action"], prev, before).any()
    counts = env.transform[0].counts
    assert watcher.violations == counts.violations == 0 and watcher.steps == counts.steps == 600
    assert moved[:2] == [0, 0] and min(moved[2:]) > 60  # legal actions pass bit for bit


def test_under_an_acceleration_limit_nan_brakes_and_actions_are_on_the_grid():
    """From rest by 1/32 more each step, then by 1/16 less; a unit or two less, since the grid is inside the limits."""
    env = limited(watched(limits=SHARP), limits=SHARP)
    td, found, unit = env.reset(), [], SHARP.grid.unit[0]
    for asked in (torch.inf, torch.inf, torch.inf, torch.nan, torch.nan, torch.nan, 0.1):
        td["action"] = torch.tensor([asked])
        td = step_mdp(env.step(td))
        found.append(td["previous_velocity"].item())
    expected = [1 / 32, 2 / 32, 3 / 32, 1 / 32, 0.0, 0.0, -1 / 32]
    assert found == pytest.approx(expected, abs=4 * unit)
    assert found[4:6] == [0.0, 0.0] and all(x / unit == round(x / unit) for x in found)
    assert env.transform[0].counts.violations == 0


def test_rows_that_do_not_step_keep_their_velocity():
    env, watchers = batched(3, 5, SHARP)
    rollout = env.rollout(20, uniform_policy(SHARP), break_when_any_done=False, break_when_all_done=True)
    assert rollout.shape == (3, 7) and [w.steps for w in watchers] == [5, 6, 7]
    assert sum(w.violations for w in watchers) == 0 == env.transform.counts.violations
    td = env.reset()
    for step in range(4):
        td["action"] = torch.full((3, 1), 2.0)
        td["_step"] = torch.tensor([[True], [step != 2], [True]])
        td = step_mdp(env.step(td))
    speed = 32 * td["previous_velocity"].flatten()
    assert speed.tolist() == pytest.approx([4, 3, 4], abs=1e-4)  # the second row rose three times
    td["_reset"] = torch.tensor([[True], [False], [False]])
    td = env.reset(td)
    assert td["previous_velocity"][0] == 0 and torch.equal(32 * td["previous_velocity"][1:, 0], speed[1:])


@pytest.mark.parametrize("layer", [name for name in ONE_ACTION if name != "budget"])
def test_samples_and_scores_under_an_acceleration_limit(layer, monkeypatch):
    """In F_t of their own row; drawn and scored alike; scored from the stored action where the layer has an inverse."""
    sharp = RateLimits([0.2, 0.5], -1, 1, acceleration=0.05)
    generator = torch.Generator().manual_seed(0)
    loc, scale, prev, velocity = torch.rand(4, 64, 2, generator=generator)
    loc, scale, prev = (2 * loc - 1).requires_grad_(), 0.2 + scale, sharp.clamp(0.8 * (2 * prev - 1))
    velocity = sharp.clamp(0.1 * (2 * velocity - 1))
    policy = RateLimitedNormal(loc, scale, prev, velocity, limits=sharp, layer=layer)
    noise = torch.randn(64, 2, generator=generator)
    monkeypatch.setattr(subject, "_noise", noise.expand_as)
    action, log_prob = policy.rsample_and_log_prob()
    drawn = policy.rsample()
    assert torch.equal(action, drawn) and torch.allclose(policy.log_prob(drawn), log_prob, atol=1e-4)
    before = (prev - velocity).numpy()
    for found in (action, policy.mode, policy.rsample((3,))[2]):
        assert not sharp.outside(found.detach().numpy(), prev.numpy(), before).any()
    (to_loc,) = torch.autograd.grad((action.sum() + log_prob.sum()), loc)
    assert to_loc.isfinite().all() and policy.penalty().isfinite().all()
    if layer in INVERTIBLE:
        box = sharp.box(prev, velocity=velocity)
        inner = ((action - box.low > 0.002) & (box.high - action > 0.002)).all(-1)  # away from the edges
        assert inner.sum() > 20
        assert torch.allclose(policy.log_prob(action.detach().clone())[inner], log_prob[inner], atol=0.02)


def test_what_is_missing_or_changed_under_an_acceleration_limit_is_said():
    one, zero = torch.ones(3, 1), torch.zeros(3, 1)
    with pytest.raises(ValueError, match="no 'previous_velocity', which limits with an acceleration need: name it"):
        RateLimitedNormal(one, one, zero, limits=SHARP)
    with pytest.raises(ValueError, match="a 'previous_velocity', but the limits have no acceleration"):
        RateLimitedNormal(one, one, zero, zero, limits=PENDULUM)
    with pytest.raises(ValueError, match="'budget' does not take limits with an acceleration"):
        RateLimitedNormal(one, one, zero, zero, limits=SHARP, layer="budget")
    with pytest.raises(ValueError, match="changes 'previous_velocity', by which the policy knows F_t"):
        limited(watched(), envs.ObservationNorm(0.0, 1.0, in_keys=["previous_velocity"]), limits=SHARP).reset()
    norm = envs.ObservationNorm(0.0, 2.0, in_keys=["previous_velocity"])
    around = envs.TransformedEnv(limited(watched(limits=SHARP), limits=SHARP), norm, auto_unwrap=False)
    with pytest.raises(RuntimeError, match="as the previous velocity of 'pivot', but .* was applied"):
        around.rollout(5)


def test_a_collector_and_sacloss_under_an_acceleration_limit():
    watcher = watched(limits=SHARP)
    env, actor = limited(watcher, limits=SHARP), make_actor(3, SHARP)
    seen = ["observation", "previous_velocity", "previous_action", "action"]
    critic = modules.ValueOperator(modules.MLP(6, 1, num_cells=[16]), in_keys=seen)
    loss = objectives.SACLoss(actor, critic, action_spec=env.action_spec)
    collector = collectors.Collector(env, actor, frames_per_batch=60, total_frames=120, init_random_frames=60)
    for batch in collector:
        assert torch.equal(batch["action"], batch["next", "previous_action"])
        found = loss(batch)
        sum(found[key] for key in ("loss_actor", "loss_qvalue", "loss_alpha")).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in loss.parameters())
    collector.shutdown()
    assert watcher.violations == 0 == env.transform[0].counts.violations


# ---------------------------------------------------------------------- bad input


def test_environments_that_cannot_be_limited():
    for task, match in (
        ("CartPole-v1", "expected bounded floats"),
        ("Reacher-v5", "actions of shape .2,., but limits"),
    ):
        with pytest.raises(ValueError, match=match):
            limited(gym.make(task))
    unbounded = gym.wrappers.TransformAction(
        gym.make("Pendulum-v1"), lambda a: a, gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    )
    with pytest.raises(ValueError, match="unbounded, expected finite bounds"):
        limited(unbounded)
    with pytest.raises(ValueError, match=r"'joint0' range over \[-3.0, 3.0\], beyond .*environment's own units"):
        limited(gym.make("Pendulum-v1"), limits=RateLimits([0.4], low=-3.0, high=3.0, reset=0))
    with pytest.raises(ValueError, match="RateLimitTransform: reset_action is <function .*expected one fixed pose"):
        RateLimitTransform(PENDULUM, reset_action=lambda env: [0.0])
    with pytest.raises(ValueError, match="put it outside"):
        envs.SerialEnv(2, lambda: limited(watched())).reset()
    with pytest.raises(ValueError, match=r"call env.reset\(\) first"):
        limited(watched()).step(TensorDict({"action": torch.zeros(1)}))


class Noise(envs.Transform):
    """Noise on the action, declared or not."""

    def __init__(self, declared):
        keys = {"in_keys_inv": ["action"], "out_keys_inv": ["action"]} if declared else {}
        super().__init__(**keys)

    def _inv_call(self, tensordict):
        return tensordict.set("action", tensordict["action"] + 0.01)

    def _call(self, tensordict):
        return tensordict

    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset


def test_transforms_that_would_break_the_limit():
    normalised = [
        envs.ObservationNorm(0.0, 1.0, in_keys=["previous_action"]),
        envs.VecNormV2(in_keys=["observation", "previous_action"]),
    ]
    for other in normalised:
        with pytest.raises(ValueError, match=r"changes 'previous_action'.*out_keys=\['previous_action_normed'\]"):
            limited(watched(), other).reset()
    for other in (Noise(True), envs.ActionScaling(), envs.ActionDiscretizer(4)):
        for first in (True, False):
            with pytest.raises(ValueError, match="changes 'action', too"):
                order = (other.clone(), RateLimitTransform(PENDULUM))
                transforms = envs.Compose(*(order if first else order[::-1]))
                envs.TransformedEnv(envs.GymWrapper(watched()), transforms).reset()
    inner = envs.TransformedEnv(envs.GymWrapper(watched()), Noise(True))
    with pytest.raises(ValueError, match="Noise changes 'action', too"):
        envs.TransformedEnv(inner, RateLimitTransform(PENDULUM), auto_unwrap=False).reset()
    env = limited(watched())
    env.reset()
    env.insert_transform(0, Noise(True))  # later, too
    with pytest.raises(ValueError, match="Noise changes 'action', too"):
        env.rollout(3)


def test_undeclared_noise_behind_the_guard_is_found_at_the_first_step():
    env = envs.TransformedEnv(envs.GymWrapper(watched()), envs.Compose(Noise(False), RateLimitTransform(PENDULUM)))
    with pytest.raises(RuntimeError, match="between RateLimitTransform and the base environment"):
        env.rollout(3)
    assert env.transform[1].counts.steps == 1
    inner = gym.wrappers.TransformAction(watched(), lambda a: np.multiply(a, 0.5, out=a), watched().action_space)
    with pytest.raises(RuntimeError, match="or the environment itself, in place"):
        limited(inner).rollout(3)
    outer = limited(watched(), Noise(False))  # on the policy's side it is harmless
    outer.rollout(20)
    assert outer.transform[0].counts.violations == 0


class Halved(envs.Transform):
    """Changes the previous action, and does not say so."""

    def _step(self, tensordict, next_tensordict):
        return next_tensordict.set("previous_action", next_tensordict.get("previous_action") / 2)

    def _reset(self, tensordict, tensordict_reset):
        return self._step(tensordict, tensordict_reset)


def test_an_undeclared_change_of_the_previous_action_is_found_at_the_first_step_after_it():
    """By a transform that does not name its keys, or by one around the environment, which no transform inside sees."""
    norm = envs.ObservationNorm(0.0, 2.0, in_keys=["previous_action"])
    around = envs.TransformedEnv(limited(watched()), norm, auto_unwrap=False)
    inside = limited(watched(), Halved())
    for env, guard in ((around, around.base_env.transform[0]), (inside, inside.transform[0])):
        with pytest.raises(RuntimeError, match="as the previous action of 'pivot', but .* was applied"):
            env.rollout(5)
        assert guard.counts.steps == 1 and guard.counts.violations == 0  # the reset's 0 was still right


def test_a_normalised_copy_and_a_concatenation_are_fine():
    more = [
        envs.ObservationNorm(0.0, 0.5, in_keys=["previous_action"], out_keys=["previous_action_normed"]),
        envs.CatTensors(["observation", "previous_action_normed"], "observation_vector", del_keys=False),
        envs.DoubleToFloat(),
    ]
    env = limited(watched(), *more)
    rollout = env.rollout(20)
    assert torch.equal(rollout["previous_action_normed"], rollout["previous_action"] * 0.5)
    assert rollout["observation_vector"].shape == (20, 4)


def test_the_transforms_of_torchrls_sac_example_over_partial_resets():
    """Its batched environment, its transforms, our two among them; and its evaluation environment, a clone's."""
    watchers = [watched(5 + i) for i in range(4)]
    train, evaluate = (
        envs.SerialEnv(2, [lambda w=w: envs.GymWrapper(w) for w in pair]) for pair in (watchers[:2], watchers[2:])
    )
    joined = envs.CatTensors(["observation", "previous_action"], "observation", del_keys=False)
    ours = (RateLimitTransform(PENDULUM), joined)
    theirs = (envs.InitTracker(), envs.StepCounter(100), envs.DoubleToFloat(), envs.RewardSum())
    train = envs.TransformedEnv(train, envs.Compose(*ours, *theirs))
    evaluate = envs.TransformedEnv(evaluate, train.transform.clone())
    for env in (train, evaluate):
        rollout = env.rollout(25, break_when_any_done=False)
        assert rollout["observation"].shape == (2, 25, 4) and rollout["next", "done"].sum() >= 6
        for part in (rollout, rollout["next"]):
            assert torch.equal(part["observation"][..., 3:], part["previous_action"])
        assert (rollout["previous_action"][rollout["is_init"]] == 0).all()
    assert sum(w.violations for w in watchers) == 0


def test_the_example_trains_and_breaks_no_limit(capsys):
    path = Path(__file__).parents[2] / "examples" / "04_torchrl.py"
    runpy.run_path(str(path))["main"](frames=100, warm_up=50)
    assert "150 steps, 0 beyond a limit, 0 commands moved by the guard" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) <= 60


# ---------------------------------------------------------------------- SACLoss


def twins(layer, density="normalized"):
    """Our SAC, and TorchRL's SACLoss with the same weights; and a batch in both forms."""
    generator = torch.Generator().manual_seed(0)
    size, rows, d = 5, 32, 2
    plain = {**RECIPES["sac"]["paper"].agent, "hidden": (16, 16), "max_grad_norm": 1e9}  # TorchRL's has no layer norm
    ours = SAC(SACConfig(**plain), LIMITS, make_layer(layer, density), size, 0)
    table = torch.zeros(2 * rows, size + d + 2)
    table[:, :size] = torch.randn(2 * rows, size, generator=generator)
    table[:, 3:size] = 2 * torch.rand(2 * rows, 2, generator=generator) - 1
    table[:4, 3:size] = 1.0  # on a bound
    table[:rows, size:] = torch.randn(rows, d + 2, generator=generator).clamp(-1, 1)
    table[:rows, -1] = (torch.rand(rows, generator=generator) < 0.3).float()
    batch = Batch(table, size, d)

    def linear(net, j):
        layers = []
        for weight, bias in zip(net.weights, net.biases, strict=True):
            made = torch.nn.Linear(*weight[j].shape)
            made.weight.data, made.bias.data = weight[j].T.clone(), bias[j].flatten().clone()
            layers += [made, torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = linear(ours.actor, 0)

        def forward(self, *seen):
            loc, log_std = self.net(torch.cat(seen, -1)).chunk(2, -1)
            return loc, log_std.clamp(-20, 2).exp()

    class Critic(torch.nn.Module):
        def __init__(self, j):
            super().__init__()
            self.net = linear(ours.critics, j)

        def forward(self, *seen):
            return self.net(torch.cat(seen, -1))

    seen = ["observation", "previous_action"]
    actor = modules.ProbabilisticActor(
        TensorDictModule(Heads(), in_keys=seen, out_keys=["loc", "scale"]),
        in_keys=["loc", "scale", "previous_action"],
        distribution_class=RateLimitedNormal,
        distribution_kwargs={"limits": LIMITS, "layer": ours.layer},
    )
    critics = [modules.ValueOperator(Critic(j), in_keys=[*seen, "action"]) for j in range(2)]
    loss = objectives.SACLoss(actor, critics, loss_function="l2", target_entropy=ours.layer.target_entropy(LIMITS))
    loss.make_value_estimator(gamma=ours.config.discount)
    parts = TensorDict(
        {
            "observation": batch.observation[:, :3],
            "previous_action": batch.observation[:, 3:],
            "action": batch.action.clone(),
            "next": {
                "observation": batch.next_observation[:, :3],
                "previous_action": batch.next_observation[:, 3:],
                "reward": batch.reward[:, None],
                "done": batch.terminated[:, None].bool(),
                "terminated": batch.terminated[:, None].bool(),
            },
        },
        [rows],
    )
    return ours, batch, actor, loss, parts


def torch_gradients(network):
    """Weights as (in, out) and biases, layer by layer."""
    pairs = [(m.weight.grad.T, m.bias.grad) for m in network if isinstance(m, torch.nn.Linear)]
    return [x for pair in pairs for x in pair]


@pytest.mark.parametrize("density", ["normalized", "action_scaled"])
@pytest.mark.parametrize("layer", ["ddsrad", "dtanh", "interval_tanh", "truncnorm", "boxpro"])
def test_saclosss_gradients_and_targets_are_our_sacs(layer, density, monkeypatch):
    ours, batch, actor, loss, parts = twins(layer, density)
    rows = batch.size
    heads, draw = ours._draw(batch.observations)
    noise = torch.randn(2 * rows, 2, generator=_generator_of(ours))
    # The critic's target first (over s'), then the actor's draw over s, then the penalty's over the same.
    order = iter([noise[rows:], noise[:rows], noise[:rows]])
    monkeypatch.setattr(subject, "_noise", lambda like: next(order))

    found = loss(parts)
    y = ours.target(batch, draw.judged, draw.log_prob, 1.0)
    x = torch.cat([parts["observation"], parts["previous_action"], parts["action"]], -1)
    q = ours.critics.forward(x, keep=False)[..., 0]
    assert found["loss_qvalue"].item() == pytest.approx((q - y).square().sum(0).mean().item(), rel=1e-4)
    assert found["entropy"].item() == pytest.approx(-draw.log_prob[:rows].mean().item(), abs=1e-5)

    (found["loss_actor"] + actor.get_dist(parts).penalty().mean()).backward()
    ours._update_actor(batch, 1.0, heads, draw)
    weights, biases = ours.actor.views(ours.actor.grad)
    expected = [x for w, b in zip(weights, biases, strict=True) for x in (w[0], b[0].flatten())]
    for a, b in zip(torch_gradients(actor[0].module.net), expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-6)
    # d loss_alpha / d log alpha = entropy - target entropy
    (slope,) = torch.autograd.grad(found["loss_alpha"], loss.log_alpha)
    assert slope.item() == pytest.approx(found["entropy"].item() - ours.target_entropy, abs=1e-5)


def _generator_of(agent):
    """A generator that repeats the last draw of noise of a fresh agent."""
    fresh = SAC(agent.config, agent.limits, agent.layer, 5, 0)
    return fresh.generator


def test_the_automatic_target_entropy_is_right_in_normalised_units_only():
    for density, expected in (("normalized", -2.0), ("action_scaled", -2 + math.log(0.2 * 0.5))):
        _, _, actor, loss, _ = twins("ddsrad", density)
        critic = modules.ValueOperator(modules.MLP(7, 1), in_keys=["observation", "previous_action", "action"])
        automatic = objectives.SACLoss(actor, critic, action_spec=data.Bounded(-1, 1, (2,)))
        assert automatic.target_entropy.item() == -2.0
        assert loss.target_entropy.item() == pytest.approx(expected)


# ---------------------------------------------------------------------- the same with the formula people write


class NaiveClip(envs.Transform):
    """clip(action, prev - delta, prev + delta), as it is written by hand, in float32."""

    def __init__(self, delta, low, high):
        super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])
        self.delta, self.low, self.high, self.prev = delta, low, high, torch.zeros(1)

    def _reset(self, tensordict, tensordict_reset):
        self.prev = torch.zeros(1)
        return tensordict_reset.set("previous_action", self.prev)

    def _inv_call(self, tensordict):
        action = tensordict["action"].clamp(self.prev - self.delta, self.prev + self.delta)
        self.prev = action.clamp(self.low, self.high)
        return tensordict.set("action", self.prev)

    def _step(self, tensordict, next_tensordict):
        return next_tensordict.set("previous_action", self.prev)

    def transform_observation_spec(self, observation_spec):
        observation_spec["previous_action"] = data.Bounded(self.low, self.high, (1,))
        return observation_spec


def watched_steps(steps, naive):
    """``steps`` real steps: half warm-up, half policy with exploration noise. Returns Gymnasium's own watcher.

    ``naive``: TorchRL's TanhNormal and the clip people write; else the transform and the distribution of slewrl.
    """
    torch.manual_seed(0)
    watcher = watched(200)
    guard = NaiveClip(0.4, -2.0, 2.0) if naive else RateLimitTransform(PENDULUM)
    env = envs.TransformedEnv(envs.GymWrapper(watcher), guard)
    actor = make_actor(3, PENDULUM)
    if naive:
        actor = modules.ProbabilisticActor(
            actor[0],
            in_keys=["loc", "scale"],
            distribution_class=modules.TanhNormal,
            distribution_kwargs={"low": -2.0, "high": 2.0},
            default_interaction_type=tensordict.nn.InteractionType.RANDOM,
        )
    noise = modules.AdditiveGaussianModule(env.action_spec, sigma_init=1.0, sigma_end=1.0)
    for policy in (None, tensordict.nn.TensorDictSequential(actor, noise)):
        with torch.no_grad():
            env.rollout(steps // 2, policy, break_when_any_done=False)
    return watcher


def test_the_clip_people_write_breaks_the_limit_where_ours_does_not():
    ours, naive = watched_steps(300, naive=False), watched_steps(300, naive=True)
    assert ours.steps == naive.steps == 300
    assert ours.violations == 0 and naive.violations > 25


@pytest.mark.slow
def test_a_hundred_thousand_steps():
    ours, naive = watched_steps(100_000, naive=False), watched_steps(100_000, naive=True)
    assert ours.steps == 100_000 and ours.violations == 0
    print(f"slewrl {ours.violations}, clip {naive.violations} of {naive.steps:,} steps beyond the limit")
    assert naive.violations > 1_000
