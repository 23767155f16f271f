"""What a claim can be measured by: numbers taken from the runs, or None where this campaign holds no such runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from slewrl import printed
from slewrl.campaign.paper import LAMBDAS, METHODS, ROBOT_UPDATES, TASKS
from slewrl.report import walking
from slewrl.report.data import Broken, Result, Results, changes
from slewrl.report.methods import backbone, called, prices, promises
from slewrl.report.published import published
from slewrl.report.sensitivity import sweeps

Numbers = Mapping[str, float]
"""What was measured -> its value, in the words of a table."""
ByLambda = Mapping[float, Result]
LAMBDA_TASK = "Ant-v5"
"""What the paper sweeps lambda on."""


SEEDS = 2
"""Fewer say nothing of how much another seed would change."""


@dataclass(frozen=True)
class Measured:
    """The numbers a claim is about, and where they come from."""

    numbers: Numbers
    budgets: Mapping[str, tuple[int, ...]]
    """Task -> steps of the runs."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """What could not be measured -> why."""
    instead: bool = False
    """Whether this is another task than the claim's: worth seeing, no ground for a verdict."""


Measure = Callable[[Results], Measured | None]
Taken = Mapping[str, tuple[float, Sequence[Result]]]
"""Name of a number -> the number, and what it was taken from."""


def gathered(taken: Taken) -> Measured | None:
    """Numbers with where they come from, and which ones no verdict can rest on; None if nothing was run."""
    left_out = {name: why for name, (value, used) in taken.items() if (why := _unfit(value, used))}
    kept = {name: pair for name, pair in taken.items() if name not in left_out}
    used = [result for _, results in (kept or taken).values() for result in results]
    numbers = {name: value for name, (value, _) in kept.items()}
    return Measured(numbers, budgets(used), left_out) if taken else None


def _unfit(value: float, used: Sequence[Result]) -> str:
    """Why a number is no evidence; empty if it is."""
    if min(len(result.runs) for result in used) < SEEDS:
        return "one seed"
    return "not defined: a return not above 0 to compare with, or no such joint" if math.isnan(value) else ""


def budgets(used: Sequence[Result]) -> dict[str, tuple[int, ...]]:
    """Task -> steps of its runs."""
    found: dict[str, set[int]] = {}
    for result in used:
        found.setdefault(result.cell.task, set()).add(result.cell.steps)
    return {task: tuple(sorted(steps)) for task, steps in found.items()}


# ---------------------------------------------------------------------- numbers of results


def mean_return(result: Result) -> float:
    """Over the seeds."""
    return result.score.mean


def mean_use(result: Result) -> float:
    """Utilisation over the seeds."""
    return result.utilisation.mean


def cv(result: Result) -> float:
    """Of the return, in percent."""
    return result.score.cv


def raw_rate(result: Result) -> float:
    """How often the critic saw an action outside its limit at the last evaluation."""
    return float(np.mean([run.evaluations["raw_violation_rate"][-1] for run in result.runs]))


def use_of(part: str) -> Callable[[Result], float]:
    """Mean utilisation of the joints whose name holds ``part``."""

    def number(result: Result) -> float:
        chosen = [i for i, joint in enumerate(result.joints) if part in joint]
        return float(result.joint_utilisation[chosen].mean()) if chosen else math.nan

    return number


def ratio(one: Result, other: Result) -> float:
    """Of the mean returns, 0 or less if the first is; none (nan) where the second would turn its meaning around."""
    return one.score.mean / other.score.mean if other.score.mean > 0 else math.nan


def shortfall(one: Result, other: Result) -> float:
    """By what share of the second's return the first falls behind."""
    return 1 - ratio(one, other)


def more_use(one: Result, other: Result) -> float:
    """By how much the first uses more of its limits."""
    return mean_use(one) - mean_use(other)


def lead(one: Result, *others: Result) -> float:
    """Of the mean return over the best of the others."""
    return mean_return(one) - max(map(mean_return, others))


