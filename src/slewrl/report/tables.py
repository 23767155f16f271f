"""The results in the paper's layout: methods down, tasks across, a table for each backbone under each set of limits."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from slewrl.report import walking
from slewrl.report.data import Cell, Result, Results, Score, grouped
from slewrl.report.methods import NOTES, ROBOT_METHODS, Note, backbone, in_order, kind, label, notes, prices, promises
from slewrl.report.sections import PAPER

Task = tuple[str, int]
"""A task and the budget it was trained with, which share some columns."""
TASKS_ACROSS = 2
"""Tasks side by side in LaTeX, as in the paper: four would not fit the width of a page."""
NARROW = 6
"""Columns of numbers that fit one column of a page."""
PAPERS = "– the paper’s"
"""The label of a row of the paper's numbers."""


@dataclass(frozen=True)
class Column:
    """One column of a task."""

    heading: str
    score: Callable[[Result], Score]
    show: Callable[[float], str]
    arrow: str = ""
    """↑ or ↓ where more or less is better."""
    bold: bool = False
    """Whether the best is in bold."""
    metric: str = ""
    """The paper's name for it, if its numbers are shown beside ours."""
    text: "Callable[[Result, Sequence[Result]], str] | None" = None
    """The text for a result among those of its task, where it is not mean ± standard deviation."""

    def cell_text(self, result: Result, panel: Sequence[Result]) -> str:
        """The text of a cell."""
        return self.text(result, panel) if self.text else plus_minus(self.score(result), self.show)

    def best(self, results: Sequence[Result]) -> float:
        """The best mean among the layers that kept every limit; nan where none is better than another."""
        means = {self.score(r).mean for r in contenders(results)} if self.bold else set()
        return (min if self.arrow == "↓" else max)(means) if len(means) > 1 else math.nan


@dataclass(frozen=True)
class Table:
    """One backbone under one set of limits."""

    limits: str
    agent: str
    results: tuple[Result, ...]
    columns: tuple[Column, ...]
    """Columns of each task."""
    part: str = ""
    """What part of the results it shows, for its title."""
    about: str = ""
    """What its columns are, with room for numbers of episodes."""
    shared: tuple[str, ...] = ()
    """Options that all runs of the campaign set, for tables with the paper's numbers beside ours."""
    says: str = ""
    """What its numbers are, where they are not mean ± standard deviation."""

    @property
    def title(self) -> str:
        """Backbone and limits, and the part it shows."""
        return f"{backbone(self.agent)}, {self.limits} limits" + (f": {self.part}" if self.part else "")

    @property
    def walks(self) -> bool:
        """Whether it is about walking robots."""
        return walking.is_walking(self.results[0])

    @property
    def tasks(self) -> list[Task]:
        """Its tasks, in order of appearance."""
        return list(dict.fromkeys((r.cell.task, r.cell.steps) for r in self.results))

    @property
    def methods(self) -> list[str]:
        """Its methods, one for each row."""
        ordered = in_order(self.results, ROBOT_METHODS) if self.walks else in_order(self.results)
        return list(dict.fromkeys(r.cell.method for r in ordered))

    @property
    def seeds(self) -> int:
        """Most seeds of a cell; one with fewer says so."""
        return max(len(r.runs) for r in self.results)

    def at(self, method: str, task: Task) -> Result | None:
        """The result in a row and a column."""
        match = (method, *task)
        return next((r for r in self.results if (r.cell.method, r.cell.task, r.cell.steps) == match), None)

    def of(self, task: Task) -> list[Result]:
        """The results of a task."""
        return [r for r in self.results if (r.cell.task, r.cell.steps) == task]

    def notes(self) -> list[str]:
        """The footnotes it needs."""
        others: list[str] = PAPER["under_other_limits"](self.results, self.limits)
        return notes(self.results) + others + (self._robot_notes() if self.walks and self.about else [])

    def _robot_notes(self) -> list[str]:
        about = [self.about.format(**walking.episodes(self.results))]
        if not any(papers(self, method) for method in self.methods):
            return about
        metrics = [column.metric for column in self.columns]
        return [*about, *PAPER["setting"]([task for task, _ in self.tasks], metrics)]


def contends(result: Result) -> bool:
    """Whether a method may be the best: one without a limit may not, and one that broke its limits neither."""
    return (promises(result) or prices(result)) and result.violations == 0


def contenders(panel: Iterable[Result]) -> list[Result]:
    """The results of a panel that may be the best; one seed is not ranked among several."""
    found = [r for r in panel if contends(r)]
    several = [r for r in found if len(r.runs) > 1]
    return several or found


def tables(results: Results) -> list[Table]:
    """Every table there is anything for, tight limits before wide ones; of walking robots two, as in the paper."""
    found = []
    for (limits, agent), there in by_limits_and_agent(results):
        if others := tuple(r for r in there if not walking.is_walking(r)):
            found.append(Table(limits, agent, others, BENCHMARK + acceleration(others)))
        if robots := tuple(r for r in there if walking.is_walking(r)):
            task, use = ROBOTS
            use = (use[0] + acceleration(robots), *use[1:])
            if any(not math.isnan(walking.STATUE.score(r).mean) for r in robots):
                task = (task[0] + columns_of((walking.STATUE,)), task[1], f"{task[2]} {STANDS}")
            found += [Table(limits, agent, robots, *part, results.shared) for part in (task, use)]
    return found


