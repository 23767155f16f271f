"""The exact state of an environment, so that a resumed run steps on bit for bit.

Of Gymnasium's own MuJoCo environments it is the integrator's state and the derived arrays, since a task may read the
body positions of the last step. Of Pendulum it is two numbers. A run of any other environment resumes on a fresh
episode.
"""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from slewrl.copying import Copied


class Remembers:
    """A wrapper with a memory that a checkpoint has to hold."""

    memory: NDArray[Any]
    """All that its next step depends on."""


class CopiedEpisode(Copied):
    """A wrapper whose copies continue the episode, where a copy of a Gymnasium environment would begin anew."""

    def __getstate__(self) -> dict[str, Any]:
        inner = self.unwrapped  # type: ignore[attr-defined]
        if isinstance(inner, gym.vector.VectorEnv) and not hasattr(inner, "envs"):
            raise TypeError(
                f"{inner} cannot be copied: its environments are out of reach, as those in other processes are; make "
                "another, or use a gymnasium.vector.SyncVectorEnv"
            )
        states = [get_state(env) for env in _single(self)]
        for env, state in zip(_single(self), states, strict=True):
            if state is None and _begun(env) and isinstance(env.unwrapped, gym.utils.EzPickle):
                raise TypeError(
                    f"{env} cannot be copied within an episode: its copies begin anew, and would not be where the "
                    "previous action left them; make another environment, and reset it"
                )
        return {**vars(self), "_states": states}

    def _join(self) -> None:
        for env, state in zip(_single(self), vars(self).pop("_states"), strict=True):
            if state is not None:
                set_state(env, state)


def _single(wrapper: Any) -> list[gym.Env[Any, Any]]:
    """The environments in a wrapper of one environment, or of a vector environment in this process."""
    envs: list[gym.Env[Any, Any]] = getattr(wrapper.unwrapped, "envs", [wrapper.env])
    return [env for env in envs if isinstance(env, gym.Env)]


def _wrappers(env: gym.Env[Any, Any], kind: type) -> Iterator[Any]:
    """The wrappers of a kind, the outermost first."""
    layer: Any = env
    while layer is not env.unwrapped:
        if isinstance(layer, kind):
            yield layer
        layer = layer.env


def _begun(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment may have been reset, which Gymnasium's OrderEnforcing knows."""
    return next((wrapper.has_reset for wrapper in _wrappers(env, gym.wrappers.OrderEnforcing)), True)


def get_state(env: gym.Env[Any, Any]) -> dict[str, Any] | None:
    """The state for ``set_state``, as numbers and arrays; None if the environment is of no known kind."""
    inner: Any = env.unwrapped
    if not type(inner).__module__.startswith("gymnasium."):
        return None  # its attributes may hold more
    if hasattr(inner, "data") and hasattr(inner, "model"):
        physics = _mujoco_state(inner)
    elif type(inner).__name__ == "PendulumEnv":
        physics = {"state": np.array(inner.state)}
    else:
        return None
    elapsed = next((int(wrapper._elapsed_steps or 0) for wrapper in _wrappers(env, gym.wrappers.TimeLimit)), 0)
    state = {"physics": physics, "elapsed": elapsed, "random": inner.np_random.bit_generator.state}
    memories = [np.array(wrapper.memory) for wrapper in _wrappers(env, Remembers)]
    return {**state, "memories": memories} if memories else state


def set_state(env: gym.Env[Any, Any], state: dict[str, Any]) -> None:
    """Put an environment that has been reset once into a state that ``get_state`` took."""
    inner: Any = env.unwrapped
    physics = state["physics"]
    if "integration" in physics:
        _set_mujoco_state(inner, physics)
    else:
        inner.state = np.array(physics["state"])
    for wrapper in _wrappers(env, gym.wrappers.TimeLimit):
        wrapper._elapsed_steps = state["elapsed"]
    for wrapper, memory in zip(_wrappers(env, Remembers), state.get("memories", []), strict=True):
        wrapper.memory = np.array(memory)
    inner.np_random.bit_generator.state = state["random"]


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
        if array.shape == saved.shape:  # arrays sized by the contacts are computed anew at the next step
            array[...] = saved


def _derived(data: Any) -> dict[str, Any]:
    """The float arrays of MjData, without those of the constraint solver."""
    names = [name for name in dir(data) if not name.startswith(("_", "efc_", "iefc_"))]
    arrays = {name: getattr(data, name) for name in names}
    return {
        k: v for k, v in arrays.items() if isinstance(v, np.ndarray) and v.dtype == np.float64 and v.flags.writeable
    }
