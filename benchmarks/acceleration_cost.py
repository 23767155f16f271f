"""What an acceleration limit costs: the same work under the same limits with and without it, in turns.

    python benchmarks/acceleration_cost.py

CPU time on one core, best of several rounds. Layers: box and DD-SRad, forward and backward, on 256 x 17 (Humanoid-v5,
preset ``tight_acceleration`` and ``tight``), after commands of a random policy. Limiter: a Franka at 50 Hz, one step of
seven joints. "gentle" targets wander by a tenth of the acceleration, "jumping" ones are held for 50 steps, "tracking"
follows sines of a whole number of periods at up to half the rate.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from acceleration import franka
from layers import forward_backward
from numpy.typing import NDArray
from page import write
from torch import Tensor

from slewrl import RateLimits, make_layer
from slewrl.deploy.limiter import RateLimiter

ROWS = 256
STEPS = 1000
"""Steps of a limiter in a turn."""


def history(limits: RateLimits) -> tuple[Tensor, Tensor]:
    """(prev, velocity) of ``ROWS`` environments after 60 random latents."""
    generator, layer = torch.Generator().manual_seed(0), make_layer("ddsrad")
    prev = velocity = torch.zeros(ROWS, limits.dim)
    for _ in range(60):
        latent = torch.randn(prev.shape, generator=generator)
        command = layer.execute(latent, limits.box(prev, check=False, velocity=velocity))
        prev, velocity = command, command - prev
    return prev, velocity


def layer_calls() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """What is done -> (without, with an acceleration limit)."""
    plain, limits = (RateLimits.preset("Humanoid-v5", name) for name in ("tight", "tight_acceleration"))
    prev, velocity = history(limits)
    layer, generator = make_layer("ddsrad"), torch.Generator().manual_seed(1)
    u = 2 * torch.randn(prev.shape, generator=generator)
    grads = [torch.randn(shape, generator=generator) for shape in (prev.shape, (ROWS,), (ROWS,))]

    def whole(box: Callable[[], object]) -> Callable[[], None]:
        def function(latent: Tensor) -> tuple[Tensor, ...]:
            action = layer(latent, box())
            return action.judged, action.log_det, action.penalty

        return forward_backward(function, u, grads)

    boxes = (lambda: plain.box(prev, check=False), lambda: limits.box(prev, check=False, velocity=velocity))
    return {
        "edges of the box, 256 x 17": tuple(lambda box=box: box().low for box in boxes),
        "box and `ddsrad`, forward + backward, 256 x 17": tuple(whole(box) for box in boxes),
    }


def wanted(kind: str, limits: RateLimits) -> NDArray[np.float64]:
    """Targets (STEPS, d)."""
    rng, d = np.random.default_rng(0), limits.dim
    middle, half = (limits.high + limits.low) / 2, (limits.high - limits.low) / 2
    if kind == "gentle":
        return middle + np.cumsum(rng.normal(0, 0.1, (STEPS, d)) * limits.acceleration, axis=0)
    if kind == "jumping":
        return np.repeat(middle + half * rng.uniform(-0.8, 0.8, (STEPS // 50, d)), 50, axis=0)
    size = 0.4 * half
    turn = 2 * np.pi / STEPS
    periods = np.floor(0.5 * limits.delta / size / turn)
    return middle + size * np.sin(np.arange(STEPS)[:, None] * turn * periods + rng.uniform(0, 6, d))


def limiter_calls() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    limits = franka(0.02)
    plain = RateLimits(limits.delta, limits.low, limits.high, dt=0.02)
    calls = {}
    for kind in ("gentle", "jumping", "tracking"):
        path = wanted(kind, limits)
        calls[f"`RateLimiter.step`, {kind}"] = tuple(follow(RateLimiter(each), path) for each in (plain, limits))
    return calls


def follow(limiter: RateLimiter, path: NDArray[np.float64]) -> Callable[[], object]:
    out = np.empty(path.shape[1])
    limiter.start(path[0])

    def call() -> None:
        for target in path:
            limiter.step(target, None, out)

    return call


def best(pair: tuple[Callable[[], object], ...], rounds: int, repeats: int) -> list[float]:
    """Microseconds a call, the best over rounds, of calls that take turns."""
    times = [float("inf")] * len(pair)
    for _ in range(rounds):
        for k, call in enumerate(pair):
            begun = time.process_time()
            for _ in range(repeats):
                call()
            times[k] = min(times[k], (time.process_time() - begun) / repeats * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"`python benchmarks/acceleration_cost.py`, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}, "
        "microseconds of CPU time:",
        "",
        "| | without | with an acceleration limit | ratio |",
        "|---|---|---|---|",
    ]
    for repeats, unit, calls in ((50, 1, layer_calls()), (1, STEPS, limiter_calls())):
        for name, pair in calls.items():
            without, limited = (t / unit for t in best(pair, args.rounds, repeats))
            lines.append(f"| {name} | {without:.1f} | {limited:.1f} | {limited / without:.2f} |")
    print("\n".join(lines))
    if args.write:
        write(args.write, "acceleration_cost", "\n".join(lines))


if __name__ == "__main__":
    main()
