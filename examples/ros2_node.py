"""A bundle on a ROS 2 robot: joint states in, position commands out, one step of the policy per control period.

    python3 ros2_node.py policy.bundle

Commands go to ros2_control's forward_command_controller as std_msgs/Float64MultiArray. That message carries no names,
so the controller's `joints` parameter has to list the bundle's joints in the bundle's order; this node prints it.
Joint states may come in any order. Put your robot's observation into `observe`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slewrl.deploy.controller import Controller

try:
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64MultiArray
except ImportError as error:
    sys.exit(f"this needs ROS 2 ({error}): source /opt/ros/DISTRO/setup.bash first, and use the Python ROS uses")

Vector = NDArray[np.float64]
GOAL = np.array([0.3, 0.4])  # m, of the toe: what leg.py's policy is told to reach


def observe(position: Vector, velocity: Vector) -> Vector:
    """The observation as in training, without the previous action; here leg.py's. Joints in the bundle's order."""
    return np.concatenate([position, velocity, GOAL])


def in_order(names: tuple[str, ...], message: JointState) -> tuple[Vector, Vector]:
    """Positions [rad] and velocities [rad/s] of ``names``, (d,) each; NaN for what the message leaves out."""
    position, velocity = (dict(zip(message.name, sent, strict=False)) for sent in (message.position, message.velocity))
    return np.array([position.get(name, np.nan) for name in names]), np.array(
        [velocity.get(name, np.nan) for name in names]
    )


class PolicyNode(Node):
    """Runs a controller at the bundle's period.

    It starts from the first whole pose that is measured. Joint states that lack a position, or are older than ``stale``
    seconds (by their stamp if they have one, else by when they came), make an unusable observation: the last command is
    held, and after ``controller.patience`` of them in a row that is a fault, which holds until the node is restarted.
    """

    def __init__(
        self, controller: Controller, observe: Callable[[Vector, Vector], Vector], stale: float | None = None
    ) -> None:
        super().__init__("slewrl_policy")
        self.controller, self.observe = controller, observe
        self.dt = controller.bundle.limits.dt
        if self.dt is None:
            raise ValueError("the bundle has no dt: export it from a run whose limits have one (slewrl limits --dt)")
        self.stale = 2.5 * self.dt if stale is None else stale
        self.unusable = np.full(controller.bundle.observation_size, np.nan)
        self.measured: tuple[Vector, Vector] | None = None
        self.taken = self.stepped = 0  # ns, on this node's clock
        self.started, self.told = False, None
        self.publisher = self.create_publisher(Float64MultiArray, "/forward_position_controller/commands", 1)
        self.create_subscription(JointState, "/joint_states", self.on_joint_state, 1)
        self.create_timer(self.dt, self.on_timer)
        self.get_logger().info(f"commands every {self.dt} s, in this order: {', '.join(controller.names)}")

    def clock(self) -> int:
        """Nanoseconds of this node's clock (simulated if ROS says so)."""
        return int(self.get_clock().now().nanoseconds)

    def on_joint_state(self, message: JointState) -> None:
        """Remember the state; one with none of our joints is another device's."""
        names, stamp, now = self.controller.names, message.header.stamp, self.clock()
        if not set(message.name) & set(names):
            return
        self.measured = position, _ = in_order(names, message)
        self.taken = min(now, stamp.sec * 10**9 + stamp.nanosec or now)  # unset is 0
        if lost := [name for name, x in zip(names, position, strict=True) if not np.isfinite(x)]:
            self.get_logger().warning(f"joint states lack a position of {', '.join(lost)}", throttle_duration_sec=1.0)

    def on_timer(self) -> None:
        """One control step: nothing before there is a pose, then a command every time, moved or held."""
        now = self.clock()
        age, since = (now - self.taken) / 1e9, (now - self.stepped) / 1e9  # s
        fresh = 0 <= age <= self.stale  # a clock set back is no reason to trust an old state
        usable = self.measured is not None and fresh and bool(np.isfinite(self.measured[0]).all())
        if not (usable or self.started):
            self.get_logger().info("waiting for /joint_states", throttle_duration_sec=2.0)
            return
        if not self.started:
            self.controller.start(self.measured[0])
            self.started, since = True, self.dt
        if not fresh:
            self.get_logger().warning(f"joint states are {age:.3f} s old: holding", throttle_duration_sec=1.0)
        observation = self.observe(*self.measured) if usable else self.unusable
        command, self.stepped = self.controller.step(observation, dt=since), now
        self.publisher.publish(Float64MultiArray(data=command.tolist()))
        if self.controller.fault != self.told:
            self.told = self.controller.fault
            self.get_logger().error(f"fault: {self.told}")


def main() -> None:
    """Run until Ctrl-C."""
    if len(sys.argv) < 2:
        sys.exit("usage: python3 ros2_node.py policy.bundle")
    rclpy.init()
    try:
        rclpy.spin(PolicyNode(Controller(Path(sys.argv[1])), observe))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
