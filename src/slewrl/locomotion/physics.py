"""N states of a MuJoCo model that step together, on ``mujoco.rollout``.

The state of a world is one row (time, positions, velocities): a rollout starts from it and from nothing else (no warm
start, no derived array), so saving the rows saves everything, whatever the number of threads.
"""

from collections.abc import Sequence
from typing import Any

import mujoco  # type: ignore[import-untyped]
import numpy as np
from mujoco import rollout
from numpy.typing import NDArray

from slewrl.copying import Uncopied

Floats = NDArray[np.float64]


class Physics(Uncopied):
    """See the module.

    Args:
        models: variants of one model, of the same sizes; world k runs ``models[variant[k]]``.
        count: N.
        substeps: physics steps per control step.
        threads: that step the worlds; the numbers do not depend on it.
    """

    instead = "make another one of the same models, and write this one's state into its state"

    def __init__(self, models: Sequence[Any], count: int, substeps: int = 4, threads: int = 1) -> None:
        self.models, self.count, self.substeps = tuple(models), count, substeps
        model = self.models[0]
        self.period = float(substeps * model.opt.timestep)
        """Control period in seconds."""
        self.variant = np.zeros(count, np.int64)
        """(N,): which of the models each world runs."""
        self.state = np.tile(_first_state(model), (count, 1))
        """(N, 1 + nq + nv)"""
        self.time = self.state[:, 0]
        self.qpos, self.qvel = self.state[:, 1 : 1 + model.nq], self.state[:, 1 + model.nq : 1 + model.nq + model.nv]
        """Views into the state, to read and to write."""
        self._sensors = np.zeros((count, substeps, model.nsensordata))
        self._states = np.zeros((count, substeps, self.state.shape[1]))
        self._control = np.zeros((count, substeps, model.nu))
        self.sensors = self._sensors[:, -1]
        """(N, ns): as MuJoCo had them at the beginning of the last physics step."""
        # A world that blows up is counted by whoever steps it; MuJoCo would write a file about it where one stands.
        mujoco.set_mju_user_warning(lambda text: None)
        self._rollout = rollout.Rollout(nthread=threads if threads > 1 else 0)
        self._data = [mujoco.MjData(model) for _ in range(max(threads, 1))]

    def step(self, control: NDArray[Any]) -> NDArray[np.bool_]:
        """One control step with each world's targets (N, nu) held; returns which worlds blew up, (N,).

        MuJoCo puts a world whose state is no longer finite back to its beginning, time included: that is how it shows.
        """
        due = self.time + self.period
        self._control[:] = control[:, None]
        self._rollout.rollout(
            [self.models[v] for v in self.variant],
            self._data,
            self.state,
            self._control,
            state=self._states,
            sensordata=self._sensors,
            skip_checks=True,
            nstep=self.substeps,
        )
        self.state[:] = self._states[:, -1]
        return ~(np.abs(self.time - due) < 0.5 * self.period) | ~np.isfinite(self.state).all(1)


def _first_state(model: Any) -> Floats:
    """The state MuJoCo resets to, (1 + nq + nv,)."""
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    size = mujoco.mj_stateSize(model, kind)
    if size != 1 + model.nq + model.nv:
        raise ValueError(
            f"the model has a state of {size} numbers, expected {1 + model.nq + model.nv} (time, positions, "
            "velocities): actuators and plugins with states of their own are not supported"
        )
    state = np.empty(size)
    data = mujoco.MjData(model)
    mujoco.mj_getState(model, data, state, kind)
    return state
