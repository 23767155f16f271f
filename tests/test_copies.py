"""Copies of objects with state: one of its own with the same state and the same next outputs, or refused by name.

Each case is how to make an object that is under way, and how to move it on and see what comes out.
"""

import copy
import pickle
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from slewrl import LAYERS, RateLimit, RateLimits, make_layer
from slewrl.agents import fastsac, ppo, ppo_lag, sac, td3
from slewrl.agents.action_value import ActionValue
from slewrl.agents.nets import Adam, Ensemble
from slewrl.agents.normalize import Normalizer
from slewrl.agents.replay import Replay
from slewrl.agents.rollout import Rollout
from slewrl.deploy.limiter import RateLimiter
from slewrl.envs.augment import Augment, AugmentVector
from slewrl.envs.history import ActionHistory, CountedHistory
from slewrl.envs.tasks import make_vec_env
from slewrl.integrations.action_term import Guard, LimitedCommands
from slewrl.integrations.gymnasium import RateLimitVector
from slewrl.integrations.simulator import EpisodeSums, SimulatedVecEnv, Stream
from slewrl.layers.arrays import ArrayLayer

WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}
LIMITS = RateLimits(0.1, -1, 1, names=["a", "b"])
PREV = np.float32([0.3, 0.4])
SEEN = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.5], [0.5, 0.4, 0.3, 0.2, 0.1]])


def started(**options):
    limiter = RateLimiter(LIMITS, dt=0.02, **options)
    limiter.start([0.3, 1.2])
    limiter.derate({"a": 0.07})
    limiter.step([np.nan, 0.0])
    return limiter


def moving():
    limiter = RateLimiter(RateLimits(0.1, -1, 1, names=["a", "b"], acceleration=0.01))
    limiter.start([0.3, -0.2], [0.02, -0.03])
    limiter.derate({"a": 0.07})
    limiter.derate_acceleration({"b": 0.002})
    limiter.step([np.nan, 0.0])
    return limiter


def braked(limiter):
    steps = [limiter.step([9, -9]), limiter.step([0.3, np.nan])]
    return [*steps, limiter.velocity, limiter.nans, limiter.rates, limiter.accelerations, limiter.waiting]


def limited(limiter):
    late = limiter.step([9, 9], dt=0.01)
    return [late, limiter.step([9, -9]), limiter.step([-9, np.nan]), limiter.nans, limiter.rates]


def filled(folder=None):
    replay = Replay(10, 4, 1, 5, 2, folder)
    for row in np.random.default_rng(3).uniform(-1, 1, (5, 13)).astype(np.float32):
        replay.add(0, row[:5], row[5:7], row[7], row[8:], False, False)
    replay.sample(4, np.random.default_rng(0))
    return replay


def drawn(replay):
    replay.add(0, *(np.full(n, 7, np.float32) for n in (5, 2)), 7, np.full(5, 8, np.float32), False, False)
    return [*judged(replay.sample(4, np.random.default_rng(1))), replay.written.copy()]


def judged(batch):
    batch.next_action.add_(3)
    return [batch.observations, batch.inputs, batch.next_inputs, batch.reward, batch.terminated]


def collected(rollout):
    step = np.full((1, 5), rollout.filled, np.float32)
    rollout.begin(step, step[:, :2])
    rollout.end(step[:, 0], step, step[:, 0] > 1, step[:, 0] > 2)
    arrays = [rollout.observation, rollout.next_observation, rollout.latent, rollout.reward, rollout.ended]
    return [*arrays, rollout.filled]


def ensemble():
    net = Ensemble(2, (3, 8, 1), torch.Generator().manual_seed(0))
    net.fit(torch.ones(4, 3), torch.ones(4))
    return net


def fitted(net):
    x = torch.arange(12.0).view(4, 3)
    net.weights[0].add_(0.1)
    net.flat.mul_(1.1)
    errors = net.fit(x, torch.ones(4)).clone()
    net.flat.sub_(0.1 * net.grad)
    return [errors, net.grad, net.forward(x).clone(), net.min_q_and_grad(x, 2)[1], net.biases[1], net.target().flat]


def stepped(adam):
    adam.grad.fill_(1)
    adam.step()
    return [adam.flat, adam.mean, adam.count]


def normalized(normalizer):
    normalizer.update(SEEN.square())
    return [normalizer(SEEN)]


