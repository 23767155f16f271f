"""Zero violations, as a number: every hard layer over adversarial cases, decided in exact arithmetic.

    python benchmarks/guarantee.py --cases 1e9 --workers 2 --write docs/guarantee.md
    python benchmarks/guarantee.py --layers budget
    python benchmarks/guarantee.py --acceleration 1e9

Prints two tables. The first has cases, violations and CPU seconds for every hard layer in float32 and float64, and
what the paper's formula as written and the hand-written clip do on the same cases. The second goes to the ends of each
float format, 16 bits included, with guarded and tight edges, limits for all time and rates of the step: half of its
cases are the edges of the box themselves, half come from every hard layer. One case is one joint of one action; an
action beyond the budget of the layer `budget` is a violation, too.

With ``--acceleration`` it runs the chains of ``acceleration.py`` instead, for that many joint steps; with ``--jax`` the
layers in JAX, compiled by XLA (``compiled.py``).
"""

import argparse
import itertools
import platform
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from acceleration import chains, run_chain, summary
from page import write

from slewrl import LAYERS, RateLimits, __version__, make_layer
from slewrl.layers.audit import (
    Scale,
    Tally,
    adversarial_cases,
    audit,
    audit_chain,
    edge_of_box,
    executed_by,
    extreme_limits,
    hand_written_clip,
    outside_by_fractions,
    paper_formula,
    paper_limits,
    random_limits,
)
from slewrl.layers.budget import Budget

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FORMATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, **DTYPES}
EDGE = "edge of the box"
KINDS = list(itertools.product(("guard", "tight"), (False, True)))
"""Edges of a box, and whether its rates are of that step."""
CONTRAST = {"the formula as written": paper_formula, "hand-written clip": hand_written_clip}


@dataclass(frozen=True)
class Job:
    """One row of the table."""

    name: str
    dtype: str
    cases: int
    chain_steps: int


@dataclass(frozen=True)
class Sweep:
    """One row of the second table."""

    scale: Scale
    dtype: str
    cases: int
    layers: tuple[str, ...]


def mapping(name: str):
    return (CONTRAST | {EDGE: edge_of_box}).get(name) or executed_by(make_layer(name))


def all_joints() -> RateLimits:
    """The paper's six sets of limits side by side, 57 joints, for the chains."""
    parts = list(paper_limits().values())
    columns = {key: np.concatenate([getattr(p, key) for p in parts]) for key in ("up", "down", "low", "high")}
    return RateLimits(**columns)


def run(job: Job) -> tuple[Job, Tally, Tally]:
    torch.set_num_threads(1)
    families = [*paper_limits().values(), random_limits()]
    single = Tally()
    for seed, limits in enumerate(families):
        share, also = job.cases // len(families) + 1, promised(job.name, limits)
        single += audit(mapping(job.name), limits, DTYPES[job.dtype], share, seed, also)
    if not job.chain_steps:
        return job, single, Tally()
    limits = all_joints()
    also = promised(job.name, limits)
    chain = audit_chain(mapping(job.name), limits, DTYPES[job.dtype], job.chain_steps, budget=also)
    return job, single, chain


