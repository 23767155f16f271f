"""Multi-layer perceptrons with hand-written forward and backward passes, into buffers that are allocated once.

A network here is an *ensemble* of E equal MLPs (E = 1 for an actor, 2 for twin critics) whose parameters lie in one
flat vector: an optimiser step, a gradient norm and a target update are each one operation on one tensor. On a CPU,
autograd's bookkeeping and its 256 KB temporaries otherwise take as long as half the matrix products. The buffers are few,
because what does not fit the second-level cache is paid for at every step.
"""

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class Ensemble:
    """E MLPs with ReLU between layers, all evaluated on the same input.

    Args:
        members: E.
        sizes: widths from input to output, e.g. (29, 256, 256, 1).
        generator: draws the initial weights uniformly in +-1/sqrt(fan_in), as ``torch.nn.Linear`` does.
    """

    def __init__(self, members: int, sizes: tuple[int, ...], generator: torch.Generator) -> None:
        self.members, self.sizes = members, tuple(sizes)
        count = members * sum((i + 1) * o for i, o in pairwise(sizes))
        self.flat, self.grad = torch.empty(count), torch.zeros(count)
        self.weights, self.biases = self.views(self.flat)
        self._weight_grads, self._bias_grads = self.views(self.grad)
        self._passes: dict[int, _Pass] = {}
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)

    def target(self) -> "Ensemble":
        """A target network: equal now, to be moved by ``flat.lerp_``; it only runs forward, in the same buffers."""
        twin = copy.copy(self)
        twin.flat = self.flat.clone()
        twin.weights, twin.biases = self.views(twin.flat)
        return twin

    def member(self, j: int) -> "Ensemble":
        """Member j as an ensemble of one, on the same parameters, with buffers of its own."""
        one = copy.copy(self)
        one.members, one._passes = 1, {}
        one.weights, one.biases = ([x[j : j + 1] for x in part] for part in (self.weights, self.biases))
        return one

    def views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Weights (E, in, out) and biases (E, out), by layer, as views into a flat vector."""
        weights, biases, start = [], [], 0
        table = flat.view(self.members, -1)
        for fan_in, fan_out in pairwise(self.sizes):
            middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
            weights.append(table[:, start:middle].view(self.members, fan_in, fan_out))
            biases.append(table[:, middle:end])
            start = end
        return weights, biases

    def forward(self, x: Tensor, keep: bool = True) -> Tensor:
        """Outputs (E, B, out) for inputs (B, in), in a buffer that the next call with the same B overwrites.

        ``keep`` the hidden units of every member for ``backward``, or let the members share one set of buffers.
        """
        run = self._pass(x)
        for j in range(self.members):
            self._forward(j, x, run.hidden[j if keep else 0], run.outputs[j])
        return run.outputs

    def fit(self, x: Tensor, target: Tensor) -> Tensor:
        """Write ``self.grad`` of the squared error to ``target`` (B,), mean over B and summed over members.

        Returns the errors (E, B, 1). One member after the other, forward and back, while its units are in the cache.
        """
        run, goal = self._pass(x), target.unsqueeze(-1)
        for j in range(self.members):
            self._forward(j, x, run.hidden[0], run.outputs[j])
            run.outputs[j].sub_(goal)
            self._backward(j, x, run.hidden[0], run.outputs[j] * (2 / len(goal)), run.grads)
        return run.outputs

    def backward(self, x: Tensor, grad: Tensor) -> None:
        """After ``forward(x)``: write ``self.grad`` from d loss / d outputs (E, R, out).

        ``grad`` is that of the first R <= B rows; the loss does not depend on the others.
        """
        run = self._pass(x)
        for j in range(self.members):
            self._backward(j, x, run.hidden[j], grad[j], run.grads)

    def least(self, x: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
        """The smallest output (B,) over members of one output each, and its gradient (B, inputs).

        The gradient is that of the last ``inputs`` columns of x (B, in). It passes through one member in each row, so
        each member works on its own rows only.
        """
        value, which = self.forward(x)[..., 0].min(0)
        run = self._pass(x)
        if self.members == 1:
            return value, self._to_inputs(0, run.hidden[0], run.grads, inputs)
        grad = torch.empty(len(x), inputs)
        for j in range(self.members):
            rows = (which == j).nonzero()[:, 0]
            hidden = [
                torch.index_select(units, 0, rows, out=some[: len(rows)])
                for units, some in zip(run.hidden[j], run.gathered, strict=True)
            ]
            grad.index_copy_(0, rows, self._to_inputs(j, hidden, run.grads, inputs))
        return value, grad

    def _to_inputs(self, j: int, hidden: list[Tensor], grads: list[Tensor], inputs: int) -> Tensor:
        """Gradient of member j's one output with respect to its last ``inputs`` inputs, for given hidden units."""
        rows, last = len(hidden[0]), len(hidden) - 1
        grad = self.weights[-1][j].t().expand(rows, -1)
        for i in reversed(range(last + 1)):
            into = grads[i][:rows]
            if i < last:
                grad = torch.mm(grad, self.weights[i + 1][j].t(), out=into)
            grad = torch.ops.aten.threshold_backward.grad_input(grad, hidden[i], 0, grad_input=into)
        return torch.mm(grad, self.weights[0][j, -inputs:].t())

    def _forward(self, j: int, x: Tensor, hidden: list[Tensor], out: Tensor) -> None:
        """Member j, (B, in) to (B, out)."""
        for weight, bias, units in zip(self.weights, self.biases, hidden, strict=False):
            x = torch.addmm(bias[j], x, weight[j], out=units).relu_()
        torch.addmm(self.biases[-1][j], x, self.weights[-1][j], out=out)

    def _backward(self, j: int, x: Tensor, hidden: list[Tensor], grad: Tensor, grads: list[Tensor]) -> None:
        """Member j, from the gradient of its output (R, out) to those of its parameters."""
        rows = len(grad)
        for i in reversed(range(len(self.weights))):
            below = (hidden[i - 1] if i else x)[:rows]
            torch.mm(below.t(), grad, out=self._weight_grads[i][j])
            torch.sum(grad, dim=0, out=self._bias_grads[i][j])
            if i:
                grad = _times_transposed(grad, self.weights[i][j], grads[i - 1][:rows])
                # ReLU: the gradient passes where the unit was on.
                torch.ops.aten.threshold_backward.grad_input(grad, below, 0, grad_input=grad)

    def _pass(self, x: Tensor) -> "_Pass":
        if len(x) not in self._passes:
            self._passes[len(x)] = _Pass.allocate(self.members, len(x), self.sizes)
        return self._passes[len(x)]


