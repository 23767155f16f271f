"""The mjlab adapter: on mjlab itself where it is installed (slow, on its CPU backend), else that it says so."""

import importlib.util

import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.integrations.mjlab import MjlabWorlds
from slewrl.metrics import rate_use

TASK = "Mjlab-Velocity-Flat-Unitree-G1"
LIMITS = RateLimits.preset("G1", "paper")
COUNT, SUBSTEPS = 4, 4
INSTALLED = importlib.util.find_spec("mjlab") is not None


@pytest.mark.skipif(INSTALLED, reason="mjlab is here")
def test_without_mjlab_the_error_says_what_to_do():
    with pytest.raises(UserFacingError, match=r"pip install 'slewrl\[mjlab\]'"):
        MjlabWorlds(TASK, COUNT)


def real(test):
    """Needs mjlab; its own warnings are its own business."""
    skip = pytest.mark.skipif(not INSTALLED, reason="needs mjlab")
    return pytest.mark.slow(pytest.mark.filterwarnings("ignore")(skip(test)))


@pytest.fixture(scope="module")
def worlds() -> MjlabWorlds:
    return MjlabWorlds(TASK, COUNT, device="cpu")


class Physics:
    """Listens at the simulator: controls and joint angles by joint, at every physics step."""

    def __init__(self, worlds, monkeypatch):
        self.worlds, self.step = worlds, worlds.env.sim.step
        model = worlds.env.sim.mj_model
        joints = [model.joint(model.actuator_trnid[i, 0]).name.split("/")[-1] for i in range(model.nu)]
        self.columns = [joints.index(joint) for joint in worlds.rig.joints]
        self.controls, self.angles = [], []
        monkeypatch.setattr(worlds.env.sim, "step", self)

    def __call__(self):
        self.controls.append(self.worlds.env.sim.data.ctrl[:, self.columns].numpy().copy())
        self.step()
        self.angles.append(self.worlds.env.sim.data.qpos[:, 7:].numpy().copy())


def walk(worlds, steps, scale=2.0):
    """Random latents through DD-SRad; yields what was executed and what came of it."""
    layer, generator = make_layer("ddsrad"), torch.Generator().manual_seed(0)
    for _ in range(steps):
        seen = torch.from_numpy(worlds.observations)
        box = worlds.limits.box_after(seen)
        latent = scale * torch.randn(worlds.count, worlds.limits.dim, generator=generator)
        executed = layer.decide(latent, box).executed.numpy()
        yield executed, worlds.step(executed)


@real
def test_actuators_never_break_the_limits_through_falls_and_forced_resets(worlds, monkeypatch):
    physics = Physics(worlds, monkeypatch)
    assert worlds.limits == LIMITS
    worlds.reset(1)
    previous, episodes, cut = np.tile(worlds.reset_action, (COUNT, 1)), [], 0
    for t, (executed, moved) in enumerate(walk(worlds, 60)):
        if t % 10 == 5:  # world 0's time runs out within the next steps
            worlds.env.episode_length_buf[0] = worlds.env.max_episode_length - 2
        held = np.stack(physics.controls[-SUBSTEPS:])
        assert held[:, :, :13].tobytes() == np.stack([executed] * SUBSTEPS).tobytes()
        assert (held[:, :, 13:] == worlds.rig.default[13:].numpy()).all()
        assert not LIMITS.outside(held[0, :, :13], previous).any()
        previous = np.where(moved.ended[:, None], worlds.reset_action, held[0, :, :13])
        episodes += worlds.episodes
        cut += (moved.ended & ~moved.terminated).sum()
    fell = sum(episode.measures["fell"] for episode in episodes)
    assert cut >= 4 and fell >= 2 and len(episodes) == cut + fell
    assert sum(rate_use(episode.actions, LIMITS).violations for episode in episodes) == worlds.violations() == 0
    assert all((episode.actions[0] == worlds.reset_action).all() for episode in episodes)
    assert all(0 < episode.measures["vte"] < 5 and episode.measures["exploded"] == 0 for episode in episodes)