def spread(*results: Result) -> float:
    """Of the mean returns: (best - worst) / best."""
    best, worst = max(map(mean_return, results)), min(map(mean_return, results))
    return (best - worst) / best if best > 0 else math.nan


def mean_of(metric: str) -> Callable[[Result], float]:
    """A measure of walking robots, over the seeds."""
    return lambda result: walking.METRICS[metric].score(result).mean


def higher(metric: str) -> Callable[[Result, Result], float]:
    """By what share of the second's the first's measure is higher."""

    def number(one: Result, other: Result) -> float:
        base = mean_of(metric)(other)
        return mean_of(metric)(one) / base - 1 if base > 0 else math.nan

    return number


def lowest(metric: str) -> Callable[..., float]:
    """By how much the first's measure is below the lowest of the others'."""
    return lambda one, *others: min(map(mean_of(metric), others)) - mean_of(metric)(one)


# ---------------------------------------------------------------------- which results


def found_in(results: Results, task: str, limits: str, agent: str, method: str) -> Result | None:
    """As ``Results.get``, under limits by the paper's name of them."""
    return results.get(task, printed.limits(task, limits), agent, method)


def cell(task: str, limits: str, agent: str, method: str, number: Callable[[Result], float], name: str) -> Measure:
    """One number of one cell."""

    def measure(results: Results) -> Measured | None:
        found = found_in(results, task, limits, agent, method)
        return gathered({name: (number(found), [found])}) if found else None

    return measure


def together(*measures: Measure) -> Measure:
    """The numbers of several measures, if all of them were taken, and those on one task at one budget."""

    def measure(results: Results) -> Measured | None:
        found = [taken for take in measures if (taken := take(results))]
        steps: dict[str, set[int]] = {}
        for taken in found:
            for task, there in taken.budgets.items():
                steps.setdefault(task, set()).update(there)
        if len(found) < len(measures) or any(len(there) > 1 for there in steps.values()):
            return None
        numbers = {name: value for taken in found for name, value in taken.numbers.items()}
        left_out = {name: why for taken in found for name, why in taken.left_out.items()}
        # A claim about several numbers cannot be judged by some of them.
        return Measured({} if left_out else numbers, {task: tuple(there) for task, there in steps.items()}, left_out)

    return measure


def everywhere(
    number: Callable[..., float],
    *methods: str,
    limits: str = "tight",
    agents: Sequence[str] = ("sac", "td3"),
    tasks: Sequence[str] = TASKS,
) -> Measure:
    """A number for each task and backbone that has all the methods at one budget."""

    def measure(results: Results) -> Measured | None:
        taken = {}
        for task, agent in product(tasks, agents):
            found = [r for method in methods if (r := found_in(results, task, limits, agent, method))]
            if len(found) == len(methods) and len({r.cell.steps for r in found}) == 1:
                taken[f"{task} {backbone(agent)}"] = number(*found), found
        return gathered(taken)

    return measure


def on_robots(number: Callable[..., float], *methods: str, tasks: Sequence[str] = tuple(ROBOT_UPDATES)) -> Measure:
    """As `everywhere`, in the paper's study of the robots."""
    return everywhere(number, *methods, limits="paper", agents=("fastsac",), tasks=tasks)


def lost_under_tight(*tasks: str) -> Measure:
    """The share of its return DD-SRad with SAC loses from wide to tight limits; all tasks or nothing."""

    def of(task: str) -> Measure:
        def measure(results: Results) -> Measured | None:
            pair = [r for limits in ("tight", "wide") if (r := found_in(results, task, limits, "sac", "ddsrad"))]
            if len(pair) < 2 or pair[0].cell.steps != pair[1].cell.steps:
                return None
            return gathered({f"share lost on {task}": (shortfall(*pair), pair)})

        return measure

    return together(*(of(task) for task in tasks))


def violations(results: Results) -> Measured | None:
    """Joint actions outside their limits, of every method that promises them; what a price did is told beside."""
    limited = [r for r in results if promises(r)]
    broken = Broken.sum(r.broken for r in limited)
    soft = {called(r): f"a price on violations, no limit: {r.broken.text} broke one" for r in results if prices(r)}
    # Actions are counted, not sampled: one seed that breaks a limit, or keeps it a million times, is evidence.
    numbers = {"broken": broken.actions, "checked": broken.of}
    return Measured(numbers, budgets(limited), soft) if limited else None


