"""Measures of claims: numbers taken from the runs, or None where this campaign holds no such runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import pairwise, permutations, product
from typing import Any, Concatenate, ParamSpec

import numpy as np

from slewrl.paper import printed
from slewrl.paper.grids import LAMBDAS, METHODS, ROBOT_UPDATES, TASKS
from slewrl.paper.values import paper_value
from slewrl.report import estimates as e
from slewrl.report import walking
from slewrl.report.data import Array, Broken, Result, Results, Run, changes, grouped
from slewrl.report.estimates import Estimate
from slewrl.report.figures.sensitivity import sweeps
from slewrl.report.methods import LABELS, backbone, called, prices, promises
from slewrl.report.verdicts import NOBODY, nobody_learned

Numbers = Mapping[str, Estimate]
"""Name of a number, as a table has it -> its value and interval."""
ByLambda = Mapping[float, Result]
LAMBDA_TASK = "Ant-v5"
"""The task of the paper's sweep over lambda."""


@dataclass(frozen=True)
class Measured:
    """The numbers a claim is about, and where they come from."""

    numbers: Numbers
    budgets: Mapping[str, tuple[int, ...]]
    """Task -> steps of the runs."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Numbers shown with them and not judged."""
    instead: bool = False
    """Whether this is another task than the claim's, and so no ground for a verdict."""


Measure = Callable[[Results], Measured | None]
P = ParamSpec("P")


def measure(take: Callable[Concatenate[Results, P], Measured | None]) -> Callable[P, Measure]:
    """Call a function with all its arguments but the results, for a `Measure` that takes those."""

    @wraps(take)
    def with_arguments(*args: P.args, **kwargs: P.kwargs) -> Measure:
        return lambda results: take(results, *args, **kwargs)

    return with_arguments


def gathered(taken: Mapping[str, tuple[Estimate, Sequence[Result]]], others: Sequence[Result] = ()) -> Measured | None:
    """Numbers with the results they were taken from; None if nothing was run.

    A number of runs of which none has learned decides nothing, unless one of the ``others``, in the same place, has:
    that a method does not learn is a finding where another one does.
    """
    used = [result for _, results in taken.values() for result in results]
    numbers = {
        name: replace(estimate, why=NOBODY) if nobody_learned([*results, *others]) else estimate
        for name, (estimate, results) in taken.items()
    }
    return Measured(numbers, budgets(used)) if taken else None


def budgets(used: Sequence[Result]) -> dict[str, tuple[int, ...]]:
    """Task -> steps of its runs."""
    by_task = grouped((result.cell for result in used), lambda cell: cell.task)
    return {task: tuple(sorted({cell.steps for cell in cells})) for task, cells in by_task.items()}


# ---------------------------------------------------------------------- numbers of results


def uses(result: Result) -> e.Sample:
    """Utilisation of every run."""
    return e.sample(result, lambda run: run.final_utilisation)


def cv(result: Result) -> Estimate:
    """The CV of the return, in percent."""
    return e.cv(e.returns(result))


def raw_rate(result: Result) -> Estimate:
    """How often the critic saw an action outside its limit at the last evaluation: a count, like violations."""
    rate = e.counted(float(np.mean([run.evaluations["raw_violation_rate"][-1] for run in result.runs])))
    return rate if len(result.runs) > 1 else replace(rate, why=e.ONE_SEED)


def use_of(part: str) -> Callable[[Result], Estimate]:
    """Mean utilisation of the joints whose name holds ``part``."""

    def of(run: Run) -> float:
        chosen = [i for i, joint in enumerate(run.joints) if part in joint]
        return float(run.joint_utilisation[chosen].mean()) if chosen else float("nan")

    return lambda result: e.mean(e.sample(result, of))


def ratio(one: Result, other: Result) -> Estimate:
    """The ratio of the mean returns."""
    return e.ratio(e.returns(one), e.returns(other))


def shortfall(one: Result, other: Result) -> Estimate:
    """By what share of the second's return the first falls behind."""
    return ratio(one, other).scaled(-1, 1)


