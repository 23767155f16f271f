"""Statistics of several runs on several tasks: aggregates, intervals and comparisons, as pure functions of arrays.

Scores of several tasks are a sequence of arrays (runs,), one for each task; their numbers of runs may differ.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slewrl.report.distributions import beta_quantile, bisected, chi_quantile, noncentral_t_cdf, t_quantile

Interval = tuple[float, float]
"""Low and high end; (-inf, inf) where the runs say nothing."""
ANYTHING: Interval = (-math.inf, math.inf)
MOST_SEEDS = 1_000_000
"""More than anybody will run."""
NO_SHIFT = 1e-9
"""As good as 0: without it a bisection would go on for a thousand halvings."""
SHARP = 30.0
"""A mean this many standard errors from 0 is as good as known beside its standard deviation."""
Floats = NDArray[np.floating]
Tasks = list[NDArray[np.float64]]


def mean_std(scores: Floats) -> tuple[float, float]:
    """Mean and sample standard deviation, sqrt(sum (s - mean)^2 / (runs - 1)), of scores (runs,); nan of one run."""
    runs = _numbers(scores, "scores")
    return float(runs.mean()), float(runs.std(ddof=1)) if len(runs) > 1 else math.nan


# ---------------------------------------------------------------------- intervals over few runs


def t_interval(values: Floats, level: float = 0.95) -> Interval:
    """Interval of the mean: mean -/+ t(n - 1) s / sqrt(n), exact for Gaussian runs; one run says nothing."""
    runs = _numbers(values, "values")
    mean, std = mean_std(runs)
    return around(mean, std / math.sqrt(len(runs)), len(runs) - 1, level) if len(runs) > 1 else ANYTHING


def difference_interval(x: Floats, y: Floats, paired: bool = False, level: float = 0.95) -> Interval:
    """Interval of mean(x) - mean(y): that of x_i - y_i if paired, Welch's if not. One run on a side says nothing."""
    one, other = _pair(x, y, paired)
    if paired:
        return t_interval(one - other, level)
    if min(len(one), len(other)) < 2:
        return ANYTHING
    errors = [runs.var(ddof=1) / len(runs) for runs in (one, other)]
    df = satterthwaite(errors, [len(one) - 1, len(other) - 1])
    return around(float(one.mean() - other.mean()), math.sqrt(sum(errors)), df, level)


def ratio_interval(x: Floats, y: Floats, paired: bool = False, level: float = 0.95) -> Interval:
    """Interval of mean(x) / mean(y), by Fieller: every r for which the interval of x - r y holds 0.

    The whole line where mean(y) is not told from 0, or either side has one run.
    """
    one, other = _pair(x, y, paired)
    if min(len(one), len(other)) < 2:
        return ANYTHING
    top, bottom = float(one.mean()), float(other.mean())
    a, b = (float(runs.var(ddof=1)) / len(runs) for runs in (one, other))
    c = float(np.cov(one, other)[0, 1]) / len(one) if paired else 0.0
    df = float(len(one) - 1)
    if not paired:
        slope = top / bottom if bottom else 0.0
        df = satterthwaite([a, slope**2 * b], [len(one) - 1, len(other) - 1])
    t2 = t_quantile((1 + level) / 2, df) ** 2
    # (top - r bottom)^2 <= t^2 (a - 2 r c + r^2 b), a parabola in r.
    lead, half, rest = bottom**2 - t2 * b, top * bottom - t2 * c, top**2 - t2 * a
    if lead <= 0:
        return ANYTHING
    root = math.sqrt(max(half**2 - lead * rest, 0.0))
    return (half - root) / lead, (half + root) / lead


def cv_interval(values: Floats, level: float = 0.95) -> Interval:
    """Interval of 100 sigma / |mu|, in percent: sqrt(n) mean / s is noncentral t around sqrt(n) mu / sigma.

    Exact for Gaussian runs. The high end is infinite where the mean is not told from 0.
    """
    (mean, std), n = mean_std(values), len(values)
    if n < 2 or (std == 0 and mean == 0):
        return 0.0, math.inf
    if std == 0:
        return 0.0, 0.0
    t, tail = math.sqrt(n) * abs(mean) / std, (1 - level) / 2
    if t > SHARP:
        return std_interval(100 * std / abs(mean), n, level)

    def shift(share: float) -> float:
        """The noncentrality for which this share of t lies below ours."""
        return bisected(lambda d: share - noncentral_t_cdf(t, n - 1, d), NO_SHIFT, 4 * t + 20)

    far, near = shift(tail), shift(1 - tail)
    return 100 * math.sqrt(n) / far, 100 * math.sqrt(n) / near if near > 2 * NO_SHIFT else math.inf