def acceleration(results: Iterable[Result]) -> tuple[Column, ...]:
    """The column for the use of the acceleration, if any of ``results`` has measured it."""
    return (ACCELERATION,) if any(r.accelerates for r in results) else ()


def by_limits_and_agent(results: Results) -> list[tuple[tuple[str, str], list[Result]]]:
    """The results of each agent under each set of limits, by the paper's name of them."""
    named = PAPER["limits_in_tables"](results)
    return sorted(grouped(results, lambda r: (named[r.cell], r.cell.agent)).items(), key=itemgetter(0))


# ---------------------------------------------------------------------- numbers as text


def amount(value: float) -> str:
    """A return: whole from 100 up, as in the paper, with three digits below."""
    if math.isnan(value):
        return "–"
    size = abs(value)
    return f"{value:.{0 if size >= 99.5 else 1 if size >= 9.95 else 2}f}".replace("-", "−")


def plus_minus(value: Score, show: Callable[[float], str]) -> str:
    """Mean ± standard deviation; one seed has no deviation to show."""
    return show(value.mean) + ("" if math.isnan(value.std) else f" ± {show(value.std)}")


def share(value: float) -> str:
    """A utilisation, with the paper's three digits."""
    return f"{value:.3f}"


def percent(value: float) -> str:
    """A CV, with the paper's one digit."""
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.1f}"


def count(number: int) -> str:
    """A number of steps, in thousands that can be told apart."""
    return f"{number:,}".replace(",", " ")


def count_range(numbers: Iterable[int]) -> str:
    """The smallest number of steps to the largest; one number if they are the same."""
    ordered = sorted(numbers)
    return " to ".join(map(count, dict.fromkeys((ordered[0], ordered[-1]))))


def where(cell: Cell) -> str:
    """A cell's task, limits, backbone and budget."""
    return f"{cell.task}, {cell.limits} limits, {backbone(cell.agent)}, {count(cell.steps)} steps"


def decimals(digits: int | None) -> Callable[[float], str]:
    """A format with so many digits after the point; None: that of a return."""
    if digits is None:
        return amount
    return lambda value: "–" if math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


score_of: Callable[[Result], Score] = attrgetter("score")
BENCHMARK = (
    Column("Return", score_of, amount, "↑", bold=True),
    Column("CV", lambda r: Score(r.score.cv, math.nan), percent, "↓"),
    Column("Util", lambda r: r.utilisation, share),
)
"""The paper's main table."""
ACCELERATION = Column("Util-A", lambda r: r.acceleration, lambda value: "–" if math.isnan(value) else share(value))
"""How much of the acceleration was used, for tables of runs that have measured it."""


def columns_of(metrics: Sequence[walking.Metric]) -> tuple[Column, ...]:
    """Columns of metrics of walking robots; those for which more or less is better have a best."""
    return tuple(Column(m.heading, m.score, decimals(m.digits), m.arrow, bool(m.arrow), m.name) for m in metrics)


ROBOTS = (
    (
        columns_of(walking.TASK),
        "(a) task-level performance",
        "VTE: velocity tracking error, m/s. Fall: episodes that end with the trunk on the ground, %. "
        "Steps: mean length of an episode, control steps. {final} episodes a seed.",
    ),
    (
        columns_of(walking.USE),
        "(b) use of the limits",
        "Util-P and Util-D: mean |increment| / limit of the proximal joints (H1: hips, G1: hip pitch) and of the "
        "distal ones (ankles), in {use}. Gap: |Util-P − Util-D|.",
    ),
)
"""The two parts of the paper's table of the robots: columns, what to call them, and what they are."""
STANDS = "Statue: the return of a robot that stands frozen in its default pose."


def entries(table: Table, method: str, task: Task, bold: str) -> list[str]:
    """The texts of a cell; ``bold`` is a template such as ``**{}**`` for the best."""
    result = table.at(method, task)
    if result is None:
        return ["–"] * len(table.columns)
    there, texts = table.of(task), []
    for column in table.columns:
        value = column.cell_text(result, there)
        best = result in contenders(there) and column.score(result).mean == column.best(there)
        texts.append(bold.format(value) if best else value)
    if len(result.runs) != table.seeds and not table.says:
        texts[0] += f" (n = {len(result.runs)})"
    return texts


def papers_number(result: Result | None, column: Column) -> str:
    """The paper's number to be shown beside ours; "" if it has none, or if it is of the layer with other options."""
    if result is None or result.cell.method != result.layer or not (paper := PAPER["value"](result, column.metric)):
        return ""
    return plus_minus(paper, column.show) + str(PAPER["mark"](result.cell.task, column.metric))


def papers(table: Table, method: str) -> list[str]:
    """The paper's entries for a method, task by task as ours; empty if it has none."""
    numbers = [papers_number(table.at(method, task), column) for task in table.tasks for column in table.columns]
    return [entry or "–" for entry in numbers] if any(numbers) else []


