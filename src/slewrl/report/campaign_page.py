"""A campaign's page: results to sort and filter, figures, the paper's claims, and every run."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slewrl.report import walking
from slewrl.report.data import Broken, Result, Results, Run, grouped
from slewrl.report.figures import CampaignFigure
from slewrl.report.figures.sensitivity import in_a_sweep, sweeps
from slewrl.report.methods import (
    REFERENCE,
    ROBOT_METHODS,
    backbone,
    called,
    in_order,
    label,
    note,
    notes,
    prices,
    promises,
)
from slewrl.report.page import (
    Badge,
    Block,
    Bullets,
    Card,
    Cell,
    DataTable,
    Facts,
    Heading,
    Page,
    Picture,
    Words,
    svg_address,
)
from slewrl.report.ranking import best, by_return, lead, leads, trails, unranked
from slewrl.report.sections import PAPER, Section
from slewrl.report.seeds import HEADING, METHOD, by_seed, improvement, improvement_text
from slewrl.report.stats import t_interval
from slewrl.report.tables import (
    BENCHMARK,
    ROBOTS,
    STANDS,
    Column,
    acceleration,
    amount,
    columns_of,
    contenders,
    count,
    count_range,
    decimals,
    papers_number,
    percent,
    plus_minus,
    share,
    where,
)

FILES = {"evaluations": "eval.csv", "training": "train.csv", "episodes": "final/episodes.csv"}


def render(
    results: Results, drawn: Sequence[tuple[CampaignFigure, bytes]], folder: Path, sections: Sequence[Section] = ()
) -> str:
    """The page's HTML, from figures with their SVGs; links to runs are as seen from ``folder``."""
    pictures = [Picture(figure.title, figure.caption, svg_address(svg)) for figure, svg in drawn]
    badge, words = _badge(results)
    cards = [
        *(section.card for section in sections if section.leads),
        Card("results", "Results", [*words, Bullets(headlines(results)), *_results(results), *_robots(results)]),
        *([Card("figures", "Figures", pictures, "pictures")] if pictures else []),
        *(section.card for section in sections if not section.leads),
        Card("runs", "Every run", _runs(results, folder)),
        Card("made", "How this was made", [Facts(_provenance(results))]),
    ]
    return Page(f"{results.name}: {results.about}", _lead(results), badge, cards).html()


def headlines(results: Results) -> list[str]:
    """Which method came first in each configuration, and where DD-SRad is."""
    lines = []
    swept = in_a_sweep(results)
    for cell, panel in grouped((r for r in results if r.cell not in swept), lambda r: r.cell.place).items():
        first = best(panel)
        line = f"{where(cell)}: {lead(panel, _walked(first))}"
        ours = next((r for r in panel if r.cell.method == REFERENCE and r is not first), None)
        if ours and called(ours) + ", the next" not in line:
            line += f"; DD-SRad {plus_minus(ours.score, amount)}{_walked(ours)}, {trails(ours, first, panel)}"
        lines.append(f"{line}{unranked(panel)}.")
    for which, sweep in sweeps(results).items():
        whose = "" if which.method == REFERENCE else f", {label(which.method, which.agent)}"
        for by_lambda in sweep.values():
            value, top = max(by_lambda.items(), key=lambda pair: pair[1].score.mean)
            returned = plus_minus(top.score, amount)
            lines.append(
                f"{where(top.cell)}{whose}: λ = {value:g} has the highest mean return of {len(by_lambda)}, {returned}; "
                f"{leads(top, list(by_lambda.values()))}."
            )
    return lines


def _walked(result: Result) -> str:
    """How well a robot walked; "" of another task."""
    if not walking.is_walking(result):
        return ""
    vte, fall, steps = (decimals(metric.digits)(metric.score(result).mean) for metric in walking.TASK[1:])
    walks, episodes = "walks" if walking.walks(result) else "does not walk", walking.episodes([result])["final"]
    return f" ({walks}: falls in {fall} % of {episodes} episodes a seed, VTE {vte} m/s, {steps} steps an episode)"