def use_against_paper(results: Results) -> Measured | None:
    """|ours - the paper's| utilisation of DD-SRad under tight limits."""
    taken = {}
    for task, agent in product(TASKS, ("sac", "td3")):
        found = found_in(results, task, "tight", agent, "ddsrad")
        if found and (paper := published(found, "utilization")):
            taken[f"{task} {backbone(agent)}"] = abs(mean_use(found) - paper.mean), [found]
    return gathered(taken)


def gaps(results: Results) -> Measured | None:
    """Mean over tasks and backbones of the relative gap between the best and the worst of the paper's six."""
    wide, tight = (everywhere(spread, *METHODS, limits=limits)(results) for limits in ("wide", "tight"))
    if wide is None or tight is None or set(wide.numbers) != set(tight.numbers):
        return None
    left_out = {**wide.left_out, **tight.left_out}
    means = {"gap, wide": wide, "gap, tight": tight}
    numbers = {name: float(np.mean([*one.numbers.values()])) for name, one in means.items() if one.numbers}
    steps = {task: tuple(sorted({*there, *tight.budgets.get(task, ())})) for task, there in wide.budgets.items()}
    return Measured(numbers, steps, left_out)


# ---------------------------------------------------------------------- the sweep over lambda


def swept(limits: str, number: Callable[[ByLambda], Numbers]) -> Measure:
    """Numbers of DD-SRad's sweep with SAC under some limits: on the paper's task or, without a verdict, on another.

    A sweep counts that has all of the paper's lambdas at one budget; of several, that with the largest one. Other
    lambdas are no part of it. On the paper's task nothing but lambda may have been changed.
    """

    def measure(results: Results) -> Measured | None:
        found = [
            (which, {value: by[limits][value] for value in LAMBDAS})
            for which, by in sweeps(results).items()
            if (which.agent, which.method) == ("sac", "ddsrad") and set(by.get(limits, ())) >= set(LAMBDAS)
        ]
        for which, by_lambda in sorted(found, key=lambda pair: (pair[0].task != LAMBDA_TASK, -pair[0].steps)):
            instead = which.task != LAMBDA_TASK or any(len(changes(r.runs[0].spec)) > 1 for r in by_lambda.values())
            if taken := gathered({name: (value, [*by_lambda.values()]) for name, value in number(by_lambda).items()}):
                return replace(taken, instead=instead)
        return None

    return measure


def loss_at_smallest(by_lambda: ByLambda) -> Numbers:
    """Share of the return lost at lambda 1e-4 against the mean of the others."""
    rest = float(np.mean([mean_return(r) for value, r in by_lambda.items() if value > 1e-4]))
    return {"share lost at λ = 1e-4": 1 - mean_return(by_lambda[1e-4]) / rest if rest > 0 else math.nan}


def extremes(by_lambda: ByLambda) -> Numbers:
    """The lambda with the highest return, and that with the lowest."""
    ranked = sorted(by_lambda, key=lambda value: mean_return(by_lambda[value]))
    return {"best λ": ranked[-1], "worst λ": ranked[0]}


def spread_between(low: float, high: float) -> Callable[[ByLambda], Numbers]:
    """(best - worst) / best over the lambdas in [low, high]."""

    def number(by_lambda: ByLambda) -> Numbers:
        chosen = [r for value, r in by_lambda.items() if low <= value <= high]
        return {"spread of the returns": spread(*chosen)}

    return number


def use_at(value: float, part: str = "") -> Callable[[ByLambda], Numbers]:
    """Mean utilisation at a lambda, of the joints whose name holds ``part``."""

    def number(by_lambda: ByLambda) -> Numbers:
        whose = f"{part}s’ " if part else ""
        return {f"{whose}utilisation at λ = {value:g}": use_of(part)(by_lambda[value])}

    return number