@real
def test_the_last_observation_is_of_its_own_episode(worlds, monkeypatch):
    physics = Physics(worlds, monkeypatch)
    worlds.reset(2)
    # The critics' group: velocity, turning, gravity (3 each), then the joint angles without noise.
    angles, default = slice(9, 38), worlds.rig.default.numpy()
    worlds.env.episode_length_buf[1] = worlds.env.max_episode_length - 3
    for executed, moved in walk(worlds, 3):
        before = physics.angles[-1] - default
        np.testing.assert_allclose(moved.next_obs[:, angles], before, atol=1e-6)
        assert (moved.next_obs[:, -13:] == executed).all()
    assert moved.ended.tolist() == [False, True, False, False] and not moved.terminated.any()
    assert np.abs(before[1]).max() > 0.05
    assert (worlds.observations[1, angles] == 0).all()  # the next episode begins in the default pose
    assert (worlds.observations[1, -13:] == worlds.reset_action).all()
    assert (worlds.observations[[0, 2, 3]] == moved.next_obs[[0, 2, 3]]).all()  # noise included


@real
def test_layout_and_reset_action(worlds):
    names = [name for name, _ in worlds.layout.parts]
    assert names == [
        "base_lin_vel",
        "base_ang_vel",
        "projected_gravity",
        "joint_pos",
        "joint_vel",
        "actions",
        "command",
    ]
    seen = sum(width for _, width in worlds.layout.parts)
    assert worlds.layout.size == worlds.observations.shape[1] == worlds.layout.privileged + seen + 13
    pose = {"left_hip_pitch": -0.312, "right_knee": 0.669, "left_ankle_pitch": -0.363, "waist_yaw": 0.0}
    for name, angle in pose.items():  # mjlab's knees-bent keyframe
        assert worlds.reset_action[LIMITS.names.index(name)] == np.float32(angle)


@real
def test_a_seed_gives_the_same_worlds_again(worlds):
    runs = []
    for _ in range(2):
        worlds.reset(3)
        runs.append([worlds.observations.copy(), *(moved.next_obs for _, moved in walk(worlds, 2))])
    assert all((a == b).all() for a, b in zip(*runs, strict=True))


@real
def test_a_world_that_blows_up_is_counted_and_begins_anew(worlds):
    worlds.reset(4)
    seen = worlds.observations.copy()
    worlds.env.sim.data.qpos[2, 7] = float("nan")
    moved = worlds.step(worlds.history.previous.copy())
    assert moved.terminated.tolist() == moved.ended.tolist() == [False, False, True, False]
    assert (moved.next_obs[2] == seen[2]).all() and moved.reward[2] == 0
    assert worlds.episodes[0].measures["exploded"] == 1 and worlds.episodes[0].measures["fell"] == 0
    for _, moved in walk(worlds, 3):
        assert np.isfinite(moved.next_obs).all() and not moved.ended.any()


@real
def test_a_bias_between_action_and_actuator_is_refused(worlds):
    """mjlab's own task has one, which the adapter leaves out."""
    worlds.reset(5)
    assert (worlds.robot.data.encoder_bias == 0).all()
    worlds.robot.data.encoder_bias[3, 0] = 1e-3
    try:
        with pytest.raises(RuntimeError, match="'left_hip_pitch_joint' of environment 3 was given .* expected"):
            worlds.step(worlds.history.previous.copy())
    finally:
        worlds.robot.data.encoder_bias[:] = 0


@real
def test_bad_input(monkeypatch):
    with pytest.raises(ValueError, match=f"mjlab has no task 'G1'; it has: .*{TASK}"):
        MjlabWorlds("G1", COUNT)
    from mjlab.tasks import registry

    effort = next(task for task in registry.list_tasks() if "Cartpole" in task)
    with pytest.raises(ValueError, match="expected joint position targets alone"):
        MjlabWorlds(effort, COUNT)
    late = registry.load_env_cfg(TASK)
    late.scene.entities["robot"].articulation.actuators[0].delay_max_lag = 2
    monkeypatch.setattr(registry, "load_env_cfg", lambda task: late)
    with pytest.raises(ValueError, match="by 0 to 2 physics steps.*Expected one lag for all"):
        MjlabWorlds(TASK, COUNT)
