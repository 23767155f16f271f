"""The IsaacLab adapter against a fake with its signature, and with it what all adapters of simulators share."""

import fake_isaaclab as fake
import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.integrations import isaaclab
from slewrl.integrations.isaaclab import IsaacVecEnv
from slewrl.integrations.simulator import joint_columns
from slewrl.metrics import rate_use
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

VARIANTS = ("final_obs", "recorder", "lost")
LIMITS = RateLimits.preset("H1", "paper")
COUNT = 4


@pytest.fixture(autouse=True)
def forget_launch():
    isaaclab._launch.cache_clear()
    yield
    isaaclab._launch.cache_clear()


def make(monkeypatch, variant="recorder", limits=LIMITS, **action) -> IsaacVecEnv:
    fake.install(monkeypatch, fake.Config(variant, **action))
    if variant == "lost":
        with pytest.warns(UserWarning, match="biases the value of episodes that are cut off"):
            vec_env = IsaacVecEnv(fake.TASK, COUNT, limits, "cpu")
    else:
        vec_env = IsaacVecEnv(fake.TASK, COUNT, limits, "cpu")
    vec_env.reset(0)
    return vec_env


def walk(vec_env, steps):
    """Random latents through DD-SRad; yields what was executed and what came of it."""
    layer, generator = make_layer("ddsrad"), torch.Generator().manual_seed(0)
    for _ in range(steps):
        seen = torch.from_numpy(vec_env.observations)
        box = vec_env.limits.box_after(seen)
        latent = 2 * torch.randn(vec_env.count, vec_env.limits.dim, generator=generator)
        executed = layer.decide(latent, box).executed.numpy()
        yield executed, vec_env.step(executed)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_actuators_get_the_actions_to_the_bit(monkeypatch, variant):
    vec_env = make(monkeypatch, variant)
    episodes, actions = [], []
    for executed, _ in walk(vec_env, 12):
        actions.append(executed.copy())
        episodes += vec_env.episodes
    given = torch.stack(vec_env.env.targets).numpy()
    columns = [fake.JOINTS.index(name) for name in LIMITS.names]
    assert given[:, :, columns].tobytes() == np.stack(actions).tobytes()
    others = [i for i in range(len(fake.JOINTS)) if i not in columns]
    assert [fake.JOINTS[i] for i in others] == ["torso", "left_elbow"]
    assert (given[:, :, others] == vec_env.env.robot.default[:, others].numpy()).all()  # they hold
    assert [len(episode.actions) - 1 for episode in episodes] == [3, 5, 3, 3, 5, 3]  # of environments 0, 1, 0, 0, 1, 0
    assert sum(rate_use(episode.actions, LIMITS).violations for episode in episodes) == vec_env.violations() == 0
    assert episodes[1].actions[1:].tobytes() == np.stack(actions)[:5, 1].tobytes()
    assert (episodes[1].actions[0] == vec_env.reset_action).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_episode_keeps_its_own_last_observation_and_action(monkeypatch, variant):
    vec_env = make(monkeypatch, variant)
    assert vec_env.terminal == variant
    clock = len(fake.JOINTS) * 2
    for t, (executed, moved) in enumerate(walk(vec_env, 12), start=1):
        ended = [t % 3 == 0, t % 5 == 0, False, False]
        assert moved.ended.tolist() == ended
        assert moved.terminated.tolist() == [ended[0], False, False, False]
        assert (moved.next_obs[:, -10:] == executed).all()
        assert (vec_env.observations[:, -10:] == np.where(moved.ended[:, None], vec_env.reset_action, executed)).all()
        steps = np.array([(t - 1) % 3 + 1, (t - 1) % 5 + 1, t, t])
        assert (vec_env.observations[:, clock] == np.where(ended, 0, steps)).all()
        # Where it is lost, the next episode's first observation stands in, with this episode's action.
        assert (moved.next_obs[:, clock] == (np.where(ended, 0, steps) if variant == "lost" else steps)).all()


def test_what_an_episode_came_to(monkeypatch):
    vec_env = make(monkeypatch)
    episodes = [episode for _ in walk(vec_env, 5) for episode in vec_env.episodes]
    assert [episode.total for episode in episodes] == [3.0, 5.0]
    assert [episode.measures["fell"] for episode in episodes] == [1.0, 0.0]
    # The velocity is (.5, .25) m/s where (1, .25) was asked for.
    assert episodes[0].measures["vte"] == pytest.approx(0.5)
    assert episodes[0].measures["commanded"] == pytest.approx(np.hypot(1, 0.25))
    assert episodes[0].measures["speed"] == pytest.approx((0.5 * 1 + 0.25 * 0.25) / np.hypot(1, 0.25))