def more_use(one: Result, other: Result) -> Estimate:
    """By how much the first uses more of its limits."""
    return e.difference(uses(one), uses(other))


def lead(one: Result, *others: Result) -> Estimate:
    """By how much the mean return is above the best of the others."""
    return e.smallest([e.difference(e.returns(one), e.returns(other)) for other in others])


def behind(one: Result, *others: Result) -> Estimate:
    """By how much the mean return is below the worst of the others."""
    return e.smallest([e.difference(e.returns(other), e.returns(one)) for other in others])


def spread(*results: Result) -> Estimate:
    """(best - worst) / best of the mean returns: the largest shortfall of any behind any other."""
    return e.largest([shortfall(one, other) for one, other in permutations(results, 2)])


def walked(metric: str, result: Result) -> e.Sample:
    """A metric of walking robots, of every run."""
    return e.sample(result, walking.METRICS[metric].of)


def mean_of(metric: str) -> Callable[[Result], Estimate]:
    """The mean of a metric of walking robots."""
    return lambda result: e.mean(walked(metric, result))


def nearer(result: Result) -> Estimate:
    """By how much Util-P is above Util-D."""
    near, far = (walking.METRICS[metric].of for metric in ("util_p", "util_d"))
    return e.mean(e.sample(result, lambda run: near(run) - far(run)))


def higher(metric: str) -> Callable[[Result, Result], Estimate]:
    """By what share of the second's the first's metric is higher."""
    return lambda one, other: e.ratio(walked(metric, one), walked(metric, other)).scaled(1, -1)


def lowest(metric: str) -> Callable[..., Estimate]:
    """By how much the first's metric is below the lowest of the others'."""
    return lambda one, *others: e.smallest([e.difference(walked(metric, r), walked(metric, one)) for r in others])


# ---------------------------------------------------------------------- numbers of campaigns


def found_in(results: Results, task: str, limits: str, agent: str, method: str) -> Result | None:
    """``Results.get`` with the paper's name of the limits."""
    return results.get(task, printed.limits(task, limits), agent, method)


def _beside(results: Results, result: Result, method: str) -> list[Result]:
    """Another method where a result is, limits and budget included; none if it was not run there."""
    other = results.by_cell.get(result.cell._replace(method=method))
    return [other] if other else []


@measure
def cell(
    results: Results,
    task: str,
    limits: str,
    agent: str,
    method: str,
    number: Callable[[Result], Estimate],
    name: str,
    reference: str = "",
) -> Measured | None:
    """One number of one cell; ``reference``: the method that may have learned in its stead."""
    found = found_in(results, task, limits, agent, method)
    return gathered({name: (number(found), [found])}, _beside(results, found, reference)) if found else None


@measure
def together(results: Results, *measures: Measure) -> Measured | None:
    """The numbers of several measures, if all of them were taken, and those on one task at one budget."""
    found = [taken for take in measures if (taken := take(results))]
    steps: dict[str, set[int]] = {}
    for taken in found:
        for task, there in taken.budgets.items():
            steps.setdefault(task, set()).update(there)
    if len(found) < len(measures) or any(len(there) > 1 for there in steps.values()):
        return None
    numbers = {name: value for taken in found for name, value in taken.numbers.items()}
    return Measured(numbers, {task: tuple(there) for task, there in steps.items()})


@measure
def everywhere(
    results: Results,
    number: Callable[..., Estimate],
    *methods: str,
    limits: str = "tight",
    agents: Sequence[str] = ("sac", "td3"),
    tasks: Sequence[str] = TASKS,
    reference: str = "",
) -> Measured | None:
    """A number for each task and backbone that has all the methods at one budget; ``reference``: as for `cell`."""
    numbers: dict[str, Estimate] = {}
    used: list[Result] = []
    for task, agent in product(tasks, agents):
        if found := _at_one_budget(results, task, limits, agent, methods):
            others = _beside(results, found[0], reference)
            taken = gathered({f"{task} {backbone(agent)}": (number(*found), found)}, others)
            numbers |= taken.numbers if taken else {}
            used += found
    return Measured(numbers, budgets(used)) if numbers else None


