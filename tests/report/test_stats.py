"""Aggregates over runs and tasks: values by hand, what must hold for any scores, and rliable's answers."""

import math
import warnings

import numpy as np
import pytest

from slewrl.report import distributions, stats
from slewrl.report.stats import iqm, performance_profile, probability_of_improvement, stratified_bootstrap

RNG = np.random.default_rng(7)
X = RNG.normal(1.0, 1.0, (10, 4))
Y = RNG.normal(0.5, 2.0, (8, 4))
TASKS = list(X.T)


def mean(tasks):
    return np.concatenate(tasks, axis=-1).mean(-1)


def test_mean_and_sample_std():
    assert stats.mean_std(np.array([2.0, 4.0, 9.0])) == pytest.approx((5.0, math.sqrt(26 / 2)))
    single_mean, single_std = stats.mean_std(np.array([3.0]))
    assert single_mean == 3.0 and math.isnan(single_std)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([5.0], 5.0),
        ([0.0, 0.0, 9.0], 3.0),  # int(0.25 * 3) = 0: nothing is cut
        ([100.0, 1.0, 3.0, -100.0], 2.0),
        ([-50.0, 1.0, 2.0, 3.0, 4.0, 5.0, 90.0], 3.0),  # one off each end of seven
        ([8.0, 1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 60.0], 4.75),  # two off each end of eight: 3, 4, 5, 7
    ],
)
def test_iqm_by_hand(scores, expected):
    assert iqm([np.array(scores)]) == pytest.approx(expected)


def test_iqm_is_over_all_runs_of_all_tasks():
    # The mean of each task's own IQM is 1.
    assert iqm([np.array([1.0, -100.0]), np.array([3.0, 100.0])]) == pytest.approx(2.0)
    assert iqm([np.array([1.0, 3.0, 100.0]), np.array([-100.0])]) == pytest.approx(2.0)


def test_iqm_of_many_resamples_at_once():
    draws = [RNG.normal(size=(6, 5)), RNG.normal(size=(6, 3))]
    assert iqm(draws).tolist() == [iqm(list(drawn)) for drawn in zip(*draws, strict=True)]


def test_bootstrap_of_two_runs_by_hand():
    """Runs 0 and 1: the mean is 0, 1/2, 1 with chances 1/4, 1/2, 1/4."""
    runs = np.array([0.0, 1.0])
    assert stratified_bootstrap([runs], mean, level=0.6) == (0.0, 1.0)  # tails of 20 %
    assert stratified_bootstrap([runs], mean, level=0.4) == (0.5, 0.5)  # tails of 30 %


def test_bootstrap_never_moves_a_run_to_another_task():
    constant = [np.full(3, -5.0), np.full(6, 10.0)]
    assert stratified_bootstrap(constant, mean) == (5.0, 5.0)  # (3 * -5 + 6 * 10) / 9


def test_bootstrap_draws_tasks_independently():
    """With the same rows for both tasks the mean would be 1/2 always; drawn apart it is 0 once in 16, and 1."""
    assert stratified_bootstrap([np.array([0.0, 1.0]), np.array([1.0, 0.0])], mean) == (0.0, 1.0)


def test_bootstrap_interval_of_a_mean_has_the_width_of_its_standard_error():
    """The resampled mean has standard deviation std / sqrt(n), std with ddof = 0, and is nearly normal for n = 50."""
    runs = np.random.default_rng(3).normal(size=50)
    for level, quantile in ((0.95, 1.960), (0.5, 0.6745)):
        low, high = stratified_bootstrap([runs], mean, samples=20_000, level=level)
        half = quantile * runs.std() / math.sqrt(50)
        assert (low, high) == pytest.approx((runs.mean() - half, runs.mean() + half), abs=0.05 * half)