def name(table: Table, method: str) -> str:
    """A method with its footnote mark."""
    known_by = kind(method.partition(" ")[0], table.agent)
    return label(method, table.agent) + NOTES.get(known_by, Note()).mark


def legend(table: Table) -> str:
    """What the numbers of a table are."""
    seeds = "one seed" if table.seeds == 1 else f"mean ± standard deviation over {table.seeds} seeds"
    best = [column.heading for column in table.columns if column.bold]
    words = [table.says or seeds, *(f"{task} at {count(steps)} steps" for task, steps in table.tasks)]
    if table.walks and table.shared:
        words.append(f"all runs set {', '.join(table.shared)}")
    if best:
        words.append(f"best mean {'return' if len(best) == 1 else 'value'} of a method that kept every limit in bold")
        words[-1] += ", which is no verdict"
        words += ["one seed is not ranked"] if any(_any_outnumbered(table.of(task)) for task in table.tasks) else []
    return "; ".join(words)


def _any_outnumbered(panel: Sequence[Result]) -> bool:
    """Whether a method that kept every limit is no contender because others have more seeds."""
    return len({len(r.runs) for r in panel}) > 1 and len(contenders(panel)) < sum(map(contends, panel))


# ---------------------------------------------------------------------- formats


def markdown(table: Table) -> str:
    """A pipe table with its title, legend and footnotes."""
    heads = [f"{task} {column.heading}" for task, _ in table.tasks for column in table.columns]
    about = legend(table)
    lines = [f"### {table.title}", "", f"{about[0].upper()}{about[1:]}.", "", _pipes(["Method", *heads])]
    lines.append(_pipes(["---"] + ["---:"] * len(heads)))
    for method in table.methods:
        cells = [entry for task in table.tasks for entry in entries(table, method, task, "**{}**")]
        lines.append(_pipes([name(table, method), *cells]))
        lines += [_pipes([PAPERS, *row]) for row in [papers(table, method)] if row]
    lines += [f"\n{note}" for note in table.notes()]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    r"""A table environment of booktabs tabulars, two tasks each; needs ``\usepackage{booktabs}`` and nothing else."""
    parts = [table.tasks[i : i + TASKS_ACROSS] for i in range(0, len(table.tasks), TASKS_ACROSS)]
    kind = "table*" if len(table.columns) * len(parts[0]) > NARROW or table.says else "table"
    caption = _tex(f"{table.title}: {legend(table)}")
    lines = [rf"\begin{{{kind}}}[t]", r"\centering\scriptsize", rf"\caption{{{caption}}}"]
    for part in parts:
        lines += [*_tabular(table, part), r"\par\smallskip"]
    lines += [_tex(note) + r"\par" for note in table.notes()]
    return "\n".join([*lines, rf"\end{{{kind}}}"]) + "\n"


def _tabular(table: Table, tasks: Sequence[Task]) -> list[str]:
    wide = len(table.columns)
    spans = [rf"\multicolumn{{{wide}}}{{c}}{{{_tex(task)}}}" for task, _ in tasks]
    rules = "".join(rf"\cmidrule(lr){{{2 + wide * i}-{1 + wide * (i + 1)}}}" for i in range(len(tasks)))
    heads = [_tex(f"{column.heading} {column.arrow}".strip()) for column in table.columns] * len(tasks)
    aligned = "l" + f" {'c' * wide}" * len(tasks)
    lines = [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule", _row(["", *spans]), rules]
    lines += [_row(["Method", *heads]), r"\midrule"]
    first = wide * table.tasks.index(tasks[0])
    for method in table.methods:
        cells = [entry for task in tasks for entry in entries(table, method, task, r"\textbf{{{}}}")]
        lines.append(_row([_tex(name(table, method)), *(_tex(cell) for cell in cells)]))
        paper = papers(table, method)[first : first + wide * len(tasks)]
        lines += [_row(rf"\textit{{{_tex(cell)}}}" for cell in [PAPERS, *paper])] if paper else []
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def as_csv(rows: Sequence[Mapping[str, str | float | int]]) -> str:
    """Rows as CSV; what does not exist (nan) is left empty.

    Numbers have ten digits: the last ones of a sum depend on the processor, and a table is to be the same on each.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _digits(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _digits(value: str | float | int) -> str | int:
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.10g}"


def pipe_table(rows: Sequence[Mapping[str, str | float | int]]) -> str:
    """Rows as a Markdown table."""
    lines = [_pipes(rows[0]), _pipes(["---"] * len(rows[0]))]
    lines += [_pipes(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex(text: str) -> str:
    """Text for LaTeX's own fonts: what they lack goes through math."""
    marks = {"±": r"$\pm$", "−": "$-$", "–": "--", "†": r"$^\dagger$", "‡": r"$^\ddagger$", "λ": r"$\lambda$"}
    marks |= {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "§": r"$^\S$", "¶": r"$^\P$", "’": "'", "|": "$|$"}
    for found, written in {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", **marks}.items():
        text = text.replace(found, written)
    return re.sub(r"(?<=\d) (?=\d{3}\b)", r"\\,", text)  # thousands stay together
