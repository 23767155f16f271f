"""Multi-layer perceptrons with hand-written forward and backward passes, into buffers that are allocated once.

A network here is an *ensemble* of E equal MLPs (E = 1 for an actor, 2 for twin critics) whose parameters lie in one
flat vector: an optimiser step, a gradient norm and a target update are each one operation on one tensor. On a CPU,
autograd's bookkeeping and its 256 KB temporaries otherwise take as long as half the matrix products. The buffers are
few, because what does not fit the second-level cache is paid for at every step.
"""

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

SWEEP = 100
"""Steps of Adam between two sweeps of its moments."""


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
        self._nets = self._layers(self.flat, self.grad)
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
        twin._nets = self._layers(twin.flat, self.grad)
        return twin

    def member(self, j: int) -> "Ensemble":
        """Member j as an ensemble of one, on the same parameters, with buffers of its own; it only runs forward."""
        one = copy.copy(self)
        one.members, one._passes, one._nets = 1, {}, self._nets[j : j + 1]
        del one.flat, one.grad, one.weights, one.biases  # those of all members
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

    def _layers(self, flat: Tensor, grad: Tensor) -> list[list["_Layer"]]:
        """By member and layer, two-dimensional views: made once, since making one costs microseconds."""
        parts = (*self.views(flat), *self.views(grad))
        return [[_Layer(*(x[j] for x in layer)) for layer in zip(*parts, strict=True)] for j in range(self.members)]

    def forward(self, x: Tensor, keep: bool = True) -> Tensor:
        """Outputs (E, B, out) for inputs (B, in), in a buffer that the next call with the same B overwrites.

        ``keep`` the hidden units of every member for ``backward``, or let the members share one set of buffers.
        """
        run = self._pass(x)
        for j, net in enumerate(self._nets):
            _forward(net, x, run.hidden[j if keep else 0], run.member_outputs[j])
        return run.outputs

    def fit(self, x: Tensor, target: Tensor) -> Tensor:
        """Write ``self.grad`` of the squared error to ``target`` (B,), mean over B and summed over members.

        Returns the errors (E, B, 1). One member after the other, forward and back, while its units are in the cache.
        """
        run, goal = self._pass(x), target.unsqueeze(-1)
        for net, out in zip(self._nets, run.member_outputs, strict=True):
            _forward(net, x, run.hidden[0], out)
            out.sub_(goal)
            _backward(net, x, run.hidden[0], out * (2 / len(goal)), run.grads)
        return run.outputs

    def backward(self, x: Tensor, grad: Tensor) -> None:
        """After ``forward(x)``: write ``self.grad`` from d loss / d outputs (E, R, out).

        ``grad`` is that of the first R <= B rows; the loss does not depend on the others.
        """
        run, rows = self._pass(x), grad.shape[1]
        grads = [to_units[:rows] for to_units in run.grads]
        for j, net in enumerate(self._nets):
            _backward(net, x[:rows], [units[:rows] for units in run.hidden[j]], grad[j], grads)

    def least(self, x: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
        """The smallest output (B,) over members of one output each, and its gradient (B, inputs).

        The gradient is that of the last ``inputs`` columns of x (B, in). It passes through one member in each row, so
        each member works on its own rows only.
        """
        value, which = self.forward(x)[..., 0].min(0)
        run = self._pass(x)
        if self.members == 1:
            return value, _to_inputs(self._nets[0], run.hidden[0], run.grads, inputs)
        grad = torch.empty(len(x), inputs)
        for j, net in enumerate(self._nets):
            rows = (which == j).nonzero()[:, 0]
            hidden = [
                torch.index_select(units, 0, rows, out=some[: len(rows)])
                for units, some in zip(run.hidden[j], run.gathered, strict=True)
            ]
            grads = [to_units[: len(rows)] for to_units in run.grads]
            grad.index_copy_(0, rows, _to_inputs(net, hidden, grads, inputs))
        return value, grad

    def _pass(self, x: Tensor) -> "_Pass":
        if len(x) not in self._passes:
            self._passes[len(x)] = _Pass.allocate(self.members, len(x), self.sizes)
        return self._passes[len(x)]


class _Layer:
    """One layer of one member: weight (in, out), bias (out,), and their gradients."""

    def __init__(self, weight: Tensor, bias: Tensor, weight_grad: Tensor, bias_grad: Tensor) -> None:
        self.weight, self.bias, self.weight_grad, self.bias_grad = weight, bias, weight_grad, bias_grad
        self.transposed = weight.t()


def _forward(net: list[_Layer], x: Tensor, hidden: list[Tensor], out: Tensor) -> None:
    """(B, in) to (B, out)."""
    for layer, units in zip(net[:-1], hidden, strict=True):
        x = torch.addmm(layer.bias, x, layer.weight, out=units).relu_()
    torch.addmm(net[-1].bias, x, net[-1].weight, out=out)


def _backward(net: list[_Layer], x: Tensor, hidden: list[Tensor], grad: Tensor, grads: list[Tensor]) -> None:
    """From the gradient of the output (B, out) to those of the parameters."""
    for i in reversed(range(len(net))):
        below = hidden[i - 1] if i else x
        torch.mm(below.t(), grad, out=net[i].weight_grad)
        torch.sum(grad, dim=0, out=net[i].bias_grad)
        if i:
            # For one output an outer product, which mm is slow at.
            times = torch.mul if grad.shape[1] == 1 else torch.mm
            grad = times(grad, net[i].transposed, out=grads[i - 1])
            # ReLU: the gradient passes where the unit was on.
            torch.ops.aten.threshold_backward.grad_input(grad, below, 0, grad_input=grad)


def _to_inputs(net: list[_Layer], hidden: list[Tensor], grads: list[Tensor], inputs: int) -> Tensor:
    """Gradient of the one output with respect to the last ``inputs`` inputs, for given hidden units."""
    grad = net[-1].transposed.expand(len(hidden[0]), -1)
    for i in reversed(range(len(hidden))):
        if i < len(hidden) - 1:
            grad = torch.mm(grad, net[i + 1].transposed, out=grads[i])
        grad = torch.ops.aten.threshold_backward.grad_input(grad, hidden[i], 0, grad_input=grads[i])
    return torch.mm(grad, net[0].transposed[:, -inputs:])


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

    def step(self) -> None:
        """One step along the gradient, by the kernel of torch's fused Adam: its wrappers cost more than the kernel."""
        if self.max_norm < math.inf:
            norm = math.sqrt(torch.dot(self.grad, self.grad).item())
            if norm > self.max_norm:
                self.grad.mul_(self.max_norm / norm)
        self.count += 1
        if self.count % SWEEP == 0:
            self._sweep()
        torch._fused_adam_(
            [self.flat], [self.grad], [self.mean], [self.square], [], [self.count], lr=self.learning_rate, beta1=0.9,
            beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    def _sweep(self) -> None:
        """Set to 0 what has decayed away.

        The moments of a unit that has died shrink until they are subnormal, rounding keeps them there, and a step takes
        ten times as long. At 1e-30 they move no parameter (the denominator is at least 1e-8).
        """
        for moment in (self.mean, self.square):
            moment.masked_fill_(moment.abs() < 1e-30, 0.0)

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
    member_outputs: list[Tensor]
    """The same, (B, out) each."""

    @classmethod
    def allocate(cls, members: int, batch: int, sizes: tuple[int, ...]) -> "_Pass":
        hidden = [[torch.empty(batch, width) for width in sizes[1:-1]] for _ in range(members)]
        grads, gathered = ([torch.empty_like(x) for x in hidden[0]] for _ in range(2))
        outputs = torch.empty(members, batch, sizes[-1])
        return cls(hidden, grads, gathered, outputs, list(outputs))