def test_bootstrap_interval_holds_the_statistic_of_symmetric_scores():
    scores = list(np.concatenate([X, -X]).T)  # symmetric about 0 in every task, so the mean and the IQM are 0
    for statistic in (mean, iqm):
        low, high = stratified_bootstrap(scores, statistic)
        assert low < 0 < high and low == pytest.approx(-high, rel=0.15)


@pytest.mark.parametrize(("runs", "least", "most"), [(5, 0.75, 0.9), (20, 0.88, 0.97)])
def test_bootstrap_coverage_of_a_gaussian_mean(runs, least, most):
    """The docstring's 83 % with 5 runs and 93 % with 20; 200 repetitions have standard errors of 2.7 % and 1.8 %."""
    rng = np.random.default_rng(11)
    intervals = [
        stratified_bootstrap([rng.normal(2.0, 3.0, runs)], mean, samples=400, seed=seed) for seed in range(200)
    ]
    assert least <= np.mean([low <= 2.0 <= high for low, high in intervals]) <= most


def test_bootstrap_repeats_for_a_seed_and_changes_with_it():
    state = np.random.get_state()[1].copy()
    first = stratified_bootstrap(TASKS, iqm, seed=1)
    assert first == stratified_bootstrap(TASKS, iqm, seed=1)
    assert first != stratified_bootstrap(TASKS, iqm, seed=2)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # numpy's global generator is left alone


def test_probability_of_improvement_by_hand():
    assert probability_of_improvement(np.array([1.0, 3.0]), np.array([2.0, 3.0, 0.0])) == pytest.approx(3.5 / 6)


def test_probability_of_improvement_is_antisymmetric_and_a_half_against_itself():
    x, y = X[:, 0], Y[:, 0]
    ties = np.round(x)
    assert probability_of_improvement(ties, ties) == pytest.approx(0.5)
    for one, other in ((x, y), (ties, np.round(y))):
        forward, backward = probability_of_improvement(one, other), probability_of_improvement(other, one)
        assert forward != pytest.approx(0.5) and forward + backward == pytest.approx(1.0)
    assert probability_of_improvement(x, x - 100) == 1 and probability_of_improvement(x, x + 100) == 0


# ---------------------------------------------------------------------- few runs


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 4, 2.77645),
        (0.95, 10, 1.81246),
        (0.9995, 3, 12.9240),
        (0.025, 30, -2.04227),
        (0.5, 7, 0.0),
    ],
)
def test_quantiles_of_t_are_those_of_the_tables(p, df, value):
    assert distributions.t_quantile(p, df) == pytest.approx(value, rel=2e-5)


def test_distributions_by_hand():
    # One degree of freedom is Cauchy's, two have a closed form; t = 0 of the noncentral one is a normal's tail.
    assert distributions.t_quantile(0.75, 1) == pytest.approx(1.0, abs=1e-14)
    half = 0.5 + 1.5 / (2 * math.sqrt(2 + 1.5**2))
    assert distributions.t_quantile(half, 2) == pytest.approx(1.5, abs=1e-13)
    assert distributions.noncentral_t_cdf(0.0, 5, 1.0) == pytest.approx(0.15865525393145707, abs=1e-12)
    assert distributions.noncentral_t_cdf(distributions.t_quantile(0.9, 3), 3, 0.0) == pytest.approx(0.9, abs=1e-10)
    # S^2 of two degrees of freedom is exponential; a beta of (1, n) is 1 - (1 - x)^n.
    assert distributions.chi_cdf(1.2, 2) == pytest.approx(1 - math.exp(-(1.2**2)), abs=1e-12)
    assert distributions.chi_quantile(0.5, 2) == pytest.approx(math.sqrt(math.log(2)), abs=1e-12)
    assert distributions.beta_cdf(1, 3, 0.2) == pytest.approx(1 - 0.8**3, abs=1e-14)
    assert distributions.beta_quantile(3, 1, 0.025) == pytest.approx(0.025 ** (1 / 3), abs=1e-14)


