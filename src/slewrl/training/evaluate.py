"""Seeded episodes of a policy without exploration: returns, and how the rate limits were used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.calm.metrics import Calm, Effort, calm, calm_of_episodes, effort_of_episodes
from slewrl.envs.actuators import actuators_of
from slewrl.envs.augment import Augment, known_books
from slewrl.envs.checked import checked_reset, checked_step
from slewrl.envs.tasks import is_gymnasium, make_vec_env, wrapper
from slewrl.envs.vec_env import Episode, VecEnv
from slewrl.layers.base import Decision
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity
from slewrl.metrics import RateUse, increment_density, increments_and_limits, rate_use, return_cv

Act = Callable[[torch.Tensor], Decision]
"""Maps augmented observations (N, n) to N actions."""
MakeVecEnv = Callable[..., VecEnv]
"""Called with ``count=N``, makes N environments of a task in evaluation mode."""
ExtraViolations = Callable[[NDArray[np.float32], RateLimits], int]
"""Counts the steps of executed actions (T + 1, d) that broke what a layer promises beyond F_t."""
ONCE = ("fell", "exploded")
"""Measures that are 0 or 1 for a whole episode."""
MAX_ENVS = 256
"""The largest number of environments that are evaluated side by side."""


@dataclass(frozen=True)
class Evaluation:
    """The results of some episodes."""

    returns: NDArray[np.float64]
    """Sum of rewards of each episode."""
    lengths: NDArray[np.int64]
    """Number of steps of each episode."""
    uses: tuple[RateUse, ...]
    """Utilisation and violations of each episode's executed actions, the layer's extra violations included."""
    raw_violations: int
    """Joint steps at which what the critic judges, not what was executed, left F_t."""
    increments: NDArray[np.float64]
    """Every increment over its limit, (sum of lengths, d); in [-1, 1] for hard layers."""
    measures: tuple[dict[str, float], ...]
    """What else the task measures of each episode."""
    accelerates: bool = False
    """Whether the limits have an acceleration, whose violations and use have columns of their own."""
    calms: tuple[Calm, ...] = ()
    """How calm the executed actions of each episode are."""
    efforts: tuple[Effort, ...] = ()
    """What the actuators did in each episode; empty where the task does not tell."""
    commands: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """The executed actions of the first episode, (T + 1, d), from the reset action on."""

    def row(self) -> dict[str, float]:
        """The columns of eval.csv; docs/metrics.md defines each."""
        steps = int(self.lengths.sum())
        joints = len(self.uses[0].per_joint)
        per_joint = np.average([use.per_joint for use in self.uses], axis=0, weights=self.lengths)
        return {
            "return_mean": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
            "return_cv": return_cv(self.returns),
            "length_mean": float(self.lengths.mean()),
            "utilisation": float(np.average([use.utilisation for use in self.uses], weights=self.lengths)),
            "utilisation_mean": float(np.average([use.utilisation_mean for use in self.uses], weights=self.lengths)),
            "violations": sum(use.violations for use in self.uses),
            **self._sharp(self.uses, self.lengths),
            "violation_rate": sum(use.violations for use in self.uses) / (steps * joints),
            "raw_violation_rate": self.raw_violations / (steps * joints),
            **self._calm(self.calms, self.efforts),
            **self._mean_measures(),
            **{f"utilisation_{i}": float(value) for i, value in enumerate(per_joint)},
        }

    def _sharp(self, uses: Sequence[RateUse], lengths: NDArray[np.int64]) -> dict[str, float]:
        """The columns for violations and utilisation of the acceleration, if there is a limit on it."""
        if not self.accelerates:
            return {}
        used = [use.acceleration_utilisation for use in uses]
        return {
            "acceleration_violations": sum(use.acceleration_violations for use in uses),
            "acceleration_utilisation": float(np.average(used, weights=lengths)),
            "acceleration_utilisation_max": max(use.acceleration_utilisation_max for use in uses),
        }

    def _calm(self, calms: tuple[Calm, ...], efforts: tuple[Effort, ...]) -> dict[str, float]:
        """The columns for calm and effort over some episodes, all joints together."""
        found = calm_of_episodes(calms).together() if calms else {}
        return found | (effort_of_episodes(efforts).together() if efforts else {})

    def _mean_measures(self) -> dict[str, float]:
        """Means of the task's own measures: over episodes for those in ONCE, over steps for the rest."""
        names = self.measures[0]
        weights = {name: None if name in ONCE else self.lengths for name in names}
        return {name: float(np.average([m[name] for m in self.measures], weights=weights[name])) for name in names}

    def episodes(self) -> list[dict[str, float]]:
        """The rows of episodes.csv, one per episode."""
        return [
            {
                "episode": k,
                "return": float(self.returns[k]),
                "length": int(self.lengths[k]),
                "reward_mean": float(self.returns[k] / self.lengths[k]),
                "utilisation": use.utilisation,
                "violations": use.violations,
                **self._sharp((use,), self.lengths[k : k + 1]),
                **self._calm(self.calms[k : k + 1], self.efforts[k : k + 1]),
                **self.measures[k],
            }
            for k, use in enumerate(self.uses)
        ]

    def by_joint(self, names: tuple[str, ...]) -> list[dict[str, float | str]]:
        """The rows of calm.csv: utilisation, calm and effort of all joints together, then of each joint."""
        used = np.average([use.per_joint for use in self.uses], axis=0, weights=self.lengths)
        together: dict[str, float | str] = {"joint": "all", "utilisation": float(used.mean())}
        rows = [{**together, **self._calm(self.calms, self.efforts)}]
        shaking = calm_of_episodes(self.calms)
        done = effort_of_episodes(self.efforts) if self.efforts else None
        for i, name in enumerate(names):
            rows.append(
                {
                    "joint": name,
                    "utilisation": float(used[i]),
                    **shaking.of_joint(i),
                    **(done.of_joint(i) if done else {}),
                }
            )
        return rows

    def some_commands(self, names: tuple[str, ...], rows: int = 1_001) -> list[dict[str, float]]:
        """The rows of commands.csv: commands of the first episode, step after step from the reset action on."""
        return [dict(zip(names, (float(str(x)) for x in row), strict=True)) for row in self.commands[:rows]]

    def density(self, names: tuple[str, ...], bins: int = 50) -> list[dict[str, float]]:
        """The rows of density.csv, one per bin of increment over limit: its ends, then a column per joint."""
        edges, densities = increment_density(self.increments, bins)
        return [
            {"from": float(edges[b]), "to": float(edges[b + 1]), **dict(zip(names, densities[b].tolist(), strict=True))}
            for b in range(bins)
        ]

    def some_increments(self, names: tuple[str, ...], rows: int = 500) -> list[dict[str, float]]:
        """The rows of increments.csv: increments over their limits at evenly spaced steps, a column per joint."""
        steps = np.linspace(0, len(self.increments) - 1, min(rows, len(self.increments))).astype(int)
        return [{name: float(f"{x:.5g}") for name, x in zip(names, self.increments[t], strict=True)} for t in steps]


