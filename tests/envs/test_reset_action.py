"""What counts as applied before the first step: an arm whose home pose is not 0 must not be flung towards 0."""

import json
import re

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import slewrl
from slewrl import RateLimits
from slewrl.envs.augment import Augment
from slewrl.limits.augmented import previous_action

HOME = np.array([0.9, -2.0])
SPEED, DT = 2.8, 0.02
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast" gravity="0 0 0"/>
  <default>
    <joint axis="0 1 0" damping="0.5"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" contype="0" conaffinity="0"/>
    <position kp="400" kv="10"/>
  </default>
  <worldbody>
    <body><joint name="shoulder" range="-2.9 2.9"/><geom/>
      <body pos="0.3 0 0"><joint name="elbow" range="-3.07 -0.07"/><geom/></body>
    </body>
  </worldbody>
  <actuator>
    <position joint="shoulder" ctrlrange="-2.9 2.9"/>
    <position joint="elbow" ctrlrange="-3.07 -0.07"/>
  </actuator>
</mujoco>
"""


class Arm(gym.Env):
    """Two joints under position control, at rest at HOME; ``tells`` puts the pose into the info of a reset."""

    def __init__(self, tells=False):
        self.model, self.tells = mujoco.MjModel.from_xml_string(ARM), tells
        self.data = mujoco.MjData(self.model)
        low, high = self.model.actuator_ctrlrange.T.astype(np.float32)
        self.action_space = gym.spaces.Box(low, high)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.fastest = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert not options  # what is ours does not reach the environment
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = HOME
        self.fastest = 0.0
        return self.observe(), {"reset_action": self.data.qpos.copy()} if self.tells else {}

    def step(self, action):
        self.data.ctrl[:] = action
        for _ in range(10):
            mujoco.mj_step(self.model, self.data)
            self.fastest = max(self.fastest, float(np.abs(self.data.qvel).max()))
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        return np.concatenate([self.data.qpos, self.data.qvel]).astype(np.float32)


gym.register("HomeArm-v0", Arm, max_episode_steps=20)
gym.register("TellingArm-v0", lambda: Arm(tells=True), max_episode_steps=20)


def limits(**options):
    return RateLimits(
        {"shoulder": SPEED * DT, "elbow": SPEED * DT}, [-2.9, -3.07], [2.9, -0.07], dt=DT, units="rad", **options
    )


def hold(env, steps=25, **reset):
    """Ask for the start pose, step after step; returns the fastest any joint moved, rad/s, and the actions."""
    env.reset(seed=0, **reset)
    for _ in range(steps):
        env.step(HOME.astype(np.float32))
    return env.unwrapped.fastest, env.actions


def test_an_arm_asked_to_hold_its_start_pose_is_not_flung_towards_zero():
    """The joint moved at 42.6 rad/s under a limit of 2.8, with 0 violations counted."""
    with pytest.raises(ValueError, match="reset_action="):
        hold(slewrl.RateLimit(Arm(), limits(), mode="absolute"))
    flung, _ = hold(slewrl.RateLimit(Arm(), limits(), mode="absolute", reset_action={"shoulder": 0, "elbow": -0.07}))
    assert flung > 10 * SPEED  # what used to happen in silence, now on request
    fastest, actions = hold(slewrl.RateLimit(Arm(), limits(reset=HOME), mode="absolute"))
    assert fastest < 0.01 and np.abs(actions - HOME).max() < 1e-6


@pytest.mark.parametrize(
    "source",
    [
        lambda: hold(slewrl.RateLimit(Arm(), limits(), mode="absolute"), options={"reset_action": HOME}),
        lambda: hold(slewrl.RateLimit(Arm(tells=True), limits(), mode="absolute")),
        lambda: hold(
            slewrl.RateLimit(Arm(), limits(), mode="absolute", reset_action=lambda env: env.unwrapped.data.qpos)
        ),
        lambda: hold(slewrl.RateLimit(Arm(), limits(), mode="absolute", reset_action=HOME)),
        lambda: hold(slewrl.RateLimit(Arm(), limits(reset={"shoulder": 0.9, "elbow": "-2"}), mode="absolute")),
    ],
    ids=["options", "info", "callable", "argument", "limits"],
)
def test_every_source_of_the_reset_action_holds_the_arm(source):
    fastest, actions = source()
    assert fastest < 0.01 and np.array_equal(actions[0], HOME.astype(np.float32))


def test_options_come_before_the_environment_and_that_before_the_limits():
    env = slewrl.RateLimit(Arm(tells=True), limits(reset="middle"), mode="absolute")
    env.reset()
    assert np.array_equal(env.reset_action, HOME.astype(np.float32))
    env.reset(options={"reset_action": [0.1, -0.2]})
    assert np.array_equal(env.reset_action, np.float32([0.1, -0.2]))
    env = slewrl.RateLimit(Arm(tells=True), limits(), reset_action=lambda env: [0.3, -0.3])
    env.reset()
    assert np.array_equal(env.reset_action, np.float32([0.3, -0.3]))


def test_nothing_is_asked_of_gymnasiums_own_tasks():
    env = slewrl.RateLimit(gym.make("Pendulum-v1"), 0.1, mode="absolute")
    env.reset()
    assert env.reset_action.tolist() == [0.0]


def test_in_float64_the_first_step_is_limited_from_the_very_pose():
    from fractions import Fraction

    arm = Arm()
    arm.action_space = gym.spaces.Box(*arm.model.actuator_ctrlrange.T, dtype=np.float64)
    pose = np.array([0.1, -0.3])
    env = slewrl.RateLimit(arm, limits(), mode="absolute", reset_action=pose)
    env.reset()
    applied = env.step(np.array([9.0, -9.0]))[4]["applied_action"]
    assert env.reset_action.tolist() == pose.tolist()
    assert all(abs(Fraction(a) - Fraction(p)) <= Fraction(SPEED * DT) for a, p in zip(applied, pose, strict=True))


def test_nobody_else_can_move_the_previous_action():
    env = slewrl.RateLimit(Arm(), limits(reset=HOME), mode="absolute")
    env.reset()
    for array in (env.previous, env.reset_action, env.first.usual):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1.5
    vector = slewrl.RateLimitVector(SyncVectorEnv([Arm, Arm]), limits(reset=HOME), mode="absolute")
    vector.reset()
    vector.step(np.zeros((2, 2), np.float32))
    with pytest.raises(ValueError, match="read-only"):
        vector.previous += 1.5


def test_a_function_that_fails_and_shapes_that_do_not_fit_are_named():
    env = slewrl.RateLimit(Arm(), limits(), reset_action=lambda env: env.data.nothing)
    with pytest.raises(ValueError, match="reset_action, a function of the environment, raised AttributeError"):
        env.reset()
    with pytest.raises(ValueError, match=r"reset_action has shape \(2, 2\), expected \(2,\)"):
        env.reset(options={"reset_action": [HOME, HOME]})
    vector = slewrl.RateLimitVector(SyncVectorEnv([Arm, Arm]), limits())
    with pytest.raises(ValueError, match="reset_action has 3 rows, expected 2"):
        vector.reset(options={"reset_action": [HOME, HOME, HOME]})


def test_the_middle_only_if_the_user_said_so():
    made = limits(reset="middle")
    assert made.reset == pytest.approx([0.0, -1.57])
    assert limits().reset is None


def test_latent_mode_and_augment_warn_once():
    for env in (slewrl.RateLimit(Arm(), limits()), Augment(Arm(), limits())):
        with pytest.warns(UserWarning, match="reset_action"):
            env.reset()
        env.reset()  # a warning would be an error here


def test_nothing_is_asked_where_zero_is_meant():
    """Torques and normalised actions: symmetric, or with 0 at one end; and every preset."""
    for low, high in ((-1.0, 1.0), (0.0, 1.0), (-0.5, 0.0)):
        assert RateLimits(0.1, low, high).why_not_zero() == ""
    for task, name in (("HalfCheetah-v5", "tight"), ("Humanoid-v5", "wide"), ("G1", "paper"), ("H1", "spec")):
        preset = RateLimits.preset(task, name)
        assert preset.why_not_zero() == "" or preset.reset is not None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (limits(), "the limits are in rad"),
        (RateLimits(0.1, [0.5, -1], [2.0, 1]), "outside the range of 'joint0'"),
        (RateLimits(0.1, -2.53, 2.88), "not symmetric"),
        (RateLimits(0.1, -np.float32(np.pi), np.float32(np.pi)), "an angle"),
        (RateLimits(0.1, [-1, -2.967], [1, 2.967]), "'joint1', .*an angle"),
        (RateLimits(0.1, -1, 1, units="joint angle (Rad)"), "the limits are in joint angle"),
    ],
)
def test_why_zero_is_not_clearly_meant(given, reason):
    assert re.search(reason, given.why_not_zero())


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        ([0.0, 0.0], r"'elbow' is 0.0, expected a number in \[-3.07, -0.07\]"),
        ([0.0, float("nan")], r"'elbow' is nan"),
        ([0.0], "1 entries where there are 2 joints"),
        ({"shoulder": 0.1}, "missing joint 'elbow'"),
        ("home", "'home', expected .*middle"),
        (True, "truth values"),
    ],
)
def test_a_bad_reset_action_is_refused_by_name(reset, message):
    with pytest.raises((ValueError, KeyError), match=message):
        limits(reset=reset)
    env = slewrl.RateLimit(Arm(), limits(), mode="absolute")
    with pytest.raises((ValueError, KeyError), match=message):
        env.reset(options={"reset_action": reset})


def test_a_pose_an_ulp_beyond_a_stop_is_moved_into_the_range():
    env = slewrl.RateLimit(Arm(), limits(), mode="absolute", reset_action=[np.float32(2.9), -3.07])
    env.reset()
    assert not env.limits.outside(env.reset_action, env.reset_action).any()


def test_limits_with_a_reset_survive_files_selection_copies_and_pickle(tmp_path):
    import copy
    import pickle

    made = limits(reset=HOME)
    made.to_yaml(tmp_path / "limits.yaml")
    again = RateLimits.from_yaml(tmp_path / "limits.yaml")
    assert again == made and again.reset.tolist() == HOME.tolist()
    assert made != limits() and made.select(["elbow"]).reset.tolist() == [-2.0]
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert copied == made and not copied.reset.flags.writeable
    assert made.with_reset("middle") == limits(reset="middle") and made.with_reset(None) == limits()


def test_a_file_with_a_reset_for_some_joints_only_is_refused(tmp_path):
    path = tmp_path / "limits.yaml"
    limits(reset=HOME).to_yaml(path)
    path.write_text(path.read_text().replace(", reset: -2.0", ""))
    with pytest.raises(KeyError, match="reset_action is missing joint 'elbow'"):
        RateLimits.from_yaml(path)


# ---------------------------------------------------------------------- vectors


class Wandering(Arm):
    """Ends after three steps and begins each episode elsewhere."""

    def reset(self, *, seed=None, options=None):
        seen, _ = super().reset(seed=seed)
        self.taken = 0
        return seen, {"reset_action": self.np_random.uniform([-1, -2], [1, -1])}

    def step(self, action):
        self.taken += 1
        seen, reward, terminated, _, info = super().step(action)
        return seen, reward, terminated, self.taken == 3, info


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_follows_each_environments_own_reset_action(mode):
    env = slewrl.RateLimitVector(SyncVectorEnv([Wandering, Wandering], autoreset_mode=mode), limits(), mode="absolute")
    seen, info = env.reset(seed=3)
    assert np.array_equal(previous_action(seen, 2), info["reset_action"].astype(np.float32))
    over, restarts = np.zeros(2, bool), 0
    for _ in range(12):
        before = previous_action(seen, 2)
        seen, _, terminated, truncated, info = env.step(np.float32([[9, 9], [-9, -9]]))
        prev, ended = previous_action(seen, 2), terminated | truncated
        fresh = over if mode == AutoresetMode.NEXT_STEP else ended
        for k in range(2):
            if fresh[k]:
                restarts += 1
                assert np.array_equal(prev[k], info["reset_action"][k].astype(np.float32))
            else:
                assert not env.limits.outside(prev[k], before[k]).any()
        if ended.any():
            assert sum(use.violations for use in info["rate_use"][ended]) == 0
        over = ended
    assert restarts >= 4


class Telling(gym.Env):
    """Three joints; ends after ``steps`` steps and tells its pose in the info of a reset, in whatever form."""

    def __init__(self, told, steps=9):
        self.told, self.steps = told, steps
        self.action_space = gym.spaces.Box(-2, 2, (3,), np.float32)
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.taken = 0
        return np.zeros(1, np.float32), {} if self.told is None else {"reset_action": self.told}

    def step(self, action):
        self.taken += 1
        return np.zeros(1, np.float32), 0.0, False, self.taken == self.steps, {}


ABC = RateLimits(0.1, -2, 2, names=["a", "b", "c"])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize(
    ("form", "pose"),
    [
        (lambda x: x, lambda x: [x, x, x]),
        (lambda x: [x, 0.0, -x], lambda x: [x, 0.0, -x]),
        (lambda x: {"a": x, "c": -x, "b": 0.0}, lambda x: [x, 0.0, -x]),
        (lambda x: "middle", lambda x: [0.0, 0.0, 0.0]),
    ],
    ids=["number", "list", "mapping", "middle"],
)
def test_each_of_a_vector_tells_in_any_form_and_ends_when_it_likes(form, pose, mode):
    told = [0.5, 0.25, 1.0]
    made = [lambda x=x, n=n: Telling(form(x), n) for x, n in zip(told, (3, 5, 4), strict=True)]
    env = slewrl.RateLimitVector(SyncVectorEnv(made, autoreset_mode=mode), ABC, mode="absolute")
    env.reset()
    for _ in range(12):
        assert env.reset_actions.tolist() == np.float32([pose(x) for x in told]).tolist()
        env.step(np.full((3, 3), 9, np.float32))


def test_a_vector_in_which_only_some_tell_asks_for_the_others():
    def made(x):
        return lambda: Telling(x)

    env = slewrl.RateLimitVector(SyncVectorEnv([made([0.5] * 3), made(None)]), ABC, mode="absolute")
    with pytest.raises(ValueError, match="reset_action"):
        env.reset()
    env = slewrl.RateLimitVector(SyncVectorEnv([made([0.5] * 3), made(None)]), ABC, mode="absolute", reset_action=0.25)
    env.reset()
    assert env.reset_actions.tolist() == [[0.5] * 3, [0.25] * 3]


def test_the_pose_of_an_environment_that_goes_on_is_not_looked_at():
    poses = np.full((2, 3), 0.5)
    env = slewrl.RateLimitVector(
        SyncVectorEnv([lambda: Telling(None, 3), lambda: Telling(None, 9)]),
        ABC,
        mode="absolute",
        reset_action=lambda env: poses,
    )
    env.reset()
    poses[1] = 2.01  # beyond its stop, on its way
    for _ in range(6):
        env.step(np.full((2, 3), 9, np.float32))
    assert env.reset_actions.tolist() == [[0.5] * 3] * 2


def test_a_vector_without_a_reset_action_is_refused_and_one_with_options_is_not():
    env = slewrl.RateLimitVector(SyncVectorEnv([Arm, Arm]), limits(), mode="absolute")
    with pytest.raises(ValueError, match="reset_action"):
        env.reset()
    seen, _ = env.reset(options={"reset_action": [HOME, [0.1, -0.2]]})
    assert np.array_equal(previous_action(seen, 2), np.float32([HOME, [0.1, -0.2]]))
    seen, _ = env.reset(options={"reset_action": HOME})
    assert np.array_equal(previous_action(seen, 2), np.float32([HOME, HOME]))


# ---------------------------------------------------------------------- a step before a reset


@pytest.mark.parametrize("mode", ["latent", "absolute"])
def test_a_step_before_a_reset_is_refused(mode):
    env = slewrl.RateLimit(Arm(), limits(reset=HOME), mode=mode)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step(np.zeros(2, np.float32))
    vector = slewrl.RateLimitVector(SyncVectorEnv([Arm]), limits(reset=HOME), mode=mode)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        vector.step(np.zeros((1, 2), np.float32))


# ---------------------------------------------------------------------- from training to the robot


TRAIN = ("--steps", 60, "--learning-starts", 40, "--evaluate-every", 60, "--evaluate-episodes", 1, "--batch-size", 8)


def trained(slewrl, tmp_path, task, *options):
    limits().to_yaml(tmp_path / "limits.yaml")
    made = slewrl(
        "train", "--task", f"test_reset_action:{task}", "--limits", tmp_path / "limits.yaml", *TRAIN,
        "--set", "agent.hidden=[8]", "--out", tmp_path / "run", *options,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made


@pytest.mark.filterwarnings("default::UserWarning")
def test_train_warns_and_export_refuses_where_nobody_said_it(slewrl, tmp_path):
    made = trained(slewrl, tmp_path, "HomeArm-v0")
    assert "--reset-action" in made.stdout + made.stderr
    refused = slewrl("export", tmp_path / "run", "--out", tmp_path / "policy.bundle", "--trust")
    assert refused.returncode == 2 and "--reset-action" in refused.stderr
    assert not (tmp_path / "policy.bundle").exists()
    said = slewrl(
        "export", tmp_path / "run", "--out", tmp_path / "policy.bundle", "--reset-action", "shoulder=0.9,elbow=-2",
        "--trust",
    )  # fmt: skip
    assert said.returncode == 0 and "shoulder 0.9, elbow -2" in said.stdout.replace("\n", " ")


@pytest.mark.parametrize("option", [("--reset-action", "0.9,-2"), ()])
def test_the_pose_goes_from_training_into_bundle_and_certificate(slewrl, tmp_path, option):
    from slewrl.deploy import bundle
    from slewrl.deploy.controller import Controller

    made = trained(slewrl, tmp_path, "HomeArm-v0" if option else "TellingArm-v0", *option)
    assert "reset_action" not in made.stderr
    done = slewrl("export", tmp_path / "run", "--out", tmp_path / "policy.bundle", "--trust")
    assert done.returncode == 0, done.stderr
    found = bundle.read(tmp_path / "policy.bundle")
    assert found.default_pose.tolist() == HOME.astype(np.float32).astype(np.float64).tolist()
    controller = Controller(tmp_path / "policy.bundle")
    controller.start(HOME)
    assert not controller.ramping  # it is where the policy starts
    other = Controller(tmp_path / "policy.bundle")
    other.start(HOME + np.array([0.5, 0.2]))
    for _ in range(30):
        pose = other.step(np.zeros(4))
        if not other.ramping:
            break
    assert np.abs(pose - HOME).max() < SPEED * DT  # it ramped home, not to 0
    assert slewrl("check", tmp_path / "policy.bundle", "--steps", 500).returncode == 0
    certificate = json.loads((tmp_path / "policy.check" / "certificate.json").read_text())
    assert [float(x) for x in certificate["default_pose"]] == found.default_pose.tolist()
    assert "starts from" in (tmp_path / "policy.check" / "certificate.html").read_text()