def _lead(results: Results) -> str:
    tasks, agents = ({getattr(r.cell, name) for r in results} for name in ("task", "agent"))
    seeds = len({run.spec.seed for run in results.runs})
    learners = " and ".join(sorted(backbone(agent) for agent in agents))
    each = "one seed" if seeds == 1 else f"up to {seeds} seeds"
    return (
        f"{len(results.runs)} of {results.planned} runs are finished: {', '.join(sorted(tasks))} with {learners}, "
        f"{each} a method, {count_range(r.cell.steps for r in results)} steps each. "
        "Returns are means of each final policy’s evaluation without exploration."
    )


def _badge(results: Results) -> tuple[Badge | None, list[Block]]:
    """How many actions of the methods that promise the limit broke it, and beside them those of a soft constraint."""
    limited = [r for r in results if promises(r)]
    broken, all_of_them = Broken.sum(r.broken for r in limited), len(limited) == len(results)
    said = ["One action is one joint at one control step, in training or evaluation."]
    said += [f"{called(r)} on {r.cell.task}: {r.violations:,}." for r in limited if r.violations]
    said += [
        f"{called(r)} on {r.cell.task}, a soft constraint that promises nothing and is not counted above: "
        f"{r.trained.text} in training, {r.evaluated.text} in evaluation."
        for r in results
        if prices(r)
    ]
    if not limited:
        return None, [Words(" ".join(["No method here promises the limit.", *said]))]
    whose = "" if all_of_them else "of methods whose layer promises the limit "
    headline = f"{broken.text} actions {whose}broke a limit, checked in exact arithmetic"
    return Badge(not broken.actions, headline, " ".join(said)), []


# ---------------------------------------------------------------------- tables


def _where(result: Result, steps: bool = True) -> str:
    cell = result.cell
    return f"{cell.task}, {cell.limits}, {backbone(cell.agent)}" + (f", {count(cell.steps)} steps" if steps else "")


def _places(results: Results) -> list[list[Result]]:
    """The results of each task, limits, backbone and budget, the highest return first."""
    return [by_return(there) for there in grouped(results, lambda r: r.cell.place).values()]


def _results(results: Results) -> list[Block]:
    bent = acceleration(results)
    rows = [
        (
            Cell(called(r) + note(r).mark, kind="placed", small=_where(r, steps=False), head=True),
            _measured(BENCHMARK[0], r, there),
            _interval(t_interval(r.returns)),
            Cell(by_seed(r)),
            Cell(improvement_text(r, results), chance[0] if (chance := improvement(r, results)) else math.nan),
            Cell(percent(r.score.cv), r.score.cv),
            Cell(plus_minus(r.utilisation, share), r.utilisation.mean),
            *(Cell(column.cell_text(r, there), column.score(r).mean) for column in bent),
            Cell(str(len(r.runs)), len(r.runs)),
            Cell(_where(r), kind="where"),
        )
        for there in _places(results)
        for r in there
    ]
    # A phone shows two columns before one scrolls: the method, and what it came to.
    returned = ("#Return ↑", "#95 % interval", "Return by seed", f"#{HEADING}")
    heads = ("Method", *returned, "#CV, % ↓", "#Utilisation", *("#Acceleration used" for _ in bent), "#Seeds", "Where")
    about = "Mean ± standard deviation over seeds; the highest mean return of a method that kept every limit in bold, "
    about += f"which is no verdict. {METHOD}."
    about += " One seed is not ranked among several." if {1} < {len(r.runs) for r in results} else ""
    return [DataTable("Results", heads, rows, "ddsrad tight sac"), Words(" ".join([about, *notes(results)]))]


