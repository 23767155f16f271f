"""The results in the paper's layout: methods down, tasks across, a table for each backbone under each set of limits."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slewrl.report.data import Result, Results, Score
from slewrl.report.methods import NOTES, UNLIMITED, backbone, in_order, label

Task = tuple[str, int]
"""A task and the budget it was trained with: a column."""
HEADINGS = ("Return", "CV", "Util")
TASKS_ACROSS = 2
"""In LaTeX, as in the paper: four would not fit the width of a page."""


@dataclass(frozen=True)
class Table:
    """One backbone under one set of limits."""

    limits: str
    agent: str
    results: tuple[Result, ...]

    @property
    def title(self) -> str:
        """What it is about."""
        return f"{backbone(self.agent)}, {self.limits} limits"

    @property
    def tasks(self) -> list[Task]:
        """Its columns, in order of appearance."""
        return list(dict.fromkeys((r.cell.task, r.cell.steps) for r in self.results))

    @property
    def methods(self) -> list[str]:
        """Its rows."""
        return list(dict.fromkeys(r.cell.method for r in in_order(list(self.results))))

    @property
    def seeds(self) -> int:
        """Of most of its cells; a cell with another number says so."""
        return max(len(r.runs) for r in self.results)

    def at(self, method: str, task: Task) -> Result | None:
        """The result in a row and a column."""
        match = (method, *task)
        return next((r for r in self.results if (r.cell.method, r.cell.task, r.cell.steps) == match), None)

    def best(self, task: Task) -> float:
        """The highest mean return of a task among the layers that kept every limit; nan of fewer than two."""
        means = [r.score.mean for r in self.results if (r.cell.task, r.cell.steps) == task and contends(r)]
        return max(means) if len(means) > 1 else math.nan

    def marks(self) -> list[tuple[str, str]]:
        """The footnotes it needs: mark and text."""
        layers = {r.layer for r in self.results}
        return [note for layer, note in NOTES.items() if layer in layers]


def contends(result: Result) -> bool:
    """Whether a method may be the best: one without a limit may not, and one that broke its limits neither."""
    return result.layer != UNLIMITED and result.violations == 0


def tables(results: Results) -> list[Table]:
    """Every table there is anything for, tight limits before wide ones."""
    keys = sorted({(r.cell.limits, r.cell.agent) for r in results})
    return [Table(limits, agent, tuple(results.where(limits=limits, agent=agent))) for limits, agent in keys]


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
    return "–" if math.isnan(value) else f"{value:.1f}"


def count(number: int) -> str:
    """A number of steps, in thousands that can be told apart."""
    return f"{number:,}".replace(",", " ")


def entries(table: Table, method: str, task: Task, bold: str) -> list[str]:
    """The three entries of a cell; ``bold`` is a template such as ``**{}**`` for the best return."""
    result = table.at(method, task)
    if result is None:
        return ["–"] * len(HEADINGS)
    value = plus_minus(result.score, amount)
    if contends(result) and result.score.mean == table.best(task):
        value = bold.format(value)
    if len(result.runs) != table.seeds:
        value += f" (n = {len(result.runs)})"
    return [value, percent(result.score.cv), plus_minus(result.utilisation, share)]


def name(table: Table, method: str) -> str:
    """A method with its footnote mark."""
    layer = method.partition(" ")[0]
    return label(method) + NOTES.get(layer, ("", ""))[0]


def legend(table: Table) -> str:
    """What the numbers are."""
    seeds = "one seed" if table.seeds == 1 else f"mean ± standard deviation over {table.seeds} seeds"
    budgets = "; ".join(f"{task} at {count(steps)} steps" for task, steps in table.tasks)
    return f"{seeds}; {budgets}; best return of a method that kept every limit in bold"


# ---------------------------------------------------------------------- formats


def markdown(table: Table) -> str:
    """A pipe table with its title, legend and footnotes."""
    heads = [f"{task} {heading}" for task, _ in table.tasks for heading in HEADINGS]
    lines = [f"### {table.title}", "", _sentence(legend(table)), "", _pipes(["Method", *heads])]
    lines.append(_pipes(["---"] + ["---:"] * len(heads)))
    for method in table.methods:
        cells = [entry for task in table.tasks for entry in entries(table, method, task, "**{}**")]
        lines.append(_pipes([name(table, method), *cells]))
    lines += [f"\n{mark} {text}" for mark, text in table.marks()]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    r"""A table environment of booktabs tabulars, two tasks each; needs ``\usepackage{booktabs}`` and nothing else."""
    parts = [table.tasks[i : i + TASKS_ACROSS] for i in range(0, len(table.tasks), TASKS_ACROSS)]
    lines = [r"\begin{table}[t]", r"\centering\scriptsize", rf"\caption{{{_tex(f'{table.title}: {legend(table)}')}}}"]
    for part in parts:
        lines += [*_tabular(table, part), r"\par\smallskip"]
    lines += [_tex(f"{mark} {text}") + r"\par" for mark, text in table.marks()]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _tabular(table: Table, tasks: Sequence[Task]) -> list[str]:
    wide = len(HEADINGS)
    spans = [rf"\multicolumn{{{wide}}}{{c}}{{{_tex(task)}}}" for task, _ in tasks]
    rules = "".join(rf"\cmidrule(lr){{{2 + wide * i}-{1 + wide * (i + 1)}}}" for i in range(len(tasks)))
    heads = [r"Return $\uparrow$", r"CV $\downarrow$", "Util"] * len(tasks)
    lines = [rf"\begin{{tabular}}{{l{' ccc' * len(tasks)}}}", r"\toprule", _row(["", *spans]), rules]
    lines += [_row(["Method", *heads]), r"\midrule"]
    for method in table.methods:
        cells = [entry for task in tasks for entry in entries(table, method, task, r"\textbf{{{}}}")]
        lines.append(_row([_tex(name(table, method)), *(_tex(cell) for cell in cells)]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def tidy(results: Results) -> list[dict[str, str | float | int]]:
    """A row for each number of the tables, for other programs."""
    rows: list[dict[str, str | float | int]] = []
    for r in in_order(list(results)):
        cell = {"limits": r.cell.limits, "backbone": backbone(r.cell.agent), "task": r.cell.task}
        metrics = {"return": r.score, "return_cv": Score(r.score.cv, math.nan), "utilisation": r.utilisation}
        for metric, value in metrics.items():
            numbers = {"mean": value.mean, "std": value.std, "seeds": len(r.runs), "steps": r.cell.steps}
            rows.append({**cell, "method": r.cell.method, "metric": metric, **numbers})
    return rows


def as_csv(rows: Sequence[dict[str, str | float | int]]) -> str:
    """Rows as CSV; what does not exist (nan) is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    return text.getvalue()


def pipe_table(rows: Sequence[dict[str, str | float | int]]) -> str:
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
    for found, written in {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", **marks}.items():
        text = text.replace(found, written)
    return re.sub(r"(?<=\d) (?=\d{3}\b)", r"\\,", text)  # thousands stay together


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