Evaluator = Callable[[Act, int, int], Evaluation]
"""Evaluates a policy in a number of episodes from a seed on."""


def make_evaluator(
    task: str, options: dict[str, Any], limits: RateLimits, extra_violations: ExtraViolations
) -> Evaluator:
    """The evaluator of policies in a task, which counts their layer's extra violations, too."""
    if is_gymnasium(task):
        env = wrapper(options, training=False)(gym.make(task, disable_env_checker=True), limits)
        return lambda act, episodes, seed: evaluate(act, env, episodes, seed, extra_violations)
    # Environments are made once for each number of them: some simulators take a minute over it.
    make = cache(partial(make_vec_env, task, limits, options=options, training=False))
    return lambda act, episodes, seed: evaluate_vec_env(act, make, episodes, seed, extra_violations)


def evaluate(
    act: Act,
    env: gym.Env[Any, Any],
    episodes: int,
    seed: int,
    extra_violations: ExtraViolations = lambda actions, limits: 0,
) -> Evaluation:
    """Run ``episodes`` episodes; episode k is reset with ``seed + k``."""
    books = known_books(env)
    finished, raw, dt = [], 0, control_period(books)
    actuators = actuators_of(env, dt)
    for k in range(episodes):
        where = f"{books.name}, evaluation, episode {k}"
        observation = checked_reset(env, where, seed + k)
        total, steps, done = 0.0, 0, False
        while not done:
            action = act(torch.from_numpy(observation[None]))
            raw += int(books.history.outside(action.judged.numpy()).sum())
            steps += 1
            step = checked_step(env, action.executed[0].numpy(), f"{where}, step {steps}")
            observation, reward, terminated, truncated, _ = step
            total, done = total + reward, terminated or truncated
            actuators.note()
        finished.append(Episode(total, books.actions, effort=actuators.effort()))
    return _evaluation(finished, raw, books.limits, extra_violations, dt)