def agent(kind, layer="ddsrad", **options):
    made = kind(kind.Config(**options), LIMITS, make_layer(layer), 5, 0)
    learned(made)
    return made


def learned(made):
    drawn = made.act(SEEN).executed
    if not made.on_policy:
        made.update(filled().sample(4, np.random.default_rng(0)))
    elif made.record(np.ones(2, np.float32), SEEN.numpy(), np.zeros(2, bool), np.zeros(2, bool)):
        made.improve(lambda *_: filled().sample(4, np.random.default_rng(0)))
    return [drawn, made.act(SEEN, explore=False).executed, made.state_dict()]


def valued(made):
    return [made.update(filled().sample(4, np.random.default_rng(0)), lambda x: x[:, :2]), made.state_dict()]


def vector(task):
    return gym.vector.SyncVectorEnv([partial(gym.make, task)] * 2)


def acted(env):
    most = np.ones(env.action_space.shape, env.action_space.dtype)
    return [*env.step(most)[:2], *env.step(-most)[:2]]


def reset(env):
    env.reset(seed=0)
    acted(env)
    return env


def vec_env(task, limits):
    made = make_vec_env(task, limits, 2)
    made.reset(0)
    moved(made)
    return made


def moved(made):
    next_obs, reward, *_ = made.step(np.tile(made.reset_action, (2, 1)))
    return [next_obs, reward, made.violations(), np.stack(made.episode_actions())]


def appended(history):
    history.append(np.full((2, 2), 0.5, np.float32))
    counted = history.violations if isinstance(history, CountedHistory) else None
    return [history.previous, history.actions(0), history.rate_use(1).violations, counted]


def summed(sums):
    sums.add(np.ones(2, np.float32), {"x": np.ones(2, np.float32)})
    return [sums.total, sums.sums["x"], sums.means(0)]


def commanded(chain):
    return [chain.move(torch.ones(2, 2)).clone(), chain.move(torch.full((2, 2), torch.nan)).clone(), chain.nans]


PENDULUM = RateLimits(0.1, -2, 2, names=["a"], reset=0)
SMALL = {"hidden": (8, 8)}
FEW = {**SMALL, "rollout": 2, "minibatch": 2}
CASES = {
    "RateLimiter": (started, limited),
    "RateLimiter, late": (partial(started, longest=2.0), limited),
    "RateLimiter, budget": (partial(started, budget=1.5), limited),
    "RateLimiter, acceleration": (moving, braked),
    "FeasibleBox": (lambda: LIMITS.box(torch.from_numpy(PREV)), lambda box: [box.low, box.high, box.prev]),
    "Replay": (filled, drawn),
    "Batch": (lambda: filled().sample(4, np.random.default_rng(0)), judged),
    "Rollout": (lambda: Rollout(6, 1, 5, 2), collected),
    "Ensemble": (ensemble, fitted),
    "Adam": (lambda: Adam(torch.ones(3), torch.ones(3), 0.01, 1.0), stepped),
    "SAC": (partial(agent, sac.SAC, **SMALL), learned),
    "TD3": (partial(agent, td3.TD3, **SMALL, policy_delay=1), learned),
    "PPO": (partial(agent, ppo.PPO, **FEW, normalize=True), learned),
    "PPO, action": (partial(agent, ppo.PPO, **FEW, advantage="action", q_hidden=(8,)), learned),
    "PPOLag": (partial(agent, ppo_lag.PPOLag, "none", **FEW), learned),
    "FastSAC": (partial(agent, fastsac.FastSAC, actor_hidden=(8,), critic_hidden=(8,)), learned),
    "ActionValue": (lambda: ActionValue(5, 2, (8,), 0.1, 0.9, torch.Generator().manual_seed(0)), valued),
    "Augment": (lambda: reset(Augment(gym.make("Pendulum-v1"), PENDULUM)), acted),
    "AugmentVector": (lambda: reset(AugmentVector(vector("Pendulum-v1"), PENDULUM)), acted),
    "RateLimit": (lambda: reset(RateLimit(gym.make("MountainCarContinuous-v0"), 0.1)), acted),
    "RateLimit, MuJoCo": (lambda: reset(RateLimit(gym.make("HalfCheetah-v5"), 0.1)), acted),
    "RateLimitVector, MuJoCo": (lambda: reset(RateLimitVector(vector("HalfCheetah-v5"), 0.1)), acted),
    "GymVecEnv": (partial(vec_env, "Pendulum-v1", PENDULUM), moved),
    "ActionHistory": (lambda: ActionHistory(LIMITS, np.zeros((2, 2), np.float32)), appended),
    "CountedHistory": (lambda: CountedHistory(LIMITS, np.zeros((2, 2), np.float32)), appended),
    "EpisodeSums": (lambda: EpisodeSums(2), summed),
    "LimitedCommands": (lambda: LimitedCommands(LIMITS, torch.zeros(2, 2), make_layer("ddsrad")), commanded),
}
for _name in LAYERS:
    CASES[_name] = (
        partial(make_layer, _name),
        lambda layer: [layer.execute(torch.tensor([0.3, -4.0]), LIMITS.box(torch.from_numpy(PREV)))],
    )
    if make_layer(_name).hard:
        CASES[f"ArrayLayer, {_name}"] = (
            lambda name=_name: ArrayLayer(make_layer(name), LIMITS, np.float32),
            lambda layer: [layer.execute(np.float32([0.3, -4]), PREV), layer.clip(np.float32([9, -9]), PREV)],
        )


