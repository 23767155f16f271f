"""Controller: a bundle, run on the robot. Imports numpy and onnxruntime, and nothing of torch.

    controller = Controller("policy.bundle")
    controller.start(measured_pose)
    while running:
        send(controller.step(observation))      # every 20 ms, or whatever the bundle's dt is

Whatever the network says, a command leaves through a ``RateLimiter`` in float64, so it is in F_t in exact arithmetic,
and within the budget, if the bundle has one, whichever row of this table applies.
What happens when things go wrong:

=============================================  =========================================================================
NaN or infinity in the observation             the last command is held and the step counted; after ``patience`` of them
                                               in a row the controller is at fault
NaN from the network                           that joint is held; counted as above
an error in ONNX Runtime                       the last command is held, and the controller is at fault
a fault                                        every command is held until ``start``; ``fault`` says why
a short or late step (``step(..., dt=)``)      it moves in proportion, never more than one nominal step
a first pose far from the policy's own         it ramps there at the rate limit or the budget, then hands over to it
a pose outside the range (moved by hand)       joints may only come back, at the rate limit
a hot motor                                    ``derate({"knee": 0.05})``: lower rates from now on
an emergency                                   ``hold()``; ``release()`` goes on from there
a restart                                      ``resume(state)``, with what ``state()`` gave after the last step: the
                                               commands go on as if nothing had happened
=============================================  =========================================================================
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

OUTPUTS = ["action"]
STATE = ("bundle", "prev", "rates", "ramping", "holding", "fault", "bad_in_a_row")
"""What the next command depends on."""


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "prev": (lambda prev: numbers(prev) is not None, "numbers"),
    "ramping": (lambda ramping: isinstance(ramping, bool), "True or False"),
    "holding": (lambda holding: isinstance(holding, bool), "True or False"),
    "fault": (lambda fault: fault is None or isinstance(fault, str), "a reason in words, or None"),
    "bad_in_a_row": (lambda count: _whole(count) and count >= 0, "a whole number >= 0"),
}
"""What a state's entries have to be; the limiter checks the rest."""
LARGEST = float(np.finfo(np.float32).max)
"""An observation as large as this is as good as infinite."""


