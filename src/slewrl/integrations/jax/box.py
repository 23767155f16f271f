"""The feasible box F_t in JAX, with the edges of ``boxmath`` and ``viability``.

A compiler sees more than one operation at a time. What it may do with them, and what is done here:

* ``prev`` made by a product or a sum in the same program: XLA adds up constants, and LLVM contracts a product and a sum
  to one rounding, so that ``prev + up`` would be computed from another number than the one that is executed. A clip to
  the largest magnitude, which changes no valid number, ends both.
* 16-bit numbers kept in float32: ``prev``, edges and actions are rounded by ``reduce_precision``, which stays in.
* an executed action computed twice, in different company: ``optimization_barrier`` makes it one number (`layers.py`).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array, lax
from jax.typing import ArrayLike
from numpy.typing import NDArray

from slewrl.errors import shortened
from slewrl.limits import RateLimits, boxmath, viability

jax.tree_util.register_static(RateLimits)

TORCH = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
"""The dtypes of actions, by name."""
LEAST_REACH = {"float32": 2.0**-101, "float64": 2.0**-968, "bfloat16": 2.0**-101}
"""How far ranges must reach, since XLA flushes subnormal numbers to zero on a CPU (docs/guarantee.md)."""


class Box(NamedTuple):
    """F_t, the actions allowed after ``prev``: a pytree, made by ``box``. Arrays are (..., d), in prev's dtype."""

    prev: Array
    """The action last executed."""
    low: Array
    """Lower edge of F_t."""
    high: Array
    """Upper edge of F_t."""
    anchor: Array
    """Where u = 0 and NaN lead: prev, unless an acceleration limit makes the joint brake first."""
    limits: RateLimits
    """The limits; a pytree without leaves."""


class Working(NamedTuple):
    """Limits rounded inward to a dtype of actions, rates guarded; (d,), (..., d) or (), in the dtype of computation."""

    down: NDArray[Any]
    up: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]


def box(limits: RateLimits, prev: ArrayLike, *, velocity: ArrayLike | None = None, check: bool = True) -> Box:
    """F_t, the set of actions allowed after ``prev``.

    Args:
        limits: the limits.
        prev: the action last executed, (..., d), in float32, float64 or bfloat16.
        velocity: the last increment, prev minus the action before it, (..., d); 0 at the start. Needed with an
            acceleration limit, and only then.
        check: whether to raise on a ``prev`` that is NaN or outside the range. A traced function has no value to look
            at; there, as with False, a joint outside its range can only move back towards it.

    Raises:
        TypeError: the limits are no ``RateLimits``.
        ValueError: wrong shape or dtype, a bad prev, or limits that the dtype cannot hold.
    """
    if not isinstance(limits, RateLimits):
        raise TypeError(f"limits are {shortened(limits)}, expected RateLimits, such as RateLimits.from_yaml(path)")
    last = jnp.asarray(prev)
    if last.ndim == 0 or last.shape[-1] != limits.dim:
        raise ValueError(f"prev has shape {last.shape}, expected (..., {limits.dim}): one entry per joint")
    working = working_limits(limits, last.dtype.name)
    if check and not isinstance(last, jax.core.Tracer) and not isinstance(velocity, jax.core.Tracer):
        limits.box(np.array(last, np.float64), velocity=None if velocity is None else np.array(velocity, np.float64))
    if limits.grid is not None or velocity is not None:
        return _viable(limits, last, velocity)
    start = settled(last)
    edges = (rounded(edge, last.dtype) for edge in boxmath.guard_edges(start, *working, xp=Ordered))
    bottom, top, start = jnp.broadcast_arrays(*edges, start)  # limits of a batch spread one prev
    start, bottom, top = (x.astype(last.dtype) for x in (start, bottom, top))
    return Box(start, bottom, top, start, limits)