def frozen(values):
    """What came out, as it is now: some are buffers that the next step overwrites."""
    return copy.deepcopy(values)


def check(make, move, way):
    expected = frozen(move(make()))
    original = make()
    twin, other = way(original), way(original)
    torch.testing.assert_close(frozen(move(twin)), expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(frozen(move(original)), expected, rtol=0, atol=0, equal_nan=True)  # the copy moved alone
    torch.testing.assert_close(frozen(move(other)), expected, rtol=0, atol=0, equal_nan=True)  # and the original


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_copy_goes_on_by_itself(name, way):
    check(*CASES[name], WAYS[way])


# ---------------------------------------------------------------------- torch's modules: a shallow copy shares, as ever


def test_torch_modules():
    def make():
        normalizer = Normalizer(5, 2)
        normalizer.update(SEEN)
        return normalizer

    for way in ("deepcopy", "pickle"):
        check(make, normalized, WAYS[way])


def slow(progress):
    """A learning rate."""
    return 1e-3


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_sb3s_policies(way):
    sb3 = pytest.importorskip("slewrl.integrations.sb3")
    env = RateLimit(gym.make("Pendulum-v1"), PENDULUM, mode="absolute")
    space = env.observation_space, env.action_space

    def make():
        torch.manual_seed(0)
        return sb3.SACPolicy(*space, slow, limits=PENDULUM, net_arch=[8])

    def predicted(policy):
        with torch.no_grad():
            for weight in policy.parameters():
                weight.mul_(1.1)
        return [policy.predict(np.float32([[0.1, 0.2, 0.3, 0.4]]), deterministic=True)[0]]

    check(make, predicted, WAYS[way])


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_torchrls_environments(way):
    ours = pytest.importorskip("slewrl.integrations.torchrl")
    envs = pytest.importorskip("torchrl.envs")

    def make():
        base = envs.GymEnv("Pendulum-v1")
        env = envs.TransformedEnv(base, envs.Compose(ours.RateLimitTransform(PENDULUM)))
        env.set_seed(0)
        env.rollout(1, policy=lambda *seen: torch.ones(1))
        return env

    def rolled(env):
        rollout = env.rollout(3, policy=lambda *seen: -torch.ones(1))
        return [rollout["action"], rollout["next", "previous_action"], tuple(env.transform[0].counts)]

    check(make, rolled, WAYS[way])
    twin = WAYS[way](make())
    twin.append_transform(envs.FrameSkipTransform(2))  # which steps a copy of the limits with the same history
    assert rolled(twin)[-1] == (7, 4, 0)


def test_torchrls_transforms():
    """A copy and a clone have a history of their own; a shallow copy of the environment shares both."""
    ours = pytest.importorskip("slewrl.integrations.torchrl")
    envs = pytest.importorskip("torchrl.envs")
    from tensordict import TensorDict

    env = envs.TransformedEnv(envs.GymEnv("Pendulum-v1"), ours.RateLimitTransform(PENDULUM))
    seen = env.step(env.reset().set("action", torch.ones(1)))["next"]
    twin = copy.copy(env.transform)
    assert twin.counts == (1, 1, 0)
    for other in (twin, env.transform.clone()):
        other._reset(TensorDict(), TensorDict())
        other._step(other.inv(TensorDict(action=-torch.ones(1))), TensorDict())
    assert (twin.counts, other.counts, env.transform.counts) == ((2, 2, 0), (1, 1, 0), (1, 1, 0))
    twin = copy.copy(env)
    assert twin.base_env is env.base_env
    seen = twin.step(seen.set("action", torch.ones(1)))["next"]
    seen = env.step(seen.set("action", torch.ones(1)))["next"]
    assert seen["previous_action"].item() == pytest.approx(0.3)
    assert env.transform.counts == (3, 3, 0)


class Follow:
    """Of rsl_rl's kind, and with a copy of its own."""

    num_envs, num_actions, device = 2, 2, "cpu"

    def __init__(self):
        self.seen = torch.zeros(2, 3)

    def __deepcopy__(self, memo):
        twin = Follow()
        twin.seen = self.seen.clone()
        return twin

    def step(self, actions):
        from tensordict import TensorDict

        self.seen[:, :2] += actions
        return TensorDict({"policy": self.seen.clone()}, [2]), self.seen[:, 0].clone(), torch.zeros(2), {}


@pytest.mark.parametrize("way", WAYS)
def test_rsl_rls_environments(way):
    rsl_rl = pytest.importorskip("slewrl.integrations.rsl_rl")

    def went(env):
        seen, reward, *_ = env.step(torch.ones(2, 2))
        return [seen["policy"], seen["previous_action"], reward]

    assert type(WAYS[way](rsl_rl.RateLimitedVecEnv(Follow(), LIMITS))) is rsl_rl.RateLimitedVecEnv  # not Follow
    check(lambda: rsl_rl.RateLimitedVecEnv(Follow(), LIMITS), went, WAYS[way])


# ---------------------------------------------------------------------- what cannot be copied says so


@pytest.fixture(scope="module")
def walking():
    return make_vec_env("G1-flat", RateLimits.preset("G1", "paper"), 1)


class Unknown(gym.Env, gym.utils.EzPickle):
    """Begins anew when it is copied, and its state is its own affair."""

    observation_space, action_space = gym.spaces.Box(-9, 9, (1,)), gym.spaces.Box(-1, 1, (1,))

    def __init__(self):
        gym.utils.EzPickle.__init__(self)
        self.at = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.at, {}

    def step(self, action):
        self.at = self.at + action
        return self.at, 0.0, False, False, {}


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_copied_says_so(way, walking, tmp_path):
    unknown = RateLimit(Unknown(), 0.1)
    unknown.reset(seed=0)
    refused = {
        "Replay on the disk cannot be copied, as both would write to .*rows.bin": filled(tmp_path),
        "Locomotion cannot be copied: make others .* set_state": walking,
        "Physics cannot be copied: make another": walking.physics,
        "Stream cannot be copied: make another": Stream("cpu"),
        "SimulatedVecEnv cannot be copied: the simulator's state": object.__new__(
            type("SimulatedVecEnv", (VecEnv,), {})
        ),
        "Guard cannot be copied: it belongs to": object.__new__(Guard),
        "Unknown.* cannot be copied within an episode": unknown,
    }
    for message, original in refused.items():
        with pytest.raises(TypeError, match=message):
            WAYS[way](original)


@pytest.mark.parametrize("way", WAYS)
def test_environments_in_other_processes_cannot_be_copied_and_go_on(way):
    env = RateLimitVector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="async"), PENDULUM)
    try:
        env.reset(seed=0)
        with pytest.raises(TypeError, match="AsyncVectorEnv.* cannot be copied.*SyncVectorEnv"):
            WAYS[way](env)
        acted(env)
    finally:
        env.close()


class VecEnv(SimulatedVecEnv):
    """Of some simulator."""

    _simulate = None


def test_an_environment_that_was_not_reset_may_be_copied():
    gym.register("Unknown-v0", Unknown)
    try:
        twin = copy.deepcopy(RateLimit(gym.make("Unknown-v0"), 0.1))
    finally:
        del gym.registry["Unknown-v0"]
    twin.reset(seed=0)
    assert twin.step(np.ones(1, np.float32))[-1]["applied_action"] == pytest.approx(0.1)