class Controller(Uncopied):
    """Runs the policy of a bundle, one step at a time.

    Args:
        bundle: a file that ``slewrl export`` wrote, or what ``bundle.read`` gives.
        patience: how many steps in a row with an unusable observation, or NaN from the network, are a fault.
        longest: how many nominal steps' worth a late step may move.
        ramp: whether to go to the bundle's default pose first when started elsewhere.
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
        """Why every command is held, or None."""
        self.ramping = False
        """Whether the next step still goes to the default pose."""
        self._bad_in_a_row = 0
        self._identity = hashlib.sha256(json.dumps(self.bundle.manifest, sort_keys=True).encode()).hexdigest()
        self._session = session(self.bundle)
        n, d = self.bundle.observation_size, len(self.bundle.limits.names)
        self._observation, self._previous, self._action = (np.zeros(size, np.float32) for size in (n, d, d))
        self._seen, self._size, self._finite = np.zeros(n), np.zeros(n), np.zeros(n, bool)
        self._layout = ", ".join(f"{name}: {size}" for name, size in self.bundle.observation)
        self._binding = self._bound()
        self._target = np.clip(self.bundle.default_pose, self.bundle.limits.low, self.bundle.limits.high)

    @property
    def names(self) -> tuple[str, ...]:
        """The joints, in the order of commands."""
        return self.limiter.names

    @property
    def prev(self) -> Vector:
        """The command last handed out: what to ``start`` from after a restart, (d,)."""
        return self.limiter.prev

    def start(self, pose: Sequence[float] | NDArray[Any], ramp: bool | None = None) -> None:
        """Begin from the pose that was measured, or from the command last handed out; clears a fault, not a hold.

        Args:
            pose: (d,), in the units of the limits; where actions are no poses, such as torques, the last command.
            ramp: for this start; default as constructed. A restart in mid-run passes False.
        """
        self.limiter.start(pose)
        self.fault, self._bad_in_a_row = None, 0
        far = np.abs(self.limiter.prev - self._target) > np.minimum(self.limiter.up, self.limiter.down)
        self.ramping = bool(far.any()) and (self.ramp if ramp is None else ramp)

    def step(
        self, observation: Sequence[float] | NDArray[Any], dt: float | None = None, out: Vector | None = None
    ) -> Vector:
        """The next command, (d,), in the units of the limits.

        Args:
            observation: (n,), as in training, without the previous action: this class adds that.
            dt: seconds since the last step, if they were measured.
            out: array (d,) to write to instead of a new one.
        """
        self.steps += 1
        prev, nans = self.limiter._begun(), self.limiter.nans
        usable = self._usable(observation)
        wanted = prev if self.fault is not None or not usable else self._target if self.ramping else self._asked(prev)
        command = self.limiter.step(wanted, dt, out)
        if usable and self.limiter.nans == nans:
            self._bad_in_a_row = 0
        else:
            self._note_bad(usable)
        if self.ramping and self.fault is None:
            self.ramping = not self._arrived(command)
        return command

    def _arrived(self, command: Vector) -> bool:
        """Whether every joint that may move is at the default pose."""
        return bool(((command == self._target) | (self.limiter.rates == 0).all(0)).all())

    def _asked(self, prev: Vector) -> Any:
        """What the policy wants after ``prev``."""
        self._previous[:] = prev
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # a robot needs a command, whatever happens here
            self.fault = f"ONNX Runtime failed ({error}); holding until start(pose)"
            return prev
        return self._action

    def _bound(self) -> Any:
        """The session's inputs and output tied to our arrays, so that a step makes no new ones."""
        binding = self._session.io_binding()
        arrays = {"observation": self._observation, "previous_action": self._previous, "action": self._action}
        for name, array in arrays.items():
            bind = binding.bind_output if name == "action" else binding.bind_input
            bind(name, "cpu", 0, np.float32, (1, len(array)), array.ctypes.data)
        return binding

    def _usable(self, observation: Sequence[float] | NDArray[Any]) -> bool:
        """Take the observation in; False if it holds NaN, infinity, or what float32 has no room for."""
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
                f"{self.patience} unusable steps in a row, at last for NaN in {where}; holding until start(pose)"
            )

    # ------------------------------------------------------------------ over a restart

    def state(self) -> dict[str, Any]:
        """All that the next command depends on, as numbers and words that JSON keeps to the bit."""
        return {
            "bundle": self._identity, "prev": self.limiter.prev.tolist(), "rates": self.limiter.rates.tolist(),
            "ramping": self.ramping, "holding": self.limiter.holding, "fault": self.fault,
            "bad_in_a_row": self._bad_in_a_row,
        }  # fmt: skip

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, in this process or another one, with the same bundle."""
        if not isinstance(state, Mapping) or set(state) != set(STATE):
            raise ValueError(f"the state is {str(state)[:60]!r}, expected what state() gave, with {', '.join(STATE)}")
        if state["bundle"] != self._identity:
            raise ValueError("the state is of another bundle: start(prev) with this one, which may have other limits")
        for key, (fits, expected) in EXPECTED.items():
            if not fits(state[key]):
                raise ValueError(f"the state's {key} is {repr(state[key])[:60]}, expected {expected}")
        trial = copy.copy(self.limiter)  # which refuses what is wrong before anything here has changed
        for limiter in (trial, self.limiter):
            limiter.start(state["prev"])
            limiter.set_rates(state["rates"])
        self.limiter.holding, self.ramping = state["holding"], state["ramping"]
        self.fault, self._bad_in_a_row = state["fault"], state["bad_in_a_row"]

    # ------------------------------------------------------------------ now and then

    def derate(self, rates: Mapping[str, float] | None) -> None:
        """Lower the rates of some joints, ``{joint: change per step}``; None restores them."""
        self.limiter.derate(rates)

    def hold(self) -> None:
        """Hold the last command until ``release``."""
        self.limiter.hold()

    def release(self) -> None:
        """Go on after ``hold``."""
        self.limiter.release()


def session(bundle: Bundle) -> Any:
    """The policy, on one thread: a robot has other things to do, and threads cost more than they save here."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")  # not what the bytes themselves say
    try:
        made = onnxruntime.InferenceSession(bundle.onnx, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each way to fail
        raise BundleError(f"ONNX Runtime cannot load the policy: {error}") from error
    d = len(bundle.limits.names)
    expected = {"observation": bundle.observation_size, "previous_action": d, "action": d}
    entries = [*made.get_inputs(), *made.get_outputs()]
    found = {entry.name: entry.shape[-1] for entry in entries}
    plain = all(entry.type == "tensor(float)" and len(entry.shape) == 2 for entry in entries)
    if found != expected or not plain:
        raise BundleError(f"the policy has {found}, expected {expected}, tables of float32 each")
    return made
