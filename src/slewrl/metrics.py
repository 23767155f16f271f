"""Utilisation and exact violations of executed actions, as pure functions of arrays. Needs no torch.

docs/metrics.md has every formula.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.limits.viability import reachable, too_sharp

if TYPE_CHECKING:
    from slewrl.limits import RateLimits


@dataclass(frozen=True)
class RateUse:
    """How the actions of an episode used the rate limits."""

    steps: int
    """Number of increments."""
    violations: int
    """Joint increments outside F_t, decided exactly."""
    acceleration_violations: int
    """Those of them beyond an acceleration limit."""
    utilisation: float
    """Ratio of sums: sum |da| / sum delta over joints, averaged over steps; in [0, 1]."""
    utilisation_mean: float
    """Mean over steps and joints of |da_i| / delta_i."""
    per_joint: NDArray[np.float64]
    """Mean over steps of |da_i| / delta_i, shape (d,)."""
    acceleration_utilisation: float = math.nan
    """Ratio of sums over joints of |change of the increment| and what the acceleration limits allow in its direction,
    averaged over steps; in [0, 1], and NaN without such limits."""
    acceleration_utilisation_max: float = math.nan
    """The largest of these ratios of a joint in a step."""


class GroupUse(NamedTuple):
    """How two groups of joints used their limits."""

    proximal: float
    """Util-P: mean of |da_i| / delta_i over steps and the joints near the body; NaN if there are none."""
    distal: float
    """Util-D: the same for the joints far from it."""

    @property
    def gap(self) -> float:
        """|Util-P - Util-D|."""
        return abs(self.proximal - self.distal)


def group_use(per_joint: NDArray[np.float64], proximal: Sequence[int], distal: Sequence[int]) -> GroupUse:
    """The use of two groups, given as indices of joints, from the utilisation of each joint (d,)."""
    near, far = (float(per_joint[list(group)].mean()) if group else float("nan") for group in (proximal, distal))
    return GroupUse(near, far)


def rate_use(actions: NDArray[np.floating], limits: "RateLimits") -> RateUse:
    """The RateUse of an episode's actions (T + 1, d): the reset action, then what was executed at each step."""
    steps = len(actions) - 1
    if steps < 1:
        return RateUse(0, 0, 0, 0.0, 0.0, np.zeros(limits.dim))
    outside, sharp = violations(actions, limits)
    increments, allowed = increments_and_limits(actions, limits)
    ratios = np.abs(increments) / allowed
    ratio_of_sums = float((np.abs(increments).sum(-1) / allowed.sum(-1)).mean())
    count, sharp_count = int(outside.sum()), int(sharp.sum())
    use = RateUse(steps, count, sharp_count, ratio_of_sums, float(ratios.mean()), ratios.mean(0))
    if limits.acceleration is None or limits.deceleration is None:
        return use
    changes, most = changes_and_limits(increments, limits.acceleration, limits.deceleration)
    return replace(
        use,
        acceleration_utilisation=float((changes.sum(-1) / most.sum(-1)).mean()),
        acceleration_utilisation_max=float((changes / most).max()),
    )


def violations(actions: NDArray[np.floating], limits: "RateLimits") -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which joint increments (T, d) of an episode's actions (T + 1, d) left F_t, and which broke the acceleration."""
    before = np.concatenate([actions[:1], actions[:-2]])  # an episode begins at rest
    left = limits.outside(actions[1:], actions[:-1], before)
    if limits.acceleration is None or limits.deceleration is None:
        return left, np.zeros_like(left)
    return left, too_sharp(actions[1:], actions[:-1], before, limits.acceleration, limits.deceleration)


def increments_and_limits(
    actions: NDArray[np.floating], limits: "RateLimits"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The increments (T, d) of an episode's actions (T + 1, d), and the limit of each in its direction."""
    increments = np.diff(actions.astype(np.float64), axis=0)
    return increments, np.where(increments >= 0, limits.up, limits.down)


def changes_and_limits(
    increments: NDArray[np.float64], acceleration: NDArray[np.float64], deceleration: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much each of an episode's increments (T, d) changed, and how much it could have in that direction.

    The joints are at rest at first.
    """
    last = np.concatenate([np.zeros_like(increments[:1]), increments[:-1]])
    changes = increments - last
    least, most = reachable(last, acceleration, deceleration)
    return np.abs(changes), np.where(changes >= 0, most - last, last - least)


def increment_density(relative: NDArray[np.float64], bins: int = 50) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Density of increments over their limits (T, d), each in [-1, 1]: edges (bins + 1,), densities (bins, d)."""
    edges = np.linspace(-1, 1, bins + 1)
    clipped = np.clip(relative, -1, 1)  # a soft layer's may lie beyond
    counts = [np.histogram(joint, edges, density=True)[0] for joint in clipped.T]
    return edges, np.stack(counts, axis=1)


def return_cv(returns: NDArray[np.floating]) -> float:
    """Coefficient of variation of returns in percent, 100 std / |mean| (the paper's CV); inf at mean 0."""
    mean = abs(float(np.mean(returns)))
    return 100 * float(np.std(returns)) / mean if mean else float("inf")
