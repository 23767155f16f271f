"""Episodes of a policy without exploration, seeded: returns, and how the rate limits were used."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.envs.augment import Augment
from slewrl.envs.checked import checked_reset, checked_step
from slewrl.layers.base import Decision
from slewrl.metrics import RateUse, increment_density, increments_and_limits, return_cv

Act = Callable[[torch.Tensor], Decision]
"""Augmented observations (N, n) to an action for each."""


@dataclass(frozen=True)
class Evaluation:
    """What a number of episodes came to."""

    returns: NDArray[np.float64]
    """Sum of rewards, by episode."""
    lengths: NDArray[np.int64]
    """Steps, by episode."""
    uses: tuple[RateUse, ...]
    """Utilisation and violations of what was executed, by episode."""
    raw_violations: int
    """Joint steps at which what the critic judges, not what was executed, left F_t."""
    increments: NDArray[np.float64]
    """Every increment over its limit, (sum of lengths, d); in [-1, 1] for hard layers."""

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
            "violation_rate": sum(use.violations for use in self.uses) / (steps * joints),
            "raw_violation_rate": self.raw_violations / (steps * joints),
            **{f"utilisation_{i}": float(value) for i, value in enumerate(per_joint)},
        }

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


def evaluate(act: Act, env: Augment, episodes: int, seed: int) -> Evaluation:
    """Run ``episodes`` episodes; episode k is reset with ``seed + k``."""
    returns, lengths, uses, increments, raw = [], [], [], [], 0
    for k in range(episodes):
        where = f"{env.name}, evaluation, episode {k}"
        observation = checked_reset(env, where, seed + k)
        total, steps, done = 0.0, 0, False
        while not done:
            action = act(torch.from_numpy(observation[None]))
            judged, prev = action.judged.numpy(), env.chain[-1][None]
            raw += int(env.limits.outside(judged, prev).sum())
            step = checked_step(env, action.executed[0].numpy(), f"{where}, step {steps + 1}")
            observation, reward, terminated, truncated, info = step
            total, steps, done = total + reward, steps + 1, terminated or truncated
        returns.append(total)
        lengths.append(steps)
        uses.append(info["rate_use"])
        moved, allowed = increments_and_limits(np.stack(env.chain), env.limits)
        increments.append(moved / allowed)
    return Evaluation(np.array(returns), np.array(lengths), tuple(uses), raw, np.concatenate(increments))
