"""The guarantee in JAX, on code that XLA has compiled: `guarantee.py --jax`. One case is one joint of one step."""

import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from slewrl import RateLimits, __version__
from slewrl.integrations.jax.audit import PROGRAMS, audit_compiled
from slewrl.integrations.jax.box import TORCH
from slewrl.integrations.jax.layers import LAYERS
from slewrl.layers.audit import Tally, paper_limits, random_limits

SPEEDS, ACCELERATIONS = [2.175] * 4 + [2.61] * 3, [15, 7.5, 10, 12.5, 15, 20, 20]
FRANKA = RateLimits([0.02 * x for x in SPEEDS], -2.8, 2.8, dt=0.02, acceleration=ACCELERATIONS, units="rad")


@dataclass(frozen=True)
class Row:
    """One row of the table: a program in a dtype, over all layers."""

    program: str
    dtype: str
    limits: str


def families() -> dict[str, RateLimits]:
    """The paper's six sets side by side, 57 joints; one rate for all, a number once compiled; random ones; a Franka."""
    parts = list(paper_limits().values())
    columns = {key: np.concatenate([getattr(p, key) for p in parts]) for key in ("up", "down", "low", "high")}
    return {
        "the paper's": RateLimits(**columns), "0.1": RateLimits([0.1] * 8, -1, 1),
        "0.0195": RateLimits([0.0195] * 8, -1, 1), "random": random_limits(), "with accelerations": FRANKA,
    }  # fmt: skip


def rows() -> Iterator[Row]:
    for dtype in TORCH:
        for program in PROGRAMS:
            for limits in families():
                resolved = dtype != "bfloat16" or limits not in ("random", "with accelerations")
                if resolved and (program == "scan" or limits != "with accelerations"):
                    yield Row(program, dtype, limits)


def compiled(cases: int) -> tuple[int, str]:
    """Run everything; the number of violations, and the page's text."""
    jax.config.update("jax_enable_x64", True)
    start, total, limits, todo = time.time(), Tally(), families(), list(rows())
    lines = ["| program | dtype | limits | cases | violations | CPU s |", "|---|---|---|---|---|---|"]
    share = -(-cases // (len(todo) * len(LAYERS)))
    for seed, row in enumerate(todo):
        tally = Tally()
        for name in LAYERS:
            tally += audit_compiled(row.program, name, limits[row.limits], row.dtype, share, seed)
        columns = (row.program, row.dtype, row.limits, f"{tally.cases:,}", f"{tally.violations:,}")
        lines.append("| " + " | ".join(columns) + f" | {tally.seconds:,.0f} |")
        print(lines[-1], flush=True)
        total += tally
    where = f"slewrl {__version__}, jax {jax.__version__}, {platform.machine()}, {time.strftime('%Y-%m-%d')}"
    head = [
        f"`python benchmarks/guarantee.py --jax {cases:g}`, {where}:",
        "",
        f"**{total.cases:,} cases, {total.violations:,} violations** over {', '.join(LAYERS)}, in "
        f"{time.time() - start:,.0f} s.",
        "",
    ]
    return total.violations, "\n".join([*head, *lines])
