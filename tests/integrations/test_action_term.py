"""The joint position action term: its arithmetic, IsaacLab's on a fake, and mjlab's on mjlab itself (slow)."""

import importlib
import importlib.util
import sys
from types import SimpleNamespace

import fake_isaaclab as fake
import numpy as np
import pytest
import torch

from slewrl import RateLimits, make_layer
from slewrl.errors import UserFacingError
from slewrl.integrations.action_term import Guard, LimitedCommands, find_guard, previous_action
from slewrl.limits.viability import brake
from slewrl.metrics import rate_use

LIMITS = RateLimits.preset("H1", "paper")
SHARP = RateLimits(**LIMITS._parts() | {"acceleration": 15, "deceleration": 25})
"""The same with an acceleration limit, per second squared at 50 Hz."""
COUNT = 4
MJLAB = importlib.util.find_spec("mjlab") is not None


def wild(steps, joints, seed=0):
    """What no policy should send: far, sudden, infinite and NaN."""
    generator = torch.Generator().manual_seed(seed)
    for t in range(steps):
        action = 3 * torch.randn(COUNT, joints, generator=generator)
        action[t % COUNT, t % joints] = (float("nan"), float("inf"), -float("inf"), 1e30)[t % 4]
        yield action


# ---------------------------------------------------------------------- the arithmetic


@pytest.mark.parametrize("layer", [None, "ddsrad", "boxpro", "interval_tanh"])
def test_commands_stay_in_its_limits_whatever_comes(limits_family, layer):
    for limits in limits_family.values():
        commands = LimitedCommands(limits, limits.clamp(torch.zeros(COUNT, limits.dim)), layer and make_layer(layer))
        rows = [commands.last.numpy().copy()]
        for action in wild(60, limits.dim):
            moved = commands.move(action).numpy()
            nan = action.isnan().numpy()
            assert (moved[nan] == rows[-1][nan]).all()  # held
            rows.append(moved.copy())
        episodes = np.stack(rows, 1)
        assert sum(rate_use(one, limits).violations for one in episodes) == 0
        assert commands.nans == 15


def test_a_clip_by_hand():
    limits = RateLimits({"hip": 0.25, "knee": 0.5}, -1.0, 1.0)
    commands = LimitedCommands(limits, torch.zeros(2, 2))
    asked = torch.tensor([[0.125, -5.0], [float("nan"), 0.25]])
    moved = commands.move(asked)
    assert moved.tolist() == [[0.125, pytest.approx(-0.5, abs=1e-6)], [0.0, 0.25]] and moved[0, 1] >= -0.5
    commands.restart(torch.full((2, 2), 0.75), torch.tensor([1]))
    assert commands.last.tolist() == [moved[0].tolist(), [0.75, 0.75]]
    assert commands.nans == 1


def test_commands_made_outside_inference_mode_can_be_moved_inside_and_reset_outside():
    commands = LimitedCommands(LIMITS, torch.zeros(1, 10))
    with torch.inference_mode():
        commands.move(torch.ones(1, 10))
    commands.restart(torch.zeros(1, 10))
    assert (commands.last == 0).all() and not commands.last.is_inference()


@pytest.mark.parametrize("layer", [None, "ddsrad", "boxpro", "interval_tanh"])
def test_under_an_acceleration_limit_commands_keep_it_through_restarts(layer):
    """Robot 1 restarts at every seventh step, at speed."""
    start = SHARP.clamp(torch.zeros(COUNT, SHARP.dim))
    commands = LimitedCommands(SHARP, start, layer and make_layer(layer))
    episodes, over = [[row] for row in start.numpy()], []
    for t, action in enumerate(wild(150, SHARP.dim), start=1):
        before, velocity = commands.last.clone(), commands.velocity.clone()
        moved = commands.move(action + (3 if t % 40 < 20 else -3)).clone()  # a drift, so that joints gather speed
        assert torch.equal(commands.appended, torch.cat([moved - before, moved], -1))
        rest = brake(velocity.double().numpy(), SHARP.grid.deceleration * SHARP.grid.unit)
        nan = action.isnan().numpy()
        assert ((moved - before).double().numpy()[nan] == rest[nan]).all()  # as fast as allowed
        for episode, row in zip(episodes, moved.numpy(), strict=True):
            episode.append(row)
        if t % 7 == 0:
            commands.restart(start, torch.tensor([1]))
            over.append(episodes[1])
            episodes[1] = [start[1].numpy()]
            assert not commands.velocity[1].any() and torch.equal(commands.last[1], start[1])
    chains = [np.array(chain) for chain in (*episodes, *over)]
    assert sum(rate_use(chain, SHARP).violations for chain in chains) == 0
    assert max(np.abs(np.diff(chain, axis=0)).max() for chain in chains) > 0.05  # eight times what a step may add


