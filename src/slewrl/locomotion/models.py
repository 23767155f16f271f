"""MuJoCo models of a robot on its ground: variants for domain randomisation, and their sensors."""

import copy
from typing import Any

import mujoco  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from slewrl.locomotion.tasks import Options
from slewrl.locomotion.terrain import Terrain
from slewrl.robots.mjcf import mjcf
from slewrl.robots.spec import RobotSpec


def variants(robot: RobotSpec, terrain: Terrain | None, options: Options, count: int = 16) -> list[Any]:
    """The robot's model, or ``count`` variants with friction and masses drawn from the options' ranges.

    A payload sits where the torso's own mass has its centre, as a point.
    """
    model = mujoco.MjModel.from_xml_string(mjcf(robot, terrain=terrain, visuals=False))
    if terrain is not None:
        model.hfield_data[:] = terrain.hfield_data
    if options.payload:
        model.body(robot.torso).mass[:] += options.payload
        mujoco.mj_setConst(model, mujoco.MjData(model))
    if options.friction == options.mass == (1.0, 1.0):
        return [model]
    rng = np.random.default_rng(0)  # the variants are part of the task, not of a run
    models = [copy.deepcopy(model) for _ in range(count)]
    for each in models:
        each.geom_friction[:, 0] *= rng.uniform(*options.friction)
        factor = rng.uniform(*options.mass, each.nbody)
        each.body_mass *= factor
        each.body_inertia *= factor[:, None]
        mujoco.mj_setConst(each, mujoco.MjData(each))
    return models


def sensor_columns(model: Any) -> dict[str, NDArray[np.int64]]:
    """Columns of the sensor readings, left foot first: foot_pos, foot_quat, foot_vel, foot_force, fall_force."""

    def columns(name: str, first: int = 0) -> list[int]:
        sensor = model.sensor(name)
        return list(range(int(sensor.adr[0]) + first, int(sensor.adr[0] + sensor.dim[0])))

    found = {
        f"foot_{kind}": columns(f"left_foot_{kind}") + columns(f"right_foot_{kind}") for kind in ("pos", "quat", "vel")
    }
    # A contact sensor has the number of contacts, then the force.
    found["foot_force"] = columns("left_foot_contact", 1) + columns("right_foot_contact", 1)
    found["fall_force"] = columns("torso_contact", 1)
    return {name: np.array(at) for name, at in found.items()}
