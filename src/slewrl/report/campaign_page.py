"""A campaign as one HTML page: tables to sort and filter, figures, claims, and where every number comes from."""

import base64
import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from html import escape as _escape
from pathlib import Path
from string import Template
from urllib.parse import quote

import numpy as np

from slewrl.paper import families
from slewrl.paper.claims import Finding, findings
from slewrl.paper.compare import Comparison, compare
from slewrl.paper.published import NO_TARGETS
from slewrl.report import walking
from slewrl.report.data import Broken, Result, Results, Run
from slewrl.report.figures import DARK, LIGHT
from slewrl.report.methods import ROBOT_METHODS, backbone, called, in_order, label, note, notes, prices, promises
from slewrl.report.multiples import REFERENCE
from slewrl.report.page import STYLE, badge, figure_card, variables
from slewrl.report.plates import Plate, configurations
from slewrl.report.ranking import best, lead, leads, trails, unranked
from slewrl.report.seedwise import HEADING, METHOD, by_seed, improvement, improvement_text, interval
from slewrl.report.sensitivity import sweeps
from slewrl.report.tables import (
    NO_TARGET,
    ROBOTS,
    Column,
    amount,
    columns_of,
    contenders,
    count,
    decimals,
    papers_number,
    percent,
    plus_minus,
    share,
)

TEMPLATE = Template(Path(__file__).with_name("campaign_page.html").read_text(encoding="utf-8"))
SCRIPT = Path(__file__).with_name("campaign_page.js").read_text(encoding="utf-8")
FILES = {"evaluations": "eval.csv", "training": "train.csv", "episodes": "final/episodes.csv"}
UNSAFE = re.compile(r"[^\w !$'()*+,\-./:;<=>?@\[\]{|}~]+", re.ASCII)
"""What an address cannot hold as it is."""
MARKS = {
    "holds": "holds",
    "does not hold": "fails",
    "undecided": "undecided",
    "not measured here": "open",
}


def write_page(
    path: Path, results: Results, drawn: Sequence[tuple[Plate, bytes]], table1: families.Table1 = families.NO_TABLE1
) -> None:
    """Write the page; ``drawn``: the figures, each with its SVG. Links to runs are relative to ``path``."""
    path.write_text(render(results, drawn, path.parent, table1), encoding="utf-8")