def test_a_clip_under_an_acceleration_limit_stops_at_its_target():
    commands = LimitedCommands(SHARP, SHARP.clamp(torch.zeros(1, SHARP.dim)))
    target = torch.full((1, SHARP.dim), 0.25)
    path = torch.cat([commands.move(target).clone() for _ in range(60)])
    assert (path <= 0.25).all() and torch.equal(commands.last, SHARP.clamp(target)) and not commands.velocity.any()


def test_targets_behind_a_bias_follow_their_commands_without_braking_for_them():
    """What mjlab's term does with its encoder bias: two limited sequences, a constant and a rounding apart."""
    limits = RateLimits([0.05] * 3, -3, 3, acceleration=0.005)
    start, bias = torch.zeros(1, 3), torch.tensor([[-0.01, 0.0123, 0.1]])
    commands = LimitedCommands(limits, limits.clamp(start), make_layer("ddsrad"))
    targets = LimitedCommands(limits, limits.clamp(start - bias))
    rows, speeds = [targets.last[0].numpy().copy()], []
    for t in range(200):
        wanted = commands.move(torch.tensor([[2.0, -1.0, float("inf")]]) * (1 if t % 60 < 30 else -1)) - bias
        assert ((targets.follow(wanted) - wanted).abs() <= 2 * limits.grid.unit[0]).all()
        rows.append(targets.last[0].numpy().copy())
        speeds.append(targets.velocity.abs().max().item())
    assert rate_use(np.array(rows), limits).violations == 0 and max(speeds) > 0.0499


def test_without_an_acceleration_limit_following_is_the_clip(limits_family):
    for limits in limits_family.values():
        one, other = (LimitedCommands(limits, limits.clamp(torch.zeros(COUNT, limits.dim))) for _ in range(2))
        for action in wild(20, limits.dim):
            assert torch.equal(one.move(action), other.follow(action)) and torch.equal(one.appended, one.last)
        assert one.velocity is None


# ---------------------------------------------------------------------- finding limits for joints


def robot(joints=("left_knee_joint", "torso_joint", "right_knee_joint")):
    data = SimpleNamespace(
        default_joint_pos=torch.zeros(COUNT, len(joints)),
        joint_pos_limits=torch.tensor([-1.5, 2.0]).expand(COUNT, len(joints), 2),
    )
    return SimpleNamespace(joint_names=list(joints), data=data)


def guard(limits, driven=None, period=0.02, **said):
    body = robot()
    cfg = {"layer": None, "hold_others": False, "scale": 1.0, "offset": 0.0, "clip": None, **said}
    return Guard(SimpleNamespace(limits=limits, **cfg), body, driven or body.joint_names, period)


def test_limits_are_matched_by_name_and_put_in_the_order_of_actions(tmp_path):
    by_name = RateLimits({"right_knee": 0.3, "waist_yaw": 0.2, "left_knee": 0.1}, -1, 1)
    made = guard(by_name)
    assert made.limits.names == ("left_knee", "waist_yaw", "right_knee")  # G1's waist is an older model's torso
    assert made.limits.delta.tolist() == [0.1, 0.2, 0.3] and made.ids.tolist() == [0, 1, 2]
    by_name.to_yaml(tmp_path / "limits.yaml")
    assert guard(str(tmp_path / "limits.yaml")).limits == made.limits
    # Limits of the whole robot for a term of one joint.
    assert guard(by_name, ["right_knee_joint"]).limits.delta.tolist() == [0.3]