def test_t_interval_by_hand():
    half = 4.302652729911275 * 2 / math.sqrt(3)  # 1, 3, 5: mean 3, deviation 2
    assert stats.t_interval(np.array([1.0, 3.0, 5.0])) == pytest.approx((3 - half, 3 + half))
    assert stats.t_interval(np.array([7.0])) == (-math.inf, math.inf)
    assert stats.t_interval(np.array([7.0, 7.0])) == (7, 7)


def test_difference_paired_and_welch_by_hand():
    x, y = np.array([1.0, 3.0, 8.0]), np.array([0.0, 1.0, 4.5])
    half = 4.302652729911275 * math.sqrt(19 / 12) / math.sqrt(3)  # by seed 1, 2, 3.5: variance 19 / 12
    assert stats.difference_interval(x, y, paired=True) == pytest.approx((13 / 6 - half, 13 / 6 + half))
    # Variances 13 and 67 / 12: df = (a + b)^2 / (a^2 / 2 + b^2 / 2) of a = 13 / 3, b = 67 / 36.
    a, b = 13 / 3, 67 / 36
    df = (a + b) ** 2 / (a**2 / 2 + b**2 / 2)
    assert df == pytest.approx(3.4504, abs=1e-4)
    half = distributions.t_quantile(0.975, df) * math.sqrt(a + b)
    assert 2.7764 < half / math.sqrt(a + b) < 3.1824  # between those of four and of three degrees of freedom
    assert stats.difference_interval(x, y) == pytest.approx((13 / 6 - half, 13 / 6 + half))
    assert stats.difference_interval(x, y[:1]) == (-math.inf, math.inf)


def test_fieller_is_where_the_difference_is_not_told_from_0():
    x, y = np.array([11.0, 13.0, 18.0]), np.array([20.0, 21.0, 24.5])
    for paired in (True, False):
        low, high = stats.ratio_interval(x, y, paired)
        assert low < x.mean() / y.mean() < high
        if paired:
            assert stats.difference_interval(x, low * y, True)[0] == pytest.approx(0, abs=1e-9)
            assert stats.difference_interval(x, high * y, True)[1] == pytest.approx(0, abs=1e-9)
    assert stats.ratio_interval(x, np.array([1.0, -1.0, 0.5])) == (-math.inf, math.inf)
    assert stats.ratio_interval(np.array([1.0, 1.0]), np.array([4.0, 4.0]), True) == (0.25, 0.25)


def test_the_jackknife_of_a_difference_is_welchs():
    x, y = np.array([1.0, 3.0, 8.0]), np.array([0.0, 1.0, 4.5, 2.0])
    for one, other, paired in ((x, y, False), (x, y[:3], True)):
        found = stats.jackknife_interval([one, other], lambda g: float(g[0].mean() - g[1].mean()), paired)
        assert found == pytest.approx(stats.difference_interval(one, other, paired))


def test_cv_interval_holds_the_truth():
    rng = np.random.default_rng(5)
    intervals = [stats.cv_interval(rng.normal(2.0, 1.0, 3)) for _ in range(80)]
    assert np.mean([low <= 50 <= high for low, high in intervals]) >= 0.88
    # A mean 200 deviations from 0 is as good as known: s / sqrt(chi²(n - 1) / (n - 1)), with two closed forms.
    low, high = stats.cv_interval(np.array([199.0, 200.0, 201.0]))
    ends = [0.5 / math.sqrt(-math.log(p)) for p in (0.025, 0.975)]
    assert [low, high] == pytest.approx(ends, rel=1e-9)
    assert stats.std_interval(1.0, 3) == pytest.approx((2 * low, 2 * high))


