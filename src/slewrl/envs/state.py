"""The exact state of an environment, so that a resumed run steps on bit for bit.

Gymnasium's own MuJoCo environments: everything the integrator carries over, and the derived arrays too, because a task
may read last step's body positions before it steps again. Pendulum: its two numbers. Other environments have no known
state; a run of theirs resumes on a fresh episode, and says so.
"""

from typing import Any

import gymnasium as gym
import numpy as np


def get_state(env: gym.Env[Any, Any]) -> dict[str, Any] | None:
    """What ``set_state`` needs, as numbers and arrays; None if the environment is of no known kind."""
    inner: Any = env.unwrapped
    if not type(inner).__module__.startswith("gymnasium."):
        return None  # it may keep more in its attributes than anybody here knows of
    if hasattr(inner, "data") and hasattr(inner, "model"):
        physics = _mujoco_state(inner)
    elif type(inner).__name__ == "PendulumEnv":
        physics = {"state": np.array(inner.state)}
    else:
        return None
    return {"physics": physics, "elapsed": _elapsed(env), "random": inner.np_random.bit_generator.state}


def set_state(env: gym.Env[Any, Any], state: dict[str, Any]) -> None:
    """Put an environment that has been reset once into a state that ``get_state`` took."""
    inner: Any = env.unwrapped
    physics = state["physics"]
    if "integration" in physics:
        _set_mujoco_state(inner, physics)
    else:
        inner.state = np.array(physics["state"])
    layer: Any = env
    while layer is not inner:
        if isinstance(layer, gym.wrappers.TimeLimit):
            layer._elapsed_steps = state["elapsed"]
        layer = layer.env
    inner.np_random.bit_generator.state = state["random"]


def _elapsed(env: gym.Env[Any, Any]) -> int:
    layer: Any = env
    while layer is not env.unwrapped:
        if isinstance(layer, gym.wrappers.TimeLimit):
            return int(layer._elapsed_steps or 0)
        layer = layer.env
    return 0


def _mujoco_state(inner: Any) -> dict[str, Any]:
    import mujoco  # type: ignore[import-untyped]

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(inner.model, kind))
    mujoco.mj_getState(inner.model, inner.data, integration, kind)
    return {"integration": integration, "derived": {k: v.copy() for k, v in _derived(inner.data).items()}}


def _set_mujoco_state(inner: Any, physics: dict[str, Any]) -> None:
    import mujoco

    mujoco.mj_setState(inner.model, inner.data, np.array(physics["integration"]), mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, array in _derived(inner.data).items():
        saved = np.asarray(physics["derived"][name])
        if array.shape == saved.shape:  # what is sized by the step's contacts is made anew at the next step
            array[...] = saved


def _derived(data: Any) -> dict[str, Any]:
    """The float arrays of MjData, without those of the constraint solver."""
    names = [name for name in dir(data) if not name.startswith(("_", "efc_", "iefc_"))]
    arrays = {name: getattr(data, name) for name in names}
    return {
        k: v for k, v in arrays.items() if isinstance(v, np.ndarray) and v.dtype == np.float64 and v.flags.writeable
    }
