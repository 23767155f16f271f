"""Environments by the name of a task: our robots, another simulator's ("mjlab:..."), or any Gymnasium id."""

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium as gym

from slewrl.envs.augment import Augment, check_action_space
from slewrl.envs.gym_vec_env import GymVecEnv
from slewrl.envs.vec_env import VecEnv
from slewrl.limits import RateLimits
from slewrl.robots import ROBOTS, robot_of, walking_task

THREADS = "SLEWRL_THREADS"
"""Environment variable: threads of a simulator of many environments (default: one per core; in campaigns one)."""
OWN_ROBOT = "robot:"
"""Prefix of a task that is a user's own robot: a URDF or MJCF file follows."""
SIMULATORS = {"mjlab": "slewrl.integrations.mjlab:MjlabVecEnv", "isaaclab": "slewrl.integrations.isaaclab:IsaacVecEnv"}
"""Prefix of a task's name -> the class of its environments."""


def is_gymnasium(task: str) -> bool:
    """Whether a task is made of single Gymnasium environments."""
    return not is_locomotion(task) and not is_simulator(task)


def is_locomotion(task: str) -> bool:
    """Whether a task is a walking robot of ours, or of the user's file."""
    return walking_task(task) is not None or task.startswith(OWN_ROBOT)


def is_simulator(task: str) -> bool:
    """Whether a task belongs to another simulator."""
    return task.partition(":")[0] in SIMULATORS


def is_alone(task: str) -> bool:
    """Whether a process can make the environments of a task only once."""
    return task.startswith("isaaclab:")


def make_vec_env(
    task: str, limits: RateLimits, count: int, options: dict[str, Any] | None = None, training: bool = True
) -> VecEnv:
    """``count`` environments of a task, to be reset before use.

    Args:
        task: a name such as "G1-flat", "mjlab:TASK", or a Gymnasium id.
        limits: rate limits of the task's joints, in its action units.
        count: N.
        options: options of the task, by name.
        training: whether to train; an evaluation has no curriculum.
    """
    check_task_options(task, options or {})
    if is_locomotion(task):
        return _locomotion(task, limits, count, options or {}, training)
    prefix, _, name = task.partition(":")
    if is_simulator(task):
        from slewrl.registry import Registry

        return Registry("simulator", SIMULATORS)[prefix](name, count, limits)
    # Instead of Gymnasium's passive checker, which only warns, there is `checked.py`.
    make = partial(gym.make, task, disable_env_checker=True)
    return GymVecEnv(make, limits, count, wrapper(options or {}, training))


def wrapper(options: dict[str, Any], training: bool) -> Callable[[gym.Env[Any, Any], RateLimits], gym.Env[Any, Any]]:
    """What gives a Gymnasium environment the history of its commands, and whatever else its options ask for."""
    if not options:
        return Augment
    from slewrl.envs.smoothing import Smoothing

    return partial(Smoothing(**options).limited, training=training)


def _locomotion(task: str, limits: RateLimits, count: int, options: dict[str, Any], training: bool) -> VecEnv:
    from slewrl.locomotion.env import Locomotion
    from slewrl.locomotion.tasks import CUSTOM, TASKS

    robot = None
    chosen = TASKS.get(task, CUSTOM)
    if task.startswith(OWN_ROBOT):
        from slewrl.robots.custom import read_robot

        robot = read_robot(_file(task))
    changes: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    chosen = dataclasses.replace(chosen, options=dataclasses.replace(chosen.options, **changes))
    return Locomotion(chosen, limits, count, threads(), training, robot)


def _file(task: str) -> str:
    """The path of a user's own robot."""
    path = task.removeprefix(OWN_ROBOT)
    if not os.path.isfile(path):
        raise ValueError(f"task {task!r}: there is no file {path!r}, expected a URDF or MJCF")
    return path


def check_task_options(task: str, options: dict[str, Any]) -> None:
    """Refuse options a task does not have."""
    if not options:
        return
    known = [] if is_simulator(task) else [field.name for field in dataclasses.fields(_options(task))]
    if unknown := set(options) - set(known):
        has = f"it has: {', '.join(known)}" if known else "it has none"
        raise ValueError(f"--set task.{min(unknown)}: the task has no such option; {has}")


def _options(task: str) -> Any:
    """The dataclass of a task's options."""
    if is_locomotion(task):
        from slewrl.locomotion.tasks import Options

        return Options
    from slewrl.envs.smoothing import Smoothing

    return Smoothing


def check_gymnasium_task(task: str) -> None:
    """Refuse a Gymnasium task that cannot be trained on, saying why."""
    try:
        env = gym.make(task)
    except gym.error.Error as error:
        from slewrl.locomotion.tasks import TASKS

        walks = task.lower().startswith(tuple(ROBOTS))
        ours = f" (walking tasks are {', '.join(TASKS)})" if walks else ""
        raise ValueError(f"task {task!r}: {error}{ours}") from error
    except ImportError as error:
        raise ValueError(f"task {task!r}: {error} (is its module here, or on PYTHONPATH?)") from error
    check_action_space(task, env.action_space)
    if env.spec is None or env.spec.max_episode_steps is None:
        raise ValueError(
            f"{task} has no time limit, so an evaluation might never end: register it with max_episode_steps=1000"
        )
    env.close()


def check_simulator(task: str) -> None:
    """Refuse a task whose simulator is not installed."""
    name = task.partition(":")[0]
    if find_spec(name) is None:
        raise ValueError(f"task {task!r}: {name} is not installed (docs/robots.md says how)")


def task_preset(task: str, name: str) -> RateLimits:
    """The limits of a preset by name: the task's, or those of its robot."""
    if task.startswith(OWN_ROBOT):
        from slewrl.robots.custom import read_robot

        return read_robot(_file(task)).rate_limits(name)
    if is_simulator(task):
        if not (robot := robot_of(task)):
            raise KeyError(f"no presets for the robot of {task!r}: pass --limits FILE.yaml (slewrl limits writes one)")
        return RateLimits.preset(robot, name)
    return RateLimits.preset(task, name)


def threads() -> int:
    """How many threads a simulator of many environments may use."""
    value = os.environ.get(THREADS)
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.isdigit() or not int(value):
        raise ValueError(f"{THREADS} is {value!r}, expected a number of threads")
    return int(value)