def render(
    results: Results, drawn: Sequence[tuple[Plate, bytes]], folder: Path, table1: families.Table1 = families.NO_TABLE1
) -> str:
    """The page's HTML, as seen from ``folder``."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return TEMPLATE.substitute(
        title=escape(f"{results.name}: {results.about}"),
        lead=escape(_lead(results)),
        light=variables(LIGHT),
        dark=variables(DARK),
        style=STYLE,
        badge=_badge(results),
        headline="".join(f"<li>{escape(line)}</li>" for line in headlines(results)),
        results=_results(results) + _robots(results),
        families=_families(table1),
        families_link='<a href="#families">Families of methods</a>' if table1.rows else "",
        figures="\n".join(_plate(plate, svg) for plate, svg in drawn),
        claims=_claims(findings(results)),
        comparison=_comparison(compare(results)),
        runs=_runs(results, folder),
        provenance=_provenance(results),
        hash=f"sha256-{digest}",
        script=SCRIPT,
    )


def headlines(results: Results) -> list[str]:
    """Who came first on each task under each limits with each backbone, and where DD-SRad is."""
    lines = []
    for (task, limits, agent, steps), panel in configurations(results).items():
        first = best(panel)
        line = f"{task}, {limits} limits, {backbone(agent)}, {count(steps)} steps: {lead(panel, _walked(first))}"
        ours = next((r for r in panel if r.cell.method == REFERENCE and r is not first), None)
        if ours:
            line += f"; DD-SRad {plus_minus(ours.score, amount)}{_walked(ours)}, {trails(ours, first, panel)}"
        lines.append(f"{line}{unranked(panel)}.")
    for which, sweep in sweeps(results).items():
        whose = "" if which.method == REFERENCE else f", {label(which.method, which.agent)}"
        for limits, by_lambda in sweep.items():
            value, top = max(by_lambda.items(), key=lambda pair: pair[1].score.mean)
            returned = plus_minus(top.score, amount)
            lines.append(
                f"{which.task}, {limits} limits, {backbone(which.agent)}, {count(which.steps)} steps{whose}: "
                f"λ = {value:g} has the highest mean return of {len(by_lambda)}, {returned}; "
                f"{leads(top, list(by_lambda.values()))}."
            )
    return lines


def _walked(result: Result) -> str:
    """How well a robot walked; nothing of another task."""
    if not walking.is_walking(result):
        return ""
    vte, fall, steps = (decimals(metric.digits)(metric.score(result).mean) for metric in walking.TASK[1:])
    walks, episodes = "walks" if walking.walks(result) else "does not walk", walking.episodes([result])["final"]
    return f" ({walks}: falls in {fall} % of {episodes} episodes a seed, VTE {vte} m/s, {steps} steps an episode)"


def _lead(results: Results) -> str:
    tasks, agents = ({getattr(r.cell, name) for r in results} for name in ("task", "agent"))
    seeds = len({run.spec.seed for run in results.runs})
    budgets = sorted({r.cell.steps for r in results})
    steps = " to ".join(count(n) for n in dict.fromkeys((budgets[0], budgets[-1])))
    learners = " and ".join(sorted(backbone(agent) for agent in agents))
    return (
        f"{len(results.runs)} of {results.planned} runs are finished: {', '.join(sorted(tasks))} with {learners}, "
        f"up to {seeds} seeds a method, {steps} steps each. "
        "Returns are means of each final policy’s evaluation without exploration."
    )


def _badge(results: Results) -> str:
    """What broke a limit of the methods that promise it, and beside it what a price on violations came to."""
    limited = [r for r in results if promises(r)]
    broken, all_of_them = Broken.sum(r.broken for r in limited), len(limited) == len(results)
    words = ["One action is one joint at one control step, in training or evaluation."]
    words += [f"{called(r)} on {r.cell.task}: {r.violations:,}." for r in limited if r.violations]
    words += [_priced(r) for r in results if prices(r)]
    if not limited:
        return _caption(" ".join(["No method here promises the limit.", *words]))
    whose = "" if all_of_them else "of methods whose layer promises the limit "
    return badge(broken.actions, broken.of, " ".join(words), whose)


def _priced(result: Result) -> str:
    return (
        f"{called(result)} on {result.cell.task}, a soft constraint that promises nothing and is not counted above: "
        f"{result.trained.text} in training, {result.evaluated.text} in evaluation."
    )


def _plate(plate: Plate, svg: bytes) -> str:
    image = f'<img src="{_address(svg)}" alt="{escape(f"{plate.title}. {plate.caption}")}">'
    return figure_card("", plate.title, plate.caption, image)


def _address(svg: bytes) -> str:
    """A figure as an address. Base64 would be a third longer, and there may be forty figures."""
    return "data:image/svg+xml," + UNSAFE.sub(lambda found: quote(found[0]), svg.decode().replace('"', "'"))


def escape(text: str) -> str:
    """Text for HTML, its thousands kept together."""
    return re.sub(r"(?<=\d) (?=\d{3}\b)", "\u202f", _escape(text))


# ---------------------------------------------------------------------- tables


def _results(results: Results) -> str:
    rows = []
    for r in in_order(list(results)):
        panel = contenders(o for o in results if o.cell._replace(method="") == r.cell._replace(method=""))
        where = f'<small class="narrow">{escape(f"{r.cell.task} {r.cell.limits} {backbone(r.cell.agent)}")}</small>'
        first = len(panel) > 1 and r in panel and r.score.mean == max(o.score.mean for o in panel)
        rows.append(
            _row(
                f'<th scope="row">{escape(called(r) + note(r).mark)}{where}</th>',
                _number(plus_minus(r.score, amount), r.score.mean, "best" if first else ""),
                _interval(interval(r)),
                _text(by_seed(r)),
                _number(improvement_text(r, results), chance[0] if (chance := improvement(r, results)) else math.nan),
                _number(percent(r.score.cv), r.score.cv),
                _number(plus_minus(r.utilisation, share), r.utilisation.mean),
                _text(r.cell.task),
                _text(r.cell.limits),
                _text(backbone(r.cell.agent)),
                _number(str(len(r.runs)), len(r.runs)),
                _number(count(r.cell.steps), r.cell.steps),
            )
        )
    # A phone shows two columns before one scrolls: the method, and what it came to.
    returned = ("#Return ↑", "#95 % interval", "Return by seed", f"#{HEADING}")
    heads = ("Method", *returned, "#CV, % ↓", "#Utilisation", "Task", "Limits", "Backbone", "#Seeds", "#Steps")
    about = "Mean ± standard deviation over seeds; the highest mean return of a method that kept every limit in bold, "
    about += f"which is no verdict. {METHOD}."
    about += " One seed is not ranked among several." if {1} < {len(r.runs) for r in results} else ""
    return _table("Results", heads, rows, "ddsrad tight sac") + _caption(" ".join([about, *notes(results)]))


def _robots(results: Results) -> str:
    """What walking robots are measured by, the paper's numbers under ours; nothing if there are none."""
    ordered = in_order(list(results), ROBOT_METHODS)
    found = sorted((r for r in ordered if walking.is_walking(r)), key=lambda r: (r.cell.task, r.cell.steps))
    if not found:
        return ""
    columns = [*(column for part in ROBOTS for column in part[0]), *columns_of(walking.MORE)]
    rows = [
        _row(
            f'<th scope="row">{escape(called(r))}</th>',
            _text(r.cell.task),
            *(_measured(column, r, found) for column in columns),
            _text("yes" if walking.walks(r) else "no"),
            *map(_text, (r.cell.limits, backbone(r.cell.agent))),
            _number(count(r.cell.steps), r.cell.steps),
        )
        for r in found
    ]
    measured = [f"#{column.heading} {column.arrow}".strip() for column in columns]
    heads = ["Method", "Task", *measured, "Walks", "Limits", "Backbone", "#Budget"]
    about = (
        *(part[2].format(**walking.episodes(found)) for part in ROBOTS),
        "Speed: along the command, m/s. Exploded: episodes whose simulation failed, %. Walks: at least "
        f"{walking.WALKS_STEPS} steps an episode and {walking.WALKS_SHARE:.0%} of the commanded speed, on average. "
        f"Small: the paper’s, in another simulator and mostly at another budget. {NO_TARGET} No target for ours: "
        f"{'; '.join(NO_TARGETS.values())}.",
    )
    return f"<h2>Walking robots</h2>{_table('Walking robots', heads, rows, 'G1')}{_caption(' '.join(about))}"


