"""Layers on numpy arrays, for wrappers around one environment, where torch would take ten times as long.

All built-in layers but ``budget`` are implemented here; it and custom layers go through torch. The guarantee rests on
the last operations alone (Theorem 2, docs/guarantee.md): a clip to the edges of F_t, or a step of at most the guarded
limit and a clip to the range. With acceleration limits it rests on ``viable_arrays.py``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.layers import LAYERS, place, squash
from slewrl.layers.base import ActionLayer, latent_cap
from slewrl.layers.budget import Budget
from slewrl.layers.viable_arrays import ViableArrays
from slewrl.limits import FeasibleBox, RateLimits

Floats = NDArray[np.floating[Any]]


class ArrayLayer:
    """An action layer on float32 or float64 arrays, for limits without batch dimensions and ``prev`` in the range.

    With an acceleration limit its methods need the last increment, too, as ``velocity`` (..., d).
    """

    def __init__(self, layer: ActionLayer, limits: RateLimits, dtype: Any) -> None:
        if limits.up.ndim != 1:
            raise ValueError(f"limits have rates of shape {limits.up.shape}, expected one set: ({limits.dim},)")
        self.layer, self.limits, self.dtype = layer, limits, np.dtype(dtype)
        torch_dtype = torch.from_numpy(np.zeros(0, self.dtype)).dtype
        self.viable = None if limits.grid is None else ViableArrays(limits, torch_dtype)
        working = limits.rounded(torch_dtype).working if self.viable is None else self.viable.tensors.working
        self.down, self.up, self.low, self.high = (t.numpy() for t in working)
        # Arrays rather than scalars, with which numpy takes twice as long.
        cap = latent_cap(torch_dtype)
        self._zero, self.one, self._minus, self._cap, self._floor, self._closest = (
            np.full(limits.dim, x, self.dtype) for x in (0, 1, -1, cap, -cap, cap**-2)
        )
        self.tiny = np.finfo(self.dtype).tiny
        self._fall = -self.down
        self.middle, self.half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        self.min_delta = np.minimum(self.up, self.down).min()
        self._holds = layer.placement is place.hold
        self._place = PLACEMENTS.get(layer.placement.command)
        known = type(layer) in LAYERS.values() and layer.hard and (self._holds or self._place)
        self._squash = SQUASHES.get(type(layer).squash) if known else None
        self._spherical = self._squash is _spherical
        self._coupled = isinstance(layer, Budget)
        self._clips = type(layer).enter is not ActionLayer.enter

    def execute(self, latent: Floats, prev: Floats, velocity: Floats | None = None) -> Floats:
        """Map latents (..., d) into F_t of ``prev`` (..., d); NaN holds the joint, infinities saturate."""
        return self._capped(np.minimum(np.maximum(latent, self._floor), self._cap), prev, velocity)

    def execute_bounded(self, share: Floats, prev: Floats, velocity: Floats | None = None) -> Floats:
        """Map w in [-1, 1]^d, which stands for the latent u = w / sqrt(1 - w^2), into F_t; w is clipped to +-1."""
        w = np.minimum(np.maximum(share, self._minus), self.one)
        if self._spherical:  # w is the normalised increment itself
            return self._enter(w, prev, velocity)
        return self._capped(w / np.sqrt(np.maximum(self.one - w * w, self._closest)), prev, velocity)

    def clip(self, command: Floats, prev: Floats, velocity: Floats | None = None) -> Floats:
        """Clip a command (..., d) to F_t, and scale its step where a budget requires it; NaN holds the joint.

        With an acceleration limit a joint brakes for its command, so that it does not swing past one that stays.
        """
        if self.viable is not None:
            return self.viable.reach(command, self.viable.edges(prev, velocity))  # type: ignore[arg-type]
        bottom, top = self._edges(prev)
        clipped = self._held(np.minimum(np.maximum(command, bottom), top), prev)
        if not self._coupled:
            return clipped
        return self.layer.enter(torch.from_numpy(clipped), self._box(prev)).numpy()

    def nearest(self, command: Floats, prev: Floats, velocity: Floats | None = None) -> Floats:
        """Move a command (..., d) to the nearest one in F_t, as ``clip`` does, but without braking for it."""
        if self.viable is None:
            return self.clip(command, prev)
        return self.viable.snap(command, self.viable.edges(prev, velocity))  # type: ignore[arg-type]

    def _edges(self, prev: Floats) -> tuple[Floats, Floats]:
        """The edges of F_t, as ``boxmath.guard_edges`` gives them for a ``prev`` in the range."""
        return np.maximum(prev + self._fall, self.low), np.minimum(prev + self.up, self.high)

    def _capped(self, u: Floats, prev: Floats, velocity: Floats | None) -> Floats:
        """Map latents of bounded magnitude into F_t."""
        if self._squash is None:
            return self._by_torch(u, prev, velocity)
        return self._enter(self._squash(u, self), prev, velocity)

    def _enter(self, v: Floats, prev: Floats, velocity: Floats | None) -> Floats:
        if self.viable is not None:
            return self._enter_viable(self.viable, v, prev, velocity)  # type: ignore[arg-type]
        if self._holds:
            return self._held(self._moved(v, prev), prev)
        bottom, top = self._edges(prev)
        command = self._place(v, prev, bottom, top, self)  # type: ignore[misc]
        return self._held(np.minimum(np.maximum(command, bottom), top), prev)

    def _enter_viable(self, viable: ViableArrays, v: Floats, prev: Floats, velocity: Floats) -> Floats:
        box = viable.edges(prev, velocity)
        command: Floats
        if self._holds:
            command = box.anchor + np.where(v >= self._zero, box.top - box.anchor, box.anchor - box.bottom) * v
        else:
            command = self._place(v, box.anchor, box.bottom, box.top, self)  # type: ignore[misc]
        return viable.reach(command, box) if self._clips else viable.snap(command, box)

    def _moved(self, v: Floats, prev: Floats) -> Floats:
        """Return prev + R_eff(v) v (Eq. ddsrad_vec), clipped to the range only, since R_eff is guarded."""
        bound = np.where(v >= self._zero, self.high, self.low)
        radius = np.abs(np.minimum(np.maximum(bound - prev, self._fall), self.up))
        return np.minimum(np.maximum(prev + radius * v, self.low), self.high)

    def _held(self, command: Floats, prev: Floats) -> Floats:
        np.copyto(command, prev, where=command != command)  # NaN
        return command

    def _by_torch(self, latent: Floats, prev: Floats, velocity: Floats | None) -> Floats:
        return self.layer.execute(torch.from_numpy(np.asarray(latent, self.dtype)), self._box(prev, velocity)).numpy()

    def _box(self, prev: Floats, velocity: Floats | None = None) -> FeasibleBox:
        return self.limits.box(torch.tensor(prev), check=False, velocity=velocity)


# ---------------------------------------------------------------------- numpy versions of `squash.py` and `place.py`


def _spherical(u: Floats, layer: ArrayLayer) -> Floats:
    return u / np.sqrt(layer.one + u * u)


def _tanh(u: Floats, layer: ArrayLayer) -> Floats:
    return np.tanh(u)


def _clip(u: Floats, layer: ArrayLayer) -> Floats:
    return np.minimum(np.maximum(u, -layer.one), layer.one)


def _ball(u: Floats, layer: ArrayLayer) -> Floats:
    # A NaN latent counts as 0 for the other joints; its own stays NaN, which holds the joint.
    return u / np.sqrt(1 + np.fmax(u * u, 0).sum(-1, keepdims=True))


def _gauge(u: Floats, layer: ArrayLayer) -> Floats:
    length = np.fmax(np.fmax.reduce(np.abs(u), -1, keepdims=True), layer.tiny)
    return u * (np.tanh(length) / length)


def _interval(v: Floats, prev: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return bottom + (top - bottom) * (0.5 + 0.5 * v)


def _hyperbolic(v: Floats, prev: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    eighth = (top - bottom) / 8
    anchor = np.clip(prev, bottom + eighth, top - eighth)
    down, up = anchor - bottom, top - anchor
    scale = (up + down) / np.maximum((down - up) * v + (up + down), np.finfo(v.dtype).eps * (up + down) + layer.tiny)
    return np.where(v >= 0, top - up * scale * (1 - v), bottom + down * scale * (1 + v))


def _action_range(v: Floats, prev: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return layer.middle + layer.half * v


def _min_delta_ball(v: Floats, prev: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return prev + layer.min_delta * v


def _half_range_ball(v: Floats, prev: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return prev + layer.half * v


SQUASHES: dict[Any, Callable[[Floats, ArrayLayer], Floats]] = {
    squash.spherical: _spherical,
    squash.tanh: _tanh,
    squash.clip: _clip,
    squash.ball: _ball,
    squash.gauge: _gauge,
}
PLACEMENTS: dict[Any, Callable[[Floats, Floats, Floats, Floats, ArrayLayer], Floats]] = {
    place.interval.command: _interval,
    place.hyperbolic.command: _hyperbolic,
    place.action_range.command: _action_range,
    place.min_delta_ball.command: _min_delta_ball,
    place.half_range_ball.command: _half_range_ball,
}
