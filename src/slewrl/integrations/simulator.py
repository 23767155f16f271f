"""The common part of the adapters to batched GPU simulators: joints found by name, and episodes of N environments.

A simulator's environments live in tensors on one device. Here actions and observations are float32 arrays; the history
of actions and its exact audit are kept on this side, where no simulator rounds them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slewrl.copying import Copied, Uncopied
from slewrl.envs.history import CountedHistory
from slewrl.envs.vec_env import Episode, Floats, Layout, StepResult, check_period
from slewrl.limits import RateLimits
from slewrl.robots import ROBOTS

ALIASES = {"waist_yaw": "torso"}
"""Joint names of limits -> names in an older model of the robot: G1's waist, in IsaacLab's."""
CRITICS = "critic"
"""The observation group of the critics, in both simulators."""


class Rig(NamedTuple):
    """A task's joints and observations, as the simulator has them."""

    joints: tuple[str, ...]
    """Joint names, in the order of the task's actions (N, J)."""
    default: Tensor
    """The default pose (J,), rad, on the simulator's device."""
    period: float
    """The control period, s."""
    parts: tuple[tuple[str, int], ...]
    """The name and length of each term of the actor's observation."""
    privileged: int
    """The length of the critics' observation; 0 if it is the actor's."""


def make_rig(env: Any, joints: Sequence[str], default: Tensor, actor: str) -> Rig:
    """Make the ``Rig`` of an environment; the observation group ``actor`` is the policy's."""
    observations = env.observation_manager
    parts, privileged = (observation_parts(observations, group) for group in (actor, CRITICS))
    if not parts:
        raise ValueError(
            f"there are no observations {actor!r} for the policy; there are: {list(observations.active_terms)}"
        )
    return Rig(tuple(joints), default, env.step_dt, parts, sum(width for _, width in privileged))


class Stepped(NamedTuple):
    """The result of one step of the simulator, as tensors on its device."""

    applied: Tensor
    """The actuators' targets (N, J), read back from the simulator."""
    next_obs: Tensor
    """The observations at the end of the step (N, m); where an episode ended, its last one."""
    obs: Tensor
    """The observations to act on (N, m); where an episode ended, the first one of the next."""
    reward: Tensor
    terminated: Tensor
    ended: Tensor
    """Whether each episode was terminated or truncated, (N,)."""
    exploded: Tensor
    """Whether an observation or reward is not finite, (N,); that ends the episode, too."""
    measures: dict[str, Tensor]
    """Measures of the step, (N,) each; NaN where the simulator does not know."""


class Stream(Uncopied):
    """A separate random stream for a simulator, which draws from (and seeds) the process's torch generators.

    Without it, the seed of an evaluation would restart the random numbers of training, too.
    """

    instead = "make another one, Stream(device)"

    def __init__(self, device: str) -> None:
        self.generators = [torch.default_generator]
        if torch.device(device).type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self.generators.append(torch.cuda.default_generators[torch.device(device).index or 0])
        self.states = [generator.get_state() for generator in self.generators]

    @contextmanager
    def active(self) -> Iterator[None]:
        """A context in which random numbers continue this stream and leave the outer one as it is."""
        outer = [generator.get_state() for generator in self.generators]
        self._set(self.states)
        try:
            yield
        finally:
            self.states = [generator.get_state() for generator in self.generators]
            self._set(outer)

    def _set(self, states: list[Tensor]) -> None:
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


class EpisodeSums(Copied):
    """The sums of rewards and measures over the current episodes of ``count`` environments."""

    def __init__(self, count: int) -> None:
        self.total = np.zeros(count)
        """The sums of rewards, (N,)."""
        self.sums: dict[str, NDArray[np.float64]] = {}
        """Measure -> the sum of its finite values and their number, (2, N)."""

    def restart(self, which: NDArray[np.bool_]) -> None:
        """Reset the sums of some environments, (N,), to 0."""
        self.total[which] = 0
        for sums in self.sums.values():
            sums[:, which] = 0

    def add(self, reward: Floats, measures: Mapping[str, Floats]) -> None:
        """Add one step of every environment."""
        self.total += reward
        for name, values in measures.items():
            known = np.isfinite(values)
            self.sums.setdefault(name, np.zeros((2, len(self.total))))[:] += np.where(known, values, 0), known

    def means(self, k: int) -> dict[str, float]:
        """The measures of environment k, each a mean over the steps at which it was known."""
        return {name: float(sums[0, k] / max(sums[1, k], 1)) for name, sums in self.sums.items()}


