"""What adapters of batched simulators share: joints found by name, and what N worlds' episodes come to.

A simulator's worlds live in tensors on one device. Here actions go in and observations come out as float32 arrays; the
history of actions and its exact audit are kept on this side, where no simulator rounds them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

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
"""Joints that an older model of a robot names otherwise: G1's waist, in IsaacLab's."""
CRITICS = "critic"
"""The group of observations that both simulators keep for critics."""


class Rig(NamedTuple):
    """What a simulator says of a task once it is built."""

    joints: tuple[str, ...]
    """Names, in the order of the task's own actions (N, J)."""
    default: Tensor
    """(J,): the default pose, rad, on the simulator's device."""
    period: float
    """Control period, s."""
    parts: tuple[tuple[str, int], ...]
    """Name and length of each term of the actor's observation."""
    privileged: int
    """Length of the critics' observation; 0 if it is the actor's."""


def make_rig(joints: Sequence[str], default: Tensor, period: float, observations: Any, actor: str) -> Rig:
    """A ``Rig`` of an observation manager, whose group ``actor`` is the policy's."""
    parts, privileged = (observation_parts(observations, group) for group in (actor, CRITICS))
    if not parts:
        raise ValueError(
            f"there are no observations {actor!r} for the policy; there are: {list(observations.active_terms)}"
        )
    return Rig(tuple(joints), default, period, parts, sum(width for _, width in privileged))


class Stepped(NamedTuple):
    """One step of the simulator, in tensors on its device."""

    applied: Tensor
    """(N, J): what the task's actuators were given, read back from the simulator."""
    last: Tensor
    """(N, m): what was seen at the end of the step; where an episode ended its own last observation."""
    fresh: Tensor
    """(N, m): the same, but the first observation of the next episode where one ended."""
    reward: Tensor
    """(N,)"""
    terminated: Tensor
    """(N,), bool."""
    ended: Tensor
    """(N,), bool: terminated or cut off."""
    exploded: Tensor
    """(N,), bool: what was seen is not finite. Such a world has ended, too."""
    measures: dict[str, Tensor]
    """(N,) each; NaN where the simulator does not know."""


class Stream(Uncopied):
    """Random numbers of one's own, where a simulator draws from (and seeds) the process's torch generators.

    Without it, an evaluation's seed would begin the training worlds' numbers anew, too.
    """

    instead = "make another one, Stream(device)"

    def __init__(self, device: str) -> None:
        self.generators = [torch.default_generator]
        if torch.device(device).type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self.generators.append(torch.cuda.default_generators[torch.device(device).index or 0])
        self.states = [generator.get_state() for generator in self.generators]

    @contextmanager
    def own(self) -> Iterator[None]:
        """What is drawn inside goes on where it ended last time, and is not seen outside."""
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
    """The rewards and measures of the episodes under way in N worlds.

    Args:
        count: N.
    """

    def __init__(self, count: int) -> None:
        self.total = np.zeros(count)
        """(N,): sum of rewards."""
        self.sums: dict[str, NDArray[np.float64]] = {}
        """By measure (2, N): sum of what was finite, and how many those were."""

    def restart(self, which: NDArray[np.bool_]) -> None:
        """Begin again at 0 in some worlds, (N,)."""
        self.total[which] = 0
        for sums in self.sums.values():
            sums[:, which] = 0

    def add(self, reward: Floats, measures: Mapping[str, Floats]) -> None:
        """Count one step of every world."""
        self.total += reward
        for name, values in measures.items():
            known = np.isfinite(values)
            self.sums.setdefault(name, np.zeros((2, len(self.total))))[:] += np.where(known, values, 0), known

    def means(self, k: int) -> dict[str, float]:
        """World k's measures, each a mean over the steps at which it was known."""
        return {name: float(sums[0, k] / max(sums[1, k], 1)) for name, sums in self.sums.items()}


