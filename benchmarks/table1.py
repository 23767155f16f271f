"""The paper's Table 1 with a measurement behind every cell: what each family of methods guarantees, reaches and costs.

    python -W ignore benchmarks/table1.py                      # all rows; the `dev` extra for `qp`
    python -W ignore benchmarks/table1.py --layers ddsrad aram --draws 1e4
    python -W ignore benchmarks/table1.py --out results/table1 --returns results/first results/table1-60k --docs docs

On Unitree G1 under the paper's limits (13 joints, kappa 4), float32:

* violations: actions outside F_t in exact arithmetic, of --draws adversarial ones (`slewrl.layers.audit`); `budget`
  must keep its budget as well, `aram` is given a tenth of them and `qp` a hundredth. Raw: the same of
  what is judged, or of what the solver answered, before the guard.
* joints: mean |da_i| / delta_i of the joint with the widest limit, then of the narrowest, when every latent is +-1000,
  and when latents are N(0, 1); prev is drawn so that no range is in the way.
* coverage: volume share of F_t that is reached: of 8 192 uniform points of it, for three joints (the narrowest, one
  between, the widest), those that some latent executes to a thousandth of F_t's width. Standard error: below .006.
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
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from page import write
from torch import Tensor

from slewrl import LAYERS, ActionLayer, RateLimits, make_layer
from slewrl.campaign.grids import CAMPAIGNS
from slewrl.layers import BENCHMARK_LAYERS
from slewrl.layers.audit import adversarial_cases, executed_by, judge_budget
from slewrl.layers.budget import Budget
from slewrl.limits.box import FeasibleBox
from slewrl.paper.rivals.aram import ARAM
from slewrl.paper.rivals.qp import QP
from slewrl.paper.table1 import CELLS, command, markdown, read_cells, returned, table_of
from slewrl.report.data import load

LIMITS = RateLimits.preset("G1", "paper")
ORDER = LIMITS.delta.argsort(kind="stable")
NARROW, MIDDLE, WIDE = (int(ORDER[k]) for k in (0, LIMITS.dim // 2, -1))
POINTS, CLOSE = 8192, 1e-3
"""Of coverage: how many, and how near in widths of F_t."""
COMMANDS = ("boxpre", "post", "boxpro", "aram", "qp", "none")
"""Layers whose latent is a command over the whole range."""
DRAWS, ROUNDS = 100_000, 30
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
    """Mean |da| / delta of the widest joint, then of the narrowest; of latents of +-1000, or of a N(0, 1) policy."""
    rows = BLOCK if isinstance(layer, QP) else rows
    prev, noise = roomy_prevs(rows), seeded(3, rows, LIMITS.dim)
    mean, std = (1000 * noise.sign(), torch.zeros_like(noise)) if full else (torch.zeros_like(noise), noise * 0 + 1)
    executed = layer.draw(mean, std, noise, LIMITS.box(prev)).executed
    use = ((executed - prev).double().abs() / torch.tensor(LIMITS.delta)).mean(0)
    return use[WIDE].item(), use[NARROW].item()


def coverage(name: str) -> float:
    """The share of points of F_t, uniform, that some latent executes: of three joints in the middle of their ranges."""
    limits = LIMITS.select([LIMITS.names[k] for k in (NARROW, MIDDLE, WIDE)])
    middle = torch.tensor(0.5 * (limits.low + limits.high)).expand(POINTS, 3)
    box, layer = limits.box(middle), make_layer(name)
    points = torch.lerp(box.low, box.high, torch.rand(POINTS, 3, generator=torch.Generator().manual_seed(4)).double())
    # Commands over the whole range, or increments: there a latent is known, here it has to be looked for.
    latents = torch.atanh((points - middle) / half(limits)) if name in COMMANDS else inverted(layer, box, points)
    with torch.no_grad():
        parts = zip(latents.split(BLOCK), middle.split(BLOCK), strict=True)
        executed = torch.cat([at(layer, u, limits.box(prev)) for u, prev in parts])
    return ((executed - points).abs() <= CLOSE * (box.high - box.low)).all(-1).double().mean().item()


def at(layer: ActionLayer, u: Tensor, box: FeasibleBox) -> Tensor:
    """What is executed where the policy says ``u`` and nothing else."""
    return layer.draw(u, 0 * u, u, box).executed if isinstance(layer, ARAM) else layer.execute(u, box)


def half(limits: RateLimits) -> Tensor:
    """Of the width of each range."""
    return torch.tensor(0.5 * (limits.high - limits.low))


def inverted(layer: ActionLayer, box: FeasibleBox, points: Tensor) -> Tensor:
    """Latents whose actions are as near to ``points`` as damped Newton steps get, a row at a time; all (POINTS, 3)."""
    u, damping = torch.zeros_like(points), torch.full((len(points), 1, 1), 1e-3, dtype=points.dtype)
    error, slope = distance(layer, box, points, u)
    for _ in range(60):
        turned = slope.mT @ torch.cat([slope, error.unsqueeze(-1)], -1)
        step = torch.linalg.solve(turned[..., :3] + damping * torch.eye(3, dtype=u.dtype), turned[..., 3:])
        there = u - step.squeeze(-1)
        new_error, new_slope = distance(layer, box, points, there)
        nearer = (new_error.square().sum(-1) < error.square().sum(-1))[:, None]
        u, error = torch.where(nearer, there, u), torch.where(nearer, new_error, error)
        slope = torch.where(nearer[..., None], new_slope, slope)
        damping = (damping * torch.where(nearer[..., None], 0.2, 10.0)).clamp(1e-15, 1e9)
    return u


def distance(layer: ActionLayer, box: FeasibleBox, points: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """From ``points`` in widths of F_t, (B, 3), and its slope in the latents, (B, 3, 3)."""
    leaf = u.clone().requires_grad_()
    away = (layer(leaf, box).judged - points) / (box.high - box.low)
    slopes = [torch.autograd.grad(away[:, i].sum(), leaf, retain_graph=True)[0] for i in range(3)]
    return away.detach(), torch.stack(slopes, 1)


@torch.no_grad()
def moves(layer: ActionLayer) -> bool:
    """Whether prev changes what the same latents execute."""
    u, prev = seeded(6, 16, LIMITS.dim), roomy_prevs(32)
    one, two = (layer.draw(0 * u, 0 * u + 1, u, LIMITS.box(part)).executed for part in prev.split(16))
    return not torch.equal(one, two)


def seeded(seed: int, *shape: int) -> Tensor:
    """N(0, 1)."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def microseconds(layer: ActionLayer, batch: int, rounds: int) -> float:
    """Per action drawn, the box built inside; CPU time, the median over rounds."""
    prev, (mean, noise) = roomy_prevs(batch), seeded(7, 2, batch, LIMITS.dim)
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
    for prev, noise in zip(roomy_prevs(actions).split(1), seeded(8, actions, LIMITS.dim).split(1), strict=True):
        layer.draw(0 * noise, 0 * noise + 1, noise, LIMITS.box(prev))
    counts = layer.counts()
    return counts.get("calls", 0) / actions, counts.get("draws", actions) / actions