def _times_transposed(grad: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """grad (R, o) times the transpose of weight (i, o); for o = 1 an outer product, which ``mm`` is slow at."""
    if grad.shape[-1] == 1:
        return torch.mul(grad, weight.t(), out=out)
    return torch.mm(grad, weight.t(), out=out)


class Adam:
    """Adam on one flat parameter, after clipping the gradient's norm.

    Args:
        flat: the parameters; a step moves them.
        grad: their gradient, which a step reads and may scale.
        learning_rate: of Adam, with its usual betas.
        max_norm: the gradient is scaled down to this 2-norm where it is longer; inf never does.
    """

    def __init__(self, flat: Tensor, grad: Tensor, learning_rate: float, max_norm: float = math.inf) -> None:
        self.flat, self.grad, self.learning_rate, self.max_norm = flat, grad, learning_rate, max_norm
        self.mean, self.square, self.count = torch.zeros_like(flat), torch.zeros_like(flat), torch.tensor(0.0)

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradient. The functional form: torch's class spends 0.1 ms a step on bookkeeping."""
        if self.max_norm < math.inf:
            norm = math.sqrt(torch.dot(self.grad, self.grad).item())
            if norm > self.max_norm:
                self.grad.mul_(self.max_norm / norm)
        adam(
            [self.flat], [self.grad], [self.mean], [self.square], [], [self.count], fused=True, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=self.learning_rate, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on, besides parameters and gradient."""
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


@dataclass
class _Pass:
    """The buffers of one forward and backward pass at one batch size B."""

    hidden: list[list[Tensor]]
    """Hidden units (B, width), by member and layer."""
    grads: list[Tensor]
    """Their gradients, by layer: the members take turns."""
    gathered: list[Tensor]
    """Some rows of the hidden units of one member, by layer."""
    outputs: Tensor
    """(E, B, out)"""

    @classmethod
    def allocate(cls, members: int, batch: int, sizes: tuple[int, ...]) -> "_Pass":
        hidden = [[torch.empty(batch, width) for width in sizes[1:-1]] for _ in range(members)]
        grads, gathered = ([torch.empty_like(x) for x in hidden[0]] for _ in range(2))
        return cls(hidden, grads, gathered, torch.empty(members, batch, sizes[-1]))
