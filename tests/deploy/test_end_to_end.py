"""From a URDF to commands: limits, a short training run, export, and a Controller that drives the leg in MuJoCo."""

import importlib
import shutil
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from leg_robot import EXAMPLES, JOINTS, leg_limits, slewrl, working_in

from slewrl import RateLimits
from slewrl.deploy.controller import Controller
from slewrl.limits import boxmath
from slewrl.training.policy import load_policy


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with limits.yaml, runs/leg and policy.bundle, as the commands leave them."""
    folder = tmp_path_factory.mktemp("leg")
    for name in ("leg.py", "leg.urdf"):
        shutil.copy(EXAMPLES / name, folder)
    with working_in(folder):
        slewrl("limits", "leg.urdf", "--dt", "0.02", "--safety", "0.9", "--joints", *JOINTS)
        budget = ("--steps", 450, "--learning-starts", 300, "--evaluate-every", 450, "--evaluate-episodes", 1)
        slewrl("train", "--task", "leg:Leg-v0", "--limits", "limits.yaml", *budget, "--out", "runs/leg")
        slewrl("export", "runs/leg", "--out", "policy.bundle", "--trust")
        yield folder


@pytest.fixture
def leg(trained):
    """The module of the task."""
    return importlib.import_module("leg")


def test_limits_are_the_same_all_the_way(trained, leg):
    controller = Controller(trained / "policy.bundle")
    limits = leg_limits()
    assert controller.names == JOINTS == leg.JOINTS and controller.limiter.dt == 0.02
    for key in ("up", "down", "low", "high"):
        assert np.array_equal(getattr(controller.limiter, key), getattr(limits, key)), key


def test_the_controller_drives_the_leg(trained, leg):
    """1,000 steps from a pose measured elsewhere, the ramp included: what MuJoCo's motors got, in exact arithmetic."""
    robot, controller, limits = leg.Leg(), Controller(trained / "policy.bundle"), leg_limits()
    robot.reset(seed=3)
    robot.data.qpos[:] = [0.8, 1.5, -0.5]
    mujoco.mj_forward(robot.model, robot.data)
    controller.start(robot.data.qpos)
    observation = leg.observe(robot.data.qpos, robot.data.qvel, robot.goal)
    got, ramped = [controller.prev], 0
    for _ in range(1_000):
        ramped += controller.ramping
        observation = robot.step(controller.step(observation))[0]
        got.append(robot.data.ctrl.copy())
    chain = np.array(got)
    outside = boxmath.outside(chain[1:], chain[:-1], limits.down, limits.up, limits.low, limits.high)
    assert outside.sum() == 0 and controller.fault is None
    assert 1 < ramped < 20 and np.ptp(chain, axis=0).min() > 0.1
    assert abs(robot.data.qpos - chain[-1]).max() < 0.3  # the joints followed


def recorded(run, episodes):
    """What ``slewrl evaluate`` sees and executes: augmented observations (T, n + d), actions (T, d), by episode."""
    policy, seen, done = load_policy(run, trust=True), [], []

    def act(observation):
        action = policy.act(observation)
        seen.append(observation[0].numpy().copy())
        done.append(action.executed[0].numpy().copy())
        return action

    lengths = replace(policy, act=act).evaluate(episodes).lengths
    ends = np.cumsum(lengths)[:-1]
    return list(zip(np.split(np.array(seen), ends), np.split(np.array(done), ends), strict=True))


def test_commands_are_those_of_the_evaluation(trained):
    """Each episode from its reset action on its own: the controller feeds its own commands back."""
    controller = Controller(trained / "policy.bundle")
    worst, moved = 0.0, 0.0
    for seen, executed in recorded(trained / "runs" / "leg", episodes=3):
        controller.start(seen[0, -3:], ramp=False)
        commands = np.array([controller.step(observation[:-3]) for observation in seen])
        worst, moved = max(worst, abs(commands - executed).max()), max(moved, np.ptp(executed))
    assert worst <= 1e-6 and moved > 1e-3
    print(f"largest difference {worst:.2g} rad, range moved {moved:.2g} rad")


def test_the_limits_in_examples_are_the_urdfs():
    assert RateLimits.from_yaml(EXAMPLES / "leg_limits.yaml") == RateLimits.from_urdf(
        EXAMPLES / "leg.urdf", dt=0.02, safety=0.9
    )