def test_layout(monkeypatch):
    vec_env = make(monkeypatch)
    joints = len(fake.JOINTS)
    assert vec_env.layout.parts == (("joint_pos", joints), ("actions", joints), ("clock", 1), ("noise", 1))
    assert vec_env.layout.size == vec_env.observations.shape[1] == 2 * joints + 2 + 10
    assert vec_env.layout.privileged == 0
    assert vec_env.get_state() is None


def test_under_an_acceleration_limit_observations_end_in_velocity_and_action_and_the_limit_is_counted(monkeypatch):
    sharp = RateLimits(**LIMITS._parts() | {"acceleration": 15})
    vec_env = make(monkeypatch, limits=sharp)
    assert vec_env.layout.size == vec_env.observations.shape[1] == 2 * len(fake.JOINTS) + 2 + 20
    before, episodes = np.tile(vec_env.reset_action, (COUNT, 1)), []
    assert (vec_env.observations[:, -20:] == np.concatenate([0 * before, before], 1)).all()
    for executed, moved in walk(vec_env, 30):
        assert (moved.next_obs[:, -20:] == np.concatenate([executed - before, executed], 1)).all()
        before = np.where(moved.ended[:, None], vec_env.reset_action, executed)
        speed = np.where(moved.ended[:, None], 0, moved.next_obs[:, -20:-10])
        assert (vec_env.observations[:, -20:] == np.concatenate([speed, before], 1)).all()
        episodes += vec_env.episodes
    assert sum(rate_use(episode.actions, sharp).violations for episode in episodes) == vec_env.violations() == 0
    vec_env.reset(0)
    jump = vec_env.history.previous.copy()
    jump[3, sharp.names.index("left_knee")] += 0.1  # its rate is .25, and from rest it may go by .006
    vec_env.step(jump)
    assert vec_env.violations() == 1


def test_worlds_neither_disturb_nor_hear_other_random_numbers(monkeypatch):
    vec_env, others = make(monkeypatch), make(monkeypatch)
    seen = []
    for disturbed in (False, True):
        vec_env.reset(1)
        seen.append([vec_env.observations.copy()])
        for t, (_, moved) in enumerate(walk(vec_env, 6)):
            seen[-1].append(moved.next_obs)
            if disturbed and t % 2:
                others.reset(1)
                torch.rand(3)
    assert all((a == b).all() for a, b in zip(*seen, strict=True))
    assert not (seen[0][1][:, -11] == seen[0][2][:, -11]).any()  # it is noise
    process = torch.get_rng_state()
    vec_env.reset(2)
    vec_env.step(vec_env.history.previous.copy())
    assert (torch.get_rng_state() == process).all()


def test_long_episodes_and_violations_are_counted(monkeypatch):
    vec_env = make(monkeypatch)
    monkeypatch.setattr(fake, "ENDS", {})
    actions = [executed.copy() for executed, _ in walk(vec_env, 90)]
    too_far = vec_env.history.previous.copy()
    knee = LIMITS.names.index("left_knee")
    too_far[2, knee] += np.where(too_far[2, knee] > 0.9, -0.3, 0.3)  # the knee's limit is .25
    actions.append(too_far)
    vec_env.step(too_far)
    assert vec_env.violations() == 1
    for _ in range(9):
        vec_env.step(too_far)
    assert [len(episode.actions) for episode in vec_env.episodes] == [101] * COUNT
    assert [rate_use(episode.actions, LIMITS).violations for episode in vec_env.episodes] == [0, 0, 1, 0]
    assert (vec_env.episodes[2].actions[1:92] == np.stack(actions)[:, 2]).all()
    assert vec_env.violations() == 0  # of the episodes under way


def test_a_task_that_changes_targets_is_refused(monkeypatch):
    vec_env = make(monkeypatch, clip=(-0.1, 0.1), scale=0.25)  # both are taken out
    says = r"of environment 0 was given .*, expected the action itself.*would not hold"
    vec_env.env.term.extra = 2.0**-20
    with pytest.raises(RuntimeError, match=says):
        vec_env.step(vec_env.history.previous.copy())
    with pytest.raises(RuntimeError, match=says):  # already when it is made
        make(monkeypatch, extra=2.0**-20)


