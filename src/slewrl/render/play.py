"""Films and pictures of a trained policy's episodes, or of a bundle that walks a robot."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.envs.gym_vec_env import GymVecEnv
from slewrl.envs.tasks import OWN_ROBOT, is_gymnasium, is_locomotion, make_vec_env, wrapper
from slewrl.errors import UserFacingError
from slewrl.limits import RateLimits
from slewrl.locomotion.tasks import TASKS
from slewrl.render import film
from slewrl.render.film import cannot_render, check_folder, check_video, filming
from slewrl.robots.looks import in_meshes_of
from slewrl.training.policy import Policy, load_policy
from slewrl.training.run_folder import RunFolder

if TYPE_CHECKING:
    from slewrl.locomotion.env import Locomotion


class Seen(NamedTuple):
    """The episodes that were shown."""

    frames: int
    """Control steps."""
    returns: list[float]
    """One per episode."""
    violations: int
    """Joint steps outside F_t, counted exactly."""
    unseen: str = ""
    """Why a picture shows the increments only."""


def record(run: Path, video: Path, episodes: int, seed: int, trust: bool = False) -> Seen:
    """Film a run of a Gymnasium task."""
    check_video(video)
    if not is_gymnasium(task := RunFolder(run).spec().task):
        raise ValueError(f"{run} is a run of {task!r}, which another simulator shows: play is for Gymnasium and ours")
    unseen = film.prepare_gl(task)
    policy = load_policy(run, trust)
    env = _vec_env(policy)
    with filming(video, env.envs[0].metadata.get("render_fps", 30)) as add:
        look = lambda: add(_render(env.envs[0], unseen))  # noqa: E731
        return _seen([_episode(policy, env, seed + k, look) for k in range(episodes)])


def _vec_env(policy: Policy) -> GymVecEnv:
    wrap = wrapper(policy.spec.task_options, training=False)
    return GymVecEnv(partial(_filmed, policy), policy.limits, 1, wrap)


def _filmed(policy: Policy) -> gym.Env[Any, Any]:
    """An environment of the run's task that renders; one of the user's own need not know of render modes."""
    try:
        return gym.make(policy.spec.task, render_mode="rgb_array")
    except TypeError as error:
        raise UserFacingError(f"{policy.spec.task} cannot be made to render: {error}") from error


def _render(env: gym.Env[Any, Any], unseen: str) -> Any:
    """One frame (height, width, 3); ``unseen`` is why MuJoCo cannot render, if that is known."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    if unseen and hasattr(env.unwrapped, "mujoco_renderer"):
        raise UserFacingError(unseen)
    try:
        image: Any = env.render()
    except Exception as error:  # each GL loader fails in its own way
        raise cannot_render(name, error) from error
    if np.ndim(image) != 3:
        found = type(image).__name__
        raise UserFacingError(f"cannot render {name}: its render() gave {found}, expected an array (height, width, 3)")
    return image


def picture(run: Path, out: Path, seed: int, trust: bool = False) -> Seen:
    """A picture of one episode of a run: its frames, if the task renders, above its increments over their limits."""
    check_folder(out)
    spec = RunFolder(run).spec()
    unseen = film.prepare_gl(spec.task)
    policy = load_policy(run, trust)
    if is_gymnasium(spec.task):
        try:
            env = _vec_env(policy)
            strip = film.Strip(lambda: _render(env.envs[0], unseen))
            made = _episode(policy, env, seed, strip.look)
            film.draw(made, *strip.side_by_side()).savefig(out)
            return _seen([made])
        except UserFacingError as error:
            unseen = str(error)
    else:
        unseen = f"{spec.task} is shown by another simulator"
    blind = make_vec_env(policy.task, policy.limits, 1, spec.task_options, training=False)
    made = _episode(policy, blind, seed, lambda: None)
    film.draw(made, [], None).savefig(out)
    return _seen([made])._replace(unseen=unseen)


def _episode(policy: Policy, env: Any, seed: int, before_step: Callable[[], None]) -> film.Walk:
    return film.Walk(film.run_episode(env, _acting(policy), seed, before_step), policy.limits, policy.dt)


def _acting(policy: Policy) -> film.Act:
    return lambda observations: policy.act(torch.from_numpy(observations)).executed.numpy()


# ---------------------------------------------------------------------- walking robots


class Walker(NamedTuple):
    """A policy and a robot of ours that it walks."""

    env: "Locomotion"
    """One environment, in evaluation mode."""
    act: film.Act
    unseen: str = ""
    """Why it cannot be rendered."""

    def record(self, video: Path, episodes: int, seed: int) -> Seen:
        """Film some episodes."""
        check_video(video)
        if self.unseen:
            raise UserFacingError(self.unseen)
        return _seen(film.film(self.env, self.act, video, episodes, seed))

    def picture(self, out: Path, seed: int) -> Seen:
        """A picture of one walk, and of its increments over their limits."""
        check_folder(out)
        made, why = film.picture(self.env, self.act, seed, out, render=not self.unseen)
        return _seen([made])._replace(unseen=self.unseen or why)


