"""What a claim can be measured by: numbers taken from the runs, or None where this campaign holds no such runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slewrl.campaign.paper import METHODS, TASKS
from slewrl.report.compare import paper_values
from slewrl.report.data import Result, Results
from slewrl.report.methods import UNLIMITED, backbone
from slewrl.report.sensitivity import sweeps

Numbers = Mapping[str, float]
"""What was measured -> its value, in the words of a table."""
ByLambda = Mapping[float, Result]
LAMBDA_TASK = "Ant-v5"
"""What the paper sweeps lambda on."""


@dataclass(frozen=True)
class Measured:
    """The numbers a claim is about, and where they come from."""

    numbers: Numbers
    steps: tuple[int, ...]
    """Budgets of the runs."""
    tasks: tuple[str, ...]
    instead: bool = False
    """Whether this is another task than the claim's: worth seeing, no ground for a verdict."""


Measure = Callable[[Results], Measured | None]


def gathered(numbers: Numbers, used: Sequence[Result]) -> Measured | None:
    """Numbers with where they come from; None if there are none. One that makes no sense (nan) is left out."""
    sensible = {name: value for name, value in numbers.items() if not math.isnan(value)}
    if not sensible:
        return None
    return Measured(sensible, tuple(sorted({r.cell.steps for r in used})), tuple({r.cell.task: 0 for r in used}))


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
    """Of the mean returns; none (nan) where a return below 0 would turn its meaning around."""
    return one.score.mean / other.score.mean if min(one.score.mean, other.score.mean) > 0 else math.nan


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


# ---------------------------------------------------------------------- which results


def cell(task: str, limits: str, agent: str, method: str, number: Callable[[Result], float], name: str) -> Measure:
    """One number of one cell."""

    def measure(results: Results) -> Measured | None:
        found = results.get(task, limits, agent, method)
        return gathered({name: number(found)}, [found]) if found else None

    return measure


def together(*measures: Measure) -> Measure:
    """The numbers of several measures, if all of them were taken, and those on one task at one budget."""

    def measure(results: Results) -> Measured | None:
        found = [taken for take in measures if (taken := take(results))]
        if len(found) < len(measures):
            return None
        numbers = {name: value for taken in found for name, value in taken.numbers.items()}
        steps = tuple(sorted({step for taken in found for step in taken.steps}))
        tasks = tuple(dict.fromkeys(task for taken in found for task in taken.tasks))
        return Measured(numbers, steps, tasks) if len(steps) <= len(tasks) else None

    return measure


def everywhere(
    number: Callable[..., float], *methods: str, limits: str = "tight", agents: Sequence[str] = ("sac", "td3")
) -> Measure:
    """A number for each task and backbone that has all the methods at one budget."""

    def measure(results: Results) -> Measured | None:
        numbers, used = {}, []
        for task in TASKS:
            for agent in agents:
                found = [r for method in methods if (r := results.get(task, limits, agent, method))]
                if len(found) == len(methods) and len({r.cell.steps for r in found}) == 1:
                    numbers[f"{task} {backbone(agent)}"] = number(*found)
                    used += found
        return gathered(numbers, used)

    return measure


def lost_under_tight(*tasks: str) -> Measure:
    """The share of its return DD-SRad with SAC loses from wide to tight limits; all tasks or nothing."""

    def of(task: str) -> Measure:
        def measure(results: Results) -> Measured | None:
            pair = [r for limits in ("tight", "wide") if (r := results.get(task, limits, "sac", "ddsrad"))]
            if len(pair) < 2 or pair[0].cell.steps != pair[1].cell.steps:
                return None
            return gathered({f"share lost on {task}": shortfall(*pair)}, pair)

        return measure

    return together(*(of(task) for task in tasks))


def violations(results: Results) -> Measured | None:
    """Joint actions outside their limits, of every method that has any."""
    limited = [r for r in results if r.layer != UNLIMITED]
    broken = sum(r.violations for r in limited)
    checked = sum(run.actions_checked for r in limited for run in r.runs)
    return gathered({"broken": broken, "checked": checked} if limited else {}, limited)


def use_against_paper(results: Results) -> Measured | None:
    """|ours - the paper's| utilisation of DD-SRad under tight limits."""
    numbers, used = {}, []
    for task in TASKS:
        for agent in ("sac", "td3"):
            found = results.get(task, "tight", agent, "ddsrad")
            paper = paper_values().get(("tight", backbone(agent), task, "DD-SRad", "utilization"))
            if found and paper:
                numbers[f"{task} {backbone(agent)}"] = abs(mean_use(found) - paper.mean)
                used.append(found)
    return gathered(numbers, used)


def gaps(results: Results) -> Measured | None:
    """Mean over tasks and backbones of the relative gap between the best and the worst of the paper's six."""
    wide, tight = (everywhere(spread, *METHODS, limits=limits)(results) for limits in ("wide", "tight"))
    if wide is None or tight is None or set(wide.numbers) != set(tight.numbers):
        return None
    means = {"gap, wide": wide, "gap, tight": tight}
    numbers = {name: float(np.mean([*taken.numbers.values()])) for name, taken in means.items()}
    return Measured(numbers, tuple({*wide.steps, *tight.steps}), wide.tasks)


# ---------------------------------------------------------------------- the sweep over lambda


def swept(limits: str, number: Callable[[ByLambda], Numbers]) -> Measure:
    """Numbers of the sweep with SAC under some limits: on the paper's task or, without a verdict, on another."""

    def measure(results: Results) -> Measured | None:
        found = [(task, by[limits]) for (task, agent), by in sweeps(results).items() if agent == "sac" and limits in by]
        for task, by_lambda in sorted(found, key=lambda pair: pair[0] != LAMBDA_TASK):
            if taken := gathered(number(by_lambda), list(by_lambda.values())):
                return replace(taken, instead=task != LAMBDA_TASK)
        return None

    return measure


def loss_at_smallest(by_lambda: ByLambda) -> Numbers:
    """Share of the return lost at lambda 1e-4 against the mean of the others."""
    rest = [mean_return(r) for value, r in by_lambda.items() if value > 1e-4]
    if 1e-4 not in by_lambda or not rest or min(*rest, mean_return(by_lambda[1e-4])) <= 0:
        return {}
    return {"share lost at λ = 1e-4": float(1 - mean_return(by_lambda[1e-4]) / np.mean(rest))}


def extremes(by_lambda: ByLambda) -> Numbers:
    """The lambda with the highest return, and that with the lowest."""
    ranked = sorted(by_lambda, key=lambda value: mean_return(by_lambda[value]))
    return {"best λ": ranked[-1], "worst λ": ranked[0]}


def spread_between(low: float, high: float) -> Callable[[ByLambda], Numbers]:
    """(best - worst) / best over the lambdas in [low, high]."""

    def number(by_lambda: ByLambda) -> Numbers:
        chosen = [r for value, r in by_lambda.items() if low <= value <= high]
        return {"spread of the returns": spread(*chosen)} if len(chosen) > 1 else {}

    return number


def use_at(value: float, part: str = "") -> Callable[[ByLambda], Numbers]:
    """Mean utilisation at a lambda, of the joints whose name holds ``part``."""

    def number(by_lambda: ByLambda) -> Numbers:
        result = by_lambda.get(value)
        whose = f"{part}s’ " if part else ""
        return {f"{whose}utilisation at λ = {value:g}": use_of(part)(result)} if result else {}

    return number
