"""The paper's Table 1 redrawn: what each family of methods guarantees, reaches, costs and earns, measured.

What a layer decides alone, and returns of other campaigns at a larger budget, are in the campaign's cells.json, which
`benchmarks/table1.py --out CAMPAIGN` writes; the rest is read from the campaign's own runs. Every cell names the
command that measures it.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from slewrl.agents import AGENTS
from slewrl.campaign.grids import CAMPAIGNS
from slewrl.errors import UserFacingError
from slewrl.report.data import Result, Results
from slewrl.report.methods import backbone, in_order, label, prices
from slewrl.report.stats import t_interval
from slewrl.report.tables import amount, pipe_table
from slewrl.training.spec import RunSpec

CELLS = "cells.json"
CAMPAIGN = "table1"
"""The campaign that is run for this table."""
NOT_MEASURED = "not measured"
NOTHING = "–"
MISSING = f"{NOTHING} under what a layer decides alone: not measured yet. What measures it, in a clone of slewrl:"


class Measured(NamedTuple):
    """A cell of the table."""

    text: str
    command: str = ""
    """The command that measures it; "" if none does."""


Row = dict[str, Measured]


class Table1(NamedTuple):
    """The table; a campaign without one has no rows."""

    rows: Sequence[Row] = ()
    command: str = ""
    """The command that measures the layers that were not measured yet; "" if all were."""


class Return(NamedTuple):
    """The mean over seeds, and a 95 % t-interval of it; with one seed the interval is that number."""

    mean: float
    low: float
    high: float
    seeds: int
    steps: int

    @property
    def text(self) -> str:
        """The text of a cell."""
        if self.seeds == 1:
            return f"{amount(self.mean)} (1 seed)"
        return f"{amount(self.mean)} ({amount(self.low)} to {amount(self.high)}, {self.seeds} seeds)"


def returned(result: Result) -> Return:
    """The return of the final evaluations."""
    scores = result.returns
    mean = float(scores.mean())
    low, high = t_interval(scores) if len(scores) > 1 else (mean, mean)
    return Return(mean, low, high, len(scores), result.cell.steps)


def table_of(results: Results, folder: Path) -> Table1:
    """The table of the campaign table1, or of any other whose layers were measured."""
    cells = read_cells(folder / CELLS)
    if not cells and results.name != CAMPAIGN:
        return Table1()
    whole = all(result.layer in cells for result in results)
    fills = "" if whole else f"python -W ignore benchmarks/table1.py --out {shlex.quote(str(folder))}"
    return Table1(rows(results, cells), fills)


def rows(results: Results, cells: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """A row for each backbone and layer of the campaign, then the families that were not built."""
    found = [family(result, cells.get(result.layer, {}), ran(results, result)) for result in in_order(list(results))]
    heads = list(dict.fromkeys(head for row in found for head in row))
    absent = [name for name, cell in cells.items() if cell.get("violations") is None]
    found = [{head: row.get(head, Measured(NOTHING)) for head in heads} for row in found]
    return found + [{**dict.fromkeys(heads, Measured(NOT_MEASURED)), "method": Measured(name)} for name in absent]


def ran(results: Results, result: Result) -> str:
    """The command that made the runs of a row: the whole campaign as it ships, or the row's part of another."""
    ours, spec = CAMPAIGNS.get(results.name), result.runs[0].spec
    planned = ours().by_key.get(spec.key, spec) if ours else spec
    return f"slewrl campaign run {results.name}" if planned == spec else command(results.name, spec)


def command(campaign: str, spec: RunSpec) -> str:
    """The command that makes the runs of one cell; at another budget than the campaign's in another folder."""
    words = f"slewrl campaign run {campaign} --agents {spec.agent} --layers {spec.layer}"
    if spec in CAMPAIGNS[campaign]().runs:
        return words
    # On-policy agents have no warm-up, but its length is in their run.json all the same.
    changed = f"--steps {spec.steps} --learning-starts {spec.learning_starts}"
    return f"{words} {changed} --out runs/{campaign}-{spec.steps // 1000}k"


def read_cells(path: Path) -> dict[str, Mapping[str, Any]]:
    """The measurements of each layer, by its name; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        return {cell["name"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserFacingError(f"{path} is not what benchmarks/table1.py --out writes ({error!r})") from None


def family(result: Result, cell: Mapping[str, Any], ran: str) -> Row:
    """One row; ``ran``: the command that made the campaign's runs."""
    score, name = returned(result), label(result.layer, result.cell.agent)
    row = {
        "method": Measured(name if prices(result) else f"{name}, {backbone(result.cell.agent)}"),
        **alone(cell),
        "joint actions outside F_t, training": Measured(result.trained.text, ran),
        "joint actions outside F_t, evaluation": Measured(result.evaluated.text, ran),
        "off-policy": Measured("no" if AGENTS[result.cell.agent].on_policy else "yes", ran),
        f"return at {score.steps:,} steps": Measured(score.text, ran),
    }
    if more := cell.get("returns", {}).get(result.cell.agent):
        longer = Return(*(more[name] for name in Return._fields))
        row[f"return at {longer.steps:,} steps"] = Measured(longer.text, more["command"])
    return row


def alone(cell: Mapping[str, Any]) -> Row:
    """The cells that a layer decides alone; "–" where nothing was measured."""
    texts = {
        "actions outside F_t, adversarial latents": _pair(cell, " of ", 0, "violations", "draws"),
        "widest / narrowest joint at full latents": _pair(cell, " / ", 2, "widest_full", "narrowest_full"),
        "share of F_t reached": _number(cell, "coverage", 2),
        "set moves": {True: "yes", False: "no"}.get(cell.get("moving_set", ""), NOTHING),
        "solver calls an action": _number(cell, "solver_calls", 0),
        "draws an action": _number(cell, "draws_per_action", 1),
        "µs an action, alone": _number(cell, "us_1", 0),
        "µs, of 256": _number(cell, "us_256", 1),
    }
    return {head: Measured(text, cell.get("command", "")) for head, text in texts.items()}


def _number(cell: Mapping[str, Any], name: str, digits: int) -> str:
    value = cell.get(name)
    return NOTHING if value is None else f"{value:,.{digits}f}"


def _pair(cell: Mapping[str, Any], between: str, digits: int, *names: str) -> str:
    texts = [_number(cell, name, digits) for name in names]
    return NOTHING if NOTHING in texts else between.join(texts)


def commands(found: Sequence[Row]) -> list[str]:
    """The commands of all cells, each once, in order of appearance; a cell links to its place here, from 1."""
    return list(dict.fromkeys(cell.command for row in found for cell in row.values() if cell.command))


def markdown(table1: Table1) -> str:
    """A table whose cells link to the commands that measure them, and those commands."""
    numbers = {command: i for i, command in enumerate(commands(table1.rows), 1)}

    def linked(cell: Measured) -> str:
        return f"[{cell.text}](#table1-{numbers[cell.command]})" if cell.command else cell.text

    table = pipe_table([{head: linked(cell) for head, cell in row.items()} for row in table1.rows]) + "\n"
    table += f"{MISSING} `{table1.command}`\n\n" if table1.command else ""
    return table + "".join(f'{i}. <a id="table1-{i}"></a>`{command}`\n' for command, i in numbers.items())