def _seen(walks: list[film.Walk]) -> Seen:
    returns = [walk.episode.total for walk in walks]
    return Seen(sum(len(walk.episode.actions) - 1 for walk in walks), returns, sum(walk.violations for walk in walks))


def walks(source: str, bundle: Path | None = None) -> bool:
    """Whether ``source``, the folder of a run or, with a bundle, a task, is about one of our robots."""
    if bundle is None and is_locomotion(source) and not Path(source).exists():
        raise ValueError(f"{source} is a task: say whose policy (--bundle policy.bundle), or name the folder of a run")
    task = RunFolder(Path(source)).spec().task if bundle is None else source
    if bundle is not None and not is_locomotion(task):
        raise ValueError(f"--bundle is for a task of ours, and {task!r} is none of {', '.join(TASKS)}")
    return is_locomotion(task)


def walker(
    source: str,
    bundle: Path | None = None,
    command: Sequence[float] | None = None,
    rendered: bool = True,
    trust: bool = False,
) -> Walker:
    """The policy of a run, or a bundle on a task, with its robot.

    Args:
        source: the folder of a run; with a bundle, a task such as "G1-flat".
        bundle: what ``slewrl export`` wrote.
        command: speed ahead and to the left (m/s) and yaw rate (rad/s); default: drawn, as in training.
        rendered: whether it will be rendered.
        trust: whether code that the run's run.json names may run.
    """
    unseen = film.prepare_gl(source) if rendered else ""
    fixed: dict[str, Any] = {}
    if command is not None:
        if not np.isfinite(command).all():
            raise ValueError(f"--command is {tuple(command)}, expected finite numbers: ahead, to the left, turning")
        ranges = zip(("forward", "sideways", "turning"), command, strict=True)
        fixed = {name: (speed, speed) for name, speed in ranges} | {"standing": 0.0, "heading": False}
    if bundle is not None:
        return controlled(source, bundle, fixed)._replace(unseen=unseen)
    policy = load_policy(Path(source), trust)
    options = policy.spec.task_options | fixed
    env: Any = make_vec_env(policy.task, policy.limits, 1, options, training=False)
    if policy.task != policy.spec.task:
        env.robot = in_meshes_of(env.robot, policy.spec.task.removeprefix(OWN_ROBOT))
    return Walker(env, _acting(policy), unseen)


def controlled(task: str, path: Path, options: dict[str, Any]) -> Walker:
    """A task's robot under the controller that runs on a real one."""
    try:
        from slewrl.deploy.controller import Controller
    except ImportError as error:
        raise UserFacingError(f'a bundle needs ONNX Runtime ({error}): pip install "slewrl[onnx]"') from None
    controller = Controller(path)
    found, trained = controller.bundle, controller.bundle.manifest["provenance"].get("spec", {})
    limits = limits_of(found)
    if trained.get("task") == task:
        options = trained["task_options"] | options
    env: Any = make_vec_env(task, limits, 1, options, training=False)
    gives = [("privileged", env.layout.privileged), *env.layout.parts]
    if list(found.observation) not in (gives, gives[1:]):
        raise ValueError(f"{path} sees {dict(found.observation)}, expected what {task} gives: {dict(gives)}")
    history, first = env.limits.appended, 0 if list(found.observation) == gives else env.layout.privileged

    def act(seen: NDArray[np.float32]) -> NDArray[np.float32]:
        if env.clock[0] == 0:
            controller.start(env.reset_action)
        prev = controller.prev
        command = controller.step(seen[0, first:-history])
        executed = _narrow(command, prev)
        if (executed != command).any():  # the limit is on the change from what the motors got
            controller.start(executed, ramp=controller.ramping)
        return executed[None]

    return Walker(env, act)


def limits_of(found: Any) -> RateLimits:
    """The limits of a bundle and its default pose as RateLimits, with its acceleration, if it has one.

    Both have the acceleration per step squared.
    """
    fields = ("up", "down", "low", "high", "names", "groups", "dt", "units")
    parts = {key: getattr(found.limits, key) for key in fields} | {"reset": found.default_pose}
    unit = Fraction(found.limits.dt) ** 2 if found.limits.dt else Fraction(1)
    for key in ("acceleration", "deceleration"):
        if (per_step := getattr(found.limits, key, None)) is not None:
            parts[key] = [Fraction(float(x)) / unit for x in per_step]
    return RateLimits(**parts)


def _narrow(command: NDArray[np.float64], prev: NDArray[np.float64]) -> NDArray[np.float32]:
    """A command in float32, rounded towards ``prev`` so that it changes no more than it did."""
    near = command.astype(np.float32)
    beyond = np.abs(near - prev) > np.abs(command - prev)
    return np.where(beyond, np.nextafter(near, prev.astype(np.float32)), near)
