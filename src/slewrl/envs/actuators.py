"""What the actuators of a Gymnasium MuJoCo environment do: their torques and speeds at each control step."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from slewrl.calm.metrics import Effort, effort


class Actuators:
    """Notes torques and speeds after each step; this one knows none, for environments that do not tell."""

    def note(self) -> None:
        """Note the last step."""

    def effort(self) -> Effort | None:
        """The effort of the steps noted since the last call; None where it is not known."""
        return None


class MujocoActuators(Actuators):
    """The actuators of ``env.unwrapped``, one per entry of the action, each on a joint.

    A torque is MuJoCo's ``actuator_force`` times the gear, that at the joint at the end of a control step, and a speed
    is the joint's. What happens between two control steps is not seen.
    """

    def __init__(self, inner: Any, dt: float) -> None:
        self._inner, self._dt, self._gear = inner, dt, inner.model.actuator_gear[:, 0].copy()
        self._seen: list[NDArray[np.float64]] = []

    def note(self) -> None:
        """See ``Actuators``."""
        data = self._inner.data
        self._seen.append(np.stack([data.actuator_force * self._gear, data.actuator_velocity / self._gear]))

    def effort(self) -> Effort | None:
        """See ``Actuators``."""
        torques, speeds = np.stack(self._seen, axis=1)
        self._seen = []
        return effort(torques, speeds, self._dt)


def actuators_of(env: gym.Env[Any, Any], dt: float | None) -> Actuators:
    """The actuators of an environment; those that know nothing, unless it is MuJoCo's with an actuator per action."""
    inner: Any = env.unwrapped
    model: Any = getattr(inner, "model", None)
    if dt is None or not hasattr(model, "actuator_gear") or not hasattr(inner, "data"):
        return Actuators()
    import mujoco  # type: ignore[import-untyped]

    on_joints = (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT).all() and (model.actuator_gear[:, 0] != 0).all()
    if not on_joints or env.action_space.shape != (model.nu,):
        return Actuators()
    return MujocoActuators(inner, dt)
