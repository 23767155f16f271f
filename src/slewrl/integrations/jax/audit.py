"""Audits the layers as XLA compiles them, with the cases and the exact verdicts of ``slewrl.layers.audit``.

What a compiler does to a function depends on the program around it, so each layer is compiled in several. A program
maps latents (T, N, d) and a previous action (N, d) to the path that it would hand to the environment, its own previous
action first: exactly those numbers are judged. It returns the path in parts (t, N, d), since putting them together
could keep a compiler from what it would do otherwise.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array, lax
from numpy.typing import NDArray

from slewrl.integrations.jax.box import TORCH, box
from slewrl.integrations.jax.layers import LAYERS, Layer
from slewrl.layers.audit import Tally, adversarial_latents, adversarial_prevs, judge
from slewrl.limits import RateLimits, viability

Program = Callable[[Layer, RateLimits, Array, Array], list[Array]]
"""(layer, limits, latents (T, N, d), prev (N, d)) -> the parts of a path (T + 1, N, d)."""
ROWS = 2048


def calls(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """A call for each step, in one program without a loop."""
    path = [prev]
    for latent in latents:
        path.append(layer(latent, box(limits, path[-1])).executed)
    return [part[None] for part in path]


def rows(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """The same under vmap, row by row."""
    return jax.vmap(lambda u, p: calls(layer, limits, u, p), in_axes=(1, 0), out_axes=1)(latents, prev)


def scanned(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """A scan over the steps, under acceleration limits, too."""

    def step(carry: tuple[Array, Array], latent: Array) -> tuple[tuple[Array, Array], Array]:
        last, before = carry
        velocity = None if limits.grid is None else last - before
        executed = layer(latent, box(limits, last, velocity=velocity)).executed
        return (executed, last), executed

    return [prev[None], lax.scan(step, (prev, prev), latents)[1]]


def learned(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """Beside the gradient of a loss, as in an actor's update."""

    def loss(u: Array) -> tuple[Array, list[Array]]:
        path = calls(layer, limits, u, prev)
        action = layer(u[-1], box(limits, path[-1][0]))
        return (action.judged.sum() + action.log_det.sum() + action.penalty.sum()).astype(jnp.float32), path

    (_, path), grad = jax.value_and_grad(loss, has_aux=True)(latents)
    return [*path, grad]


def scaled(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """The previous action is made by a product in the same program."""
    return calls(layer, limits, latents, prev * jnp.asarray(0.93, prev.dtype))


def shifted(layer: Layer, limits: RateLimits, latents: Array, prev: Array) -> list[Array]:
    """The previous action is made by adding a constant in the same program."""
    shift = jnp.asarray(0.045 * (limits.high - limits.low).min(), prev.dtype)
    return calls(layer, limits, latents, prev + shift)


PROGRAMS: dict[str, tuple[Program, int]] = {
    "calls": (calls, 2), "vmap": (rows, 2), "scan": (scanned, 20), "gradient": (learned, 2), "product": (scaled, 1),
    "sum": (shifted, 1),
}  # fmt: skip
"""Name -> program, and how many steps it takes at a time."""


def audit_compiled(program: str, layer: str, limits: RateLimits, dtype: str, cases: int, seed: int = 0) -> Tally:
    """Audit a layer in a program over ``cases`` adversarial joint steps, in float32, float64 or bfloat16."""
    start, total, (written, steps) = time.process_time(), Tally(), PROGRAMS[program]
    compiled = jax.jit(lambda latents, prev: written(LAYERS[layer], limits, latents, prev))
    for latents, prev in _cases(limits, dtype, steps, -(-cases // (steps * ROWS * limits.dim)), seed):
        path = np.concatenate([np.asarray(part, np.float64) for part in compiled(latents, prev)])
        total += judge_path(path[: steps + 1], limits)
    total.seconds = time.process_time() - start
    return total


def _cases(limits: RateLimits, dtype: str, steps: int, blocks: int, seed: int) -> Iterator[tuple[Array, Array]]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(blocks):
        prev = adversarial_prevs(ROWS, limits, TORCH[dtype], generator)
        latents = adversarial_latents((steps, ROWS, limits.dim), TORCH[dtype], generator)
        start = prev if limits.grid is None else limits.clamp(prev)
        yield _array(latents, dtype), _array(start, dtype)


def _array(x: torch.Tensor, dtype: str) -> Array:
    return jnp.asarray(x.double().numpy()).astype(dtype)  # exact: x is of that dtype


def judge_path(path: NDArray[np.float64], limits: RateLimits) -> Tally:
    """Count exactly the joint steps of a path (T + 1, N, d) outside F_t; those from outside the range do not count."""
    action, prev, before = path[1:], path[:-1], np.concatenate([path[:1], path[:-2]])
    inside = (prev >= limits.low) & (prev <= limits.high)
    standing = np.clip(prev, limits.low, limits.high)
    sharp: NDArray[np.bool_] | None = None
    if limits.acceleration is not None and limits.deceleration is not None:
        sharp = viability.too_sharp(action, prev, before, limits.acceleration, limits.deceleration)
    moved, start = (torch.from_numpy(np.where(inside, x, standing)) for x in (action, prev))
    return replace(judge(moved, start, limits, sharp), cases=int(inside.sum()))
