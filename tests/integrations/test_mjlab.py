"""The mjlab adapter: on mjlab itself where it is installed (slow, on its CPU backend), else that it says so."""

import importlib.util

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.integrations.mjlab import MjlabVecEnv
from slewrl.metrics import rate_use

TASK = "Mjlab-Velocity-Flat-Unitree-G1"
LIMITS = RateLimits.preset("G1", "paper")
COUNT, SUBSTEPS = 4, 4
INSTALLED = importlib.util.find_spec("mjlab") is not None


@pytest.mark.skipif(INSTALLED, reason="mjlab is here")
def test_without_mjlab_the_error_says_what_to_do():
    with pytest.raises(UserFacingError, match=r"pip install 'slewrl\[mjlab\]'"):
        MjlabVecEnv(TASK, COUNT)


def real(test):
    """Needs mjlab; its own warnings are its own business."""
    skip = pytest.mark.skipif(not INSTALLED, reason="needs mjlab")
    return pytest.mark.slow(pytest.mark.filterwarnings("ignore")(skip(test)))


@pytest.fixture(scope="module")
def vec_env() -> MjlabVecEnv:
    return MjlabVecEnv(TASK, COUNT, device="cpu")


class Physics:
    """Listens at the simulator: controls and joint angles by joint, at every physics step."""

    def __init__(self, vec_env, monkeypatch):
        self.vec_env, self.step = vec_env, vec_env.env.sim.step
        model = vec_env.env.sim.mj_model
        joints = [model.joint(model.actuator_trnid[i, 0]).name.split("/")[-1] for i in range(model.nu)]
        self.columns = [joints.index(joint) for joint in vec_env.rig.joints]
        self.controls, self.angles = [], []
        monkeypatch.setattr(vec_env.env.sim, "step", self)

    def __call__(self):
        self.controls.append(self.vec_env.env.sim.data.ctrl[:, self.columns].numpy().copy())
        self.step()
        self.angles.append(self.vec_env.env.sim.data.qpos[:, 7:].numpy().copy())


def walk(vec_env, steps, scale=2.0):
    """Random latents through DD-SRad; yields what was executed and what came of it."""
    layer, generator = make_layer("ddsrad"), torch.Generator().manual_seed(0)
    for _ in range(steps):
        seen = torch.from_numpy(vec_env.observations)
        box = vec_env.limits.box_after(seen)
        latent = scale * torch.randn(vec_env.count, vec_env.limits.dim, generator=generator)
        executed = layer.decide(latent, box).executed.numpy()
        yield executed, vec_env.step(executed)


@real
def test_actuators_never_break_the_limits_through_falls_and_forced_resets(vec_env, monkeypatch):
    physics = Physics(vec_env, monkeypatch)
    assert vec_env.limits == LIMITS
    vec_env.reset(1)
    previous, episodes, cut = np.tile(vec_env.reset_action, (COUNT, 1)), [], 0
    for t, (executed, moved) in enumerate(walk(vec_env, 60)):
        if t % 10 == 5:  # environment 0's time runs out within the next steps
            vec_env.env.episode_length_buf[0] = vec_env.env.max_episode_length - 2
        held = np.stack(physics.controls[-SUBSTEPS:])
        assert held[:, :, :13].tobytes() == np.stack([executed] * SUBSTEPS).tobytes()
        assert (held[:, :, 13:] == vec_env.rig.default[13:].numpy()).all()
        assert not LIMITS.outside(held[0, :, :13], previous).any()
        previous = np.where(moved.ended[:, None], vec_env.reset_action, held[0, :, :13])
        episodes += vec_env.episodes
        cut += (moved.ended & ~moved.terminated).sum()
    fell = sum(episode.measures["fell"] for episode in episodes)
    assert cut >= 4 and fell >= 2 and len(episodes) == cut + fell
    assert sum(rate_use(episode.actions, LIMITS).violations for episode in episodes) == vec_env.violations() == 0
    assert all((episode.actions[0] == vec_env.reset_action).all() for episode in episodes)
    assert all(0 < episode.measures["vte"] < 5 and episode.measures["exploded"] == 0 for episode in episodes)