def std_interval(std: float, runs: int, level: float = 0.95) -> Interval:
    """Interval of the true standard deviation behind a sample one: s / sqrt(chi²(n - 1) / (n - 1))."""
    if runs < 2:
        return 0.0, math.inf
    low, high = (chi_quantile(p, runs - 1) for p in ((1 + level) / 2, (1 - level) / 2))
    return std / low, std / high


def jackknife_interval(
    groups: Sequence[Floats], statistic: Callable[[Tasks], float], paired: bool = False, level: float = 0.95
) -> Interval:
    """Interval of any smooth function of several groups of runs, by leaving out a run at a time; t with Welch's df.

    ``paired``: entry i of every group has the same seed, and is left out with it. For a difference of means this is
    `difference_interval` itself; for other statistics it is an approximation.
    """
    found = _tasks(groups, "groups")
    if min(map(len, found)) < 2:
        return ANYTHING
    together = [range(len(found))] if paired else [[k] for k in range(len(found))]
    errors, dfs = [], []
    for chosen in together:
        n = len(found[chosen[0]])
        left = [statistic([np.delete(g, i) if k in chosen else g for k, g in enumerate(found)]) for i in range(n)]
        errors.append((n - 1) * float(np.var(left)))
        dfs.append(n - 1)
    return around(statistic(found), math.sqrt(sum(errors)), satterthwaite(errors, dfs), level)


def around(value: float, error: float, df: float, level: float) -> Interval:
    """value -/+ t(df) error."""
    _check_share(level, "level")
    if math.isnan(value) or math.isnan(error):
        return ANYTHING
    half = t_quantile((1 + level) / 2, df) * error if error else 0.0
    return value - half, value + half


def satterthwaite(errors: Sequence[float], dfs: Sequence[float]) -> float:
    """Degrees of freedom of a sum of squared errors, each with its own: (sum e)^2 / sum e^2 / df."""
    total = sum(errors)
    return total**2 / sum(e**2 / df for e, df in zip(errors, dfs, strict=True)) if total else float(min(dfs))


# ---------------------------------------------------------------------- how many runs


def power_of(seeds: int, effect: float, level: float = 0.95, paired: bool = False) -> float:
    """The chance that a t-test with this many seeds of each method tells a true difference from 0.

    ``effect`` is the difference over the standard deviation of a method over its seeds or, if paired, of the seeds'
    differences: one sample with n - 1 degrees of freedom instead of two with 2 n - 2.
    """
    df, shift = (seeds - 1, effect * math.sqrt(seeds)) if paired else (2 * seeds - 2, effect * math.sqrt(seeds / 2))
    edge = t_quantile((1 + level) / 2, df)
    return 1 - noncentral_t_cdf(edge, df, shift) + noncentral_t_cdf(-edge, df, shift)


def seeds_needed(
    sd: float, difference: float, power: float = 0.8, level: float = 0.95, correlation: float | None = None
) -> int:
    """Seeds of each of two methods, so that their difference is told from 0 with the chance ``power``.

    Args:
        sd: Standard deviation of a method's return over its seeds.
        difference: Of the true means: the smallest that matters.
        power: The chance to tell it.
        level: Of the interval that has to leave out 0.
        correlation: Between two methods' returns over the seeds they share, for pairs by seed; None: Welch's.
    """
    for name, value in (("sd", sd), ("difference", difference)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}, expected a finite number > 0")
    for name, value in (("power", power), ("level", level)):
        _check_share(value, name)
    if correlation is not None and not -1 <= correlation < 1:
        raise ValueError(f"correlation is {correlation}, expected a number in [-1, 1)")
    paired = correlation is not None
    effect = difference / (sd * math.sqrt(2 * (1 - (correlation or 0.0))) if paired else sd)
    counts = range(2, MOST_SEEDS + 1)
    fewer = bisect_left(counts, True, key=lambda seeds: power_of(seeds, effect, level, paired) >= power)
    if fewer == len(counts):
        raise ValueError(f"a difference of {difference:g} beside an sd of {sd:g} takes more than {MOST_SEEDS:,} seeds")
    return counts[fewer]