class SimulatedVecEnv(Uncopied, ABC):
    """``VecEnv`` of a batched simulator. An action is joint position targets in radians, in the limits' order.

    Joints without limits hold their default pose. The augmented observation is (critics' group, actor's group,
    previous action), with the last increment before the previous action under an acceleration limit; all of the
    critics' group counts as privileged.

    Args:
        task: the simulator's name of the task.
        env: the simulator's vectorised environment of ``count`` robots.
        rig: the task's joints and observations.
        stream: the random stream of the simulator.
        limits: the limits of some or all joints, by name; default: the paper's limits of the robot.
    """

    instead = "the simulator's state is not known; make others of the same task, and reset them"
    actor: ClassVar[str]
    """The simulator's name of the observation group of the policy."""

    def __init__(self, task: str, count: int, env: Any, rig: Rig, stream: Stream, limits: RateLimits | None) -> None:
        self.task, self.count, self.env, self.rig, self.stream = task, count, env, rig, stream
        self.velocity = velocity_command(env.command_manager)
        self.limits = default_limits(task, rig.joints) if limits is None else limits
        check_period(task, self.limits, rig.period)
        self.columns = joint_columns(task, rig.joints, self.limits.names)
        """The index of each limited joint among the task's joints, (d,)."""
        pose = rig.default.cpu()[self.columns].float()
        self.reset_action: Floats = self.limits.clamp(pose).numpy()
        seen = rig.privileged + sum(width for _, width in rig.parts)
        self.layout = Layout(seen + self.limits.appended, rig.privileged, parts=rig.parts)
        self.history = CountedHistory(self.limits, np.tile(self.reset_action, (count, 1)))
        self.sums = EpisodeSums(count)
        self.observations = np.zeros((count, self.layout.size), np.float32)
        self.episodes: list[Episode] = []

    @property
    def dt(self) -> float:
        """See ``VecEnv``."""
        return self.rig.period

    @abstractmethod
    def _simulate(self, targets: Tensor) -> Stepped:
        """Step the task with its actions (N, J), and begin a new episode where one ended."""

    def reset(self, seed: int) -> None:
        """See ``VecEnv``."""
        with self.stream.active():
            seen = self._seen(self.env.reset(seed=seed)[0])
        self._begin(np.ones(self.count, bool))
        self.episodes = []
        self.observations = self._augmented(seen)

    def step(self, executed: Floats) -> StepResult:
        """See ``VecEnv``. Raises if the simulator gave its actuators anything but ``executed``."""
        targets = self.targets(executed)
        with self.stream.active():
            stepped = self._simulate(targets)
        self._check_applied(stepped.applied, targets)
        kept = (stepped.reward, stepped.terminated, stepped.ended, stepped.exploded)
        reward, terminated, ended, exploded = (_array(x) for x in kept)
        reward = np.where(exploded, np.float32(0), reward)
        self.history.append(executed)
        self.sums.add(reward, {name: _array(x) for name, x in stepped.measures.items()})
        next_obs = self._augmented(stepped.next_obs)
        # A state that is not finite must not reach a replay buffer: the observation before it takes its place.
        state = slice(-self.limits.appended)
        next_obs[exploded, state] = self.observations[exploded, state]
        fell = terminated & ~exploded
        self.episodes = [self._episode(int(k), fell[k], exploded[k]) for k in np.flatnonzero(ended)]
        self._begin(ended)
        self.observations = self._augmented(stepped.obs) if ended.any() else next_obs
        return StepResult(next_obs, reward, terminated, ended)

    def _begin(self, which: NDArray[np.bool_]) -> None:
        """Begin the records of a new episode in some environments, (N,)."""
        self.history.restart(self.reset_action, which)
        self.sums.restart(which)

    def _episode(self, k: int, fell: bool, exploded: bool) -> Episode:
        """The finished episode of environment k."""
        measures = self.sums.means(k) | {"fell": float(fell), "exploded": float(exploded)}
        return Episode(float(self.sums.total[k]), self.history.actions(k), measures)

    def targets(self, executed: Floats) -> Tensor:
        """The task's actions (N, J) on the simulator's device: ``executed``, and the default pose elsewhere."""
        if executed.shape != (self.count, self.limits.dim) or executed.dtype != np.float32:
            raise ValueError(
                f"{self.task}: actions are {executed.dtype} {executed.shape}, expected float32 "
                f"{(self.count, self.limits.dim)}"
            )
        targets = self.rig.default.repeat(self.count, 1)
        targets[:, self.columns] = torch.tensor(executed, device=targets.device)
        return targets

    def violations(self) -> int:
        """See ``VecEnv``."""
        return int(self.history.violations.sum())

    def episode_actions(self) -> list[NDArray[Any]]:
        """See ``VecEnv``."""
        return [self.history.actions(k) for k in range(self.count)]

    def get_state(self) -> dict[str, Any] | None:
        """None: the simulator cannot save all of its state, so a run resumes on new episodes."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Refused; see ``get_state``."""
        raise NotImplementedError(f"{self.task}: the simulator's state is not known, so it cannot be restored")

    def _check_applied(self, applied: Tensor, targets: Tensor) -> None:
        if torch.equal(applied, targets):
            return
        k, joint = (int(i) for i in (applied != targets).nonzero()[0])
        raise RuntimeError(
            f"{self.task}: {self.rig.joints[joint]!r} of environment {k} was given {applied[k, joint].item()!r}, "
            f"expected the action itself, {targets[k, joint].item()!r}: something rescales, biases or clips the "
            "targets, and the limits would not hold at the actuator"
        )

    def _seen(self, groups: Mapping[str, Tensor]) -> Tensor:
        """The observations (N, m): the critics' group, if there is one, then the actor's."""
        return torch.cat([groups[name] for name in (CRITICS, self.actor) if name in groups], 1)

    def _augmented(self, seen: Tensor) -> Floats:
        """The observations (N, m) with the history of actions, (N, n)."""
        return np.concatenate([_array(seen), self.history.appended], axis=1)