def evaluate_vec_env(
    act: Act, make: MakeVecEnv, episodes: int, seed: int, extra_violations: ExtraViolations = lambda actions, limits: 0
) -> Evaluation:
    """Run the first episode of ``episodes`` environments, so that short episodes count no more than long ones."""
    finished: list[Episode] = []
    raw = 0
    for first in range(0, episodes, MAX_ENVS):
        vec_env = make(count=min(MAX_ENVS, episodes - first))
        vec_env.reset(seed + first)
        some, outside = _first_episodes(act, vec_env)
        finished += some
        raw += outside
    return _evaluation(finished, raw, vec_env.limits, extra_violations, vec_env.limits.dt or vec_env.dt)


def _first_episodes(act: Act, vec_env: VecEnv) -> tuple[list[Episode], int]:
    """The first episode of each environment, and the number of raw violations in them."""
    first: dict[int, Episode] = {}
    raw = 0
    while len(first) < vec_env.count:
        observations = vec_env.observations
        action = act(torch.from_numpy(observations))
        running = [k for k in range(vec_env.count) if k not in first]
        raw += int(_outside(action.judged.numpy()[running], observations[running], vec_env.limits).sum())
        result = vec_env.step(action.executed.numpy())
        for k, episode in zip(np.flatnonzero(result.ended), vec_env.episodes, strict=True):
            first.setdefault(int(k), episode)
    return [first[k] for k in range(vec_env.count)], raw


def _outside(action: NDArray[np.float32], observation: NDArray[np.float32], limits: RateLimits) -> NDArray[np.bool_]:
    """Which joints of actions (k, d) are outside F_t after augmented observations (k, n)."""
    previous = previous_action(observation, limits.dim)
    if limits.grid is None:
        return limits.outside(action, previous)
    return limits.outside(action, previous, previous.astype(np.float64) - previous_velocity(observation, limits.dim))


def control_period(env: Augment) -> float | None:
    """Seconds per step, where the limits or the environment say it."""
    return env.limits.dt or getattr(env.unwrapped, "dt", None)


def _evaluation(
    episodes: list[Episode], raw: int, limits: RateLimits, extra_violations: ExtraViolations, dt: float | None
) -> Evaluation:
    uses = []
    for episode in episodes:
        use = rate_use(episode.actions, limits)
        uses.append(replace(use, violations=use.violations + extra_violations(episode.actions, limits)))
    moves = [increments_and_limits(episode.actions, limits) for episode in episodes]
    return Evaluation(
        np.array([episode.total for episode in episodes]),
        np.array([use.steps for use in uses]),
        tuple(uses),
        raw,
        np.concatenate([increments / allowed for increments, allowed in moves]),
        tuple(episode.measures for episode in episodes),
        limits.grid is not None,
        tuple(calm(episode.actions, dt, limits) for episode in episodes),
        tuple(episode.effort for episode in episodes if episode.effort is not None),
        episodes[0].actions.astype(np.float32),
    )
