"""Layers on numpy arrays, for a wrapper around one environment: torch takes 50 us for what numpy does in 8.

Layers that work joint by joint are written out here; the others go through torch. The guarantee rests on the last
operations alone, in the actions' own dtype and with guarded limits: a clip to the edges of F_t, or a step of at most
the limit and a clip to the range (Theorem 2, docs/guarantee.md).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.layers import place, squash
from slewrl.layers.base import ActionLayer, latent_cap
from slewrl.layers.ddsrad import DDSRad, DTanh
from slewrl.layers.interval import IntervalSRad, IntervalTanh
from slewrl.layers.projection import BoxPre, BoxPro, Post
from slewrl.layers.truncnorm import TruncNorm
from slewrl.limits import RateLimits

Floats = NDArray[np.floating[Any]]

JOINT_BY_JOINT = (DDSRad, DTanh, IntervalSRad, IntervalTanh, BoxPre, BoxPro, Post, TruncNorm)
"""Layers whose parts are below."""


class ArrayLayer:
    """An action layer on arrays; every ``prev`` must lie in the range.

    Args:
        layer: the layer.
        limits: of d joints, one set for all time.
        dtype: of actions, float32 or float64.
    """

    def __init__(self, layer: ActionLayer, limits: RateLimits, dtype: Any) -> None:
        if limits.up.ndim != 1:
            raise ValueError(f"limits have rates of shape {limits.up.shape}, expected one set: ({limits.dim},)")
        self.layer, self.limits, self.dtype = layer, limits, np.dtype(dtype)
        torch_dtype = torch.from_numpy(np.zeros(0, self.dtype)).dtype
        self.down, self.up, self.low, self.high = (t.numpy() for t in limits.rounded(torch_dtype).working)
        # Whole arrays, for numpy takes twice as long with a number.
        cap = latent_cap(torch_dtype)
        self._one, self._minus, self._cap, self._floor = (
            np.full(limits.dim, x, self.dtype) for x in (1, -1, cap, -cap)
        )
        self._fall = -self.down
        self.middle, self.half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        quick = type(layer) in JOINT_BY_JOINT
        self._squash: Callable[[Floats], Floats] | None = SQUASHES[type(layer).squash] if quick else None
        self._place = PLACEMENTS.get(layer.placement.command) if quick else None
        self._spherical = self._squash is _spherical
        self._holds = layer.placement is place.hold

    def execute(self, latent: Floats, prev: Floats) -> Floats:
        """What the layer makes of latents (..., d) after ``prev`` (..., d), in F_t; NaN holds, infinities saturate."""
        if self._squash is None:
            return self._by_torch(latent, prev)
        u = np.minimum(np.maximum(latent, self._floor), self._cap)
        return self._enter(self._squash(u), prev)

    def execute_bounded(self, share: Floats, prev: Floats) -> Floats:
        """The same of w in [-1, 1]^d, which stands for the latent u = w / sqrt(1 - w^2); beyond counts as +-1.

        For layers with DD-SRad's squash, w is the normalised increment itself.
        """
        w = np.minimum(np.maximum(share, self._minus), self._one)
        if self._spherical:
            return self._enter(w, prev)
        with np.errstate(divide="ignore"):
            return self.execute(w / np.sqrt(self._one - w * w), prev)

    def clip(self, command: Floats, prev: Floats) -> Floats:
        """The nearest of F_t to a command (..., d); NaN holds."""
        bottom, top = self._edges(prev)
        return self._held(np.minimum(np.maximum(command, bottom), top), prev)

    def _edges(self, prev: Floats) -> tuple[Floats, Floats]:
        """``boxmath.guard_edges`` of a ``prev`` in the range, as what was applied before always is."""
        return np.maximum(prev + self._fall, self.low), np.minimum(prev + self.up, self.high)

    def _enter(self, v: Floats, prev: Floats) -> Floats:
        if self._holds:
            return self._held(self._moved(v, prev), prev)
        bottom, top = self._edges(prev)
        command = self._place(v, bottom, top, self)  # type: ignore[misc]
        return self._held(np.minimum(np.maximum(command, bottom), top), prev)

    def _moved(self, v: Floats, prev: Floats) -> Floats:
        """prev + R_eff(v) v (Eq. ddsrad_vec): as R_eff is guarded, only the range is left to clip to."""
        bound = np.where(v >= 0, self.high, self.low)
        radius = np.abs(np.minimum(np.maximum(bound - prev, self._fall), self.up))
        moved: Floats = np.minimum(np.maximum(prev + radius * v, self.low), self.high)
        return moved

    def _held(self, command: Floats, prev: Floats) -> Floats:
        executed: Floats = np.where(command == command, command, prev)
        return executed

    def _by_torch(self, latent: Floats, prev: Floats) -> Floats:
        box = self.limits.box(torch.from_numpy(prev), check=False)
        executed: Floats = self.layer.execute(torch.from_numpy(np.asarray(latent, self.dtype)), box).numpy()
        return executed


def _spherical(u: Floats) -> Floats:
    """u / sqrt(1 + u^2)."""
    v: Floats = u / np.sqrt(1 + u * u)
    return v


def _clip(u: Floats) -> Floats:
    v: Floats = np.minimum(np.maximum(u, -1), 1)
    return v


def _interval(v: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return bottom + (top - bottom) * (0.5 + 0.5 * v)


def _action_range(v: Floats, bottom: Floats, top: Floats, layer: ArrayLayer) -> Floats:
    return layer.middle + layer.half * v


SQUASHES: dict[Any, Callable[[Floats], Floats]] = {
    squash.spherical: _spherical,
    squash.tanh: np.tanh,
    squash.clip: _clip,
}
PLACEMENTS: dict[Any, Callable[[Floats, Floats, Floats, ArrayLayer], Floats]] = {
    place.interval.command: _interval,
    place.action_range.command: _action_range,
}
"""The numpy twins of `squash.py` and `place.py`."""