def _measured(column: Column, result: Result, results: Sequence[Result]) -> str:
    """A number of a robot's, in bold if the best of its task, and the paper's."""
    score, paper = column.score(result), papers_number(result, column)
    panel = [r for r in results if r.cell._replace(method="") == result.cell._replace(method="")]
    best = result in contenders(panel) and score.mean == column.best(panel)
    beside = f"<br><small>{escape(paper)}</small>" if paper else ""
    return _number(plus_minus(score, column.show), score.mean, "best" if best else "", beside)


def _families(table1: families.Table1) -> str:
    """The paper's Table 1, where it was asked for, each cell a link to the command that measured it."""
    if not table1.rows:
        return ""
    commands = families.commands(table1.rows)

    def linked(cell: families.Measured) -> str:
        if not cell.command:
            return _text(cell.text)
        return f'<td><a href="#table1-{commands.index(cell.command) + 1}">{escape(cell.text)}</a></td>'

    rows = [
        _row(f'<th scope="row">{escape(first.text)}</th>', *map(linked, rest))
        for first, *rest in (list(row.values()) for row in table1.rows)
    ]
    about = "The paper’s Table 1 with a measurement in each cell, which links to the command that makes it."
    missing = f" {escape(table1.missing)} <code>{escape(table1.command)}</code>" if table1.command else ""
    listed = "".join(f'<li id="table1-{i}"><code>{escape(c)}</code></li>' for i, c in enumerate(commands, 1))
    return (
        '<section class="card wide many" id="families"><h2>Families of methods</h2>'
        + _table("Families of methods", list(table1.rows[0]), rows, "PPO")
        + f'<p class="caption">{escape(about)}{missing}</p>'
        + f"<ol>{listed}</ol></section>"
    )


def _claims(found: Sequence[Finding]) -> str:
    open_ones = [f for f in found if f.verdict == "not measured here"]
    judged = [f for f in found if f not in open_ones]
    about = (
        "In brackets: the 95 % interval over the seeds, paired where both sides have the same seeds. A claim holds if "
        "all of every interval is what its rule allows, does not hold if nothing of one is, and is undecided "
        "otherwise, with one seed, or where no seed learned the task. At a smaller budget than the paper’s "
        "a verdict says what is true that early, and not what is in the end."
    )
    rest = f"<details><summary>{len(open_ones)} claims that these runs do not measure</summary>{_claim_rows(open_ones)}"
    shown = _claim_rows(judged) + _caption(about) if judged else ""
    return shown + (f"{rest}</details>" if open_ones else "")


def _claim_rows(found: Sequence[Finding]) -> str:
    rows = [
        _row(
            f'<td class="verdict {MARKS[f.verdict]}">{f.judged}<br><small>{escape(f.budget)}</small></td>',
            f'<th scope="row" class="words">{escape(f.claim.says)}<br><small>{escape(f.claim.where)}</small></th>',
            _words(f.said),
            _words(f.claim.rule),
            _text(f.claim.name),
        )
        for f in found
    ]
    return _table(
        "The paper’s claims", ("Verdict", "The paper says", "Measured here", "Holds if", "Name"), rows, "holds"
    )


