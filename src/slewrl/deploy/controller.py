"""Controller: a bundle, run on the robot. Imports numpy and onnxruntime, and nothing of torch.

    controller = Controller("policy.bundle")
    controller.start(measured_pose)
    while running:
        send(controller.step(observation))      # every 20 ms, or whatever the bundle's dt is

Every command leaves through a ``RateLimiter`` in float64, so it is in F_t in exact arithmetic and within the budget, if
the bundle has one. An unusable observation or output holds the last command; docs/datasheet_to_robot.md has the table
of failures and reactions. With an acceleration limit, to hold is to come to rest as fast as allowed, and then to stay.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from slewrl.copying import Uncopied
from slewrl.deploy.bundle import Bundle, BundleError, read
from slewrl.deploy.limiter import RateLimiter, Vector, fill, numbers

STATE = ("bundle", "prev", "rates", "ramping", "holding", "fault", "bad_in_a_row")
"""The entries of a state: everything that the next command depends on."""
MOVING = ("velocity", "accelerations", "brakes")
"""The entries that a state has in addition with an acceleration limit."""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "prev": (lambda prev: numbers(prev) is not None, "numbers"),
    "ramping": (lambda ramping: isinstance(ramping, bool), "True or False"),
    "holding": (lambda holding: isinstance(holding, bool), "True or False"),
    "fault": (lambda fault: fault is None or isinstance(fault, str), "a reason in words, or None"),
    "bad_in_a_row": (lambda count: _whole(count) and count >= 0, "a whole number >= 0"),
}
"""Entry of a state -> its check and a description of valid values; the limiter checks the others."""
EXPECTED_MOVING = {key: EXPECTED["prev"] for key in MOVING}
LARGEST = float(np.finfo(np.float32).max)
"""The bound on observations; an entry at or beyond it counts as infinite."""


class Controller(Uncopied):
    """Runs the policy of a bundle, one step at a time.

    Args:
        bundle: path of a file that ``slewrl export`` wrote, or a ``Bundle``.
        patience: number of consecutive steps with an unusable observation, or NaN from the network, that is a fault.
        longest: the most that a late step may move, in nominal steps, >= 1.
        ramp: whether to move to the bundle's default pose first when started elsewhere.
    """

    instead = "make another one, Controller(bundle), and let it resume(state) with what this one's state() gives"

    def __init__(
        self, bundle: str | Path | Bundle, *, patience: int = 5, longest: float = 1.0, ramp: bool = True
    ) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else read(bundle)
        if not _whole(patience) or patience < 1:
            raise ValueError(f"patience is {patience!r}, expected a whole number of at least 1")
        if not isinstance(ramp, bool):
            raise ValueError(f"ramp is {ramp!r}, expected True or False")
        self.patience, self.ramp = patience, ramp
        self.limiter = RateLimiter(self.bundle.limits, longest=longest, budget=self.bundle.budget)
        self.steps, self.bad_observations, self.bad_outputs = 0, 0, 0
        self.fault: str | None = None
        """The reason why every command is held, or None."""
        self.ramping = False
        """Whether the controller is still moving to the default pose."""
        self._bad_in_a_row = 0
        self._identity = hashlib.sha256(json.dumps(self.bundle.manifest, sort_keys=True).encode()).hexdigest()
        self._session = session(self.bundle)
        n, d = self.bundle.observation_size, len(self.bundle.limits.names)
        self._observation, self._previous, self._velocity, self._action = (
            np.zeros(size, np.float32) for size in (n, d, d, d)
        )
        self._seen, self._size, self._finite = np.zeros(n), np.zeros(n), np.zeros(n, bool)
        self._layout = ", ".join(f"{name}: {size}" for name, size in self.bundle.observation)
        self._binding = self._bind()
        self._target = np.clip(self.bundle.default_pose, self.bundle.limits.low, self.bundle.limits.high)
        if self.limiter.motion is not None:
            self._target = self.limiter.motion.nearest(self._target)

    @property
    def names(self) -> tuple[str, ...]:
        """The joint names, in the order of commands."""
        return self.limiter.names

    @property
    def prev(self) -> Vector:
        """The last command, (d,), from which to ``start`` after a restart."""
        return self.limiter.prev

    @property
    def velocity(self) -> Vector:
        """The last increment, (d,), with an acceleration limit, with which to ``start`` after a restart."""
        return self.limiter.velocity

    def start(
        self,
        pose: Sequence[float] | NDArray[Any],
        ramp: bool | None = None,
        velocity: Sequence[float] | NDArray[Any] | None = None,
    ) -> None:
        """Start from the measured pose or from the last command. This clears a fault, but not a hold.

        Args:
            pose: measured pose (d,), in the units of the limits; for actions such as torques, the last command.
            ramp: whether to ramp this time; default as constructed. Pass False for a restart in operation.
            velocity: the last increment (d,), for bundles with an acceleration limit; default: at rest.
        """
        self.limiter.start(pose, velocity)
        self.fault, self._bad_in_a_row = None, 0
        far = np.abs(self.limiter.prev - self._target) > np.minimum(self.limiter.up, self.limiter.down)
        self.ramping = bool(far.any()) and (self.ramp if ramp is None else ramp)

    def step(
        self, observation: Sequence[float] | NDArray[Any], dt: float | None = None, out: Vector | None = None
    ) -> Vector:
        """Compute the next command, (d,), in the units of the limits.

        Args:
            observation: observation (n,) as in training, without the previous action, which this class adds.
            dt: measured seconds since the last step; default: one nominal step.
            out: float64 array (d,) to write to; default: a new one.
        """
        self.steps += 1
        prev, nans = self.limiter._started(), self.limiter.nans
        usable = self._usable(observation)
        if self.fault is not None or not usable:
            wanted: Any = prev
        else:
            wanted = self._target if self.ramping else self._ask_policy(prev)
        if self.limiter.motion is not None:  # the policy's actions are in F_t already, and say themselves where to stop
            self.limiter.motion.stop_at_target = self.ramping
        command = self.limiter.step(wanted, dt, out)
        if usable and self.limiter.nans == nans:
            self._bad_in_a_row = 0
        else:
            self._note_bad(usable)
        if self.ramping and self.fault is None:
            self.ramping = not self._arrived(command)
        return command

    def _arrived(self, command: Vector) -> bool:
        """Whether every joint is at the default pose and at rest; one derated to 0 never arrives."""
        away, motion = command != self._target, self.limiter.motion
        if motion is None:
            return not (away & (self.limiter.rates > 0).any(0)).any()
        can_move = (motion.limits.up > 0) | (motion.limits.down > 0)
        return not ((away & can_move) | (motion.velocity != 0)).any()

    def _ask_policy(self, prev: Vector) -> Any:
        """Evaluate the policy after ``prev``."""
        self._previous[:] = prev
        if self.limiter.motion is not None:
            self._velocity[:] = self.limiter.velocity
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # the robot needs a command, whatever fails here
            self.fault = f"ONNX Runtime failed ({error}); holding until start(pose)"
            return prev
        return self._action

    def _bind(self) -> Any:
        """Bind the session's inputs and output to preallocated arrays."""
        binding = self._session.io_binding()
        arrays = {"observation": self._observation, "previous_action": self._previous, "action": self._action}
        if self.limiter.motion is not None:
            arrays["previous_velocity"] = self._velocity
        for name, array in arrays.items():
            bind = binding.bind_output if name == "action" else binding.bind_input
            bind(name, "cpu", 0, np.float32, (1, len(array)), array.ctypes.data)
        return binding

    def _usable(self, observation: Sequence[float] | NDArray[Any]) -> bool:
        """Copy the observation; return False if it has NaN, infinity, or a value too large for float32."""
        fill(self._seen, observation, f"observation ({self._layout})")
        np.abs(self._seen, out=self._size)
        np.less(self._size, LARGEST, out=self._finite)  # False for NaN
        if np.count_nonzero(self._finite) < len(self._finite):
            return False
        self._observation[:] = self._seen
        return True

    def _note_bad(self, usable: bool) -> None:
        self.bad_observations += not usable
        self.bad_outputs += usable
        self._bad_in_a_row += 1
        if self._bad_in_a_row >= self.patience and self.fault is None:
            where = "the network's output" if usable else "the observation"
            self.fault = (
                f"{self.patience} unusable steps in a row, the last with NaN in {where}; holding until start(pose)"
            )

    def state(self) -> dict[str, Any]:
        """Return everything that the next command depends on, in types that JSON stores losslessly."""
        motion = self.limiter.motion
        moving = {} if motion is None else {
            "velocity": self.limiter.velocity.tolist(), "accelerations": self.limiter.accelerations.tolist(),
            "brakes": motion.limits.deceleration.tolist(),
        }  # fmt: skip
        return {
            "bundle": self._identity, "prev": self.limiter.prev.tolist(), "rates": self.limiter.rates.tolist(),
            "ramping": self.ramping, "holding": self.limiter.holding, "fault": self.fault,
            "bad_in_a_row": self._bad_in_a_row, **moving,
        }  # fmt: skip

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``, taken in this or another process with the same bundle."""
        moving = self.limiter.motion is not None
        entries, expected_of = ((*STATE, *MOVING), EXPECTED | EXPECTED_MOVING) if moving else (STATE, EXPECTED)
        if not isinstance(state, Mapping) or set(state) != set(entries):
            raise ValueError(f"the state is {str(state)[:60]!r}, expected what state() gave, with {', '.join(entries)}")
        if state["bundle"] != self._identity:
            raise ValueError("the state is of another bundle: start(prev) with this one, which may have other limits")
        for key, (fits, expected) in expected_of.items():
            if not fits(state[key]):
                raise ValueError(f"the state's {key} is {repr(state[key])[:60]}, expected {expected}")
        trial = copy.copy(self.limiter)  # a bad state is refused before anything here changes
        for limiter in (trial, self.limiter):
            if moving:
                limiter.set_accelerations(state["accelerations"], state["brakes"])
            limiter.start(state["prev"], state["velocity"] if moving else None)
            limiter.set_rates(state["rates"])
        self.limiter.holding, self.ramping = state["holding"], state["ramping"]
        self.fault, self._bad_in_a_row = state["fault"], state["bad_in_a_row"]

    def derate(self, rates: Mapping[str, float] | None) -> None:
        """Lower the rates of some joints, ``{joint: change per step}``; None restores all of them."""
        self.limiter.derate(rates)

    def derate_acceleration(
        self, acceleration: Mapping[str, float] | None, deceleration: Mapping[str, float] | None = None
    ) -> None:
        """Lower the acceleration of some joints, ``{joint: per step squared}``; see ``RateLimiter``."""
        self.limiter.derate_acceleration(acceleration, deceleration)

    def hold(self) -> None:
        """Hold the last command until ``release``; with an acceleration limit, come to rest first."""
        self.limiter.hold()

    def release(self) -> None:
        """Resume after ``hold``."""
        self.limiter.release()


def session(bundle: Bundle) -> Any:
    """Make a single-threaded ONNX Runtime session of the policy; for such small networks threads cost more time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")  # do not let the bytes choose the format
    try:
        made = onnxruntime.InferenceSession(bundle.onnx, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many unrelated exception classes
        raise BundleError(f"ONNX Runtime cannot load the policy: {error}") from error
    d = len(bundle.limits.names)
    expected = {"observation": bundle.observation_size, "previous_action": d, "action": d}
    if bundle.limits.acceleration is not None:
        expected["previous_velocity"] = d
    entries = [*made.get_inputs(), *made.get_outputs()]
    found = {entry.name: entry.shape[-1] for entry in entries}
    plain = all(entry.type == "tensor(float)" and len(entry.shape) == 2 for entry in entries)
    if found != expected or not plain:
        raise BundleError(f"the policy has {found}, expected {expected}, each a float32 tensor of two dimensions")
    return made
