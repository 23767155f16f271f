"""Projection onto F_t by a differentiable QP solver: what a box never needs, kept to measure what it costs.

The squashed command a~ is projected by cvxpylayers, gradient included. A batch is one block-diagonal QP, one call:
row by row it took a second and a half for what SAC draws in one update. The solver stops at a tolerance, so its answer
goes through the exact guard, and how often it was outside is counted.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

from torch import Tensor

from slewrl.box import FeasibleBox
from slewrl.errors import UserFacingError
from slewrl.layers.base import snap
from slewrl.layers.projection import BoxPro

TOLERANCE = 1e-6
"""Of the solver; at its own 1e-4, G1's narrow joints came out 4 % of F_t's width off."""
Projection = Callable[..., tuple[Tensor]]
"""(command, low, high) to (the nearest point between low and high,), all (n,) in float64, differentiable."""


@dataclass(frozen=True)
class QP(BoxPro):
    """argmin |a - a~|^2 over F_t by a solver; for a box that is ``boxpro``, to the solver's tolerance."""

    _counts: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Say at once if the solver is not there."""
        super().__post_init__()
        projection(1)

    def enter(self, command: Tensor, box: FeasibleBox) -> Tensor:
        """The solver's answer through the guard, with the gradient of the former."""
        wanted, low, high = (x.double().expand(command.shape).reshape(-1) for x in (command, box.low, box.high))
        if wanted.numel() == 0:
            return command
        (answer,) = projection(wanted.numel())(wanted, low, high, solver_args={"eps": TOLERANCE})
        answer = answer.reshape(command.shape).to(box.prev.dtype)
        self._count(answer.detach(), box)
        return snap(answer, box)

    def _count(self, answer: Tensor, box: FeasibleBox) -> None:
        outside = ~box.contains(answer).all(-1)
        new = {"calls": 1, "actions": outside.numel(), "outside": int(outside.sum())}
        for name, value in new.items():
            self._counts[name] = self._counts.get(name, 0) + value

    def counts(self) -> dict[str, int]:
        """Calls of the solver, actions it projected, and how many of its answers were outside F_t."""
        return self._counts

    def columns(self) -> dict[str, float]:
        """``solver_calls``, and ``solver_outside``: the share of answers outside F_t."""
        counts = {**self._counts}
        self._counts.clear()
        share = counts.get("outside", 0) / counts["actions"] if counts else float("nan")
        return {"solver_calls": counts.get("calls", 0), "solver_outside": share}

    def exported(self, latent: Tensor, box: FeasibleBox) -> Tensor:
        """Refused: a solver has no graph."""
        raise UserFacingError(
            "the layer 'qp' is for benchmarks and is not exported; 'boxpro' makes the same projection"
        )


@lru_cache(maxsize=8)
def projection(size: int) -> Projection:
    """The projection of ``size`` numbers onto intervals, set up once."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which it imports
            cvxpy: Any = import_module("cvxpy")
            layers: Any = import_module("cvxpylayers.torch")
    except ImportError as error:
        raise UserFacingError(f"the layer 'qp' needs cvxpylayers ({error}): pip install \"slewrl[dev]\"") from None
    command, low, high = (cvxpy.Parameter(size) for _ in range(3))
    nearest = cvxpy.Variable(size)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(nearest - command)), [nearest >= low, nearest <= high])
    made: Projection = layers.CvxpyLayer(problem, parameters=[command, low, high], variables=[nearest])
    return made
