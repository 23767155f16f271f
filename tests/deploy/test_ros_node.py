"""examples/ros2_node.py on a small fake of rclpy: a clock we turn, topics we read. The Controller is the real one."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from leg_robot import EXAMPLES, JOINTS, leg_limits, load_example, write_wild_bundle

from slewrl.deploy.controller import Controller
from slewrl.limits import boxmath

TICK = 20_000_000  # ns
POSE = {"left_hip_pitch_joint": 0.3, "left_knee_joint": 0.9, "left_ankle_joint": -0.2}


class FakeNode:
    """What the example uses of rclpy.node.Node."""

    def __init__(self, name):
        self.now, self.published, self.logged = 1_700_000_000_123_456_789, [], []

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=self.now))

    def get_logger(self):
        def log(level):
            return lambda text, throttle_duration_sec=0.0: self.logged.append((level, text))

        return SimpleNamespace(info=log("info"), warning=log("warning"), error=log("error"))

    def create_publisher(self, kind, topic, depth):
        assert topic == "/forward_position_controller/commands" and kind.__name__ == "Float64MultiArray"
        return SimpleNamespace(publish=lambda message: self.published.append(message.data))

    def create_subscription(self, kind, topic, callback, depth):
        assert topic == "/joint_states" and kind.__name__ == "JointState"

    def create_timer(self, period, callback):
        self.period = period


class JointState(SimpleNamespace):
    def __init__(self, stamp=0, **fields):
        sec, nanosec = divmod(stamp, 10**9)
        super().__init__(header=SimpleNamespace(stamp=SimpleNamespace(sec=sec, nanosec=nanosec)), **fields)


class Float64MultiArray(SimpleNamespace):
    pass


@pytest.fixture
def ros(monkeypatch):
    contents = {
        "rclpy": {},
        "rclpy.executors": {"ExternalShutdownException": type("ExternalShutdownException", (Exception,), {})},
        "rclpy.node": {"Node": FakeNode},
        "sensor_msgs": {},
        "sensor_msgs.msg": {"JointState": JointState},
        "std_msgs": {},
        "std_msgs.msg": {"Float64MultiArray": Float64MultiArray},
    }
    for name, members in contents.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return load_example("ros2_node")


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    return write_wild_bundle(tmp_path_factory.mktemp("ros") / "policy.bundle", leg_limits(), 8)


@pytest.fixture
def node(ros, wild):
    return ros.PolicyNode(Controller(wild, ramp=False), ros.observe)


def state(pose=POSE, velocity=0.0, order=None, stamp=0):
    """A message with the joints in reverse, and one of another device, unless told."""
    names = order or ["gripper", *reversed(list(pose))]
    position = [pose.get(name, 9.0) for name in names]
    return JointState(stamp, name=names, position=position, velocity=[velocity] * len(names))


def tick(node, message=None, after=TICK):
    node.now += after
    if message is not None:
        node.on_joint_state(message)
    node.on_timer()


def assert_within_limits(node, start):
    """Every command from the one before it, decided in exact arithmetic."""
    limits = leg_limits()
    chain = np.array([start, *node.published])
    outside = boxmath.outside(chain[1:], chain[:-1], limits.down, limits.up, limits.low, limits.high)
    assert len(chain) > 1 and not outside.any()


def test_a_command_every_period_in_the_order_of_the_bundle(ros, node, wild):
    assert node.period == 0.02
    assert ("info", f"commands every 0.02 s, in this order: {', '.join(JOINTS)}") in node.logged
    rng, twin = np.random.default_rng(1), Controller(wild, ramp=False)
    twin.start([POSE[name] for name in JOINTS])  # by name: the messages have them in another order, or in two
    for k in range(300):
        pose = {name: float(rng.normal()) for name in POSE} if k else POSE
        order = None if k % 2 else ["left_knee_joint", "left_ankle_joint", "left_hip_pitch_joint"]
        tick(node, state(pose, velocity=0.5, order=order))
        expected = twin.step(np.array([*(pose[name] for name in JOINTS), 0.5, 0.5, 0.5, *ros.GOAL]), dt=0.02)
        assert node.published[-1] == expected.tolist()
    assert len(node.published) == 300 and node.controller.fault is None
    assert_within_limits(node, [POSE[name] for name in JOINTS])
    assert np.ptp(np.array(node.published), axis=0).min() > 0.5  # it did move


def test_it_starts_from_the_measured_pose(node):
    tick(node)
    assert node.published == [] and node.logged[-1] == ("info", "waiting for /joint_states")
    tick(node, JointState(name=["gripper"], position=[0.1], velocity=[]))  # of another device
    assert node.published == []
    node.on_joint_state(state())
    tick(node, after=10 * TICK)  # old by now: nothing to start from
    assert node.published == []
    tick(node, state())
    first, start, limits = np.array(node.published[0]), np.array([POSE[name] for name in JOINTS]), leg_limits()
    assert (abs(first - start) <= limits.delta).all() and (first != start).all()
    assert_within_limits(node, start)


def test_a_far_pose_ramps_to_the_policys_own(ros, wild):
    node = ros.PolicyNode(Controller(wild), ros.observe)
    for _ in range(3):
        tick(node, state())
    knee = np.array(node.published)[:, 1]
    assert np.allclose(knee, [0.9 - 0.252, 0.9 - 2 * 0.252, 0.9 - 3 * 0.252])  # towards 0 at its rate


def test_stale_states_hold_then_are_a_fault(node):
    for _ in range(3):
        tick(node, state())
    moved = node.published[-1]
    tick(node)  # 20 ms old
    tick(node)  # 40
    last = node.published[-1]
    assert last != moved  # two late messages are no reason to stop
    tick(node)  # 60: more than 2.5 periods
    assert node.published[-1] == last and node.logged[-1] == ("warning", "joint states are 0.060 s old: holding")
    tick(node, state())
    assert node.published[-1] != last and node.controller.fault is None  # fresh again: it goes on from there
    held = node.published[-1]
    for _ in range(20):
        tick(node, after=3 * TICK)
    assert all(command == held for command in node.published[-20:])
    errors = [text for level, text in node.logged if level == "error"]
    assert len(errors) == 1 and errors[0].startswith("fault: 5 ") and "in a row" in errors[0]  # said once
    tick(node, state())
    assert node.published[-1] == held  # a fault holds until a restart
    assert_within_limits(node, [POSE[name] for name in JOINTS])


def test_nan_states_are_a_fault(node):
    tick(node, state())
    first = node.published[-1]
    for _ in range(6):
        tick(node, state(velocity=float("nan")))
    assert all(command == first for command in node.published)
    assert [level for level, _ in node.logged].count("error") == 1
    assert node.controller.fault in node.logged[-1][1]


def test_the_measured_period_counts(node):
    """A short step moves less; a late one, or a clock that was set back, never more than a nominal one."""
    start, limits = np.array([POSE[name] for name in JOINTS]), leg_limits()
    tick(node, state())
    for after, share in ((TICK // 4, 0.25), (10 * TICK, 1.0), (-50 * TICK, 0.0), (TICK, 1.0)):
        before = np.array(node.published[-1])
        tick(node, state(), after=after)
        assert (abs(np.array(node.published[-1]) - before) <= share * limits.delta + 1e-12).all()
    assert_within_limits(node, start)


def test_a_clock_set_back_does_not_make_an_old_state_fresh(node):
    tick(node, state())
    first = node.published[-1]
    tick(node, after=-10 * TICK)
    assert node.published[-1] == first and node.logged[-1][0] == "warning"


NAN = float("nan")
LACKING = {
    "a joint": ("left_hip_pitch_joint", state(order=["left_knee_joint", "left_ankle_joint"])),
    "the last position": ("left_ankle_joint", JointState(name=list(POSE), position=[0.3, 0.9], velocity=[0.0] * 3)),
    "every position": (", ".join(JOINTS), JointState(name=list(POSE), position=[], velocity=[])),
    "NaN": ("left_knee_joint", state({**POSE, "left_knee_joint": NAN})),
    "infinity": ("left_knee_joint", state({**POSE, "left_knee_joint": -float("inf")})),
}


@pytest.mark.parametrize(("lost", "message"), LACKING.values(), ids=LACKING)
def test_a_partial_state_is_no_pose_and_no_observation(ros, node, lost, message):
    node.observe = lambda position, velocity: ros.observe(np.nan_to_num(position), np.nan_to_num(velocity))  # hides NaN
    tick(node, message)
    said = [("warning", f"joint states lack a position of {lost}"), ("info", "waiting for /joint_states")]
    assert node.published == [] and node.logged[-2:] == said
    tick(node, state())
    first = node.published[-1]
    tick(node, message)
    assert node.published[-1] == first and node.logged[-1] == said[0] and node.controller.fault is None
    tick(node, state())
    moved = node.published[-1]
    assert moved != first
    for _ in range(6):
        tick(node, message)
    assert all(command == moved for command in node.published[-6:]) and node.controller.fault
    assert_within_limits(node, [POSE[name] for name in JOINTS])


def test_velocities_may_be_left_out_if_the_policy_does_not_see_them(ros, node):
    node.observe = lambda position, velocity: ros.observe(position, 0 * position)
    for _ in range(6):
        tick(node, JointState(name=list(POSE), position=list(POSE.values()), velocity=[]))
    assert node.controller.bad_observations == 0 and len(node.published) == 6


def test_a_state_is_as_old_as_its_stamp(node):
    tick(node, state(stamp=node.now - 2 * TICK))  # 60 ms ago when it is used
    assert node.published == []
    tick(node, state(stamp=node.now))
    tick(node, state(stamp=node.now + 5 * TICK))  # another machine's clock is ahead: then by when it came
    moved = node.published[-1]
    assert node.published[0] != moved
    tick(node, state(stamp=node.now - 2 * TICK))
    assert node.published[-1] == moved and node.logged[-1] == ("warning", "joint states are 0.060 s old: holding")


def test_a_bundle_without_a_period_is_refused(ros, tmp_path):
    limits = leg_limits()
    names = dict(names=limits.names, low=limits.low, high=limits.high)
    path = write_wild_bundle(tmp_path / "policy.bundle", type(limits)(limits.delta, **names), 8)
    with pytest.raises(ValueError, match="the bundle has no dt"):
        ros.PolicyNode(Controller(path), ros.observe)


def test_main_spins_and_leaves_quietly(ros, wild, monkeypatch):
    calls = []

    def spin(node):
        tick(node, state())
        calls.append(len(node.published))
        raise KeyboardInterrupt

    vars(ros.rclpy).update(init=lambda: calls.append("init"), spin=spin, try_shutdown=lambda: calls.append("down"))
    monkeypatch.setattr(sys, "argv", ["ros2_node.py", str(wild)])
    ros.main()
    assert calls == ["init", 1, "down"]
    monkeypatch.setattr(sys, "argv", ["ros2_node.py"])
    with pytest.raises(SystemExit, match="usage"):
        ros.main()


def test_without_ros_it_says_so():
    code = f"import runpy, sys; sys.modules['rclpy'] = None; runpy.run_path({str(EXAMPLES / 'ros2_node.py')!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and result.stderr.startswith("this needs ROS 2 (") and "setup.bash" in result.stderr


def test_the_controller_needs_no_torch(wild):
    """In a fresh process that has none, with a bundle made in this one."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from slewrl.deploy.controller import Controller\n"
        f"controller = Controller({str(wild)!r}, ramp=False); controller.start([0.0] * 3)\n"
        "for _ in range(100): command = controller.step([1.0] * 8)\n"
        "print(controller.steps, controller.fault, len(command))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["100", "None", "3"]