def test_a_number_takes_the_simulators_ranges():
    limits = guard(0.1).limits
    assert limits.delta.tolist() == [0.1] * 3 and limits.names == ("left_knee", "torso", "right_knee")
    assert limits.low.tolist() == [-1.5] * 3 and limits.high.tolist() == [2.0] * 3 and limits.dt == 0.02


@pytest.mark.parametrize(
    ("limits", "said", "message"),
    [
        (None, {}, "limits are missing"),
        ("paper", {}, "expected TASK:PRESET such as 'G1:paper', or a limits.yaml"),
        ([0.1, 0.2], {}, "2 .*3|3 .*2"),
        ({"left_knee": 0.1, "tail": 0.2}, {}, "tail"),
        (RateLimits({"left_knee": 0.1, "tail": 0.2}, -1, 1), {}, "name a joint 'tail' that the robot has not; it has"),
        (RateLimits({"left_knee": 0.1}, -1, 1), {}, "no limits for torso_joint, right_knee_joint: .*hold_others=True"),
        (RateLimits([0.1] * 3, -1, 1), {}, "'joint0' that the robot has not"),
        (RateLimits({"left_knee": 0.1}, -1, 1), {"driven": ["torso_joint"]}, "none of the term's joints: torso_joint"),
        (RateLimits({"left_knee": 0.1}, -1, 1, dt=0.01), {}, "a control step takes 0.02 s, .*per step of 0.01 s"),
        (0.1, {"layer": "none"}, "'none' limits nothing"),
        (0.1, {"layer": "ddsrad", "scale": 0.25}, "scale is 0.25, but with layer='ddsrad' actions are latents"),
        (0.1, {"layer": "ddsrad", "clip": {".*": (-1, 1)}}, "clip is .*: leave clip out, or set layer=None"),
    ],
)
def test_bad_input(limits, said, message):
    with pytest.raises((ValueError, KeyError), match=message):
        guard(limits, **said)


# ---------------------------------------------------------------------- IsaacLab


@pytest.fixture
def isaac(monkeypatch):
    """The module, imported with the fake in IsaacLab's place."""
    fake.install(monkeypatch, fake.Config("recorder"))
    name = "slewrl.integrations.isaaclab_action"
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


def isaac_env(isaac, **said):
    config = fake.Config("recorder")
    config.scene.num_envs = COUNT
    said = {"asset_name": "robot", "joint_names": [".*"], "limits": LIMITS, "hold_others": True, **said}
    config.actions.joint_pos = isaac.RateLimitedJointPositionActionCfg(**said)
    env = fake.FakeEnv(config)
    env.reset(seed=0)
    return env


COLUMNS = sorted(fake.JOINTS.index(name) for name in LIMITS.names)
ORDERED = LIMITS.select(fake.JOINTS[i] for i in COLUMNS)


@pytest.mark.parametrize("layer", [None, "ddsrad"])
def test_isaaclabs_actuators_never_break_the_limits_through_resets(isaac, layer):
    env = isaac_env(isaac, layer=layer, scale=1.0 if layer else 0.5)
    assert env.term.action_dim == 10 and env.term.guard.limits == ORDERED
    start = env.robot.default[:, COLUMNS].numpy()
    previous, broken, ends = start, 0, 0
    for action in wild(60, 10):
        *_, terminated, truncated, _ = env.step(action)
        given = env.targets[-1][:, COLUMNS].numpy()
        broken += ORDERED.outside(given, previous).sum()
        over = (terminated | truncated).numpy()
        ends += over.sum()
        previous = np.where(over[:, None], start, given)
        assert (previous_action(env).numpy() == previous).all()
    assert broken == 0 and ends == 60 // 3 + 60 // 5
    others = [i for i in range(len(fake.JOINTS)) if i not in COLUMNS]
    assert (torch.stack(env.targets)[:, :, others] == env.robot.default[:, others]).all()  # they hold