def _comparison(found: Sequence[Comparison]) -> str:
    if not found:
        return _caption("The paper’s tables have no number for what this campaign ran.")
    rows = []
    for c in found:
        show = {"return_cv": percent, "utilisation": share}.get(c.metric) or decimals(walking.METRICS[c.metric].digits)
        rows.append(
            _row(
                f'<th scope="row">{escape(called(c.result))}</th>',
                _text(c.result.cell.task),
                _text(c.result.cell.limits),
                _text(backbone(c.result.cell.agent)),
                _text(c.metric),
                _number(plus_minus(c.paper, show), c.paper.mean),
                _number(show(c.ours.mean), c.ours.mean),
                _number("–" if math.isnan(c.interval[0]) else " to ".join(map(show, c.interval)), c.interval[0]),
                _text(c.budget),
                _text(c.verdict),
            )
        )
    heads = ("Method", "Task", "Limits", "Backbone", "Metric", "#Paper", "#Ours", "#95 % interval", "Budget", "Verdict")
    about = (
        "The paper’s mean ± standard deviation over 5 seeds beside ours with its interval: of a mean by Student’s t, "
        "of a CV by the noncentral t. Numbers at another training budget cannot confirm or "
        "refute each other, and get no verdict. The robots’ are from another simulator, too."
    )
    return _table("Beside the paper’s tables", heads, rows, "return") + _caption(about)


def _runs(results: Results, folder: Path) -> str:
    rows = [_run(r, run, folder) for r in in_order(list(results)) for run in r.runs]
    heads = (
        "Method",
        "Task",
        "Limits",
        "Backbone",
        "#Seed",
        "#Return",
        "#Utilisation",
        "#Violations",
        "#Steps/s",
        "Files",
    )
    return _table("Every run", heads, rows, "ddsrad") + _caption("Steps/s: training steps per second of CPU time.")


def _run(result: Result, run: Run, folder: Path) -> str:
    home = Path(os.path.relpath(run.path, folder)).as_posix()
    links = " ".join(f'<a href="{escape(f"{home}/{file}")}">{name}</a>' for name, file in FILES.items())
    return _row(
        f'<th scope="row">{escape(called(result))}</th>',
        _text(result.cell.task),
        _text(result.cell.limits),
        _text(backbone(result.cell.agent)),
        _number(str(run.spec.seed), run.spec.seed),
        _number(amount(run.final_return), run.final_return),
        _number(share(run.final_utilisation), run.final_utilisation),
        _number(count(run.violations), run.violations),
        _number("–" if math.isnan(run.rate) else f"{run.rate:.0f}", run.rate),
        f"<td>{links}</td>",
    )


def _provenance(results: Results) -> str:
    made = [run.provenance for run in results.runs]
    names = list(dict.fromkeys(name for one in made for name in one))
    facts = {name.capitalize(): ", ".join(sorted({str(one[name]) for one in made if name in one})) for name in names}
    seeds = sorted({run.spec.seed for run in results.runs})
    rates = [run.rate for run in results.runs if not math.isnan(run.rate)]
    hours = sum(run.cpu_hours for run in results.runs if not math.isnan(run.rate))
    if results.shared:
        facts["All runs set"] = ", ".join(results.shared)
    facts["Seeds"] = ", ".join(map(str, seeds))
    facts["Speed"] = f"{np.median(rates):.0f} training steps per second of CPU time, median" if rates else "not taken"
    facts["CPU time"] = f"{_long(hours)} of training" if rates else "not taken"
    return _list(facts)


def _long(hours: float) -> str:
    """A time, in minutes if it is short: a tiny campaign takes more than 0.0 hours."""
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.0f} minutes" if hours > 1 / 60 else "less than a minute"


def _list(facts: Mapping[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def _table(name: str, heads: Sequence[str], rows: Sequence[str], example: str) -> str:
    """A table in a box of its own, which scrolls where the page must not; a head with # is of numbers."""
    cells = "".join(
        f'<th scope="col"{" class=number" if head.startswith("#") else ""}>{escape(head.removeprefix("#"))}</th>'
        for head in heads
    )
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="sortable" data-example="{escape(example)}"><thead><tr>{cells}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>\n"


def _text(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _words(text: str) -> str:
    return f'<td class="words">{escape(text)}</td>'


def _number(text: str, value: float, kind: str = "", beside: str = "") -> str:
    """A number with its exact value to sort by; one that does not exist has none, and is sorted last.

    ``beside``: HTML to follow it.
    """
    exact = "" if math.isnan(value) else repr(float(value))
    return f'<td class="number{" " + kind if kind else ""}" data-value="{exact}">{escape(text)}{beside}</td>'


def _interval(ends: tuple[float, float]) -> str:
    """An interval, sorted by its low end; nothing of one without ends."""
    low, high = ends
    bounded = math.isfinite(low) and math.isfinite(high)
    return _number(f"{amount(low)} to {amount(high)}" if bounded else "–", low if bounded else math.nan)


def _caption(text: str) -> str:
    return f'<p class="caption">{escape(text)}</p>'
