"""FastSAC's `cpu` recipe: milliseconds of an update beside its matrix products alone, on one core.

    python benchmarks/fastsac.py

Sizes as on G1: 55 observed entries, 3 of them for the critics only, 13 joints. "products" times the matrix products of
the same update in the same shapes, into buffers that are there already: what no library on this machine can avoid.
Update and products take turns in one process, so that a busy machine's mood falls on both; CPU time, the least of many
turns. One update in two updates the actor, too.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from slewrl import RateLimits, make_layer
from slewrl.agents.fastsac import FastSAC, FastSACConfig
from slewrl.agents.recipes import RECIPES
from slewrl.agents.replay import Batch
from slewrl.envs.vec_env import Layout, Mirror

RECIPE = RECIPES["fastsac"]["cpu"]
SIZE, PRIVILEGED, JOINTS = 55, 3, 13
Gemm = tuple[int, int, int, int]
"""Rows, inner, columns, how often."""


@dataclass(frozen=True)
class Bench:
    """What to run."""

    turns: int = 12
    """Each of four updates, by turns with their products."""
    critic_hidden: tuple[int, ...] = RECIPE.agent["critic_hidden"]
    """Widths of each critic; the recipe's, unless given."""
    write: Path | None = None
    """Markdown file to write the table to."""


def make_agent(symmetry: bool, bench: Bench) -> FastSAC:
    options = {**RECIPE.agent, "critic_hidden": bench.critic_hidden, "symmetry": symmetry}
    signs = (np.ones(size, np.float32) for size in (SIZE, JOINTS))
    mirror = Mirror(np.arange(SIZE), next(signs), np.arange(JOINTS), next(signs))
    limits = RateLimits([0.25] * JOINTS, low=-2.0, high=2.0, dt=0.02, units="rad")
    return FastSAC(FastSACConfig(**options), limits, make_layer("ddsrad"), SIZE, 0, Layout(SIZE, PRIVILEGED, mirror))


def make_batch(size: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2 * size, SIZE + JOINTS + 2, generator=generator)
    table[:, SIZE - JOINTS : SIZE + JOINTS].clamp_(-2, 2)
    table[:, -1] = 0
    batch = Batch(table, SIZE, JOINTS)
    batch.follow = torch.full((size,), 0.97**4)
    return batch


def gemms(sizes: tuple[int, ...], rows: int, forward: int, weights: int, hidden: int) -> list[Gemm]:
    """The products of a network's passes: forward, to its weights' gradients and to its hidden units'."""
    work = []
    for k, (i, o) in enumerate(pairwise(sizes)):
        work += [(rows, i, o, forward), (o, rows, i, weights)]
        if k > 0:
            work.append((rows, o, i, hidden))
    return work


def products(config: FastSACConfig, rows: int, actor_too: bool) -> Callable[[], None]:
    """The matrix products of one update."""
    actor = (SIZE - PRIVILEGED, *config.actor_hidden, 2 * JOINTS)
    critic = (SIZE + JOINTS, *config.critic_hidden, config.atoms)
    # The actor at s~', the targets there; the critics forward and back.
    work = gemms(actor, rows, 1, 0, 0) + gemms(critic, rows, 4, 2, 2)
    if actor_too:
        # The actor forward and back; the critics forward, and back to the action.
        work += gemms(actor, rows, 1, 1, 1) + gemms(critic, rows, 2, 0, 2)
        work.append((rows, config.critic_hidden[0], JOINTS, 2))
    buffers = [(torch.randn(a, b), torch.randn(b, c), torch.empty(a, c), times) for a, b, c, times in work]

    def run() -> None:
        for left, right, out, times in buffers:
            for _ in range(times):
                torch.mm(left, right, out=out)

    return run


def measure(symmetry: bool, bench: Bench) -> list[str]:
    """A row of the table."""
    agent, size = make_agent(symmetry, bench), RECIPE.run["batch_size"]
    batch, rows, every = make_batch(size), size * (1 + symmetry), agent.config.policy_every
    alone = [products(agent.config, rows, actor_too) for actor_too in (False, True)]
    took: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for _ in range(bench.turns * every):
        actor_too = agent.updates % every == 1 % every
        took["update", actor_too].append(milliseconds(lambda: agent.update(batch)))
        took["products", actor_too].append(milliseconds(alone[actor_too]))
    least = {key: min(values) for key, values in took.items()}
    mean = {what: (least[what, True] + (every - 1) * least[what, False]) / every for what in ("update", "products")}
    cells = [f"{least[what, a]:.1f}" for a in (False, True) for what in ("update", "products")]
    return [str(rows), *cells, f"{1e3 / mean['update']:.0f}", f"{mean['products'] / mean['update']:.0%}"]


def milliseconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return 1e3 * (time.process_time() - begun)


HEAD = ["rows", "critics, ms", "products", "and the actor, ms", "products", "updates per second", "products / update"]


def main(bench: Bench) -> None:
    """Run, print, and write if asked."""
    torch.set_num_threads(1)
    lines = [measure(symmetry, bench) for symmetry in (False, True)]
    title = f"FastSAC on one core: critics {bench.critic_hidden}, without mirror images and with them"
    table = Table(*HEAD, title=title)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    if bench.write:
        cells = ["| " + " | ".join(line) + " |" for line in [HEAD, ["---"] * len(HEAD), *lines]]
        bench.write.write_text("\n".join(cells) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Bench, description=__doc__))
