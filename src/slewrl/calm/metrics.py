"""How calm the commands of an episode are, and what they cost at the actuators: pure functions of arrays.

docs/calm.md has every formula with its unit. Everything is measured joint by joint; ``together`` has one number each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slewrl.metrics import increments_and_limits

if TYPE_CHECKING:
    from slewrl.limits import RateLimits

Array = NDArray[np.float64]
AT_LIMIT = 0.99
"""The share of its limit from which on an increment counts as at the limit."""
CUTOFF = 5.0
"""Hz: the frequency above which power counts as high, unless another is given."""
UNITS = {
    "at_limit": "share of steps",
    "reversals": "share of steps",
    "second_difference": "delta per step",
    "second_difference_rms": "delta per step",
    "high_frequency": "share of power",
    "smoothness": "half ranges",
}
"""The unit of each measure of ``Calm``, where the limits are known."""
SHARES = tuple(name for name, unit in UNITS.items() if unit.startswith("share"))
"""The measures that are shown in percent."""


@dataclass(frozen=True)
class Calm:
    """The measures of calm of an episode, or of several, for each of d joints; NaN where one is not defined."""

    steps: int
    """Number of increments."""
    at_limit: Array
    """Share of steps whose increment is at least ``AT_LIMIT`` of its limit; NaN without limits."""
    reversals: Array
    """Share of pairs of successive increments with opposite signs."""
    second_difference: Array
    """Mean |v_t - v_{t-1}|, where v is the increment over its limit, or the increment itself without limits."""
    second_difference_rms: Array
    """Root of the mean square of v_t - v_{t-1}."""
    high_frequency: Array
    """Share of the command's power, without its mean, above the cut-off; NaN if dt does not resolve that."""
    smoothness: Array
    """Mean weighted frequency 2 / (n f_s) sum M_i f_i of the command over its half range; less is smoother."""

    def together(self) -> dict[str, float]:
        """One number each: the mean over joints, of mean squares where the measure is a root."""
        return {name: float(_unsquared(name, _squared(name, getattr(self, name)).mean())) for name in UNITS}

    def of_joint(self, i: int) -> dict[str, float]:
        """The measures of joint i."""
        return {name: float(getattr(self, name)[i]) for name in UNITS}


@dataclass(frozen=True)
class Effort:
    """What actuators did in an episode, for each of d joints."""

    steps: int
    work: Array
    """Mechanical work sum |torque speed| dt, J (of an episode; the mean of several)."""
    torque_rms: Array
    """Root of the mean square of the torque, N m (N of a slide)."""
    torque_rate: Array
    """Root of the mean square of the torque's change over dt, N m / s."""

    def together(self) -> dict[str, float]:
        """One number each: the sum of the work, roots of the means over joints of the squares of the others."""
        rms = {name: float(np.sqrt(np.square(getattr(self, name)).mean())) for name in ("torque_rms", "torque_rate")}
        return {"work": float(self.work.sum()), **rms}

    def of_joint(self, i: int) -> dict[str, float]:
        """The measures of joint i."""
        return {name: float(getattr(self, name)[i]) for name in ("work", "torque_rms", "torque_rate")}


def calm(
    commands: NDArray[Any],
    dt: float | None = None,
    limits: "RateLimits | None" = None,
    cutoff: float = CUTOFF,
) -> Calm:
    """Measure commands (T + 1, d) of successive steps: in an episode, the reset action and what was executed since.

    Args:
        commands: the commands, one row per step.
        dt: seconds between two of them; without it ``high_frequency`` is NaN.
        limits: rate limits of the d joints, which give the units; without them v is the increment itself.
        cutoff: Hz, for ``high_frequency``.
    """
    commands = np.asarray(commands, np.float64)
    if len(commands) < 2:
        nothing = np.full(commands.shape[1], np.nan)
        return Calm(0, *[nothing] * len(UNITS))
    increments, allowed = (
        (np.diff(commands, axis=0), None) if limits is None else increments_and_limits(commands, limits)
    )
    v = increments if allowed is None else increments / allowed
    sharp = np.abs(np.diff(v, axis=0))
    return Calm(
        len(increments),
        np.full(v.shape[1], np.nan) if allowed is None else (np.abs(v) >= AT_LIMIT).mean(0),
        _mean(increments[1:] * increments[:-1] < 0),
        _mean(sharp),
        np.sqrt(_mean(np.square(sharp))),
        high_frequency_share(commands, dt, cutoff),
        weighted_frequency(commands if limits is None else commands / (0.5 * (limits.high - limits.low))),
    )


