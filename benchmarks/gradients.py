"""Where chatter is born: what each layer makes of a latent, and the slope that its learning sees there.

    python benchmarks/gradients.py            # docs/images/calm-gradients.png, and the numbers of docs/calm.md

One joint of HalfCheetah-v5 under tight limits, its previous command in the middle of the range. The slope is
d v / d u by autograd, where v = (executed - a_prev) / delta and u is the latent.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slewrl import RateLimits, make_layer
from slewrl.report.figures.style import Look, canvas, saved
from slewrl.report.methods import LABELS

LAYERS = ("boxpro", "ddsrad", "dtanh")
"""Interval-SRad is DD-SRad away from the bounds."""
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "calm-gradients.png"
REACH = 3.0
"""Latents from minus this to this."""


def answers(name: str, latents: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """v and d v / d u at latents (n,)."""
    limits = RateLimits.preset("HalfCheetah-v5", "tight")
    limits = limits.select([limits.names[0]])
    u = torch.from_numpy(latents)[:, None].requires_grad_()
    box = limits.box(torch.zeros(len(latents), 1, dtype=torch.float64))
    v = make_layer(name)(u, box).executed / float(limits.delta[0])
    (slope,) = torch.autograd.grad(v.sum(), u)
    return v.detach().numpy()[:, 0], slope.numpy()[:, 0]


def draw(look: Look) -> Figure:
    """Increments over latents, above their slopes."""
    latents = np.linspace(-REACH, REACH, 601)
    figure = canvas(look, 3.6)
    above, below = figure.subplots(2, 1, sharex=True)
    for name in LAYERS:
        v, slope = answers(name, latents)
        above.plot(latents, v, color=look.colour(name), linewidth=1.3, label=LABELS[name])
        below.plot(latents, slope, color=look.colour(name), linewidth=1.3)
    above.set_ylabel("increment / limit")
    below.set_ylabel("its slope")
    below.set_xlabel("latent u")
    above.legend(loc="lower right")
    return figure


@dataclass(frozen=True)
class Gradients:
    """Draw the figure, and print the share of latents without a slope."""

    out: Path = PICTURE

    def __call__(self) -> None:
        """Write the picture and print a line a layer; latents are standard normal, as an untrained policy's are."""
        self.out.write_bytes(saved(draw, Look(width=5.5), ["png"])["png"])
        latents = np.random.default_rng(0).normal(size=100_000)
        for name in LAYERS:
            v, slope = answers(name, latents)
            at = float((np.abs(v) >= 0.99).mean())
            print(f"{LABELS[name]:14} no slope: {float((slope == 0).mean()):.1%}   at the limit: {at:.1%}")


if __name__ == "__main__":
    tyro.cli(Gradients, description=__doc__)()
