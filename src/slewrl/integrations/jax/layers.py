"""The box layers as pure functions: latent (..., d) and box -> Action, as the torch layers of the same name.

A layer is a squash u -> v in [-1, 1]^d and a placement of v in the box; ``docs/layers.md`` has the formulas.
Derivatives are those of the torch layers: the slope of u / sqrt(1 + u^2) in closed form, and that of the map before the
last clip into F_t, which only undoes rounding.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from slewrl.integrations.jax.box import Box, clamp, rounded, units, widened, working_limits
from slewrl.layers.base import Density
from slewrl.layers.place import RADIUS_FLOOR
from slewrl.limits import viability

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Action(NamedTuple):
    """The result of a layer, as ``slewrl.layers.Action``."""

    executed: Array
    """The action the environment gets, and the next ``prev``; (..., d), prev's dtype, inside F_t."""
    judged: Array
    """The action that the critic sees; (..., d). Here always the executed one."""
    log_det: Array
    """log |det d action / d latent| in density units, (...)."""
    penalty: Array
    """The term that ``penalty_weight`` multiplies in the actor loss; (...), >= 0."""


class Wide(NamedTuple):
    """A box in the dtype of computation, and what placements ask of it."""

    prev: Array
    low: Array
    high: Array
    anchor: Array
    box: Box


Layer = Callable[..., Action]
"""A map (latent, box, density) -> Action."""
Placed = Callable[[Array, Wide], Array]
"""A map (v, box) -> command (..., d), or the log of its slope per joint."""


def ddsrad(latent: Array, box: Box, density: Density = "normalized") -> Action:
    """a = prev + R_eff(sign u) u / sqrt(1 + u^2) per joint; u = 0 holds."""
    return _into_box(latent, box, density, spherical, _hold, _hold_scale)


def dtanh(latent: Array, box: Box, density: Density = "normalized") -> Action:
    """a = prev + R_eff(sign u) tanh(u) per joint."""
    return _into_box(latent, box, density, tanh, _hold, _hold_scale)


def interval_srad(latent: Array, box: Box, density: Density = "normalized") -> Action:
    """a = mid + half u / sqrt(1 + u^2) on the edges of F_t."""
    return _into_box(latent, box, density, spherical, _interval, _interval_scale)


def interval_tanh(latent: Array, box: Box, density: Density = "normalized") -> Action:
    """a = mid + half tanh(u) on the edges of F_t. It has no penalty."""
    action = _into_box(latent, box, density, tanh, _interval, _interval_scale)
    return action._replace(penalty=jnp.zeros_like(action.log_det))


def boxpro(latent: Array, box: Box, density: Density = "normalized") -> Action:
    """The usual hand-written clip, exact: tanh(u) over the whole range, clipped to F_t; the penalty is the distance."""
    u, bad, wide = _prepared(latent, box, density)
    v, log_slopes = tanh(u)
    _, _, low, high = working_limits(box.limits, box.prev.dtype.name)
    half = 0.5 * (high - low)
    command = 0.5 * (low + high) + half * v
    log_det = log_slopes.sum(-1)
    if density != "normalized":
        log_det = log_det + jnp.broadcast_to(jnp.log(half), v.shape).sum(-1)
    executed = clip(jnp.where(bad, jnp.nan, command), box)
    hinge = jnp.maximum(command - wide.high, 0) + jnp.maximum(wide.low - command, 0)
    return Action(executed, executed, log_det, _norm(hinge))


LAYERS: dict[str, Layer] = {
    "ddsrad": ddsrad,
    "dtanh": dtanh,
    "interval_srad": interval_srad,
    "interval_tanh": interval_tanh,
    "boxpro": boxpro,
}
"""The layers by name."""


def make_layer(name: str, density: Density = "normalized") -> Layer:
    """The layer of a name in ``LAYERS``, with the units of its log-probability, as ``slewrl.make_layer``."""
    if name not in LAYERS:
        raise KeyError(f"layer {name!r} is not written for JAX; those that are: {', '.join(LAYERS)}")
    return partial(LAYERS[name], density=_known(density))


def sample(
    layer: str | Layer, mean: Array, std: Array, noise: Array, box: Box, density: Density | None = None
) -> tuple[Action, Array]:
    """Map u = mean + std * noise through a layer; the action, and its log-probability (...) in density units.

    Args:
        layer: the layer, or its name.
        mean: (..., d).
        std: (..., d), > 0.
        noise: standard normal, (..., d).
        box: F_t.
        density: the units of the log-probability; default: those that ``make_layer`` made the layer with, which are
            "normalized" where nothing was said.
    """
    mean, std, noise = (widened(jnp.asarray(x)) for x in (mean, std, noise))
    mapped = make_layer(layer) if isinstance(layer, str) else layer
    action = mapped(mean + std * noise, box, **({} if density is None else {"density": density}))
    log_density = -(jnp.log(std) + 0.5 * jnp.square(noise) + LOG_SQRT_2PI).sum(-1)
    return action, log_density - action.log_det


