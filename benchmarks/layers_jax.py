"""What a layer costs in JAX, under jit: forward, and forward + backward, beside the formula written plainly.

    python benchmarks/layers_jax.py --write docs/integrations/jax.md

CPU time on one core, best of several interleaved rounds, on the same batches of Humanoid-v5 (17 joints), float32.
"Whole action" is what SAC needs (action, log-probability term, penalty); "action only" is the action alone.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from page import write

from slewrl import RateLimits
from slewrl.integrations import jax as limited

LIMITS = RateLimits.preset("Humanoid-v5", "tight")
LOW, HIGH, DELTA = (jnp.asarray(x, jnp.float32) for x in (LIMITS.low, LIMITS.high, LIMITS.delta))
Function = Callable[..., Any]


def plain_action(u: jax.Array, prev: jax.Array) -> tuple[jax.Array]:
    """Eq. (reff) and (ddsrad), as anyone would write them."""
    radius = jnp.where(u >= 0, jnp.minimum(DELTA, HIGH - prev), jnp.minimum(DELTA, prev - LOW))
    return (prev + radius * (u / jnp.sqrt(1 + u**2)),)


def plain_whole(u: jax.Array, prev: jax.Array) -> tuple[jax.Array, ...]:
    """The same with Eq. (logdet) in normalised units and the penalty of Eq. (actor_loss)."""
    return *plain_action(u, prev), (-1.5 * jnp.log1p(u**2)).sum(-1), (u**2).sum(-1)


def tanh_action(u: jax.Array, prev: jax.Array) -> tuple[jax.Array]:
    """The same with tanh."""
    radius = jnp.where(u >= 0, jnp.minimum(DELTA, HIGH - prev), jnp.minimum(DELTA, prev - LOW))
    return (prev + radius * jnp.tanh(u),)


def tanh_whole(u: jax.Array, prev: jax.Array) -> tuple[jax.Array, ...]:
    """The same with tanh, whose log-probability is written as in Spinning Up, without cancellation."""
    log_slopes = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
    return *tanh_action(u, prev), log_slopes.sum(-1), (u**2).sum(-1)


def whole(name: str) -> Function:
    def function(u: jax.Array, prev: jax.Array) -> tuple[jax.Array, ...]:
        action = limited.LAYERS[name](u, limited.box(LIMITS, prev))
        return action.judged, action.log_det, action.penalty

    return function


def alone(function: Function) -> Function:
    return lambda u, prev: function(u, prev)[:1]


def with_gradient(function: Function) -> Function:
    """Forward, and backward through every output."""

    def both(u: jax.Array, prev: jax.Array) -> Any:
        out, pull = jax.vjp(lambda latent: function(latent, prev), u)
        return out, pull(jax.tree.map(jnp.ones_like, out))

    return both


def best_times(calls: dict[Any, Function], given: tuple[jax.Array, ...], rounds: int, repeats: int) -> dict[Any, float]:
    """CPU seconds per call, the best over rounds; the calls take turns, so a busy machine hits all alike."""
    ready = {key: jax.jit(call).lower(*given).compile() for key, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for key, call in ready.items():
            start = time.process_time()
            for _ in range(repeats):
                made = call(*given)
            jax.block_until_ready(made)
            best[key] = min(best[key], (time.process_time() - start) / repeats)
    return best


def table(batch: int, rounds: int) -> list[str]:
    rng = np.random.default_rng(0)
    u = jnp.asarray(rng.normal(size=(batch, LIMITS.dim)), jnp.float32)
    prev = jnp.asarray(rng.uniform(LIMITS.low, LIMITS.high, (batch, LIMITS.dim)), jnp.float32)
    wholes = {"plain": plain_whole, "tanh": tanh_whole} | {name: whole(name) for name in limited.LAYERS}
    calls: dict[Any, Function] = {}
    for name, function in wholes.items():
        for part, made in (("whole", function), ("only", alone(function))):
            calls[name, part, "forward"], calls[name, part, "both"] = made, with_gradient(made)
    times = best_times(calls, (u, prev), rounds, max(20, 200_000 // batch))
    lines = []
    for name in wholes:
        label = {"plain": "the formula, plainly", "tanh": "with tanh, plainly"}.get(name, f"`{name}`")
        rival = "plain" if "srad" in name else "tanh"
        row = [f"{batch} × {LIMITS.dim}", label]
        for part, way in (("whole", "forward"), ("whole", "both"), ("only", "forward"), ("only", "both")):
            spent, plain = times[name, part, way], times[rival, part, way]
            row.append(f"{spent * 1e6:,.0f}" + ("" if name in ("plain", "tanh") else f" (×{spent / plain:.2f})"))
        lines.append("| " + " | ".join(row) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", type=Path, help="put the output between the markers of this page")
    args = parser.parse_args()
    lines = [
        f"`python benchmarks/layers_jax.py`, jax {jax.__version__}, µs per call:",
        "",
        "| batch | | whole action | and gradient | action only | and gradient |",
        "|---|---|---|---|---|---|",
        *(line for batch in (256, 4096) for line in table(batch, args.rounds)),
    ]
    print("\n".join(lines))
    if args.write:
        write(args.write, "layers_jax", "\n".join(lines))


if __name__ == "__main__":
    main()