def measured(name: str, draws: int, rounds: int) -> Row:
    """All cells of one layer but its returns."""
    layer, said = make_layer(name), f"python -W ignore benchmarks/table1.py --layers {name}"
    said += (f" --draws {draws}" if draws != DRAWS else "") + (f" --rounds {rounds}" if rounds != ROUNDS else "")
    draws //= 100 if isinstance(layer, QP) else 10 if isinstance(layer, ARAM) else 1
    actions, broken, raw = violations(layer, draws)
    full, ordinary = joint_use(layer, True), joint_use(layer, False)
    calls, tried = calls_and_draws(layer)
    return Row(
        name, said, layer.hard, actions, broken, raw, *full, *ordinary, coverage(name), moves(layer), calls, tried,
        microseconds(layer, 1, rounds), microseconds(layer, 256, rounds),
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
    (out / CELLS).write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    for cell in cells:
        del cell["returns"]
    with open(out / "cells.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, cells[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)


def already(out: Path) -> list[Row]:
    """What was measured before, to go on from."""
    known = {each.name for each in fields(Row)}
    return [Row(**{k: v for k, v in cell.items() if k in known}) for cell in read_cells(out / CELLS).values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*LAYERS, *BENCHMARK_LAYERS]
    parser.add_argument("--layers", nargs="*", default=every, help="rows to measure; others of --out stay")
    parser.add_argument("--draws", type=float, default=DRAWS, help="adversarial actions per layer")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timings, of which the median counts")
    parser.add_argument("--returns", type=Path, nargs="+", default=[], help="folders of campaigns with a larger budget")
    parser.add_argument("--out", type=Path, help="where cells.json and cells.csv go: a folder of the campaign table1")
    parser.add_argument("--docs", type=Path, help="put the tables between the markers of layers.md and table1.md here")
    args = parser.parse_args()
    if args.docs and not args.out:
        parser.error("--docs needs --out: the table of families is made of a campaign's runs")
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
        write(args.docs / "table1.md", "table1", markdown(table_of(load(args.out), args.out)))


if __name__ == "__main__":
    main()