def test_a_simulation_that_blew_up_is_said(monkeypatch):
    vec_env = make(monkeypatch)
    vec_env.env.robot.joint_pos[3, 1] = np.nan
    with pytest.raises(UserFacingError, match="not finite"):
        vec_env.step(vec_env.history.previous.copy())


def test_isaac_sim_is_launched_once_and_headless(monkeypatch):
    launched = fake.install(monkeypatch, fake.Config("recorder"))
    for _ in range(2):
        IsaacVecEnv(fake.TASK, COUNT, LIMITS, "cpu")
    assert launched == [{"headless": True, "device": "cpu"}]


def test_default_limits_are_the_robots(monkeypatch):
    assert make(monkeypatch, limits=None).limits == LIMITS
    with pytest.raises(ValueError, match="joints are those of none of G1, H1: pass limits"):
        make(monkeypatch, limits=None, joint_names=[".*_hip_.*"])


def test_joints_are_found_by_name():
    assert joint_columns("T", ["left_knee_joint", "torso_joint"], ["waist_yaw", "left_knee"]).tolist() == [1, 0]
    assert joint_columns("T", ["torso_joint", "waist_yaw_joint"], ["waist_yaw"]).tolist() == [1]
    with pytest.raises(ValueError, match="T has no joint 'left_ankle' that the limits name; its actions have: hip"):
        joint_columns("T", ["hip_joint"], ["left_ankle"])


def test_the_reset_action_is_the_default_pose_within_the_range(monkeypatch):
    narrow = RateLimits({"left_knee": "0.2", "torso": "0.2"}, {"left_knee": "0.4", "torso": "-1"}, 1)
    vec_env = make(monkeypatch, limits=narrow)
    assert vec_env.env.robot.default[0, fake.JOINTS.index("left_knee")] < 0.4
    assert vec_env.reset_action.dtype == np.float32
    assert not narrow.outside(vec_env.reset_action, vec_env.reset_action).any()
    assert vec_env.reset_action.tolist() == pytest.approx([0.4, -0.2])


def test_bad_input(monkeypatch):
    slow = RateLimits(LIMITS.up, LIMITS.low, LIMITS.high, names=LIMITS.names, dt=0.01)
    with pytest.raises(ValueError, match=r"takes 0\.02 s, but the limits are per step of 0\.01 s"):
        make(monkeypatch, limits=slow)
    vec_env = make(monkeypatch)
    with pytest.raises(ValueError, match=r"actions are float64 \(4, 10\), expected float32 \(4, 10\)"):
        vec_env.step(vec_env.history.previous.astype(np.float64))
    config = fake.Config("recorder")
    config.actions.joint_pos = fake.JointVelocityActionCfg()
    fake.install(monkeypatch, config)
    with pytest.raises(ValueError, match="expected joint position targets alone"):
        IsaacVecEnv(fake.TASK, COUNT, LIMITS, "cpu")
    del config.actions
    with pytest.raises(ValueError, match="is a direct task"):
        IsaacVecEnv(fake.TASK, COUNT, LIMITS, "cpu")


def test_without_isaaclab_the_error_says_what_to_do():
    with pytest.raises(UserFacingError, match="IsaacLab cannot be imported .*: install it with Isaac Sim"):
        IsaacVecEnv(fake.TASK, COUNT, LIMITS, "cpu")


def test_training_makes_one_simulation_and_evaluates_on_it(monkeypatch, tmp_path):
    """Isaac Sim can be there only once: the environments that are trained on are also those that are evaluated on."""
    fake.install(monkeypatch, fake.Config("final_obs"))
    made, make_one = [], isaaclab._make
    monkeypatch.setattr(isaaclab, "_make", lambda *given: made.append(make_one(*given)) or made[-1])
    spec = RunSpec(
        f"isaaclab:{fake.TASK}", limits="paper", agent="fastsac", environments=COUNT, steps=80, learning_starts=16,
        batch_size=8, evaluate_every=40, agent_options={"actor_hidden": [8], "critic_hidden": [8], "updates": 1},
    )  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    folder.create(spec)
    assert train(spec, folder) and len(made) == 1
    rows = np.genfromtxt(folder.path / "eval.csv", delimiter=",", names=True)
    assert rows["step"].tolist() == [40, 80] and (rows["violations"] == 0).all()
