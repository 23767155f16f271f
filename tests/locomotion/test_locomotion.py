"""Walking robots: what is seen, counted and saved."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from slewrl.agents.fastsac import FastSACConfig
from slewrl.layers import make_layer
from slewrl.layers.base import Decision
from slewrl.limits import RateLimits
from slewrl.locomotion import frames
from slewrl.locomotion.env import Locomotion
from slewrl.locomotion.physics import Physics
from slewrl.locomotion.tasks import TASKS, Options
from slewrl.locomotion.terrain import Terrain
from slewrl.robots import ROBOTS
from slewrl.training.evaluate import evaluate_vec_env

ROBOT_TASKS = ["G1-flat", "H1-flat"]
HARSH = Options(noise=2, friction=(0.4, 1.2), mass=(0.8, 1.2), push=1.0, delay=2, resample=0.5, sideways=(-0.5, 0.5))


def vec_env(task="G1-flat", count=4, seed=0, limits="paper", **changes):
    given = {name: changes.pop(name) for name in ("threads", "training") if name in changes}
    chosen = replace(TASKS[task], options=replace(TASKS[task].options, **changes))
    made = Locomotion(chosen, RateLimits.preset(task, limits), count, **given)
    made.reset(seed)
    return made


def wild(of, generator, layer="ddsrad", scale=3.0):
    """Actions of random latents, NaNs and infinities among them."""
    seen = torch.from_numpy(of.observations)
    latent = scale * torch.randn(of.count, of.limits.dim, generator=generator)
    odd = torch.rand(latent.shape, generator=generator)
    latent[odd < 0.01], latent[odd > 0.99] = float("nan"), float("inf")
    box = of.limits.box(seen[:, -of.limits.dim :], check=False)
    return make_layer(layer)(latent, box).executed.numpy()


@pytest.mark.parametrize("layer", ["ddsrad", "boxpro", "srad_ball", "truncnorm"])
@pytest.mark.parametrize("task", ROBOT_TASKS)
def test_no_violation_at_the_actuator(task, layer):
    """Through resets, delays, pushes and randomised models, with everything the actuators were given checked."""
    made = vec_env(task, 8, **{name: getattr(HARSH, name) for name in ("friction", "mass", "push", "delay", "noise")})
    generator, checked, given = torch.Generator().manual_seed(0), 0, []
    step = made.physics.step
    made.physics.step = lambda control: (given.append(control.copy()), step(control))[1]
    running = [[made.reset_action] for _ in range(8)]
    for _ in range(150):
        made.step(wild(made, generator, layer))
        over = iter(made.episodes)
        for k, chain in enumerate(running):
            chain.append(given[-1][k])
            if made.clock[k] == 0:
                assert np.array_equal(next(over).actions, np.stack(chain))  # what is audited is what MuJoCo got
                assert not made.limits.outside(np.stack(chain[1:]), np.stack(chain[:-1])).any()
                checked += len(chain) - 1
                running[k] = [made.reset_action]
    assert made.violations() == 0
    assert checked > 200


def test_a_violation_is_counted():
    made = vec_env(count=2, delay=1, seed=3)
    too_far = made.observations[:, -13:].copy()
    too_far[1, 1] += np.nextafter(np.float32(0.1), np.float32(1))
    for _ in range(3):
        made.step(too_far)
    assert made.violations() == 1


@pytest.mark.parametrize("task", ["G1-flat", "H1-rough"])
def test_a_saved_state_goes_on_to_the_bit(task):
    """In the middle of episodes, with every option on; the number of threads does not matter."""
    changes = {name: getattr(HARSH, name) for name in ("friction", "mass", "push", "delay", "noise", "resample")}
    made, again = vec_env(task, 6, **changes), vec_env(task, 6, seed=9, threads=2, **changes)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        made.step(wild(made, generator))
    again.set_state(made.get_state())
    for _ in range(60):
        actions = wild(made, generator)
        ours, theirs = made.step(actions), again.step(actions)
        for a, b in zip(ours, theirs, strict=True):
            assert np.array_equal(a, b)
        assert np.array_equal(made.observations, again.observations)
        for one, other in zip(made.episodes, again.episodes, strict=True):
            assert one.total == other.total
            assert np.array_equal(one.actions, other.actions)


def test_the_previous_action_is_the_last_of_its_own_episode():
    made = vec_env(count=8)
    generator, ended = torch.Generator().manual_seed(0), 0
    assert np.array_equal(made.observations[:, -13:], np.tile(made.reset_action, (8, 1)))
    for _ in range(120):
        actions = wild(made, generator)
        moved = made.step(actions)
        assert np.array_equal(moved.next_obs[:, -13:], actions)
        fresh = np.where(moved.ended[:, None], made.reset_action, actions)
        assert np.array_equal(made.observations[:, -13:], fresh)
        ended += moved.ended.sum()
        # Before the reset the robot lies; after it, it stands.
        gravity = slice(6, 9)
        assert (made.observations[moved.ended, gravity][:, 2] < -0.8).all()
    assert ended > 8


def test_an_episode_is_cut_off_and_goes_on_in_value():
    made = vec_env(count=2, seconds=0.2)
    hold = made.observations[:, -13:].copy()
    for k in range(10):
        moved = made.step(hold)
        assert (moved.ended == (k == 9)).all()
        assert not moved.terminated.any()
    assert [len(episode.actions) for episode in made.episodes] == [11, 11]
    assert [episode.measures["fell"] for episode in made.episodes] == [0, 0]


def test_a_world_that_blows_up_is_counted_and_begun_anew():
    made = vec_env(count=3)
    made.physics.qvel[1, 8] = 1e12
    before = made.observations.copy()
    moved = made.step(before[:, -13:].copy())
    assert moved.terminated.tolist() == [False, True, False]
    assert [episode.measures["exploded"] for episode in made.episodes] == [1]
    assert np.array_equal(moved.next_obs[1, :-13], before[1, :-13])
    assert moved.reward[1] == 0
    for _ in range(5):
        moved = made.step(made.observations[:, -13:].copy())
        assert np.isfinite(moved.next_obs).all()
        assert np.isfinite(made.physics.state).all()


@pytest.mark.parametrize("task", ["G1-flat", "H1-flat"])
def test_the_mirror_image_of_a_world_is_a_world(task):
    """Environment 1 is the mirror image of environment 0: so are its observations, and its rewards are the same.

    Nearly, since torso and pelvis are not quite symmetric (a centre of mass is 3 mm off the middle).
    """
    made = vec_env(task, 2, noise=0, heading=False)
    mirror, physics, d = made.layout.mirror, made.physics, made.limits.dim
    rng = np.random.default_rng(0)
    physics.qpos[0, 3:7] = [0.98, 0.1, 0.1, 0.12] / np.linalg.norm([0.98, 0.1, 0.1, 0.12])
    physics.qvel[0, :6] = rng.normal(size=6) * 0.3
    physics.qpos[:, 2] += 1.0  # in the air
    physics.qpos[1, :7] = physics.qpos[0, :7] * [1, -1, 1, 1, -1, 1, -1]
    physics.qpos[1, 7:] = mirror.action_sign * physics.qpos[0, 7 + mirror.action_index]
    physics.qvel[1, :6] = physics.qvel[0, :6] * [1, -1, 1, -1, 1, -1]
    physics.qvel[1, 6:] = mirror.action_sign * physics.qvel[0, 6 + mirror.action_index]
    made.command[0] = [0.5, 0.2, 0.3]
    made.command[1] = made.command[0] * [1, -1, -1]
    made.frequency[:] = 1.0
    made.first_phase[:] = np.pi / 2, -np.pi / 2
    for _ in range(3):
        action = made.reset_action + rng.uniform(-0.1, 0.1, d).astype(np.float32)
        image = mirror.action_sign * action[mirror.action_index]
        moved = made.step(np.stack([action, image]).astype(np.float32))
        assert not moved.ended.any()
        seen = moved.next_obs
        assert seen[1] == pytest.approx(mirror.observation_sign * seen[0, mirror.observation_index], abs=5e-3)
        assert moved.reward[1] == pytest.approx(moved.reward[0], abs=5e-4)


def test_what_is_seen_is_what_is():
    made = vec_env(count=1, noise=0)
    physics = made.physics
    yaw = 0.7
    physics.qpos[0, 3:7] = np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)
    physics.qvel[0, :6] = 0.3 * np.cos(yaw), 0.3 * np.sin(yaw), -0.1, 0.01, 0.02, 0.5
    seen = dict(zip(("velocity", "turning", "gravity"), made._observe(np.arange(1))[0, :9].reshape(3, 3), strict=True))
    assert seen["velocity"] == pytest.approx([0.3, 0, -0.1], abs=1e-6)
    assert seen["turning"] == pytest.approx([0.01, 0.02, 0.5], abs=1e-6)
    assert seen["gravity"] == pytest.approx([0, 0, -1], abs=1e-6)
    assert sum(size for _, size in made.layout.parts) + made.layout.privileged + 13 == made.layout.size == 55


def test_gravity_and_headings_of_any_attitude_are_mujocos():
    rng = np.random.default_rng(0)
    quaternions = rng.normal(size=(50, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    qvel = rng.normal(size=(50, 6))
    base = frames.base(np.concatenate([np.zeros((50, 3)), quaternions], 1), qvel)
    for k in range(50):
        flat = np.zeros(9)
        mujoco.mju_quat2Mat(flat, quaternions[k])
        matrix = flat.reshape(3, 3)
        assert base.gravity[k] == pytest.approx(matrix.T @ [0, 0, -1], abs=1e-12)
        assert base.yaw_rate[k] == pytest.approx((matrix @ qvel[k, 3:])[2], abs=1e-12)
        ahead = matrix[:2, 0] / np.linalg.norm(matrix[:2, 0])
        assert base.forward[k] == pytest.approx(ahead, abs=1e-9)
        assert base.velocity[k, 0] == pytest.approx(ahead @ qvel[k, :2], abs=1e-9)


def test_commands():
    made = vec_env("H1-flat", 256, standing=0.25)
    forward, sideways, turning = made.command.T
    stands = forward == 0
    assert 0.15 < stands.mean() < 0.35
    assert (turning[stands] == 0).all()
    assert (sideways == 0).all()
    assert ((forward >= 0) & (forward <= 1)).all()
    yaw = frames.yaw(frames.heading(made.physics.qpos[:, 3:7]))
    left = frames.wrapped(made.target_heading - yaw)[~stands]
    assert turning[~stands] == pytest.approx(np.clip(left / 2, -1, 1))  # stiffness .5
    assert (made._phase(np.flatnonzero(stands)) == np.pi).all()


def test_the_curriculum_follows_episode_lengths():
    made = vec_env(count=4, seconds=1.0)
    assert made.curriculum == 0
    hold = made.observations[:, -13:].copy()
    for _ in range(50):
        made.step(hold)
    assert made.mean_length == pytest.approx(50 * (1 - (1 - 4 / 16)))  # four of 4 x 4
    assert made.curriculum == pytest.approx(made.mean_length / 150)
    assert vec_env(count=1, training=False).curriculum == 1


def test_practice_is_shorter_and_begins_in_motion():
    """While training only: an evaluation begins at rest and lasts its full time."""
    chosen = {"running": 0.5, "practice": 0.1, "noise": 0, "forward": (0.4, 0.4), "standing": 0.0}
    made = vec_env(count=64, **chosen)
    seen, command = made.observations[:, [0, 1, 5]], made.command  # of a base that stands upright
    shares = seen[:, 0] / 0.4
    assert np.allclose(seen, shares[:, None] * command, atol=1e-6)
    assert 0 <= shares.min() < 0.05 and 0.45 < shares.max() <= 0.5
    assert [len(e.actions) for _ in range(5) for e in (made.step(made.given[:, 0]), made.episodes)[1]] == [6] * 64
    judged = vec_env(count=2, training=False, **chosen)
    assert not judged.physics.qvel[:, :6].any() and judged.length == 1000


def test_returns_are_in_the_papers_units():
    """G1's are sums of rewards, H1's are times .02 s; what an agent learns from is times .02 s for both."""
    for task, unit in (("G1-flat", 0.02), ("H1-flat", 1.0)):
        made = vec_env(task, 1, seconds=0.1)
        rewards = [float(made.step(made.observations[:, -made.limits.dim :].copy()).reward[0]) for _ in range(5)]
        assert made.episodes[0].total == pytest.approx(sum(rewards) / unit, rel=1e-5)
        terms = [value for name, value in made.episodes[0].measures.items() if name.startswith("reward_")]
        assert sum(terms) * 5 * 0.02 == pytest.approx(sum(rewards), rel=1e-5)


def test_a_velocity_error_is_a_mean_over_steps():
    made, errors = vec_env(count=1, seconds=0.04), []
    moment = made._moment
    made._moment = lambda base: (seen := moment(base), errors.append(seen.velocity[0] - made.command[0, :2]))[0]
    for _ in range(2):
        made.step(made.observations[:, -13:].copy())
    assert made.episodes[0].measures["vte"] == pytest.approx(np.linalg.norm(errors, axis=1).mean())


def test_rough_ground_lies_where_the_robot_stands():
    """On every tile the robot begins with its soles on the ground, and the scan says how far down that is."""
    made = vec_env("H1-rough", 32, noise=0, training=False)
    scan = dict(made.layout.parts)["height_scan"]
    heights = made.observations[:, -scan - 10 : -10]
    middle = heights[:, scan // 2]  # below the base
    assert middle.min() > -1e-5  # nobody begins inside the ground
    assert middle.max() < 0.1  # the highest bump of a noisy tile is what the robot begins on
    touched = np.zeros(32, bool)
    for _ in range(10):
        made.step(made.observations[:, -10:].copy())
        touched |= np.abs(made.physics.sensors[:, made.sensor["foot_force"]]).sum(1) > 10
    assert touched.all()


def test_physics_does_not_depend_on_threads_or_neighbours():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='9 9 1'/><body pos='0 0 .3'><freejoint/><geom size='.1'/>"
        "<body><joint name='j'/><geom type='capsule' size='.05' fromto='0 0 0 .3 0 0'/></body></body></worldbody>"
        "<actuator><position joint='j' kp='20'/></actuator></mujoco>"
    )
    alone, many = Physics([model], 1), Physics([model], 16, threads=2)
    rng = np.random.default_rng(0)
    for physics in (alone, many):
        physics.qvel[:, :3] = [1, 0.5, 0]
    for _ in range(40):
        control = rng.uniform(-1, 1, (16, 1))
        control[7] = 0.3
        assert not many.step(control).any()
        alone.step(control[7:8])
        assert np.array_equal(alone.state[0], many.state[7])
    assert many.period == pytest.approx(4 * model.opt.timestep)


def test_limits_of_another_robot_are_refused():
    with pytest.raises(ValueError, match="expected G1's: left_hip_pitch"):
        Locomotion(TASKS["G1-flat"], RateLimits.preset("H1", "paper"), 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("friction", 0.5), ("friction", (0.0, 1.0)), ("mass", (1.2, 0.8)), ("forward", (0, float("nan"))), ("delay", 0.5),
     ("delay", -1), ("seconds", 0), ("standing", 1.5), ("noise", -1), ("push", "hard")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"task.{name} is"):
        Options(**{name: value})


def test_an_evaluation_takes_the_first_episode_of_each_world():
    """So that environments which fall often do not count more often; the same whatever is run side by side after it."""
    limits = RateLimits.preset("G1-flat", "paper")

    def act(observation):
        prev = observation[:, -13:]
        return Decision(prev, prev + 1.0)  # holds, and judges what lies far outside

    def make(count):
        return Locomotion(TASKS["G1-flat"], limits, count, training=False)

    result = evaluate_vec_env(act, make, 5, seed=7)
    vec_env, lengths = make(5), {}
    vec_env.reset(7)
    while len(lengths) < 5:
        ended = vec_env.step(vec_env.observations[:, -13:].copy()).ended
        for k, episode in zip(np.flatnonzero(ended), vec_env.episodes, strict=True):
            lengths.setdefault(k, len(episode.actions) - 1)
    assert result.lengths.tolist() == [lengths[k] for k in range(5)]
    assert result.raw_violations == result.lengths.sum() * 13
    row = result.row()
    assert row["fell"] == 1 and row["violations"] == 0 and row["utilisation"] == 0
    by_step = np.average([m["vte"] for m in result.measures], weights=result.lengths)
    assert row["vte"] == pytest.approx(by_step)
    assert [episode["fell"] for episode in result.episodes()] == [1] * 5


def test_limits_of_another_control_period_are_refused():
    """Half the rated speed at 25 Hz would be all of it at 50 Hz."""
    limits = ROBOTS["h1"].rate_limits(safety="0.5", dt="0.04")
    with pytest.raises(ValueError, match="a control step takes 0.02 s, but the limits are per step of 0.04 s"):
        Locomotion(TASKS["H1-flat"], limits, 1)


def test_a_limit_wider_than_the_range_is_the_datasheets_or_refused():
    robot = ROBOTS["g1"]
    for share in ("1", "0.9"):  # G1's ankles could roll across their whole range in a step
        Locomotion(TASKS["G1-flat"], robot.rate_limits(safety=share), 1)
    paper = robot.rate_limits("paper")
    delta = np.where([name == "left_knee" for name in paper.names], 3.0, paper.delta)
    wide = RateLimits(delta, paper.low, paper.high, names=paper.names, dt=0.02)
    with pytest.raises(ValueError, match="'left_knee': a limit of 3.0 rad per step is larger than its range"):
        Locomotion(TASKS["G1-flat"], wide, 1)


def test_there_is_no_mirror_image_under_limits_of_one_side():
    paper = ROBOTS["g1"].rate_limits("paper")
    assert Locomotion(TASKS["G1-flat"], paper, 1).layout.mirror is not None
    delta = np.where([name == "left_knee" for name in paper.names], 0.05, paper.delta)
    derated = RateLimits(delta, paper.low, paper.high, names=paper.names, dt=0.02)
    assert Locomotion(TASKS["G1-flat"], derated, 1).layout.mirror is None


def test_rough_levels_are_judged_by_the_commands_that_were_followed(monkeypatch):
    """At the end of an episode another command is drawn; an environment that blew up keeps its level."""
    made = vec_env("H1-rough", 4, seconds=1.0, resample=1.0, forward=(0.5, 0.5), standing=0.0, noise=0)
    made.level[:] = 3
    seen, promote = [], Terrain.promote
    monkeypatch.setattr(Terrain, "promote", lambda *given: seen.append(given[1:4]) or promote(*given))
    hold = made.observations[:, -10:].copy()
    for step in range(50):
        if step == 49:
            made.physics.qvel[3, 8] = 1e12
            made.options = replace(made.options, forward=(9.0, 9.0))
        made.step(hold)
    ((level, _, asked),) = seen
    assert level.tolist() == [3, 3, 3] and asked == pytest.approx([0.5] * 3)
    assert made.level[3] == 3


def test_switches_are_true_or_false():
    with pytest.raises(ValueError, match="task.heading is 'no', expected true or false"):
        Options(heading="no")
    for name in ("symmetry", "normalize", "compile"):
        with pytest.raises(ValueError, match=f"{name} is 'no', expected true or false"):
            FastSACConfig(**{name: "no"})