class SimulatedWorlds(Uncopied, ABC):
    """``VecEnv`` of a batched simulator. An action is joint position targets in radians, in the limits' order.

    Joints without limits hold their default pose. The augmented observation is (critics' group, actor's group,
    previous action); all of the critics' group counts as privileged.

    Args:
        task: the simulator's name for it.
        count: N.
        rig: the task's joints and observations.
        stream: what the simulator draws from.
        limits: of some or all of those joints, by name; default: the paper's of the robot that has them.
    """

    instead = "the simulator's state is not known; make others of the same task, and reset them"

    def __init__(self, task: str, count: int, rig: Rig, stream: Stream, limits: RateLimits | None) -> None:
        self.task, self.count, self.rig, self.stream = task, count, rig, stream
        self.limits = default_limits(task, rig.joints) if limits is None else limits
        check_period(task, self.limits, rig.period)
        self.columns = joint_columns(task, rig.joints, self.limits.names)
        """(d,): where each joint stands among the task's."""
        pose = rig.default.cpu()[self.columns].float()
        self.reset_action: Floats = self.limits.clamp(pose).numpy()
        seen = rig.privileged + sum(width for _, width in rig.parts)
        self.layout = Layout(seen + self.limits.dim, rig.privileged, parts=rig.parts)
        self.history = CountedHistory(self.limits, np.tile(self.reset_action, (count, 1)))
        self.sums = EpisodeSums(count)
        self.observations = np.zeros((count, self.layout.size), np.float32)
        self.episodes: list[Episode] = []

    @property
    def dt(self) -> float:
        """See ``VecEnv``."""
        return self.rig.period

    @abstractmethod
    def _restart(self, seed: int) -> Tensor:
        """Begin an episode in every world; what is seen, (N, m)."""

    @abstractmethod
    def _simulate(self, targets: Tensor) -> Stepped:
        """Hand the task its own actions (N, J), and begin a new episode where one ended."""

    def reset(self, seed: int) -> None:
        """See ``VecEnv``."""
        with self.stream.own():
            seen = self._restart(seed)
        self._begin(np.ones(self.count, bool))
        self.episodes = []
        self.observations = self._augmented(seen)

    def step(self, executed: Floats) -> StepResult:
        """See ``VecEnv``. Raises if the simulator gave its actuators anything but ``executed``."""
        targets = self.targets(executed)
        with self.stream.own():
            stepped = self._simulate(targets)
        self._check_applied(stepped.applied, targets)
        kept = (stepped.reward, stepped.terminated, stepped.ended, stepped.exploded)
        reward, terminated, ended, exploded = (_array(x) for x in kept)
        reward = np.where(exploded, np.float32(0), reward)
        self.history.append(executed)
        self.sums.add(reward, {name: _array(x) for name, x in stepped.measures.items()})
        next_obs = self._augmented(stepped.last)
        # A state that is no number is worth nothing, and must not reach a replay: what was seen before it stands in.
        next_obs[exploded, : -self.limits.dim] = self.observations[exploded, : -self.limits.dim]
        fell = terminated & ~exploded
        self.episodes = [self._episode(int(k), fell=fell[k], exploded=exploded[k]) for k in np.flatnonzero(ended)]
        self._begin(ended)
        self.observations = self._augmented(stepped.fresh) if ended.any() else next_obs
        return StepResult(next_obs, reward, terminated, ended)

    def _begin(self, which: NDArray[np.bool_]) -> None:
        """Forget the episodes of some worlds, (N,), which have begun another."""
        self.history.restart(self.reset_action, which)
        self.sums.restart(which)

    def _episode(self, k: int, **flags: bool) -> Episode:
        """World k's, which is over; ``flags`` are measures it has or has not."""
        measures = self.sums.means(k) | {name: float(flag) for name, flag in flags.items()}
        return Episode(float(self.sums.total[k]), self.history.actions(k), measures)

    def targets(self, executed: Floats) -> Tensor:
        """The task's own actions (N, J) on the simulator's device: ``executed``, and the default pose elsewhere."""
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
        """None: the simulator cannot save all of its state, so that a run resumes on fresh episodes."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Not possible; see ``get_state``."""
        raise NotImplementedError(f"{self.task}: the simulator's state is not known, so it cannot be restored")

    def _check_applied(self, applied: Tensor, targets: Tensor) -> None:
        if torch.equal(applied, targets):
            return
        world, joint = (int(i) for i in (applied != targets).nonzero()[0])
        raise RuntimeError(
            f"{self.task}: {self.rig.joints[joint]!r} of world {world} was given {applied[world, joint].item()!r}, "
            f"expected the action itself, {targets[world, joint].item()!r}: something rescales, biases or clips the "
            "targets, and the limits would not hold at the actuator"
        )

    def _augmented(self, seen: Tensor) -> Floats:
        """(N, n) of what the simulator shows, (N, m)."""
        return np.concatenate([_array(seen), self.history.previous], axis=1)