def test_few_runs_say_little_of_an_improvement():
    """Three of three trials: Clopper and Pearson's .025^(1/3) to 1; of 3.5 of 6 wins, wide."""
    assert stats.improvement_interval(X[:3, 0] + 99, X[:3, 0]) == (pytest.approx(0.025 ** (1 / 3)), 1.0)
    assert stats.improvement_interval(X[:3, 0] - 99, X[:3, 0]) == (0.0, pytest.approx(1 - 0.025 ** (1 / 3)))
    low, high = stats.improvement_interval(np.array([1.0, 3.0]), np.array([2.0, 3.0, 0.0]))
    assert low < 0.05 and high > 0.95
    low, high = stats.improvement_interval(np.arange(100.0), np.arange(100.0))
    assert (low, high) == pytest.approx((0.398, 0.602), abs=1e-3)  # 50 of 100, as in the tables
    rng = np.random.default_rng(2)
    truth = 0.7602  # P(Z > -1 / sqrt(2))
    found = [stats.improvement_interval(rng.normal(1, 1, 3), rng.normal(0, 1, 3)) for _ in range(300)]
    assert np.mean([low <= truth <= high for low, high in found]) >= 0.95


# ---------------------------------------------------------------------- how many seeds


@pytest.mark.parametrize(
    ("effect", "power", "seeds"),
    [(1.0, 0.8, 17), (0.8, 0.8, 26), (0.5, 0.8, 64), (0.2, 0.8, 394), (1.0, 0.9, 23), (0.5, 0.9, 86)],
)
def test_seeds_needed_is_cohens_table(effect, power, seeds):
    """Cohen (1988), Table 2.4.1: two samples, alpha .05 two-sided; .2 as G*Power, his 393 is rounded."""
    assert stats.seeds_needed(sd=10.0, difference=10 * effect, power=power) == seeds


def test_pairs_need_what_one_sample_of_differences_does():
    # With a correlation of 1/2 the differences vary as the methods do: G*Power's 34 and 10 for .5 and 1.
    assert stats.seeds_needed(1.0, 0.5, correlation=0.5) == 34 and stats.seeds_needed(1.0, 1.0, correlation=0.5) == 10
    assert stats.seeds_needed(1.0, 0.5, correlation=0.0) > 64 > stats.seeds_needed(1.0, 0.5, correlation=0.9)
    assert stats.seeds_needed(1.0, 1000.0) == 2  # a spread takes two


def test_power_by_simulation():
    rng = np.random.default_rng(1)
    told = [stats.difference_interval(rng.normal(1, 1, 17), rng.normal(0, 1, 17))[0] > 0 for _ in range(600)]
    assert np.mean(told) == pytest.approx(stats.power_of(17, 1.0), abs=0.05)  # 3 standard errors


def test_performance_profile_by_hand():
    scores = [np.array([0.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])]
    profile = performance_profile(scores, np.array([-1.0, 0.0, 1.0, 2.5, 4.0]))  # strictly above
    np.testing.assert_allclose(profile, [1, (0.5 + 1) / 2, (0 + 0.75) / 2, (0 + 0.5) / 2, 0])