@pytest.mark.parametrize("layer", [None, "ddsrad"])
def test_so_they_do_under_an_acceleration_limit_and_show_their_history(isaac, layer):
    env = isaac_env(isaac, limits=SHARP, layer=layer, scale=1.0 if layer else 0.5)
    limits = env.term.guard.limits
    assert limits.grid is not None and limits.names == ORDERED.names
    start = limits.clamp(env.robot.default[:, COLUMNS]).numpy()
    previous = before = start
    broken = 0
    for action in wild(60, 10):
        *_, terminated, truncated, _ = env.step(action)
        given = env.targets[-1][:, COLUMNS].numpy()
        broken += limits.outside(given, previous, before).sum()
        over = (terminated | truncated).numpy()[:, None]
        previous, before = np.where(over, start, given), np.where(over, start, previous)
        assert (previous_action(env).numpy() == np.concatenate([previous - before, previous], 1)).all()
    assert broken == 0


def test_isaaclabs_own_term_breaks_them(isaac):
    """The same without the guard, for contrast; and that a clip in action units, scaled after it, is no guard."""
    env = isaac_env(isaac, class_type=fake.JointPositionAction, joint_names=list(LIMITS.names), scale=0.5)
    scale, delta = 0.5, torch.from_numpy(ORDERED.delta).float()
    start = env.robot.default[:, COLUMNS].numpy()
    previous, last, broken = start, torch.zeros(COUNT, 10), 0
    for action in wild(60, 10):
        last = torch.clamp(action.nan_to_num(0), last - delta / scale, last + delta / scale)
        *_, terminated, truncated, _ = env.step(last)
        given = env.targets[-1][:, COLUMNS].numpy()
        step = ORDERED.outside(given, previous) & (given > ORDERED.low) & (given < ORDERED.high)
        broken += step.sum()  # by the rate alone: this clip knows no range
        assert (np.abs(given - previous) < ORDERED.delta * (1 + 1e-5)).all()  # by roundings
        over = terminated | truncated
        last[over] = 0.0
        previous = np.where(over.numpy()[:, None], start, given)
    assert broken > 100


def test_a_policy_that_keeps_to_the_limits_is_not_changed(isaac):
    env = isaac_env(isaac, scale=1.0, use_default_offset=False)
    commands = LimitedCommands(ORDERED, env.term.guard.start())
    for action in wild(20, 10):
        wanted = commands.move(0.2 * action).clone()
        env.step(wanted)
        assert (env.targets[-1][:, COLUMNS] == wanted).all()
        commands.restart(env.term.guard.start(), env.clock == 0)


def test_find_guard_says_what_is_missing(isaac):
    env = isaac_env(isaac, class_type=fake.JointPositionAction)
    with pytest.raises(ValueError, match="0 of the action terms joint_pos have rate limits, expected one"):
        find_guard(env)


def test_without_the_simulators_the_errors_say_what_to_do():
    with pytest.raises(UserFacingError, match="IsaacLab cannot be imported .*: install it with Isaac Sim"):
        importlib.import_module("slewrl.integrations.isaaclab_action")
    if not MJLAB:
        with pytest.raises(UserFacingError, match=r"pip install 'slewrl\[mjlab\]'"):
            importlib.import_module("slewrl.integrations.mjlab_action")


# ---------------------------------------------------------------------- mjlab

TASK = "Mjlab-Velocity-Flat-Unitree-G1"
G1 = RateLimits.preset("G1", "paper")


def real(test):
    """Needs mjlab; its own warnings are its own business."""
    skip = pytest.mark.skipif(not MJLAB, reason="needs mjlab")
    return pytest.mark.slow(pytest.mark.filterwarnings("ignore")(skip(test)))


