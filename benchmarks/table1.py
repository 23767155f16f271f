"""The paper's Table 1 with a measurement behind every cell: what each family of methods guarantees, reaches and costs.

    python -W ignore benchmarks/table1.py                      # all rows; the `dev` extra for `qp`
    python -W ignore benchmarks/table1.py --layers ddsrad aram --draws 1e4
    python -W ignore benchmarks/table1.py --out results/table1 --returns results/first results/table1-60k --docs docs

On Unitree G1 under the paper's limits (13 joints, kappa 4), float32:

* violations: actions outside F_t in exact arithmetic, of --draws adversarial ones (`slewrl.audit`); `budget` must keep
  its budget as well, `aram` is given a tenth of them and `qp` a hundredth. Raw: the same of what is judged, or of what
  the solver answered, before the guard.
* joints: mean |da_i| / delta_i of the joint with the widest limit, then of the narrowest, when every latent is +-1000,
  and when latents are N(0, 1); prev is drawn so that no range is in the way.
* coverage: share of 12^3 cells of F_t of three joints (the narrowest, one between, the widest) in which latents of all
  sizes land.
* moving set: whether another prev changes what the same latents execute.
* solver calls and draws for one action.
* microseconds per action (box included, no gradient): median CPU time of --rounds calls, alone and in batches of 256.

Everything goes to --out as JSON and CSV, each row with the command that measured it. Where --out is a folder of the
campaign table1, `slewrl report` makes the paper's Table 1 of both. --returns: campaigns with a larger budget, whose
returns are to stand beside. --docs puts the table of layers into layers.md, that of families into table1.md.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from page import write
from torch import Tensor

from slewrl import LAYERS, ActionLayer, RateLimits, make_layer
from slewrl.audit import adversarial_cases, executed_by, judge_budget
from slewrl.box import FeasibleBox
from slewrl.campaign.paper import CAMPAIGNS
from slewrl.layers import BENCHMARK_LAYERS
from slewrl.layers.aram import ARAM
from slewrl.layers.budget import Budget
from slewrl.layers.qp import QP
from slewrl.report.data import load
from slewrl.report.families import markdown, returned
from slewrl.report.families import rows as families
from slewrl.runs import RunSpec

LIMITS = RateLimits.preset("G1", "paper")
ORDER = LIMITS.delta.argsort(kind="stable")
NARROW, MIDDLE, WIDE = (int(ORDER[k]) for k in (0, LIMITS.dim // 2, -1))
CELLS = 12
COVERAGE_LATENTS = 400_000
BLOCK = 256
"""Rows per call of the solver."""
NOT_MEASURED = {"FlowPG": "not built", "MPC": "not built"}


@dataclass(frozen=True)
class Row:
    """One method; ``None`` where it was not measured."""

    name: str
    command: str
    hard: bool | None = None
    draws: int = 0
    violations: int | None = None
    raw_violation_share: float | None = None
    """Of what the critic judges or the solver answered, before the guard."""
    widest_full: float | None = None
    narrowest_full: float | None = None
    widest_ordinary: float | None = None
    narrowest_ordinary: float | None = None
    coverage: float | None = None
    moving_set: bool | None = None
    solver_calls: float | None = None
    draws_per_action: float | None = None
    us_1: float | None = None
    us_256: float | None = None
    returns: dict[str, Any] = field(default_factory=dict)
    """Backbone -> what it earns with this layer in another campaign, and the command that measured it."""


def in_blocks(layer: ActionLayer, latent: Tensor, box: FeasibleBox) -> Tensor:
    """What the layer executes; a solver gets some rows at a time."""
    if not isinstance(layer, QP):
        return drawn(layer)(latent, box)
    rows = zip(latent.split(BLOCK), box.prev.split(BLOCK), strict=True)
    return torch.cat([layer.execute(u, LIMITS.box(prev, check=False)) for u, prev in rows])


def drawn(layer: ActionLayer) -> Callable[[Tensor, FeasibleBox], Tensor]:
    """What is audited: of a layer that rejects, its draws."""
    if not isinstance(layer, ARAM):
        return executed_by(layer)
    return lambda latent, box: layer.draw(latent, latent.roll(1, 0).abs(), latent.roll(2, 0), box).executed


@torch.no_grad()
def violations(layer: ActionLayer, draws: int) -> tuple[int, int, float]:
    """Actions, how many of them broke a limit, and the share of judged (or a solver's) actions that did."""
    actions, broken, raw = 0, 0, 0
    for latent, box in adversarial_cases(LIMITS, torch.float32, draws * LIMITS.dim, seed=1):
        executed = in_blocks(layer, latent, box)
        bad = ~box.contains(executed).all(-1)
        if isinstance(layer, Budget):
            broken += judge_budget(executed, box.prev, LIMITS, layer.allowance(LIMITS.dim)).violations
        actions, broken = actions + len(bad), broken + int(bad.sum())
        if not isinstance(layer, QP):
            raw += int((~box.contains(layer(latent, box).judged).all(-1)).sum())
    return actions, broken, layer.columns()["solver_outside"] if isinstance(layer, QP) else raw / actions


def roomy_prevs(rows: int) -> Tensor:
    """Previous actions with room for a whole step on both sides."""
    low, high, delta = (torch.tensor(x, dtype=torch.float32) for x in (LIMITS.low, LIMITS.high, LIMITS.delta))
    uniform = torch.rand(rows, LIMITS.dim, generator=torch.Generator().manual_seed(2))
    return torch.lerp(low + delta, high - delta, uniform)


@torch.no_grad()
def joint_use(layer: ActionLayer, full: bool, rows: int = 2048) -> tuple[float, float]:
    """Mean |da| / delta of the widest joint, then of the narrowest."""
    rows = BLOCK if isinstance(layer, QP) else rows
    prev, generator = roomy_prevs(rows), torch.Generator().manual_seed(3)
    u = torch.randn(rows, LIMITS.dim, generator=generator)
    executed = layer.execute(1000 * u.sign() if full else u, LIMITS.box(prev))
    use = ((executed - prev).double().abs() / torch.tensor(LIMITS.delta)).mean(0)
    return use[WIDE].item(), use[NARROW].item()


def sweep(rows: int) -> Tensor:
    """Latents (rows, 3) of all directions and of sizes from .03 to 300, and some that saturate one joint or two."""
    generator = torch.Generator().manual_seed(4)
    u = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    common = 10.0 ** (4 * torch.rand(rows, 1, generator=generator, dtype=torch.float64) - 1.5)
    own = 10.0 ** (3 * torch.rand(rows, 3, generator=generator, dtype=torch.float64) - 1)
    return torch.where(torch.rand(rows, 1, generator=generator) < 0.5, u * common, u * own)


@torch.no_grad()
def coverage(name: str) -> float:
    """The share of cells of F_t that are hit, for three joints of G1 in the middle of their ranges."""
    limits = LIMITS.select([LIMITS.names[k] for k in (NARROW, MIDDLE, WIDE)])
    rows = 20_000 if name == "qp" else COVERAGE_LATENTS
    middle = torch.tensor(0.5 * (limits.low + limits.high))
    box, layer, latents = limits.box(middle), make_layer(name), sweep(rows)
    if name in ("boxpre", "post", "boxpro", "aram", "qp", "none"):  # theirs is a command over the whole range:
        latents = around(box, limits, latents)  # aim near F_t
    parts = [layer.execute(u, limits.box(middle.expand_as(u))) for u in latents.split(BLOCK if name == "qp" else rows)]
    share = (torch.cat(parts) - box.low) / (box.high - box.low)
    inside = share[((share >= 0) & (share <= 1)).all(-1)]
    return len(torch.unique((inside * CELLS).floor().clamp_max(CELLS - 1), dim=0)) / CELLS**3


def around(box: FeasibleBox, limits: RateLimits, latents: Tensor) -> Tensor:
    """Latents whose commands fill a box one and a half times as wide as F_t."""
    uniform = torch.rand(latents.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    command = torch.lerp(1.25 * box.low - 0.25 * box.high, 1.25 * box.high - 0.25 * box.low, uniform)
    middle, half = (torch.tensor(x) for x in (0.5 * (limits.low + limits.high), 0.5 * (limits.high - limits.low)))
    return torch.atanh(((command - middle) / half).clamp(-0.999, 0.999))


@torch.no_grad()
def moves(layer: ActionLayer) -> bool:
    """Whether prev changes what the same latents execute."""
    u, prev = torch.randn(16, LIMITS.dim, generator=torch.Generator().manual_seed(6)), roomy_prevs(32)
    one, two = (layer.execute(u, LIMITS.box(part)) for part in prev.split(16))
    return not torch.equal(one, two)


@torch.no_grad()
def microseconds(layer: ActionLayer, batch: int, rounds: int) -> float:
    """Per action drawn, the box built inside; CPU time, the median over rounds."""
    prev, (mean, noise) = roomy_prevs(batch), torch.randn(2, batch, LIMITS.dim)
    std, times = torch.ones_like(mean), []
    repeats = 1 if isinstance(layer, QP) else 20
    for _ in range(rounds + 2):
        start = time.process_time()
        for _ in range(repeats):
            layer.draw(mean, std, noise, LIMITS.box(prev, check=False))
        times.append((time.process_time() - start) / repeats / batch)
    return 1e6 * statistics.median(times[2:])


@torch.no_grad()
def calls_and_draws(layer: ActionLayer, actions: int = 20) -> tuple[float, float]:
    """Of the solver and of the policy, for one action after another with N(0, 1) latents."""
    layer.columns()
    for prev in roomy_prevs(actions).split(1):
        layer.draw(torch.zeros(1, LIMITS.dim), torch.ones(1, LIMITS.dim), torch.randn(1, LIMITS.dim), LIMITS.box(prev))
    counts = layer.counts()
    return counts.get("calls", 0) / actions, counts.get("draws", actions) / actions


def measured(name: str, draws: int, rounds: int) -> Row:
    """All cells of one layer but its return."""
    layer = make_layer(name)
    draws //= 100 if isinstance(layer, QP) else 10 if isinstance(layer, ARAM) else 1
    actions, broken, raw = violations(layer, draws)
    full, ordinary = joint_use(layer, True), joint_use(layer, False)
    calls, tried = calls_and_draws(layer)
    return Row(
        name, f"python -W ignore benchmarks/table1.py --layers {name}", layer.hard, actions, broken, raw, *full,
        *ordinary, coverage(name), moves(layer), calls, tried, microseconds(layer, 1, rounds),
        microseconds(layer, 256, rounds),
    )  # fmt: skip


def returns(folders: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Layer -> backbone -> return and command; of runs that differ from the campaign's in their budget alone."""
    ours, found = CAMPAIGNS["table1"]().by_key, defaultdict[str, dict[str, Any]](dict)
    for folder in folders:
        for result in (results := load(folder)):
            spec = result.runs[0].spec
            if spec.key in ours:
                found[spec.layer][spec.agent] = {**returned(result)._asdict(), "command": command(results.name, spec)}
    return found


def command(campaign: str, spec: RunSpec) -> str:
    """What makes the runs of a cell."""
    words = f"slewrl campaign run {campaign} --agents {spec.agent} --layers {spec.layer}"
    planned = spec in CAMPAIGNS[campaign]().runs
    return words if planned else f"{words} --steps {spec.steps} --learning-starts {spec.learning_starts}"


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def word(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def table(rows: list[Row]) -> str:
    """Markdown, a row for each method."""
    lines = [
        f"torch {torch.__version__}, {time.strftime('%Y-%m-%d')}; `python -W ignore benchmarks/table1.py`:",
        "",
        "| layer | outside F_t, of draws | raw | widest / narrowest, full | N(0, 1) | coverage | moving set "
        "| solver calls | draws | µs, 1 | µs, 256 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if r.violations is None:
            continue
        outside, raw = f"{r.violations:,} / {r.draws:,}", f"{100 * (r.raw_violation_share or 0):.0f} %"
        cells = (
            r.name, outside, raw, f"{number(r.widest_full)} / {number(r.narrowest_full)}",
            f"{number(r.widest_ordinary)} / {number(r.narrowest_ordinary)}", number(r.coverage), word(r.moving_set),
            number(r.solver_calls, 0), number(r.draws_per_action, 0), number(r.us_1, 0), number(r.us_256, 1),
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def save(rows: list[Row], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    cells = [asdict(row) for row in rows]
    (out / "cells.json").write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    for cell in cells:
        del cell["returns"]
    with open(out / "cells.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, cells[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)


def already(out: Path) -> list[Row]:
    """What was measured before, to go on from."""
    path = out / "cells.json"
    return [Row(**cell) for cell in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*LAYERS, *BENCHMARK_LAYERS]
    parser.add_argument("--layers", nargs="*", default=every, help="rows to measure; others of --out stay")
    parser.add_argument("--draws", type=float, default=1e5, help="adversarial actions per layer")
    parser.add_argument("--rounds", type=int, default=30, help="timings, of which the median counts")
    parser.add_argument("--returns", type=Path, nargs="+", default=[], help="folders of campaigns with a larger budget")
    parser.add_argument("--out", type=Path, help="where cells.json and cells.csv go: a folder of the campaign table1")
    parser.add_argument("--docs", type=Path, help="put the tables between the markers of layers.md and table1.md here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = {row.name: row for row in (already(args.out) if args.out else [])}
    for name in args.layers:
        rows[name] = measured(name, int(args.draws), args.rounds)
        print(name, file=sys.stderr, flush=True)
    longer = returns(args.returns)
    built = [name for name in every if name in rows]
    found = [replace(rows[name], returns=longer.get(name, rows[name].returns)) for name in built]
    found += [Row(name, why) for name, why in NOT_MEASURED.items()]
    print(table(found))
    if args.out:
        save(found, args.out)
    if args.docs:
        write(args.docs / "layers.md", "table1", table(found))
        write(args.docs / "table1.md", "table1", markdown(families(load(args.out), args.out)))


if __name__ == "__main__":
    main()