def joint_name(name: str) -> str:
    """The name that limits use for a simulator's joint: "left_knee" for "left_knee_joint"."""
    return name.removesuffix("_joint")


def joint_columns(task: str, joints: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """The index of each of the ``wanted`` joints among the simulator's, (d,)."""
    known = [joint_name(joint) for joint in joints]
    for name in wanted:
        if name not in known and ALIASES.get(name) not in known:
            raise ValueError(f"{task} has no joint {name!r} that the limits name; its actions have: {', '.join(known)}")
    return np.array([known.index(name if name in known else ALIASES[name]) for name in wanted])


def default_limits(task: str, joints: Sequence[str]) -> RateLimits:
    """The paper's limits of the robot that has a task's joints."""
    robots = [robot for robot in ROBOTS.values() if "paper" in robot.deltas]
    for robot in robots:
        limits: RateLimits = robot.rate_limits("paper")
        known = {joint_name(joint) for joint in joints}
        if all(name in known or ALIASES.get(name) in known for name in limits.names):
            return limits
    names = ", ".join(sorted(robot.name for robot in robots))
    raise ValueError(f"{task}: its joints are those of none of {names}: pass limits for them (--limits)")


def observation_parts(manager: Any, group: str) -> tuple[tuple[str, int], ...]:
    """The name and length of each term of an observation group; empty if there is no such group."""
    if group not in manager.active_terms:
        return ()
    if not manager.group_obs_concatenate[group]:
        raise ValueError(f"observations {group!r} are a dict of terms, expected concatenate_terms=True")
    shapes = manager.group_obs_term_dim[group]
    return tuple((name, math.prod(shape)) for name, shape in zip(manager.active_terms[group], shapes, strict=True))


def pass_radians(task: str, terms: Mapping[str, Any], kind: Any) -> str:
    """Set a task's one joint position action to pass targets on in radians, unchanged; return its name."""
    name, *others = terms
    action = terms[name]
    if others or type(action) is not kind:
        raise ValueError(f"{task} has actions {terms}, expected joint position targets alone")
    action.scale, action.offset, action.use_default_offset, action.clip = 1.0, 0.0, False, None
    return name


def default_device(device: str | None) -> str:
    """The device that the user named, or the first GPU, or the CPU."""
    return device or ("cuda:0" if torch.cuda.is_available() else "cpu")


def velocity_measures(velocity: Tensor, command: Tensor) -> dict[str, Tensor]:
    """How well base velocities follow commands, (N,) each; both are (N, 2), in the base's frame, m/s."""
    commanded = command.norm(dim=1)
    along = (velocity * command).sum(1) / commanded.clamp_min(1e-9)
    return {"vte": (velocity - command).norm(dim=1), "speed": along, "commanded": commanded}


def velocity_command(manager: Any) -> Any:
    """The term of a command manager that commands a base velocity, or None."""
    terms = (manager.get_term(name) for name in manager.active_terms)
    return next((term for term in terms if hasattr(term, "vel_command_b")), None)


def _array(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor to the CPU: simulators write over their buffers."""
    return tensor.detach().to("cpu", copy=True).numpy()


def as_tensor(value: Any) -> Tensor:
    """A simulator's data as a tensor; IsaacLab 3.0 has it as the attribute ``torch``."""
    return getattr(value, "torch", value)
