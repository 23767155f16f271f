"""N states of a MuJoCo model that step together, on ``mujoco.rollout``.

A state is one row (time, positions, velocities), which a step depends on alone: there is no warm start, and the
number of threads does not matter.
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
    """``count`` environments, of which number k runs ``models[variant[k]]``, a variant of one model."""

    instead = "make another one of the same models, and write this one's state into its state"

    def __init__(self, models: Sequence[Any], count: int, substeps: int = 4, threads: int = 1) -> None:
        self.models, self.count, self.substeps = tuple(models), count, substeps
        model = self.models[0]
        self.period = float(substeps * model.opt.timestep)
        """Control period in seconds."""
        self.variant = np.zeros(count, np.int64)
        """(N,): which of the models each environment runs."""
        self.state = np.tile(_first_state(model), (count, 1))
        """(N, 1 + nq + nv)"""
        self.time = self.state[:, 0]
        self.qpos, self.qvel = self.state[:, 1 : 1 + model.nq], self.state[:, 1 + model.nq : 1 + model.nq + model.nv]
        """Views into the state, to read and to write."""
        self._sensors = np.zeros((count, substeps, model.nsensordata))
        self._states = np.zeros((count, substeps, self.state.shape[1]))
        self._control = np.zeros((count, substeps, model.nu))
        self.sensors = self._sensors[:, -1]
        """(N, ns): sensor values at the beginning of the last physics step."""
        # The caller counts environments that blow up; MuJoCo would write a log file to the working directory.
        mujoco.set_mju_user_warning(lambda text: None)
        self._rollout = rollout.Rollout(nthread=threads if threads > 1 else 0)
        self._data = [mujoco.MjData(model) for _ in range(max(threads, 1))]

    def step(self, control: NDArray[Any]) -> NDArray[np.bool_]:
        """One control step with the targets (N, nu) held; returns which environments blew up, (N,).

        MuJoCo resets an environment whose state is no longer finite, which shows in its time.
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

    def place(self, qpos: Floats, qvel: Floats) -> None:
        """Put the environments into states (N, nq) and (N, nv) without a step, and read the sensors there."""
        self.qpos[:], self.qvel[:] = qpos, qvel
        for k, v in enumerate(self.variant):
            data = self._data[0]
            mujoco.mj_resetData(self.models[v], data)
            data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
            mujoco.mj_forward(self.models[v], data)
            self.sensors[k] = data.sensordata


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