@real
def test_the_last_observation_is_of_its_own_episode(vec_env, monkeypatch):
    physics = Physics(vec_env, monkeypatch)
    vec_env.reset(2)
    # The critics' group: velocity, turning, gravity (3 each), then the joint angles without noise.
    angles, default = slice(9, 38), vec_env.rig.default.numpy()
    vec_env.env.episode_length_buf[1] = vec_env.env.max_episode_length - 3
    for executed, moved in walk(vec_env, 3):
        before = physics.angles[-1] - default
        np.testing.assert_allclose(moved.next_obs[:, angles], before, atol=1e-6)
        assert (moved.next_obs[:, -13:] == executed).all()
    assert moved.ended.tolist() == [False, True, False, False] and not moved.terminated.any()
    assert np.abs(before[1]).max() > 0.05
    assert (vec_env.observations[1, angles] == 0).all()  # the next episode begins in the default pose
    assert (vec_env.observations[1, -13:] == vec_env.reset_action).all()
    assert (vec_env.observations[[0, 2, 3]] == moved.next_obs[[0, 2, 3]]).all()  # noise included


@real
def test_layout_and_reset_action(vec_env):
    names = [name for name, _ in vec_env.layout.parts]
    assert names == [
        "base_lin_vel",
        "base_ang_vel",
        "projected_gravity",
        "joint_pos",
        "joint_vel",
        "actions",
        "command",
    ]
    seen = sum(width for _, width in vec_env.layout.parts)
    assert vec_env.layout.size == vec_env.observations.shape[1] == vec_env.layout.privileged + seen + 13
    pose = {"left_hip_pitch": -0.312, "right_knee": 0.669, "left_ankle_pitch": -0.363, "waist_yaw": 0.0}
    for name, angle in pose.items():  # mjlab's knees-bent keyframe
        assert vec_env.reset_action[LIMITS.names.index(name)] == np.float32(angle)


@real
def test_a_seed_gives_the_same_worlds_again(vec_env):
    runs = []
    for _ in range(2):
        vec_env.reset(3)
        runs.append([vec_env.observations.copy(), *(moved.next_obs for _, moved in walk(vec_env, 2))])
    assert all((a == b).all() for a, b in zip(*runs, strict=True))


@real
def test_a_world_that_blows_up_is_counted_and_begins_anew(vec_env):
    vec_env.reset(4)
    seen = vec_env.observations.copy()
    vec_env.env.sim.data.qpos[2, 7] = float("nan")
    moved = vec_env.step(vec_env.history.previous.copy())
    assert moved.terminated.tolist() == moved.ended.tolist() == [False, False, True, False]
    assert (moved.next_obs[2] == seen[2]).all() and moved.reward[2] == 0
    assert vec_env.episodes[0].measures["exploded"] == 1 and vec_env.episodes[0].measures["fell"] == 0
    for _, moved in walk(vec_env, 3):
        assert np.isfinite(moved.next_obs).all() and not moved.ended.any()


@real
def test_a_bias_between_action_and_actuator_is_refused(vec_env):
    """mjlab's own task has one, which the adapter leaves out."""
    vec_env.reset(5)
    assert (vec_env.robot.data.encoder_bias == 0).all()
    vec_env.robot.data.encoder_bias[3, 0] = 1e-3
    try:
        with pytest.raises(RuntimeError, match="'left_hip_pitch_joint' of environment 3 was given .* expected"):
            vec_env.step(vec_env.history.previous.copy())
    finally:
        vec_env.robot.data.encoder_bias[:] = 0


@real
def test_bad_input(monkeypatch):
    with pytest.raises(ValueError, match=f"mjlab has no task 'G1'; it has: .*{TASK}"):
        MjlabVecEnv("G1", COUNT)
    from mjlab.tasks import registry

    effort = next(task for task in registry.list_tasks() if "Cartpole" in task)
    with pytest.raises(ValueError, match="expected joint position targets alone"):
        MjlabVecEnv(effort, COUNT)
    late = registry.load_env_cfg(TASK)
    late.scene.entities["robot"].articulation.actuators[0].delay_max_lag = 2
    monkeypatch.setattr(registry, "load_env_cfg", lambda task: late)
    with pytest.raises(ValueError, match="by 0 to 2 physics steps.*Expected one lag for all"):
        MjlabVecEnv(TASK, COUNT)
