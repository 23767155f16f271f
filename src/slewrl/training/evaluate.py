"""Episodes of a policy without exploration, seeded: returns, and how the rate limits were used."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.envs.augment import Augment
from slewrl.envs.checked import checked_reset, checked_step
from slewrl.envs.vec_env import Episode, VecEnv
from slewrl.layers.base import Decision
from slewrl.limits import RateLimits
from slewrl.limits.augmented import previous_action, previous_velocity
from slewrl.metrics import RateUse, increment_density, increments_and_limits, rate_use, return_cv

EVALUATION_SEED = 1_000_000
"""Evaluation episodes are reset with this and the seeds after it, in every run."""
Act = Callable[[torch.Tensor], Decision]
"""Augmented observations (N, n) to an action for each."""
ExtraViolations = Callable[[NDArray[np.float32], RateLimits], int]
"""Executed actions (T + 1, d) to how many steps broke what a layer promises beyond F_t."""
ONCE = ("fell", "exploded")
"""Measures that an episode either has or not."""
AT_ONCE = 256
"""Most episodes of many worlds that are run side by side."""


@dataclass(frozen=True)
class Evaluation:
    """What a number of episodes came to."""

    returns: NDArray[np.float64]
    """Sum of rewards, by episode."""
    lengths: NDArray[np.int64]
    """Steps, by episode."""
    uses: tuple[RateUse, ...]
    """Utilisation and violations of what was executed, by episode; its layer's extra ones are among the violations."""
    raw_violations: int
    """Joint steps at which what the critic judges, not what was executed, left F_t."""
    increments: NDArray[np.float64]
    """Every increment over its limit, (sum of lengths, d); in [-1, 1] for hard layers."""
    measures: tuple[dict[str, float], ...] = ()
    """What else the task measures, by episode."""
    accelerates: bool = False
    """Whether the limits have an acceleration, whose violations have a column of their own."""

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
            **self._sharp(*self.uses),
            "violation_rate": sum(use.violations for use in self.uses) / (steps * joints),
            "raw_violation_rate": self.raw_violations / (steps * joints),
            **self._measured(),
            **{f"utilisation_{i}": float(value) for i, value in enumerate(per_joint)},
        }

    def _sharp(self, *uses: RateUse) -> dict[str, float]:
        """The column for violations of the acceleration, if there is a limit on it."""
        return {"acceleration_violations": sum(use.acceleration_violations for use in uses)} if self.accelerates else {}

    def _measured(self) -> dict[str, float]:
        """Means of the task's own measures: of what happens once an episode by episode, of the rest by step."""
        names = self.measures[0] if self.measures else ()
        weights = {name: None if name in ONCE else self.lengths for name in names}
        return {name: float(np.average([m[name] for m in self.measures], weights=weights[name])) for name in names}

    def episodes(self) -> list[dict[str, float]]:
        """A row for each episode, as episodes.csv has them."""
        return [
            {
                "episode": k,
                "return": float(self.returns[k]),
                "length": int(self.lengths[k]),
                "reward_mean": float(self.returns[k] / self.lengths[k]),
                "utilisation": use.utilisation,
                "violations": use.violations,
                **self._sharp(use),
                **(self.measures[k] if self.measures else {}),
            }
            for k, use in enumerate(self.uses)
        ]

    def density(self, names: tuple[str, ...], bins: int = 50) -> list[dict[str, float]]:
        """A row for each bin of increment over limit, as density.csv has them: its ends, then a column per joint."""
        edges, densities = increment_density(self.increments, bins)
        return [
            {"from": float(edges[b]), "to": float(edges[b + 1]), **dict(zip(names, densities[b].tolist(), strict=True))}
            for b in range(bins)
        ]

    def some_increments(self, names: tuple[str, ...], rows: int = 500) -> list[dict[str, float]]:
        """Increments over their limits at evenly spaced steps, as increments.csv has them: a column per joint."""
        steps = np.linspace(0, len(self.increments) - 1, min(rows, len(self.increments))).astype(int)
        return [{name: float(f"{x:.5g}") for name, x in zip(names, self.increments[t], strict=True)} for t in steps]