def joint_name(name: str) -> str:
    """A simulator's name of a joint as limits have it: "left_knee_joint" is "left_knee"."""
    return name.removesuffix("_joint")


def joint_columns(task: str, joints: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Where each of the ``wanted`` joints stands among the simulator's, (d,)."""
    known = [joint_name(joint) for joint in joints]
    for name in wanted:
        if name not in known and ALIASES.get(name) not in known:
            raise ValueError(f"{task} has no joint {name!r} that the limits name; its actions have: {', '.join(known)}")
    return np.array([known.index(name if name in known else ALIASES[name]) for name in wanted])


def default_limits(task: str, joints: Sequence[str]) -> RateLimits:
    """The paper's limits of the robot that a task's joints are of."""
    robots = [robot for robot in ROBOTS.values() if "paper" in robot.deltas]
    for robot in robots:
        limits: RateLimits = robot.rate_limits("paper")
        known = {joint_name(joint) for joint in joints}
        if all(name in known or ALIASES.get(name) in known for name in limits.names):
            return limits
    names = ", ".join(sorted(robot.name for robot in robots))
    raise ValueError(f"{task}: its joints are those of none of {names}: pass limits for them (--limits)")


def observation_parts(manager: Any, group: str) -> tuple[tuple[str, int], ...]:
    """Name and length of each term of a group of observations; none if there is no such group."""
    if group not in manager.active_terms:
        return ()
    if not manager.group_obs_concatenate[group]:
        raise ValueError(f"observations {group!r} are a dict of terms, expected concatenate_terms=True")
    shapes = manager.group_obs_term_dim[group]
    return tuple((name, math.prod(shape)) for name, shape in zip(manager.active_terms[group], shapes, strict=True))


def side_by_side(groups: Mapping[str, Tensor], actor: str) -> Tensor:
    """The critics' group, if there is one, then the actor's, (N, m)."""
    return torch.cat([groups[name] for name in (CRITICS, actor) if name in groups], 1)


def velocity_measures(velocity: Tensor, command: Tensor) -> dict[str, Tensor]:
    """Of base velocities and commands, (N, 2) each in the base's frame, m/s: how well they were followed (N,)."""
    commanded = command.norm(dim=1)
    along = (velocity * command).sum(1) / commanded.clamp_min(1e-9)
    return {"vte": (velocity - command).norm(dim=1), "speed": along, "commanded": commanded}


def velocity_command(manager: Any) -> Any:
    """The term of a command manager that asks for a velocity of the base, or None."""
    terms = (manager.get_term(name) for name in manager.active_terms)
    return next((term for term in terms if hasattr(term, "vel_command_b")), None)


def _array(tensor: Tensor) -> NDArray[Any]:
    """A copy on the CPU: simulators write over their buffers."""
    array: NDArray[Any] = tensor.detach().to("cpu", copy=True).numpy()
    return array
