"""Where chatter is born: what each layer makes of a latent, and the slope that its learning sees there.

    python benchmarks/gradients.py            # docs/images/calm-gradients.png, and the table of docs/calm.md

HalfCheetah-v5 under tight limits, every previous command in the middle of its range. v = (executed - a_prev) / delta is
the increment, u the latent; slopes are by autograd. The figure has the first joint, the latents of the others being 0.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import tyro
from matplotlib.figure import Figure
from torch import Tensor

from slewrl import LAYERS, RateLimits, make_layer
from slewrl.report.figures.small_multiples import labelled, panels
from slewrl.report.figures.style import NORMAL, Look, saved
from slewrl.report.methods import LABELS

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "calm-gradients.png"
REACH = 3.0
"""Latents from minus this to this."""
LIMITS = RateLimits.preset("HalfCheetah-v5", "tight")


class Answer(NamedTuple):
    """What a layer makes of latents (n, d); (n, d) each."""

    increment: Tensor
    """v of what is executed."""
    slope: Tensor
    """d v_i / d u_i of what is executed."""
    judged: Tensor
    """The same of what the critic judges, by which the actor learns."""


class Shares(NamedTuple):
    """Shares of increments under standard normal latents, as an untrained policy's are."""

    at_limit: float
    """At .99 of the limit, or beyond."""
    no_slope: float
    """Whose latent does not move them."""
    unseen: float
    """Whose latent does not move what the critic judges: there the actor learns nothing."""


def answer(name: str, latents: Tensor) -> Answer:
    """Increments and slopes at latents (n, d)."""
    u = latents.clone().requires_grad_()
    action = make_layer(name)(u, LIMITS.box(torch.zeros_like(latents)))
    delta = torch.from_numpy(LIMITS.delta)
    return Answer(
        (action.executed / delta).detach(), _diagonal(action.executed / delta, u), _diagonal(action.judged / delta, u)
    )


def _diagonal(v: Tensor, u: Tensor) -> Tensor:
    """d v_i / d u_i, (n, d)."""
    if not v.requires_grad:
        return torch.zeros_like(v)
    slopes = [torch.autograd.grad(v[:, i].sum(), u, retain_graph=True)[0][:, i] for i in range(v.shape[1])]
    return torch.stack(slopes, 1)


def shares(name: str, count: int = 20_000) -> Shares:
    """What standard normal latents of all joints come to."""
    found = answer(
        name, torch.randn(count, LIMITS.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )
    parts = (found.increment.abs() >= 0.99, found.slope == 0, found.judged == 0)
    return Shares(*(float(part.double().mean()) for part in parts))


def draw(look: Look) -> Figure:
    """A panel for each layer: the increment of the first joint over its latent, and the slope that learning sees."""
    latents = torch.zeros(601, LIMITS.dim, dtype=torch.float64)
    latents[:, 0] = torch.linspace(-REACH, REACH, 601)
    figure, axes = panels(look, len(LAYERS), 1.2, sharex=True, sharey=True)
    for axis, name in zip(axes, LAYERS, strict=True):
        found, colour = answer(name, latents), look.colour(name)
        axis.axhspan(-1, 1, color=look.ground.line, alpha=0.35, linewidth=0)
        axis.plot(latents[:, 0], found.increment[:, 0], color=colour, linewidth=1.5)
        axis.plot(latents[:, 0], found.judged[:, 0], color=look.ground.quiet, linewidth=1.0, linestyle=(0, (3, 1.5)))
        axis.set_title(LABELS[name], color=look.colour(name, 4.5), weight="bold", fontsize=NORMAL)
        axis.set_ylim(-1.5, 2.5)
    labelled(
        figure, look, "latent u\nsolid: increment / limit; dashed: slope of what the critic judges; band: the limits"
    )
    return figure


def rows() -> list[str]:
    """The rows of the table in docs/calm.md."""
    found = {name: shares(name) for name in LAYERS}
    return [f"| `{name}` | {' | '.join(f'{100 * x:.0f} %' for x in found[name])} |" for name in found]


@dataclass(frozen=True)
class Gradients:
    """Draw the figure, and print the table."""

    out: Path = PICTURE

    def __call__(self) -> None:
        """Write the picture, and print a row for each layer."""
        self.out.write_bytes(saved(draw, Look(width=7.2), ["png"])["png"])
        print("\n".join(["| layer | at the limit | no slope | unseen by the actor |", "|---|---:|---:|---:|", *rows()]))


if __name__ == "__main__":
    tyro.cli(Gradients, description=__doc__)()