def nothing_more(actions: NDArray[np.float32], limits: RateLimits) -> int:
    """Of a layer that promises F_t and no more."""
    return 0


def evaluate(
    act: Act, env: Augment, episodes: int, seed: int, extra_violations: ExtraViolations = nothing_more
) -> Evaluation:
    """Run ``episodes`` episodes; episode k is reset with ``seed + k``."""
    returns, lengths, uses, increments, raw = [], [], [], [], 0
    for k in range(episodes):
        where = f"{env.name}, evaluation, episode {k}"
        observation = checked_reset(env, where, seed + k)
        total, steps, done = 0.0, 0, False
        while not done:
            action = act(torch.from_numpy(observation[None]))
            raw += int(env.history.outside(action.judged.numpy()).sum())
            step = checked_step(env, action.executed[0].numpy(), f"{where}, step {steps + 1}")
            observation, reward, terminated, truncated, info = step
            total, steps, done = total + reward, steps + 1, terminated or truncated
        returns.append(total)
        lengths.append(steps)
        actions, use = env.actions, info["rate_use"]
        uses.append(replace(use, violations=use.violations + extra_violations(actions, env.limits)))
        moved, allowed = increments_and_limits(actions, env.limits)
        increments.append(moved / allowed)
    found = np.array(returns), np.array(lengths), tuple(uses), raw, np.concatenate(increments)
    return Evaluation(*found, accelerates=env.limits.grid is not None)


def evaluate_vec_env(
    act: Act, make: Callable[..., VecEnv], episodes: int, seed: int, extra_violations: ExtraViolations = nothing_more
) -> Evaluation:
    """Run ``episodes`` first episodes of worlds, side by side, so that short ones count no more than long ones.

    Args:
        act: the policy.
        make: ``count`` to worlds of the task, not training.
        episodes: how many.
        seed: of the first lot of worlds.
        extra_violations: of the policy's layer.
    """
    over: list[Episode] = []
    raw = 0
    for first in range(0, episodes, AT_ONCE):
        worlds = make(count=min(AT_ONCE, episodes - first))
        worlds.reset(seed + first)
        some, outside = _first_episodes(act, worlds)
        over += some
        raw += outside
    limits = worlds.limits
    found = [(rate_use(episode.actions, limits), extra_violations(episode.actions, limits)) for episode in over]
    uses = tuple(replace(use, violations=use.violations + more) for use, more in found)
    moves = [increments_and_limits(episode.actions, limits) for episode in over]
    return Evaluation(
        np.array([episode.total for episode in over]),
        np.array([use.steps for use in uses]),
        uses,
        raw,
        np.concatenate([moved / allowed for moved, allowed in moves]),
        tuple(episode.measures for episode in over),
        limits.grid is not None,
    )


def _first_episodes(act: Act, worlds: VecEnv) -> tuple[list[Episode], int]:
    """The first episode of each world, and how many joint steps of what the critic judges left F_t in them."""
    first: dict[int, Episode] = {}
    raw = 0
    while len(first) < worlds.count:
        seen = worlds.observations
        action = act(torch.from_numpy(seen))
        running = [k for k in range(worlds.count) if k not in first]
        raw += int(_outside(action.judged.numpy()[running], seen[running], worlds.limits).sum())
        moved = worlds.step(action.executed.numpy())
        for k, episode in zip(np.flatnonzero(moved.ended), worlds.episodes, strict=True):
            first.setdefault(int(k), episode)
    return [first[k] for k in range(worlds.count)], raw


def _outside(action: NDArray[np.float32], seen: NDArray[np.float32], limits: RateLimits) -> NDArray[np.bool_]:
    """Which joints of actions (k, d) are outside F_t after augmented observations (k, n)."""
    previous = previous_action(seen, limits.dim)
    if limits.grid is None:
        return limits.outside(action, previous)
    return limits.outside(action, previous, previous.astype(np.float64) - previous_velocity(seen, limits.dim))