def random(key: Array, box: Box) -> Array:
    """Draw an action uniformly from F_t, (..., d), for warm-up."""
    wide = _wide(box)
    uniform = jax.random.uniform(key, wide.prev.shape, wide.prev.dtype)
    return _entered(wide.low + (wide.high - wide.low) * uniform, wide)


def clip(command: Array, box: Box) -> Array:
    """``command`` (..., d) clipped to F_t, in prev's dtype; NaN holds the joint.

    With an acceleration limit a joint moves towards its command as fast as allows to stop there.
    """
    wide, command = _wide(box), _entries("command", command, box)
    target = jnp.where(jnp.isnan(command), wide.prev, command).astype(wide.prev.dtype)
    if box.limits.grid is not None:
        return _once(_reach(target, wide))
    clipped = rounded(clamp(target, wide.low, wide.high), box.prev.dtype)
    return _once(clipped.astype(box.prev.dtype))


# ---------------------------------------------------------------------- squashes: u -> v, log dv/du per joint


@jax.custom_jvp
def spherical(u: Array) -> tuple[Array, Array]:
    """v = u / sqrt(1 + u^2) per joint, and the log of its slope."""
    u2 = u * u
    return u * lax.rsqrt(1 + u2), -1.5 * jnp.log1p(u2)


@spherical.defjvp
def _spherical_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The slope (1 + u^2)^(-3/2), which automatic differentiation would lose to cancellation."""
    (u,), (du,) = primals, tangents
    r = lax.rsqrt(1 + u * u)
    r2 = r * r
    return spherical(u), (r * r2 * du, -3 * u * r2 * du)


def tanh(u: Array) -> tuple[Array, Array]:
    """v = tanh(u) per joint, and the log of its slope, without cancellation."""
    size = jnp.abs(u)
    return jnp.tanh(u), 2 * (math.log(2) - size - jax.nn.softplus(-2 * size))


# ---------------------------------------------------------------------- placements: v -> a command in the box


def _hold(v: Array, wide: Wide) -> Array:
    return wide.anchor + _radius(v, wide) * v


def _radius(v: Array, wide: Wide) -> Array:
    """R_eff, the distance from the anchor to the edge on v's side."""
    return jnp.where(v >= 0, wide.high - wide.anchor, wide.anchor - wide.low)


def _hold_scale(v: Array, wide: Wide) -> Array:
    """log R_eff, with R floored, since it is 0 where prev is on a bound."""
    down, up, low, high = working_limits(wide.box.limits, wide.box.prev.dtype.name)
    floor = RADIUS_FLOOR * jnp.minimum(jnp.where(v >= 0, up, down), high - low)
    if wide.box.limits.grid is not None:
        floor = jnp.minimum(floor, _narrowest(wide))
    return _log(jnp.maximum(_radius(v, wide), floor))


def _interval(v: Array, wide: Wide) -> Array:
    return wide.low + (wide.high - wide.low) * (0.5 + 0.5 * v)


def _interval_scale(v: Array, wide: Wide) -> Array:
    half = 0.5 * (wide.high - wide.low)
    return _log(half if wide.box.limits.grid is None else jnp.maximum(half, _narrowest(wide)))


def _narrowest(wide: Wide) -> Array:
    """The floor on radii under acceleration limits, where a box may be a single point."""
    grid: Any = wide.box.limits.grid
    return jnp.asarray(RADIUS_FLOOR * grid.acceleration * grid.unit, wide.prev.dtype)


def _log(length: Array) -> Array:
    return jnp.log(jnp.maximum(length, np.finfo(length.dtype).tiny))


# ---------------------------------------------------------------------- into the box


def _into_box(
    latent: Array, box: Box, density: Density, squash: Callable[[Array], tuple[Array, Array]], place: Placed,
    scale: Placed,
) -> Action:  # fmt: skip
    """A map into F_t, whose commands leave it by rounding only; the penalty is |u|^2."""
    u, bad, wide = _prepared(latent, box, density)
    v, log_slopes = squash(u)
    log_det = log_slopes.sum(-1)
    if density != "normalized":
        log_det = log_det + jnp.broadcast_to(scale(v, wide), v.shape).sum(-1)
    command = place(v, wide)
    if place is not _hold:  # which has NaN, a latent of 0, at the anchor already
        command = jnp.where(bad, wide.anchor, command)
    executed = _entered(command, wide)
    return Action(executed, executed, log_det, jnp.square(u).sum(-1))