def sweep(job: Sweep) -> tuple[Sweep, Tally]:
    torch.set_num_threads(1)
    dtype, total = FORMATS[job.dtype], Tally()
    shares = {EDGE: job.cases // 2} | {name: job.cases // 2 // len(job.layers) for name in job.layers}
    for seed, (edges, of_step) in enumerate(KINDS):
        limits = extreme_limits(job.scale, dtype, seed=seed)
        for name, share in shares.items():
            also = promised(name, limits)
            total += audit(mapping(name), limits, dtype, share // len(KINDS) + 1, seed, also, edges, of_step)
    return job, total


def promised(name: str, limits: RateLimits) -> float | None:
    """The budget that a layer keeps besides F_t; None if it has none."""
    layer = make_layer(name) if name in LAYERS else None
    return layer.allowance(limits.dim) if isinstance(layer, Budget) else None


def cross_check(verdicts: int) -> tuple[int, int, int]:
    """Verdicts of the error-free transforms against fractions.Fraction: (compared, violations, disagreements)."""
    torch.set_num_threads(1)
    names, families = ["ddsrad", "boxpro", *CONTRAST], [*paper_limits().values(), random_limits()]
    places = [(limits, dtype, False) for limits in families for dtype in DTYPES.values()]
    places += [(extreme_limits(s, d), d, True) for s in get_args(Scale) for d in FORMATS.values()]
    share = verdicts // (len(names) * len(places)) + 1
    compared = bad = disagreements = 0
    for name, (limits, dtype, of_step) in itertools.product(names, places):
        for latent, box in adversarial_cases(limits, dtype, share, seed=99, of_step=of_step):
            action, prev = mapping(name)(latent, box), box.prev.double().numpy()
            fast = ~box.contains(action).numpy()
            slow = outside_by_fractions(action.double().numpy(), prev, box.exact)
            compared, bad = compared + fast.size, bad + int(slow.sum())
            disagreements += int((fast != slow).sum())
    return compared, bad, disagreements


def row(job: Job, single: Tally, chain: Tally) -> str:
    total = single.violations + chain.violations
    rate = "" if total == 0 else f" ({total / (single.cases + chain.cases):.1%}; {single.nan + chain.nan:,} NaN)"
    overshoot = max(single.overshoot, chain.overshoot)
    worst = f"{overshoot:.1e}" if total else "none"
    seconds = single.seconds + chain.seconds
    columns = (
        job.name,
        job.dtype,
        f"{single.cases:,}",
        f"{chain.cases:,}",
        f"{total:,}{rate}",
        worst,
        f"{seconds:,.0f}",
    )
    return "| " + " | ".join(columns) + " |"


def sweep_row(job: Sweep, tally: Tally) -> str:
    limits = [extreme_limits(job.scale, FORMATS[job.dtype], seed=seed) for seed in range(len(KINDS))]
    reach = [np.maximum(-each.low, each.high) for each in limits]
    worst = f"{tally.overshoot:.1e}" if tally.violations else "none"
    return (
        f"| {job.scale} | {job.dtype} | {np.min(reach):.1e} to {np.max(reach):.1e} | "
        f"{tally.cases:,} | {tally.violations:,} | {worst} | {tally.seconds:,.0f} |"
    )


SWEEP_HEADER = (
    "| limits | dtype | ranges reach to | cases | violations | worst overshoot / delta | CPU s |\n"
    "|---|---|---|---|---|---|---|"
)
HEADER = (
    "| layer | dtype | independent cases | cases in the chain | violations | worst overshoot / delta | CPU s |\n"
    "|---|---|---|---|---|---|---|"
)


def under_acceleration(joint_steps: int, workers: int, page: Path | None) -> int:
    """Run and print the chains under acceleration limits; returns how many joint steps broke something."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(run_chain, chains(joint_steps)))
    lines = [
        f"`python benchmarks/guarantee.py --acceleration {joint_steps:g}`, {described()}:",
        "",
        *summary(results),
    ]
    text = "\n".join(lines)
    print(text)
    if page:
        write(page, "guarantee", text)
    return sum(int(count.broken.sum()) for _, count in results)


def under_xla(joint_steps: int, page: Path | None) -> int:
    """Run and print the audit of compiled JAX layers; returns how many joint steps broke something."""
    from compiled import compiled

    violations, text = compiled(joint_steps)
    print("\n" + text)
    if page:
        write(page, "guarantee", text)
    return violations


def described() -> str:
    return f"slewrl {__version__}, torch {torch.__version__}, {platform.machine()}, {time.strftime('%Y-%m-%d')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", help="only these (default: every hard one, and the contrast)")
    parser.add_argument("--cases", type=float, default=1e7, help="independent cases over all layers and dtypes")
    parser.add_argument("--chain-steps", type=float, default=1e4, help="steps of each layer's feedback chain")
    parser.add_argument("--fractions", type=float, default=1e5, help="verdicts cross-checked by fractions.Fraction")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path, help="put the output between the markers of this page")
    parser.add_argument("--acceleration", type=float, help="only chains under acceleration limits: joint steps")
    parser.add_argument("--jax", type=float, help="only the layers in JAX, compiled: joint steps")
    args = parser.parse_args()
    if args.jax:
        raise SystemExit(1 if under_xla(int(args.jax), args.write) else 0)
    if args.acceleration:
        raise SystemExit(1 if under_acceleration(int(args.acceleration), args.workers, args.write) else 0)
    hard = args.layers or [name for name in LAYERS if LAYERS[name].hard]
    each = -(-int(args.cases) // (len(hard) * len(DTYPES)))
    chain_steps = int(args.chain_steps)
    jobs = [Job(name, dtype, each, chain_steps) for name in hard for dtype in DTYPES]
    # No chain for these: their first NaN would stay for good.
    jobs += [Job(name, dtype, each, 0) for name in CONTRAST for dtype in DTYPES if not args.layers]
    rows = list(itertools.product(get_args(Scale), FORMATS))
    sweeps = [Sweep(scale, dtype, int(args.cases) // 4 // len(rows), tuple(hard)) for scale, dtype in rows]
    started = time.time()
    results = {}
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        check = pool.submit(cross_check, int(args.fractions))
        swept = dict(pool.map(sweep, sweeps))  # first: it takes minutes, the rest hours
        for job, tally in swept.items():
            print(sweep_row(job, tally), flush=True)
        for future in as_completed([pool.submit(run, job) for job in jobs]):
            job, single, chain = future.result()
            results[job] = (single, chain)
            print(row(job, single, chain), flush=True)
        compared, bad, disagreements = check.result()
    ours = [results[job] for job in jobs if job.name in hard]
    cases = sum(single.cases + chain.cases for single, chain in ours)
    violations = sum(single.violations + chain.violations for single, chain in ours)
    beyond = Tally()
    for tally in swept.values():
        beyond += tally
    only = f" --layers {' '.join(args.layers)}" if args.layers else ""
    command = f"python benchmarks/guarantee.py{only} --cases {args.cases:g} --chain-steps {args.chain_steps:g}"
    lines = [
        f"`{command} --fractions {args.fractions:g}`, {described()}:",
        "",
        f"**{cases:,} cases, {violations:,} violations** over all hard layers, in {time.time() - started:,.0f} s.",
        f"Chains of {chain_steps:,} steps, two lanes of 57 joints, each action fed back as the next prev.",
        f"{compared:,} verdicts cross-checked by `fractions.Fraction` ({bad:,} of them violations, of the formula and "
        f"the clip): {disagreements} disagreements.",
        "",
        HEADER,
        *(row(job, *results[job]) for job in jobs),
        "",
        f"At the ends of the formats, edges guarded and tight, limits for all time and rates of the step: "
        f"**{beyond.cases:,} cases, {beyond.violations:,} violations**.",
        "",
        SWEEP_HEADER,
        *(sweep_row(job, swept[job]) for job in sweeps),
    ]
    text = "\n".join(lines)
    print("\n" + text)
    if args.write:
        write(args.write, "guarantee", text)
    raise SystemExit(1 if violations or beyond.violations or disagreements else 0)


if __name__ == "__main__":
    main()