def _at_one_budget(results: Results, task: str, limits: str, agent: str, methods: Sequence[str]) -> list[Result]:
    """The results of all the methods; none if one is missing, or was run at another budget."""
    found = [r for method in methods if (r := found_in(results, task, limits, agent, method))]
    return found if len(found) == len(methods) and len({r.cell.steps for r in found}) == 1 else []


def on_robots(
    number: Callable[..., Estimate], *methods: str, tasks: Sequence[str] = tuple(ROBOT_UPDATES), reference: str = ""
) -> Measure:
    """`everywhere` in the paper's study of the robots."""
    return everywhere(number, *methods, limits="paper", agents=("fastsac",), tasks=tasks, reference=reference)


@measure
def ascending(results: Results, task: str, limits: str, agent: str, *methods: str) -> Measured | None:
    """By how much the mean return of each method is above that of the one named before it."""
    taken = {}
    for worse, better in pairwise(_at_one_budget(results, task, limits, agent, methods)):
        taken[f"{LABELS[better.layer]} over {LABELS[worse.layer]}"] = lead(better, worse), [better, worse]
    return gathered(taken)


def _tight_and_wide(results: Results, task: str) -> list[Result]:
    """DD-SRad with SAC under both limits at one budget; none if one is missing."""
    pair = [r for limits in ("tight", "wide") if (r := found_in(results, task, limits, "sac", "ddsrad"))]
    return pair if len(pair) == 2 and pair[0].cell.steps == pair[1].cell.steps else []


@measure
def lost_under_tight(results: Results, task: str) -> Measured | None:
    """The share of its return DD-SRad with SAC loses from wide to tight limits."""
    pair = _tight_and_wide(results, task)
    return gathered({f"share lost on {task}": (shortfall(*pair), pair)} if pair else {})


@measure
def loses_most(results: Results, first: str, tasks: Sequence[str] = TASKS) -> Measured | None:
    """By how much the share lost under tight limits is larger on one task than on each other; all or nothing."""
    pairs = {task: _tight_and_wide(results, task) for task in tasks}
    if not all(pairs.values()):
        return None
    taken = {}
    for task in (task for task in tasks if task != first):
        four = [*pairs[first], *pairs[task]]
        taken[f"{first} over {task}"] = e.function(_loss_over, *map(e.returns, four)), four
    return gathered(taken)


def _loss_over(groups: Sequence[Array]) -> float:
    """From returns tight and wide here, then tight and wide there: the share lost here less that lost there."""
    tight, wide, other_tight, other_wide = (float(group.mean()) for group in groups)
    return other_tight / other_wide - tight / wide if min(wide, other_wide) > 0 else float("nan")


def violations(results: Results) -> Measured | None:
    """Joint actions of every method that promises the limits outside them; soft constraints are told beside."""
    limited = [r for r in results if promises(r)]
    broken = Broken.sum(r.broken for r in limited)
    soft = {called(r): f"a price on violations, no limit: {r.broken.text} broke one" for r in results if prices(r)}
    # Actions are counted, not sampled: one seed that breaks a limit, or keeps it a million times, is evidence.
    beside = {"checked": f"{broken.of:,}".replace(",", " ")} | {f"left out: {name}": why for name, why in soft.items()}
    return Measured({"broken": e.counted(broken.actions)}, budgets(limited), beside) if limited else None


def use_against_paper(results: Results) -> Measured | None:
    """Ours - the paper's utilisation of DD-SRad under tight limits; the paper's number is taken as it is."""
    taken = {}
    for task, agent in product(TASKS, ("sac", "td3")):
        found = found_in(results, task, "tight", agent, "ddsrad")
        if found and (paper := paper_value(found, "utilization")):
            taken[f"{task} {backbone(agent)}"] = e.mean(uses(found)).scaled(1, -paper.mean), [found]
    return gathered(taken)