def _viable(limits: RateLimits, last: Array, velocity: ArrayLike | None) -> Box:
    """F_t under acceleration limits. Its numbers are whole grid units, which no order of operations changes."""
    if limits.grid is None:
        raise ValueError("velocity is given, but these limits have no acceleration")
    if velocity is None:
        raise ValueError("these limits have an acceleration: pass velocity, the last increment (0 at the start)")
    if jnp.zeros(0).dtype != jnp.float64:
        raise ValueError(
            "limits with an acceleration are computed on a grid of whole numbers in 64 bits, which JAX has off: call "
            'jax.config.update("jax_enable_x64", True) at the start (actions may stay float32)'
        )
    speed = jnp.asarray(velocity, last.dtype)
    if speed.ndim == 0 or speed.shape[-1] != limits.dim:
        raise ValueError(f"velocity has shape {speed.shape}, expected (..., {limits.dim}): one entry per joint")
    grid, (last, speed) = limits.grid, (lax.stop_gradient(x) for x in jnp.broadcast_arrays(last, speed))
    command, increment = units(settled(last), limits), units(speed, limits)
    below, above = jnp.maximum(command - grid.low, 0), jnp.maximum(grid.high - command, 0)
    edges = viability.increments(increment, below, above, grid, xp=jnp)
    bottom, top = (((command + edge) * grid.unit).astype(last.dtype) for edge in edges)
    return Box(last, bottom, top, jnp.clip(last, bottom, top), limits)


def units(values: Array, limits: RateLimits) -> Array:
    """Values (..., d) as whole grid units in float64, each the nearest."""
    assert limits.grid is not None
    return jnp.round(values.astype(jnp.float64) / limits.grid.unit)


def working_limits(limits: RateLimits, dtype: str) -> Working:
    """The limits for actions of a dtype, in the numbers that ``RateLimits.box`` has in torch."""
    found = _working(limits, dtype)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(maxsize=64)
def _working(limits: RateLimits, dtype: str) -> Working | str:
    if dtype not in TORCH:
        return f"prev has dtype {dtype}, expected one of {', '.join(TORCH)} (the dtype handed to env.step)"
    reach = np.maximum(-limits.low, limits.high)
    if (reach < LEAST_REACH[dtype]).any():
        i = int(reach.argmin())
        return (
            f"{limits.names[i]!r}: the range [{limits.low[i]}, {limits.high[i]}] reaches to {reach[i]:g}, expected at "
            f"least {boxmath.as_power(LEAST_REACH[dtype])}, since XLA flushes subnormal numbers: scale the action"
        )
    rounded_to = limits.rounded if limits.grid is None else limits.on_grid
    made = rounded_to(TORCH[dtype], "cpu").working
    return Working(*(_even(x.numpy() if x.dtype != torch.bfloat16 else x.float().numpy()) for x in made))


def _even(x: NDArray[Any]) -> NDArray[Any]:
    """One number where all joints have the same, which a compiled loop need not load."""
    return x[0] if x.ndim == 1 and (x == x[0]).all() else x


def widened(x: Array) -> Array:
    """The array in the dtype of computation: float32 instead of 16 bits."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def rounded(x: Array, dtype: Any) -> Array:
    """Numbers of the dtype of computation rounded to ``dtype``, also where a compiler would keep them as they are."""
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7) if dtype == jnp.bfloat16 else x


def settled(prev: Array) -> Array:
    """``prev`` in the dtype of computation, as the number that was executed, whatever made it."""
    wide = rounded(widened(prev), prev.dtype)
    largest = boxmath.largest(np.finfo(wide.dtype))
    return clamp(wide, -largest, largest)


class Ordered:
    """The array functions of ``guard_edges`` by a comparison each; those of jnp, which ask about NaN, take longer."""

    @staticmethod
    def minimum(x: ArrayLike, y: ArrayLike) -> Array:
        """The smaller of two numbers; ``y`` if one is NaN."""
        return jnp.where(x < y, x, y)  # type: ignore[operator]

    @staticmethod
    def maximum(x: ArrayLike, y: ArrayLike) -> Array:
        """The larger of two numbers; ``y`` if one is NaN."""
        return jnp.where(x > y, x, y)  # type: ignore[operator]


def clamp(x: Array, low: ArrayLike, high: ArrayLike) -> Array:
    """``x`` clipped to [low, high]; NaN stays. The derivative is 1 up to the edges, and that of the edge beyond."""
    return jnp.where(x < low, low, jnp.where(x > high, high, x))