def amplitudes(commands: Array) -> Array:
    """M_i, (n, d): amplitudes of the components i = 1 ... n = floor(N / 2) of N commands (N, d), at f_i = i / (N dt).

    That of a sine of amplitude A on f_i is A. The mean (i = 0) is left out.
    """
    count = len(commands)
    found = 2 / count * np.abs(np.fft.rfft(commands, axis=0)[1:])
    if count % 2 == 0:
        found[-1] /= 2  # the frequency of Nyquist has no mirror image
    return found


def frequencies(count: int, dt: float) -> Array:
    """f_i, (n,), in Hz, of ``amplitudes``."""
    return np.asarray(np.fft.rfftfreq(count, dt)[1:], np.float64)


def power(commands: Array) -> Array:
    """The power of each component of ``amplitudes``, (n, d); they sum to the variance of the commands (Parseval)."""
    found = np.square(amplitudes(commands)) / 2
    if len(commands) % 2 == 0:
        found[-1] *= 2
    return found


def high_frequency_share(commands: Array, dt: float | None, cutoff: float = CUTOFF) -> Array:
    """Share (d,) of the power above ``cutoff`` Hz; 0 of a constant command; NaN without a dt that resolves it."""
    if dt is None or cutoff >= 0.5 / dt:
        return np.full(commands.shape[1], np.nan)
    found, above = power(commands), frequencies(len(commands), dt) > cutoff
    total = found.sum(0)
    still = np.ptp(commands, axis=0) == 0  # whose power is rounding alone
    return np.where(still, 0.0, found[above].sum(0) / np.where(still, 1.0, total))


def weighted_frequency(commands: Array) -> Array:
    """Sm = 2 / (n f_s) sum_i M_i f_i, (d,): the smoothness of Mysore et al. 2021 (CAPS), in the commands' unit.

    As f_i / f_s = i / N, it does not depend on dt.
    """
    found, count = amplitudes(commands), len(commands)
    share = np.arange(1, len(found) + 1) / count  # f_i / f_s
    return np.asarray(2 / len(found) * (share @ found))


def effort(torques: NDArray[np.floating[Any]], speeds: NDArray[np.floating[Any]], dt: float) -> Effort:
    """The effort of torques (T, d) in N m at speeds (T, d) in rad/s, sampled every ``dt`` seconds."""
    work = np.abs(torques * speeds).sum(0) * dt
    rate = np.sqrt(_mean(np.square(np.diff(torques, axis=0) / dt)))
    return Effort(len(torques), work, np.sqrt(_mean(np.square(torques))), rate)


def calm_of_episodes(episodes: Sequence[Calm]) -> Calm:
    """The measures over several episodes, weighted by their lengths; where one is NaN, that episode does not count."""
    return Calm(sum(one.steps for one in episodes), **_averages(episodes, UNITS))


def effort_of_episodes(episodes: Sequence[Effort]) -> Effort:
    """The effort over several episodes: the mean work of one, and the rest weighted by their lengths."""
    found = _averages(episodes, ("torque_rms", "torque_rate"))
    return Effort(sum(one.steps for one in episodes), np.mean([one.work for one in episodes], axis=0), **found)


def _averages(episodes: Sequence[Calm] | Sequence[Effort], names: Any) -> dict[str, Array]:
    steps = np.array([one.steps for one in episodes], np.float64)[:, None]
    found = {}
    for name in names:
        values = _squared(name, np.stack([getattr(one, name) for one in episodes]))
        weights = steps * np.isfinite(values)
        sums = (np.nan_to_num(values) * weights).sum(0)
        total = weights.sum(0)
        found[name] = _unsquared(name, np.where(total > 0, sums / np.where(total > 0, total, 1), np.nan))
    return found


ROOTS = ("second_difference_rms", "torque_rms", "torque_rate")
"""Measures that are roots of mean squares, which is what is averaged."""


def _squared(name: str, values: Any) -> Any:
    return np.square(values) if name in ROOTS else values


def _unsquared(name: str, values: Any) -> Any:
    return np.sqrt(values) if name in ROOTS else values


def _mean(values: NDArray[Any]) -> Array:
    """The mean over steps, (d,); NaN without any."""
    return np.asarray(values.mean(0)) if len(values) else np.full(values.shape[1], np.nan)


assert tuple(UNITS) == tuple(field.name for field in fields(Calm))[1:]
