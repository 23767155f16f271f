"""The augmented environment: Gymnasium's own checker, the history of actions, the metrics by hand, the refusals."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from test_rate_limit import Eyes

from slewrl import RateLimit, RateLimits, RateLimitVector, make_layer
from slewrl.envs.augment import Augment, AugmentVector
from slewrl.envs.checked import BrokenEnvironmentError
from slewrl.envs.gym_vec_env import GymVecEnv
from slewrl.limits.augmented import previous_action
from slewrl.limits.presets import PRESETS
from slewrl.metrics import rate_use, return_cv

MUJOCO = ["HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5"]


def make(task="HalfCheetah-v5", preset="tight", **options):
    return Augment(gym.make(task), RateLimits.preset(task, preset), **options)


@pytest.mark.parametrize("task", MUJOCO)
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
def test_gymnasiums_checker_passes(task):
    check_env(make(task), skip_render_check=True)


@pytest.mark.parametrize("task", MUJOCO)
def test_presets_name_the_models_own_joints(task):
    model = gym.make(task).unwrapped.model
    joints = [model.joint(model.actuator_trnid[i, 0]).name.removesuffix("_joint") for i in range(model.nu)]
    for name in PRESETS[task]:
        limits = RateLimits.preset(task, name)
        assert list(limits.names) == joints
        assert (
            np.allclose(limits.low, model.actuator_ctrlrange[:, 0])
            and limits.high.max() <= model.actuator_ctrlrange.max()
        )


def test_the_last_entries_are_the_action_last_executed():
    env = make(reset_action=np.full(6, 0.25))
    observation, _ = env.reset(seed=0)
    assert observation.dtype == np.float32 and observation.shape == (23,)
    assert previous_action(observation, 6).tolist() == [0.25] * 6
    action = np.float32([0.3, 0.2, 0.1, -0.1, 0.0, 0.7])
    observation, *_ = env.step(action)
    assert np.array_equal(previous_action(observation, 6), action)
    action += 1  # the caller's buffer is the caller's
    assert np.array_equal(env.previous, previous_action(observation, 6))
    assert np.array_equal(previous_action(env.reset()[0], 6), env.reset_action)


def test_a_limited_policy_is_seen_to_be_limited_and_a_clip_by_hand_is_not():
    """A thousand real steps, saturated: exact violations counted at env.step."""
    for layer, broken in (("ddsrad", False), (None, True)):
        env, generator = make(), torch.Generator().manual_seed(0)
        observation, _ = env.reset(seed=0)
        for _ in range(1000):
            prev = torch.from_numpy(previous_action(observation, 6))
            u = 1e5 * torch.randn(6, generator=generator)
            if layer:
                action = make_layer(layer).execute(u, env.limits.box(prev)).numpy()
            else:
                delta = np.float32(env.limits.delta)
                action = np.clip(np.clip(u.numpy(), prev.numpy() - delta, prev.numpy() + delta), -1, 1)
            observation, _, _, truncated, info = env.step(action)
        assert truncated and (info["rate_use"].violations > 0) == broken


def test_metrics_by_hand():
    limits = RateLimits(up=[0.2, 0.5], down=[0.4, 0.5], low=-1.0, high=1.0)
    use = rate_use(np.array([[0.0, 0.0], [0.1, 0.5], [-0.1, 0.25]]), limits)
    # Steps (+.1, +.5) of (.2, .5) allowed, then (-.2, -.25) of (.4, .5).
    assert use.steps == 2 and use.violations == 0
    assert use.per_joint.tolist() == pytest.approx([0.5, 0.75])
    assert use.utilisation_mean == pytest.approx(0.625)
    assert use.utilisation == pytest.approx((0.6 / 0.7 + 0.45 / 0.9) / 2)
    assert rate_use(np.array([[0.0, 0.0], [0.3, 0.0]]), limits).violations == 1
    assert rate_use(np.zeros((1, 2)), limits).steps == 0
    assert return_cv(np.array([90.0, 110.0])) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("task", "limits", "message"),
    [
        (
            "CartPole-v1",
            RateLimits(0.2, low=-1, high=1),
            r"CartPole-v1: action space is Discrete\(2\), expected a flat Box",
        ),
        ("HalfCheetah-v5", RateLimits([0.2] * 5, low=-1, high=1), "6 actions, but limits for 5: "),
        ("HalfCheetah-v5", RateLimits([0.2] * 6, low=-2, high=1), r"'joint0' range over \[-2.0, 1.0\], beyond"),
    ],
)
def test_spaces_that_do_not_fit_are_refused(task, limits, message):
    with pytest.raises(ValueError, match=message):
        Augment(gym.make(task), limits)


def test_an_unbounded_action_space_is_refused():
    env = gym.make("HalfCheetah-v5")
    env.action_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    with pytest.raises(ValueError, match="is unbounded, expected finite bounds"):
        Augment(env, RateLimits.preset("HalfCheetah-v5", "tight"))


def test_a_reset_action_must_be_possible():
    with pytest.raises(ValueError, match="reset_action has 2 entries where there are 6 joints"):
        make(reset_action=np.zeros(2))
    with pytest.raises(ValueError, match="'bthigh' is 1.5, expected a number in"):
        make(reset_action=np.full(6, 1.5))


# ---------------------------------------------------------------- the vector twin


def vector(mode, lengths=(3, 5)):
    """Two rate-limited pendulums whose episodes end after 3 and 5 steps."""
    makers = [lambda n=n: gym.make("Pendulum-v1", max_episode_steps=n) for n in lengths]
    return AugmentVector(SyncVectorEnv(makers, autoreset_mode=mode), RateLimits.preset("Pendulum-v1", "tight"))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_every_mode_sees_the_episodes_a_single_environment_sees(mode):
    """Env k of the vector against Augment alone, reset and stepped by hand: the same observations, to the bit."""
    env = vector(mode)
    singles = [
        Augment(gym.make("Pendulum-v1", max_episode_steps=n), RateLimits.preset("Pendulum-v1", "tight")) for n in (3, 5)
    ]
    observations, _ = env.reset(seed=[10, 11])
    expected = [single.reset(seed=10 + k)[0] for k, single in enumerate(singles)]
    over, rng, uses = [False, False], np.random.default_rng(0), 0
    for _ in range(20):
        assert np.array_equal(observations, np.stack(expected))
        actions = rng.uniform(-0.1, 0.1, (2, 1)).astype(np.float32)
        observations, _, terminated, truncated, info = env.step(actions)
        for k, single in enumerate(singles):
            if over[k]:  # NEXT_STEP: this step was its reset, and its action was not executed
                expected[k], over[k] = single.reset()[0], False
                continue
            expected[k], _, _, ended, single_info = single.step(actions[k])
            assert ended == (terminated[k] or truncated[k])
            if ended:
                assert info["_rate_use"][k] and info["rate_use"][k].steps == (3, 5)[k]
                assert info["rate_use"][k].utilisation == single_info["rate_use"].utilisation
                uses += 1
                if mode == AutoresetMode.SAME_STEP:
                    assert np.array_equal(info["final_obs"][k], expected[k])  # with the last action of its own episode
                    expected[k] = single.reset()[0]
                else:
                    over[k] = True
    assert uses >= 8


def test_without_autoreset_only_the_masked_environments_start_again():
    env = vector(AutoresetMode.DISABLED)
    env.reset(seed=0)
    for _ in range(3):
        observations, _, _, truncated, _ = env.step(np.full((2, 1), 0.05, np.float32))
    assert truncated.tolist() == [True, False]
    observations, _ = env.reset(options={"reset_mask": truncated})
    assert previous_action(observations, 1)[:, 0].tolist() == [0.0, np.float32(0.05)]
    assert [len(env.history.actions(k)) for k in (0, 1)] == [1, 4]


def test_a_masked_reset_leaves_the_other_environments_to_their_autoreset():
    env = vector(AutoresetMode.NEXT_STEP)
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.full((2, 1), 0.05, np.float32))
    env.reset(options={"reset_mask": np.array([False, True])})  # environment 0 ended, and is reset by the next step
    observations, *_ = env.step(np.full((2, 1), 0.1, np.float32))
    assert previous_action(observations, 1)[:, 0].tolist() == [0.0, np.float32(0.1)]


def test_the_vector_twin_refuses_what_the_single_one_refuses():
    limits = RateLimits([0.2] * 5, low=-1, high=1)
    with pytest.raises(ValueError, match="6 actions, but limits for 5: "):
        AugmentVector(gym.make_vec("HalfCheetah-v5", num_envs=2), limits)


# ---------------------------------------------------------------------- environments that keep no contract


class Odd(gym.Wrapper):
    """A Pendulum whose reset, or whose third step, returns something else."""

    def __init__(self, env, reset=None, step=None):
        super().__init__(env)
        self.of_reset, self.of_step, self.count = reset, step, 0

    def reset(self, **options):
        returned = self.env.reset(**options)
        return self.of_reset(returned) if self.of_reset else returned

    def step(self, action):
        returned = self.env.step(action)
        self.count += 1
        return self.of_step(returned) if self.of_step and self.count == 3 else returned


def only_observation(returned):
    return returned[0]


def nothing(returned):
    return None


def no_info(returned):
    return (*returned[:-1], None)


def no_observation(returned):
    return (None, *returned[1:])


def longer(returned):
    return (np.zeros(4, np.float32), *returned[1:])


def shorter(returned):
    return (np.zeros(1, np.float32), *returned[1:])


ODD = [
    ("reset", nothing, "reset returned None, expected a pair: observation, info"),
    ("reset", only_observation, r"reset returned array\(.*\), expected a pair: observation, info"),
    ("reset", no_info, "reset returned an info that is None, expected a dict"),
    ("reset", no_observation, r"reset returned an observation that is None, expected shape \(3,\)"),
    ("reset", longer, r"reset returned an observation of shape \(4,\), expected \(3,\)"),
    ("step", nothing, "step returned None, expected five: observation, reward, terminated, truncated, info"),
    ("step", lambda five: five[:4], "step returned a tuple of 4, expected five: observation, reward"),
    ("step", no_info, "step returned an info that is None, expected a dict"),
    ("step", no_observation, r"step returned an observation that is None, expected shape \(3,\)"),
    ("step", longer, r"step returned an observation of shape \(4,\), expected \(3,\)"),
    ("step", shorter, r"step returned an observation of shape \(1,\), expected \(3,\)"),
]
PENDULUM = RateLimits(0.5, -2.0, 2.0)


def drive(env, steps=4):
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros(env.action_space.shape, np.float32))


@pytest.mark.parametrize(("when", "how", "message"), ODD)
@pytest.mark.parametrize("kind", [Augment, RateLimit])
def test_an_environment_that_returns_something_else_is_named(kind, when, how, message):
    env = kind(Odd(gym.make("Pendulum-v1"), **{when: how}), PENDULUM)
    with pytest.raises(BrokenEnvironmentError, match=f"^Pendulum-v1: {message}"):
        drive(env)


@pytest.mark.parametrize(("when", "how", "message"), ODD)
def test_and_so_it_is_with_its_place_where_we_step_it(when, how, message):
    vec_env = GymVecEnv(lambda: Odd(gym.make("Pendulum-v1"), **{when: how}), PENDULUM, 2)
    with pytest.raises(BrokenEnvironmentError, match=f"^Pendulum-v1, environment 0, step [05].*: {message}"):
        vec_env.reset(0)
        for _ in range(4):
            vec_env.step(np.zeros((2, 1), np.float32))


def test_a_reward_that_is_no_number_is_named():
    for given, said in ((None, "None"), ("a lot", "'a lot'"), ([1.0, 2.0], r"\[1.0, 2.0\]")):
        odd = Odd(gym.make("Pendulum-v1"), step=lambda five, given=given: (five[0], given, *five[2:]))
        vec_env = GymVecEnv(lambda odd=odd: odd, PENDULUM, 1)
        vec_env.reset(0)
        with pytest.raises(BrokenEnvironmentError, match=f"step 3: the reward is {said}, expected a finite number"):
            for _ in range(4):
                vec_env.step(np.zeros((1, 1), np.float32))


def test_an_entry_of_a_dict_observation_that_changes_its_shape_is_named():
    def taller(five):
        return ({"state": np.zeros((2, 3), np.float32)}, *five[1:])

    def gone(five):
        return ({}, *five[1:])

    for how, message in (
        (taller, r"step returned an observation 'state' of shape \(2, 3\), expected \(3,\)"),
        (gone, "step returned an observation without 'state'"),
    ):
        with pytest.raises(BrokenEnvironmentError, match=message):
            drive(RateLimit(Odd(Eyes(gym.make("Pendulum-v1")), step=how), PENDULUM))


class OddVector(gym.vector.VectorWrapper):
    """Two Pendulums whose third step returns something else."""

    def __init__(self, env, how):
        super().__init__(env)
        self.how, self.count = how, 0

    def step(self, actions):
        returned = self.env.step(actions)
        self.count += 1
        return self.how(returned) if self.count == 3 else returned


@pytest.mark.parametrize("kind", [AugmentVector, RateLimitVector])
def test_so_are_vector_environments(kind):
    for how, message in (
        (nothing, "step returned None, expected five"),
        (lambda five: (five[0][:, :2], *five[1:]), r"an observation of shape \(2, 2\), expected \(2, 3\)"),
        (lambda five: (five[0][:1], *five[1:]), r"an observation of shape \(1, 3\), expected \(2, 3\)"),
    ):
        env = kind(OddVector(gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync"), how), PENDULUM)
        with pytest.raises(BrokenEnvironmentError, match=f"^Pendulum-v1: .*{message}"):
            drive(env)


def test_gymnasiums_own_wrappers_around_one_do_not_hide_it():
    """As ``gym.make`` puts them around a registered environment: TimeLimit takes apart what it is given."""
    env = Augment(gym.wrappers.TimeLimit(Odd(gym.make("Pendulum-v1").unwrapped, step=nothing), 50), PENDULUM)
    with pytest.raises(BrokenEnvironmentError, match="step returned something else, expected five: .*NoneType"):
        drive(env)

    def slip(five):
        one, two = [1]
        return one, two

    with pytest.raises(ValueError, match="^not enough values"):  # the environment's own
        drive(Augment(Odd(gym.make("Pendulum-v1"), step=slip), PENDULUM))