def _robots(results: Results) -> list[Block]:
    """The metrics of walking robots, the paper's numbers under ours; nothing without such robots."""
    ordered = in_order(list(results), ROBOT_METHODS)
    found = sorted((r for r in ordered if walking.is_walking(r)), key=lambda r: (r.cell.task, r.cell.steps))
    if not found:
        return []
    columns = [*(column for part in ROBOTS for column in part[0]), *columns_of(walking.MORE)]
    rows = [
        (
            Cell(called(r), head=True),
            *(_measured(column, r, found) for column in columns),
            Cell("yes" if walking.walks(r) else "no"),
            Cell(_where(r), kind="words"),
        )
        for r in found
    ]
    heads = ["Method", *(f"#{c.heading} {c.arrow}".strip() for c in columns), "Walks", "Where"]
    about = (
        *(part[2].format(**walking.episodes(found)) for part in ROBOTS),
        STANDS,
        "Speed: along the command, m/s. Exploded: episodes whose simulation failed, %. Walks: at least "
        f"{walking.WALKS_STEPS} steps an episode and {walking.WALKS_SHARE:.0%} of the commanded speed, on average. "
        f"Small: the paper’s, in another simulator and mostly at another budget. {PAPER['no_targets']()}",
    )
    return [Heading("Walking robots"), DataTable("Walking robots", heads, rows, "G1"), Words(" ".join(about))]


def _measured(column: Column, result: Result, results: Sequence[Result]) -> Cell:
    """A result's number in a column, in bold if the best of its place, and the paper's."""
    score = column.score(result)
    panel = [r for r in results if r.cell.place == result.cell.place]
    first = result in contenders(panel) and score.mean == column.best(panel)
    beside = papers_number(result, column)
    return Cell(plus_minus(score, column.show), score.mean, "best" if first else "", beside)


def _runs(results: Results, folder: Path) -> list[Block]:
    bent = any(run.too_sharp is not None for run in results.runs)
    rows = [_run(r, run, folder, bent) for there in _places(results) for r in there for run in r.runs]
    sharp = ("#Acceleration violations",) if bent else ()
    heads = ("Method", "#Seed", "#Return", "#Utilisation", "#Violations", *sharp, "#Steps/s", "Where", "Files")
    about = "Steps/s: training steps per second of CPU time."
    about += " Acceleration violations: those of them that broke an acceleration, in evaluations." if bent else ""
    return [DataTable("Every run", heads, rows, "ddsrad"), Words(about)]


def _run(result: Result, run: Run, folder: Path, bent: bool) -> tuple[Cell, ...]:
    sharp = Cell("–", math.nan) if run.too_sharp is None else Cell(count(run.too_sharp), run.too_sharp)
    home = Path(os.path.relpath(run.path, folder)).as_posix()
    return (
        Cell(called(result), head=True),
        Cell(str(run.spec.seed), run.spec.seed),
        Cell(amount(run.final_return), run.final_return),
        Cell(share(run.final_utilisation), run.final_utilisation),
        Cell(count(run.violations), run.violations),
        *([sharp] if bent else []),
        Cell("–" if math.isnan(run.rate) else f"{run.rate:.0f}", run.rate),
        Cell(_where(result, steps=False)),
        Cell("", links=[(name, f"{home}/{file}") for name, file in FILES.items()]),
    )


def _interval(ends: tuple[float, float]) -> Cell:
    """An interval, sorted by its low end; a dash for one without ends."""
    low, high = ends
    bounded = math.isfinite(low) and math.isfinite(high)
    return Cell(f"{amount(low)} to {amount(high)}" if bounded else "–", low if bounded else math.nan)


def _provenance(results: Results) -> dict[str, str]:
    made = [run.provenance for run in results.runs]
    names = list(dict.fromkeys(name for one in made for name in one))
    facts = {_fact(name): ", ".join(sorted({str(one[name]) for one in made if name in one})) for name in names}
    seeds = sorted({run.spec.seed for run in results.runs})
    rates = [run.rate for run in results.runs if not math.isnan(run.rate)]
    hours = sum(run.cpu_hours for run in results.runs if not math.isnan(run.rate))
    if results.shared:
        facts["All runs set"] = ", ".join(results.shared)
    facts["Seeds"] = ", ".join(map(str, seeds))
    facts["Speed"] = f"{np.median(rates):.0f} training steps per second of CPU time, median" if rates else "not taken"
    facts["CPU time"] = f"{_long(hours)} of training" if rates else "not taken"
    return facts


def _fact(name: str) -> str:
    """A name in provenance.json as a heading; packages keep theirs."""
    return name.capitalize() if name in ("python", "processor", "commit") else name


def _long(hours: float) -> str:
    """A time, in minutes if it is short."""
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.0f} minutes" if hours > 1 / 60 else "less than a minute"
