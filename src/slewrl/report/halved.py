"""Whether a method has at most half of the clip's mean second difference at no lower return: a verdict for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slewrl.report.calm import over_seeds, second_difference
from slewrl.report.data import Result, Results, grouped
from slewrl.report.estimates import LEVEL, Estimate, Sample, function, ratio, returns, sample
from slewrl.report.figures.pareto import KNOBS
from slewrl.report.methods import backbone, called
from slewrl.report.page import Card, Cell, DataTable, Words
from slewrl.report.sections import Section
from slewrl.report.stats import Tasks, iqm
from slewrl.report.tables import as_csv, count, pipe_table
from slewrl.report.verdicts import MARKS, NOBODY, Allowed, Verdict, nobody_learned, said, verdict

CLIP = "boxpro"
HALF = 0.5
"""The share of the clip's second difference that a method may have."""
ABOUT = (
    "Ratio: the mean second difference of the commands over the clip’s. Difference: the interquartile mean return "
    "minus the clip’s. In brackets their 95 % intervals over the seeds, paired: by Fieller, and by the jackknife. It "
    f"holds if no number of the first is above {HALF:g} and none of the second below 0, does not hold if all are of "
    "one (each interval then at 97.5 %), and is undecided otherwise, or if nobody learned the task. Beaten by: what "
    "has both a higher interquartile mean and a smaller second difference here, which is no verdict."
)


@dataclass(frozen=True)
class Halved:
    """A method beside the clip."""

    result: Result
    clip: Result
    beaten: tuple[Result, ...]
    """The methods with a higher return and a smaller second difference."""

    @property
    def ratio(self) -> Estimate:
        """The mean second difference over the clip's."""
        return self._told(ratio(shaking(self.result), shaking(self.clip)))

    @property
    def lead(self) -> Estimate:
        """The interquartile mean return minus the clip's."""
        return self._told(function(_iqm_lead, returns(self.result), returns(self.clip)))

    @property
    def verdict(self) -> Verdict:
        """Whether the ratio is at most a half, and the lead no less than 0."""
        return verdict([self.ratio.scaled(-1, HALF), self.lead], Allowed(low=0))

    def _told(self, number: Estimate) -> Estimate:
        """The number, which decides nothing if neither of the two has learned the task."""
        return replace(number, why=NOBODY) if nobody_learned([self.result, self.clip]) else number


def shaking(result: Result) -> Sample:
    """The mean second difference of every run."""
    return sample(result, second_difference)


def _iqm_lead(sides: Tasks) -> float:
    return float(iqm([sides[0]]) - iqm([sides[1]]))


def halved(results: Results) -> list[Halved]:
    """Every method beside the clip of its place, where both have several seeds and their commands were measured."""
    found = []
    for there in grouped(results, lambda r: r.cell.place).values():
        known = [r for r in there if len(r.runs) > 1 and np.isfinite(over_seeds(r, "second_difference"))]
        if clip := _clip(known):
            found += [Halved(r, clip, _beaten(r, known)) for r in known if r is not clip]
    return found


def _clip(known: Sequence[Result]) -> Result | None:
    """The clip with the fewest options, none of which is there to make commands calmer."""
    clips = [r for r in known if r.layer == CLIP and not _calmed(r)]
    return min(clips, key=lambda r: len(r.cell.method.split()), default=None)


def _calmed(result: Result) -> bool:
    spec = result.runs[0].spec
    options = {**spec.agent_options, **spec.task_options}
    return any(options.get(name) for name in ("filter", *KNOBS))


def _beaten(result: Result, known: Sequence[Result]) -> tuple[Result, ...]:
    """The results with both a higher interquartile mean return and a smaller second difference."""

    def place(r: Result) -> tuple[float, float]:
        return float(iqm([r.returns])), -over_seeds(r, "second_difference")

    return tuple(r for r in known if all(a > b for a, b in zip(place(r), place(result), strict=True)))


def halved_section(results: Results, folder: object) -> Section | None:
    """The verdicts; None where no method was run with several seeds beside the clip."""
    found = halved(results)
    if not found:
        return None
    rows = [_plain(one) for one in found]
    heads = ("Method", "Verdict", "#Ratio", "#Difference", "Beaten by", "Where")
    table = DataTable("Half the clip", heads, [_row(one) for one in found], "holds")
    card = Card("halved", "At most half of the clip’s shaking, at no lower return?", [table, Words(ABOUT)])
    return Section(card, {"halved.csv": as_csv(rows), "halved.md": pipe_table(rows)})


def _row(one: Halved) -> tuple[Cell, ...]:
    cell = one.result.cell
    return (
        Cell(called(one.result), head=True),
        Cell(one.verdict, kind=f"verdict {MARKS[one.verdict]}"),
        Cell(said(one.ratio), one.ratio.value),
        Cell(said(one.lead), one.lead.value),
        Cell(", ".join(map(called, one.beaten)) or "–", kind="words"),
        Cell(f"{cell.task}, {cell.limits}, {backbone(cell.agent)}", small=f"{count(cell.steps)} steps"),
    )


def _plain(one: Halved) -> dict[str, str | float | int]:
    cell = one.result.cell
    where = {"task": cell.task, "limits": cell.limits, "agent": backbone(cell.agent), "steps": str(cell.steps)}
    numbers = {**_numbers("ratio", one.ratio), **_numbers("difference", one.lead)}
    rest = {"verdict": one.verdict, "beaten_by": "; ".join(map(called, one.beaten))}
    return {"method": called(one.result), **where, "seeds": str(len(one.result.runs)), **numbers, **rest}


def _numbers(name: str, number: Estimate) -> dict[str, float]:
    low, high = number.at(LEVEL)
    return {name: number.value, f"{name}_low": low, f"{name}_high": high}