def gaps(results: Results) -> Measured | None:
    """Mean over tasks and backbones of the relative gap between the best and worst of the paper's six, wide - tight."""
    places = [
        (wide, tight)
        for task, agent in product(TASKS, ("sac", "td3"))
        if (wide := _at_one_budget(results, task, "wide", agent, METHODS))
        and (tight := _at_one_budget(results, task, "tight", agent, METHODS))
    ]
    used = [result for pair in places for there in pair for result in there]
    if not used:
        return None
    narrowed = e.function(
        lambda groups: float(np.subtract(*_mean_gaps(groups))), *(e.returns(result) for result in used)
    )
    taken = gathered({"gap, wide less tight": (narrowed, used)})
    both = zip(("wide", "tight"), _mean_gaps([r.returns for r in used]), strict=True)
    return replace(taken, beside={f"gap, {name}": f"{gap:.3g}" for name, gap in both}) if taken else None


def _mean_gaps(groups: Sequence[Array]) -> tuple[float, float]:
    """From returns of the paper's six under wide limits, then under tight ones, place by place: both mean gaps."""
    means = np.array([group.mean() for group in groups]).reshape(-1, 2, len(METHODS))
    best = means.max(-1)
    wide, tight = ((best - means.min(-1)) / np.where(best > 0, best, np.nan)).mean(0)
    return float(wide), float(tight)


# ---------------------------------------------------------------------- the sweep over lambda


@measure
def swept(results: Results, limits: str, number: Callable[..., Numbers], *args: Any) -> Measured | None:
    """Numbers of DD-SRad's sweep with SAC under some limits: on the paper's task or, without a verdict, on another.

    A sweep counts that has all of the paper's lambdas at one budget; of several, that with the largest one. Other
    lambdas are no part of it. On the paper's task nothing but lambda may have been changed. ``args``: for ``number``.
    """
    found = [
        (which, {value: by[limits][value] for value in LAMBDAS})
        for which, by in sweeps(results).items()
        if (which.agent, which.method) == ("sac", "ddsrad") and set(by.get(limits, ())) >= set(LAMBDAS)
    ]
    if not found:
        return None
    which, by_lambda = min(found, key=lambda pair: (pair[0].task != LAMBDA_TASK, -pair[0].steps))
    instead = which.task != LAMBDA_TASK or any(len(changes(r.runs[0].spec)) > 1 for r in by_lambda.values())
    taken = gathered({name: (value, [*by_lambda.values()]) for name, value in number(by_lambda, *args).items()})
    return replace(taken, instead=instead) if taken else None


def loss_at_smallest(by_lambda: ByLambda) -> Numbers:
    """Share of the return lost at lambda 1e-4 against the mean of the others."""
    small, *rest = (e.returns(by_lambda[value]) for value in sorted(by_lambda))
    if e.paired(small, *rest):
        others = {seed: float(np.mean([there[seed] for there in rest])) for seed in small}
        lost = e.ratio(small, others).scaled(-1, 1)
    else:
        lost = e.function(_lost, small, *rest)
    return {"share lost at λ = 1e-4": lost}


def _lost(groups: Sequence[Array]) -> float:
    first, *rest = (float(group.mean()) for group in groups)
    return 1 - first / float(np.mean(rest)) if np.mean(rest) > 0 else float("nan")


def extremes(by_lambda: ByLambda, best: float, worst: float | None = None) -> Numbers:
    """By how much a lambda is ahead of all others, and another behind them."""
    found = {}
    for verb, of, value in (("ahead of", lead, best), ("behind", behind, worst)):
        if value is not None:
            others = [result for other, result in by_lambda.items() if other != value]
            found[f"λ = {value:g} {verb} the others by"] = of(by_lambda[value], *others)
    return found


def spread_between(by_lambda: ByLambda, low: float, high: float) -> Numbers:
    """(best - worst) / best over the lambdas in [low, high]."""
    return {"spread of the returns": spread(*(r for value, r in by_lambda.items() if low <= value <= high))}


def use_at(by_lambda: ByLambda, value: float, part: str = "") -> Numbers:
    """Mean utilisation at a lambda, of the joints whose name holds ``part``."""
    whose = f"{part}s’ " if part else ""
    return {f"{whose}utilisation at λ = {value:g}": use_of(part)(by_lambda[value])}