# ---------------------------------------------------------------------- several tasks


def iqm(tasks: Sequence[Floats]) -> NDArray[np.float64]:
    """Interquartile mean: of all n scores of all tasks in order, the mean without the floor(n / 4) at either end.

    A task with more runs weighs more. Fewer than four scores give the plain mean. Arrays (..., runs), such as many
    resamples at once, give (...,).
    """
    ordered = np.sort(np.concatenate(tasks, axis=-1), axis=-1)
    n = ordered.shape[-1]
    return ordered[..., n // 4 : n - n // 4].mean(-1)


def stratified_bootstrap(
    scores: Sequence[Floats],
    statistic: Callable[[Tasks], NDArray[np.float64]] = iqm,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic: its (1 - level) / 2 and (1 + level) / 2 quantiles over resamples.

    Each resample draws every task's runs anew with replacement, independently of the other tasks and as many as there
    were: it says how much another set of seeds would change the statistic, not how much other tasks would. With few
    runs it is too narrow: of 95 % intervals of a Gaussian's mean, about 83 % hold it with 5 runs, 93 % with 20.

    Args:
        scores: What to resample.
        statistic: Maps a list of arrays (samples, runs), one for each task, to (samples,) numbers.
        samples: Number of resamples.
        level: Share of the resamples inside the interval, in (0, 1).
        seed: Of the resampling. The same seed gives the same interval.
    """
    tasks = _tasks(scores)
    if samples < 1:
        raise ValueError(f"samples is {samples}, expected at least 1")
    _check_share(level, "level")
    rng = np.random.default_rng(seed)
    values = statistic([task[rng.integers(len(task), size=(samples, len(task)))] for task in tasks])
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def probability_of_improvement(x: Floats, y: Floats) -> float:
    """P(X > Y) + P(X = Y) / 2 over all pairs of a run of x and one of y (Mann-Whitney's U / nm)."""
    one, other = _pair(x, y)
    return float(np.mean((one[:, None] > other) + 0.5 * (one[:, None] == other)))


def improvement_interval(x: Floats, y: Floats, level: float = 0.95) -> Interval:
    """Interval of `probability_of_improvement`: Clopper and Pearson's of m = min(runs) trials.

    U / nm has at most the variance p (1 - p) / m of m independent trials (Birnbaum and Klose 1957), so p m "wins" of m
    are taken for a binomial count: on the safe side, and wide for few runs.
    """
    _check_share(level, "level")
    m, tail = min(len(x), len(y)), (1 - level) / 2
    wins = m * probability_of_improvement(x, y)
    return beta_quantile(wins, m - wins + 1, tail), beta_quantile(wins + 1, m - wins, 1 - tail)


def performance_profile(scores: Sequence[Floats], thresholds: Floats) -> NDArray[np.float64]:
    """Share of runs with a score > tau, averaged over tasks, for each tau of thresholds (k,); shape (k,)."""
    taus = _numbers(thresholds, "thresholds")
    shares: NDArray[np.float64] = np.mean([(task[:, None] > taus).mean(0) for task in _tasks(scores)], axis=0)
    return shares


def _pair(x: Floats, y: Floats, paired: bool = False) -> Tasks:
    one, other = _numbers(x, "x"), _numbers(y, "y")
    if paired and len(one) != len(other):
        raise ValueError(f"x and y have {len(one)} and {len(other)} runs, expected a pair for each seed")
    return [one, other]


def _check_share(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}, expected a share in (0, 1) such as 0.95")


def _tasks(scores: Sequence[Floats], name: str = "scores") -> Tasks:
    if len(scores) == 0:
        raise ValueError(f"{name} has no tasks, expected a sequence of arrays (runs,)")
    return [_numbers(task, f"{name} of task {i}") for i, task in enumerate(scores)]


def _numbers(values: Floats, name: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name}: shape is {array.shape}, expected one dimension and at least one entry")
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(f"{name}: entry {int(wrong.argmax())} is {array[wrong][0]}, expected finite numbers")
    return array
