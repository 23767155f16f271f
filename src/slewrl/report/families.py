"""The paper's Table 1 redrawn: what each family of methods guarantees, reaches, costs and earns, measured.

What a layer decides alone is in the campaign's cells.json, which `benchmarks/table1.py --out CAMPAIGN` writes, with the
command of each row; violations and returns are those of the campaign's runs, at the same steps for all.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slewrl.errors import UserFacingError
from slewrl.report.data import Result, Results
from slewrl.report.methods import backbone, in_order, label
from slewrl.report.tables import amount
from slewrl.stats import stratified_bootstrap

CELLS = "cells.json"
ON_POLICY = ("ppo", "ppo_lag")
Row = dict[str, str | float | int]


def rows(results: Results, folder: Path) -> list[Row]:
    """A row for each backbone and layer of the campaign, then the families that were not built; none without cells."""
    path = folder / CELLS
    if not path.exists():
        return []
    try:
        cells = {cell["name"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, TypeError, KeyError) as error:
        raise UserFacingError(f"{path} is not what benchmarks/table1.py --out writes ({error!r})") from None
    found = [family(result, cells.get(result.layer, {}), results.name) for result in in_order(list(results))]
    heads = list(found[0]) if found else []
    absent = [name for name, cell in cells.items() if cell.get("violations") is None]
    return found + [{**dict.fromkeys(heads, "not measured"), "method": name} for name in absent]


def family(result: Result, cell: Mapping[str, Any], campaign: str) -> Row:
    """One row; "–" where a cell has no number."""
    checked = sum(run.actions_checked for run in result.runs)
    return {
        "method": f"{label(result.cell.method)}, {backbone(result.cell.agent)}",
        "joint actions outside F_t": f"{result.violations:,} of {checked:,}",
        "widest / narrowest joint at full latents": _pair(cell, "widest_full", "narrowest_full"),
        "share of F_t reached": _number(cell, "coverage", 2),
        "set moves": {True: "yes", False: "no"}.get(cell.get("moving_set", ""), "–"),
        "solver calls an action": _number(cell, "solver_calls", 0),
        "draws an action": _number(cell, "draws_per_action", 1),
        "µs an action, alone": _number(cell, "us_1", 0),
        "µs, of 256": _number(cell, "us_256", 1),
        "off-policy": "no" if result.cell.agent in ON_POLICY else "yes",
        f"return at {result.cell.steps:,} steps": returned(result),
        "measured by": f"`{cell.get('command', '–')}`; return: `slewrl campaign run {campaign}`",
    }


def returned(result: Result) -> str:
    """The mean over seeds, with a bootstrapped 95 % interval of it where there are several."""
    scores = result.returns
    if len(scores) == 1:
        return f"{amount(float(scores[0]))} (1 seed)"
    low, high = stratified_bootstrap([scores], lambda tasks: np.mean(tasks[0], axis=-1), at_once=True)
    return f"{amount(float(scores.mean()))} ({amount(float(low))} to {amount(float(high))}, {len(scores)} seeds)"


def _number(cell: Mapping[str, Any], name: str, digits: int) -> str:
    value = cell.get(name)
    return "–" if value is None else f"{value:,.{digits}f}"


def _pair(cell: Mapping[str, Any], *names: str) -> str:
    return " / ".join(_number(cell, name, 2) for name in names)


def texts(found: Sequence[Row]) -> list[list[str]]:
    """The cells of rows, as text."""
    return [[str(value) for value in row.values()] for row in found]