def _prepared(latent: Array, box: Box, density: Density) -> tuple[Array, Array, Wide]:
    """The latent, finite and of the box's shape; where it was NaN; and the box in the dtype of computation."""
    _known(density)
    wide, latent = _wide(box), _entries("latent", latent, box)
    u = jnp.broadcast_to(latent, jnp.broadcast_shapes(latent.shape, box.prev.shape)).astype(wide.prev.dtype)
    return _finite(u), jnp.isnan(u), wide


def _entries(label: str, values: Array, box: Box) -> Array:
    """Values with one entry per joint; one for all would be an accident."""
    found = jnp.asarray(values)
    if found.ndim == 0 or found.shape[-1] != box.prev.shape[-1]:
        raise ValueError(f"{label} has shape {found.shape}, expected (..., {box.prev.shape[-1]}): one entry per joint")
    return found


@jax.custom_jvp
def _finite(u: Array) -> Array:
    """The latent with NaN as 0, and magnitudes capped so that squares do not overflow (`latent_cap` in torch)."""
    return clamp(jnp.where(jnp.isnan(u), 0, u), -_cap(u), _cap(u))


@_finite.defjvp
def _finite_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (u,), (du,) = primals, tangents
    return _finite(u), jnp.where(jnp.abs(u) <= _cap(u), du, 0)


def _cap(u: Array) -> float:
    return 2.0**50 if u.dtype == jnp.float32 else 2.0**500


def _wide(box: Box) -> Wide:
    if not isinstance(box, Box):
        raise TypeError(
            f"a layer takes a latent and slewrl.integrations.jax.box(limits, prev), got {type(box).__name__}"
        )
    return Wide(widened(box.prev), widened(box.low), widened(box.high), widened(box.anchor), box)


def _entered(command: Array, wide: Wide) -> Array:
    """The command as an action in F_t, in prev's dtype."""
    grid = wide.box.limits.grid
    if grid is not None:
        command = _on_grid(command, jnp.asarray(grid.unit, command.dtype))
    dtype = wide.box.prev.dtype
    entered = _snap(command, wide.low, wide.high)
    return _once(rounded(entered, dtype).astype(dtype))


def _once(executed: Array) -> Array:
    """The executed action as one number, which a compiler may not compute again for another use of it."""
    return lax.optimization_barrier(executed)  # type: ignore[no-untyped-call]


@jax.custom_jvp
def _snap(command: Array, low: Array, high: Array) -> Array:
    """Clip to F_t, with the derivative of the unclipped map."""
    return clamp(command, low, high)


_snap.defjvps(lambda tangent, *_: tangent, None, None)


@jax.custom_jvp
def _on_grid(command: Array, unit: Array) -> Array:
    """Round to multiples of a power of two, with the derivative of the identity."""
    return jnp.round(command / unit) * unit


_on_grid.defjvps(lambda tangent, *_: tangent, None)


def _reach(target: Array, wide: Wide) -> Array:
    """Move towards ``target`` as fast as allows to stop there, and not beyond, as ``ViableBox.clamp``."""
    grid: Any = wide.box.limits.grid
    command, aim = units(wide.prev, wide.box.limits), jnp.clip(units(target, wide.box.limits), grid.low, grid.high)
    way = aim - command
    step = jnp.sign(way) * viability.fastest(jnp.abs(way), grid.deceleration, xp=jnp)
    moved = jnp.clip(((command + step) * grid.unit).astype(wide.prev.dtype), wide.low, wide.high)
    return _arrived(target, lax.stop_gradient(moved), lax.stop_gradient(moved == aim * grid.unit))


@jax.custom_jvp
def _arrived(target: Array, moved: Array, there: Array) -> Array:
    """``moved``, with a derivative of 1 for the joints that get ``there`` in this step, and 0 for the others."""
    return moved


@_arrived.defjvp
def _arrived_jvp(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    _, moved, there = primals
    return moved, jnp.where(there, tangents[0], 0)


def _norm(x: Array) -> Array:
    """The Euclidean norm over joints, (...), whose derivative at 0 is 0."""
    square = jnp.square(x).sum(-1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _known(density: Density) -> Density:
    if density not in get_args(Density):
        raise ValueError(f"density is {density!r}, expected one of {', '.join(get_args(Density))}")
    return density
