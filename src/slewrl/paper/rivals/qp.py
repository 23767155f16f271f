"""Projection onto F_t by a differentiable QP solver: what a box never needs, kept to measure what it costs.

The squashed command a~ is projected by cvxpylayers, gradient included, a batch as one block-diagonal QP. The solver
stops at a tolerance, so its answer goes through the exact guard, and how often it was outside is counted. It works in
units of F_t, in which all boxes are [-1, 1]^d.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from slewrl.errors import UserFacingError
from slewrl.layers.base import snap
from slewrl.layers.hook import CountingHook
from slewrl.layers.projection import BoxPro
from slewrl.limits.box import FeasibleBox

TOLERANCE = 1e-6
"""Tolerance of the solver, in half widths of F_t."""
FARTHEST = 2.0
"""Commands are clipped to this distance, in the same units: the projection is the same, and sooner found."""
Projection = Callable[..., tuple[Tensor]]
"""(n,) in float64 to (the nearest of [-1, 1]^n,), differentiable."""


@dataclass(frozen=True)
class QP(BoxPro):
    """argmin |a - a~|^2 over F_t by a solver; for a box that is ``boxpro``, to the solver's tolerance."""

    hook = CountingHook
    _counts: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Say at once if the solver is not there."""
        super().__post_init__()
        projection(1)

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """The solver's answer through the guard, with the gradient of the former."""
        if command.numel() == 0:
            return command
        low, high = box.low.double(), box.high.double()
        middle, half = 0.5 * (low + high), (0.5 * (high - low)).clamp_min(torch.finfo(torch.float64).tiny)
        wanted = ((command.double() - middle) / half).clamp(-FARTHEST, FARTHEST)
        answer = (middle + half * solved(wanted)).to(box.prev.dtype)
        self._count(answer.detach(), box)
        # An answer that is none holds, so that the guard sees numbers.
        return snap(torch.where(answer.isnan(), box.prev, answer), box)

    def _count(self, answer: Tensor, box: FeasibleBox) -> None:
        outside, failed = ~box.contains(answer).all(-1), answer.isnan().any(-1)
        self._counts.update(calls=1, actions=outside.numel(), outside=int(outside.sum()), failed=int(failed.sum()))

    def counts(self) -> dict[str, int]:
        """Calls of the solver, actions it projected, how many answers were outside F_t, how many were none (NaN)."""
        return self._counts

    def columns(self) -> dict[str, float]:
        """``solver_calls``, and ``solver_outside`` and ``solver_failed``: shares of answers outside F_t, or none."""
        counts = {**self._counts}
        self._counts.clear()
        actions = counts.get("actions", float("nan"))
        shares = {f"solver_{name}": counts.get(name, 0) / actions for name in ("outside", "failed")}
        return {"solver_calls": counts.get("calls", 0), **shares}

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Refused: a solver has no graph."""
        raise UserFacingError(
            "the layer 'qp' is for benchmarks and is not exported; 'boxpro' makes the same projection"
        )


def solved(wanted: Tensor) -> Tensor:
    """The nearest point of the cube for each row; NaN throughout where the solver gave up."""
    try:
        (answer,) = projection(wanted.numel())(wanted.reshape(-1), solver_args={"eps": TOLERANCE})
    except UserFacingError:
        raise
    except Exception:  # the solvers behind cvxpylayers have classes of their own for it
        return torch.full_like(wanted, torch.nan)
    return answer.reshape(wanted.shape)


@lru_cache(maxsize=8)
def projection(size: int) -> Projection:
    """The projection of ``size`` numbers onto [-1, 1], set up once."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which it imports
            cvxpy: Any = import_module("cvxpy")
            layers: Any = import_module("cvxpylayers.torch")
    except ImportError as error:
        raise UserFacingError(f"the layer 'qp' needs cvxpylayers ({error}): pip install \"slewrl[dev]\"") from None
    command, nearest = cvxpy.Parameter(size), cvxpy.Variable(size)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(nearest - command)), [nearest >= -1, nearest <= 1])
    made: Projection = layers.CvxpyLayer(problem, parameters=[command], variables=[nearest])
    return made
