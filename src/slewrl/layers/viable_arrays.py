"""F_t under acceleration limits on numpy arrays: the part of ``ViableBox`` that a wrapper of one environment needs."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from slewrl.limits import RateLimits
from slewrl.limits.viability import fastest
from slewrl.limits.viable_box import numpy_edges

Floats = NDArray[np.floating[Any]]


class Edges(NamedTuple):
    """F_t = [bottom, top] after ``prev``, on the grid of commands; (..., d) each."""

    prev: Floats
    bottom: Floats
    top: Floats
    anchor: Floats
    """The brake point: where full braking leads in this step, and prev for a joint at rest."""


class ViableArrays:
    """The sets F_t of limits with an acceleration, for arrays of one dtype."""

    def __init__(self, limits: RateLimits, dtype: torch.dtype) -> None:
        assert limits.grid is not None
        self.grid, self.tensors = limits.grid, limits.on_grid(dtype, "cpu")
        self.unit = self.tensors.unit.to(dtype).numpy()
        """The grid unit of each joint in the arrays' dtype, (d,)."""

    def edges(self, prev: Floats, velocity: Floats) -> Edges:
        """F_t after ``prev`` (..., d), a command on the grid, and the last increment ``velocity`` (..., d)."""
        bottom, top = numpy_edges(prev, velocity, self.tensors)
        return Edges(prev, bottom, top, np.minimum(np.maximum(prev, bottom), top))

    def snap(self, command: Floats, box: Edges) -> Floats:
        """Round a command (..., d) to the grid and clip it to F_t; NaN brakes."""
        whole = np.rint(command / self.unit) * self.unit
        np.copyto(whole, box.anchor, where=whole != whole)
        return np.minimum(np.maximum(whole, box.bottom), box.top)

    def reach(self, command: Floats, box: Edges) -> Floats:
        """Move towards ``command`` (..., d) as fast as allows to stop there, and not beyond; NaN brakes."""
        grid, here = self.grid, box.prev / self.grid.unit
        aim = np.rint(command / grid.unit)
        np.copyto(aim, here, where=aim != aim)
        way = np.minimum(np.maximum(aim, grid.low), grid.high) - here
        moved = (here + np.copysign(fastest(np.abs(way), grid.deceleration), way)) * grid.unit
        return np.minimum(np.maximum(moved.astype(box.prev.dtype), box.bottom), box.top)
