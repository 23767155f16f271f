"""The guarantee in half a minute: reachable sets, a million adversarial actions per layer, one table."""

import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.audit import Mapping, Tally, audit, executed_by, hand_written_clip, paper_formula
from slewrl.report import reachable

PAIR = ("left_hip_pitch", "left_ankle")
PREV = (0.4, 0.45)
"""Near the ankle's upper stop (0.52 rad), so that F_t is cut by a bound on one side."""
DTYPES = (torch.float32, torch.float64)


def run(out: Path, cases: int) -> int:
    """Draw, audit and print; returns the number of violations of hard layers (0)."""
    torch.set_num_threads(1)
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    limits = RateLimits.preset("H1", "paper").select(PAIR)
    shares = draw_reachable_sets(limits, out / "reachable.png")
    mappings: dict[str, Mapping] = {"formula as written": paper_formula, "clip by hand": hand_written_clip}
    mappings |= {name: executed_by(make_layer(name)) for name in LAYERS}
    tallies = {}
    started = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        for name in progress.track(mappings, description="trying to break every layer"):
            tallies[name] = _audited(mappings[name], cases)
    console.print(_table(tallies, shares, cases))
    broken = sum(tallies[name].violations for name in LAYERS if LAYERS[name].hard)
    checked = sum(tally.cases for tally in tallies.values())
    console.print(
        f"{checked:,} actions checked in exact arithmetic in {time.perf_counter() - started:.0f} s; "
        f"[bold]{broken}[/] broke a limit through a hard layer. Reachable sets: [bold]{out / 'reachable.png'}[/]"
    )
    return broken


def _audited(mapping: Mapping, cases: int) -> Tally:
    """Half the cases in float32, half in float64, on all ten leg joints of H1."""
    total = Tally()
    for dtype in DTYPES:
        total += audit(mapping, RateLimits.preset("H1", "paper"), dtype, cases // len(DTYPES))
    return total


def _table(tallies: dict[str, Tally], shares: dict[str, float], cases: int) -> Table:
    title = f"Unitree H1, {cases:,} adversarial joint actions each"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in ("layer", "broke a limit", "worst excess / delta", "F_t reached"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for name, tally in tallies.items():
        hard = name in LAYERS and LAYERS[name].hard
        colour = "green" if tally.violations == 0 else ("red" if hard else "yellow")
        worst = f"+{tally.overshoot:.0e}" if tally.violations else "-"
        share = f"{shares[name]:.0%}" if name in shares else ""
        table.add_row(name, f"[{colour}]{tally.violations:,}[/]", worst, share)
    return table


# ---------------------------------------------------------------------- reachable sets


def draw_reachable_sets(limits: RateLimits, path: Path, seed: int = 0) -> dict[str, float]:
    """Write the figure for a pair of joints; returns each layer's share of F_t."""
    box = limits.box(torch.tensor([PREV], dtype=torch.float64))
    prev, low, high = (t[0].numpy() for t in (box.prev, box.low, box.high))
    latents = 2 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    samples = {name: _executed(name, limits, latents) - prev for name in LAYERS}
    sweep = _sweep()
    shares = {name: reachable.covered_share(_executed(name, limits, sweep), low, high) for name in LAYERS}
    labels = ("hip pitch increment [rad]", "ankle increment [rad]")
    title = "What each layer can reach in one 20 ms step: Unitree H1, hip pitch and ankle near its upper stop"
    figure = reachable.draw(samples, shares, low - prev, high - prev, labels, title)
    figure.savefig(path, dpi=110)
    return shares


def _sweep() -> torch.Tensor:
    """Latents (n, 2) that cover the plane from 0 to saturation in every direction."""
    axis = torch.atanh(torch.linspace(-1, 1, 1001, dtype=torch.float64)[1:-1])
    far = torch.logspace(0.7, 4, 25, dtype=torch.float64)
    axis = torch.cat([-far, axis, far])
    return torch.cartesian_prod(axis, axis)


def _executed(name: str, limits: RateLimits, latents: torch.Tensor) -> NDArray[np.float64]:
    prev = torch.tensor([PREV], dtype=torch.float64).expand(len(latents), -1)
    executed: NDArray[np.float64] = make_layer(name).execute(latents, limits.box(prev)).numpy()
    return executed