@pytest.fixture(scope="module")
def mjlab_env():
    """mjlab's own task, its encoder bias included, with the guard in place of its action term."""
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import load_env_cfg

    from slewrl.integrations.mjlab_action import RateLimitedJointPositionActionCfg

    config = load_env_cfg(TASK)
    config.scene.num_envs = COUNT
    own = {**vars(config.actions["joint_pos"]), "scale": 0.5}
    config.actions["joint_pos"] = RateLimitedJointPositionActionCfg(**own, limits="G1:paper", hold_others=True)
    env = ManagerBasedRlEnv(config, device="cpu")
    env.reset(seed=0)
    return env


@real
def test_mjlabs_actuators_never_break_the_limits_through_falls_and_forced_resets(mjlab_env, monkeypatch):
    from slewrl.integrations.mjlab_action import ActuatorAudit

    env = mjlab_env
    term = env.action_manager.get_term("joint_pos")
    monkeypatch.setattr(env.sim, "step", env.sim.step)  # put back at the end
    monkeypatch.setattr(env.action_manager, "process_action", env.action_manager.process_action)
    audit, ends = ActuatorAudit(env, G1), 0
    assert (env.scene["robot"].data.encoder_bias[:, term.guard.ids] != 0).all()
    for t, action in enumerate(wild(60, 13)):
        if t % 10 == 5:
            env.episode_length_buf[0] = env.max_episode_length - 2
        *_, terminated, truncated, _ = env.step(action)
        over = terminated | truncated
        ends += int(over.sum())
        assert (previous_action(env)[over] == term.guard.start()[over]).all()
    assert ends >= 6 and audit.steps == 60 * COUNT
    assert audit.violations == 0 and audit.worst == 0, str(audit)
    held = env.scene["robot"].data.joint_pos_target[~over][:, term.guard.held]
    assert len(term.guard.held) == 16 and (held == term.guard._pose()[0, term.guard.held]).all()


@real
def test_the_clip_by_hand_breaks_them_and_the_audit_sees_it(mjlab_env, monkeypatch):
    """mjlab's own term, and a clip in action units before it, to rate and range: all the rest is rounding."""
    from mjlab.envs.mdp.actions import JointPositionActionCfg

    from slewrl.integrations.mjlab_action import ActuatorAudit

    env, scale = mjlab_env, 0.5
    guard = env.action_manager.get_term("joint_pos").guard
    own = JointPositionActionCfg(entity_name="robot", actuator_names=guard.patterns, scale=scale)
    monkeypatch.setattr(env.sim, "step", env.sim.step)
    monkeypatch.setattr(env.action_manager, "process_action", env.action_manager.process_action)
    monkeypatch.setitem(env.action_manager._terms, "joint_pos", own.build(env))
    audit = ActuatorAudit(env, G1)
    env.reset(seed=0)
    delta, low, high = (torch.from_numpy(x.copy()).float() for x in (guard.limits.delta, G1.low, G1.high))
    pose, bias = guard.start(), env.scene["robot"].data.encoder_bias[:, guard.ids]
    bottom, top = (low + 0.01 - pose + bias) / scale, (high - 0.01 - pose + bias) / scale
    last = torch.zeros(COUNT, 13)
    for action in wild(20, 13):
        wanted = torch.clamp(action.nan_to_num(0), bottom, top)
        last = torch.clamp(wanted, last - delta / scale, last + delta / scale)
        *_, terminated, truncated, _ = env.step(last)
        last[terminated | truncated] = 0.0
    print(audit)
    assert guard.limits == G1 and audit.violations > 50 and 0 < audit.worst < 1e-6, str(audit)


@real
def test_a_guarded_task_can_be_logged_and_set_from_a_command_line(mjlab_env):
    """mjlab writes its configuration to a file, and makes options of it."""
    import dataclasses

    import mjlab
    import tyro
    import yaml

    made = mjlab_env.cfg.actions["joint_pos"]
    assert "G1:paper" in yaml.dump(dataclasses.asdict(made))
    parsed = tyro.cli(type(made), args=["--hold-others", "False"], default=made, config=mjlab.TYRO_FLAGS)
    assert parsed.limits == "G1:paper" and not parsed.hold_others