def test_performance_profile_falls_by_one_run_at_each_score():
    profile = performance_profile(TASKS, np.sort(X, axis=None))
    np.testing.assert_allclose(profile, 1 - np.arange(1, X.size + 1) / X.size, atol=1e-12)
    assert (performance_profile(TASKS, np.array([X.min() - 1, X.max()])) == [1, 0]).all()
    ragged = [X[:7, 0], Y[:, 1], X[:2, 2]]
    fine = performance_profile(ragged, np.linspace(-8, 8, 500))
    assert fine[0] == 1 and fine[-1] == 0 and (np.diff(fine) <= 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.mean_std(np.array([])), r"scores: shape is \(0,\), expected one dimension and at least one"),
        (lambda: stats.mean_std(X), r"scores: shape is \(10, 4\), expected one dimension"),
        (lambda: stats.mean_std(np.array([1.0, np.nan])), "scores: entry 1 is nan, expected finite"),
        (lambda: stratified_bootstrap([]), r"scores has no tasks, expected a sequence of arrays \(runs,\)"),
        (lambda: stratified_bootstrap([X]), r"scores of task 0: shape is \(10, 4\), expected one dimension"),
        (lambda: stratified_bootstrap([np.array([])]), r"scores of task 0: shape is \(0,\)"),
        (
            lambda: stratified_bootstrap([np.ones(2), np.array([1.0, 2.0, -np.inf])]),
            "scores of task 1: entry 2 is -inf, expected finite",
        ),
        (lambda: stratified_bootstrap(TASKS, samples=0), "samples is 0, expected at least 1"),
        (lambda: stratified_bootstrap(TASKS, level=1.0), r"level is 1.0, expected a share in \(0, 1\)"),
        (lambda: stratified_bootstrap(TASKS, level=0.0), "level is 0.0, expected"),
        (lambda: stratified_bootstrap(TASKS, level=math.nan), "level is nan, expected"),
        (lambda: stratified_bootstrap(TASKS, level=95), "level is 95, expected"),
        (lambda: probability_of_improvement(X[:, 0], Y[:, 0] * np.nan), "y: entry 0 is nan"),
        (lambda: stats.t_interval(X[:, 0], level=95), "level is 95, expected a share"),
        (
            lambda: stats.difference_interval(X[:, 0], Y[:, 0], paired=True),
            "x and y have 10 and 8 runs, expected a pair",
        ),
        (lambda: stats.seeds_needed(0.0, 1.0), "sd is 0.0, expected a finite number > 0"),
        (lambda: stats.seeds_needed(1.0, math.nan), "difference is nan, expected a finite number > 0"),
        (lambda: stats.seeds_needed(1.0, 1.0, power=80), "power is 80, expected a share"),
        (lambda: stats.seeds_needed(1.0, 1.0, correlation=1.0), r"correlation is 1.0, expected a number in \[-1, 1\)"),
        (lambda: stats.seeds_needed(1.0, 1e-9), "takes more than 1,000,000 seeds"),
        (lambda: performance_profile(TASKS, np.array([])), r"thresholds: shape is \(0,\)"),
        (lambda: performance_profile(TASKS, np.array([0.0, np.nan])), "thresholds: entry 1 is nan"),
    ],
)
def test_errors_name_the_thing_its_value_and_what_is_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(scope="module")
def rliable():
    pytest.importorskip("rliable", reason="rliable is not installed: pip install -e .[dev]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what arch, statsmodels and seaborn say on import is not ours
        from rliable import library, metrics
    return library, metrics


def test_point_values_are_those_of_rliable(rliable):
    library, metrics = rliable
    for runs in (3, 4, 7, 10):  # 12, 16, 28, 40 scores
        assert iqm(list(X[:runs].T)) == pytest.approx(metrics.aggregate_iqm(X[:runs]), rel=1e-12)
    for x, y in ((X, Y), (np.round(X), np.round(Y))):  # without ties and with
        by_task = [probability_of_improvement(x[:, i], y[:, i]) for i in range(4)]
        assert np.mean(by_task) == pytest.approx(metrics.probability_of_improvement(x, y), rel=1e-12)
    taus = np.sort(np.append(np.linspace(-2, 4, 40), X[:3].ravel()))  # some exactly at a score
    np.testing.assert_allclose(performance_profile(TASKS, taus), library.score_distributions(X, taus), rtol=1e-12)


def test_intervals_are_near_those_of_rliable(rliable):
    """rliable draws from numpy's global generator whatever its random_state, hence the seed and the tolerance.

    With 2000 resamples a bound has a standard error of 1.5 % of the width, the difference of two one of 2.2 %.
    """
    library, metrics = rliable
    state = np.random.get_state()
    np.random.seed(0)
    try:
        _, theirs = library.get_interval_estimates(
            {"iqm": X}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=2000
        )
    finally:
        np.random.set_state(state)
    other = theirs["iqm"][:, 0]
    np.testing.assert_allclose(stratified_bootstrap(TASKS, iqm), other, atol=0.06 * (other[1] - other[0]), rtol=0)
