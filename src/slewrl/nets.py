"""Multi-layer perceptrons with hand-written forward and backward passes, into buffers that are allocated once.

A network here is an *ensemble* of E equal MLPs (E = 1 for an actor, 2 for twin critics) whose parameters lie in one
flat vector: an optimiser step, a gradient norm and a target update are each one operation on one tensor. On a CPU,
autograd's bookkeeping and its 256 KB temporaries otherwise take as long as half the matrix products.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor


class Ensemble:
    """E MLPs with ReLU between layers, evaluated on E inputs of their own or on one they share.

    Args:
        members: E.
        sizes: widths from input to output, e.g. (29, 256, 256, 1).
        generator: draws the initial weights uniformly in +-1/sqrt(fan_in), as ``torch.nn.Linear`` does.
    """

    def __init__(self, members: int, sizes: tuple[int, ...], generator: torch.Generator) -> None:
        self.members, self.sizes = members, tuple(sizes)
        count = members * sum((i + 1) * o for i, o in pairwise(sizes))
        self.flat, self.grad = torch.empty(count), torch.zeros(count)
        self.weights, self.biases = self._views(self.flat)
        self._weight_grads, self._bias_grads = self._views(self.grad)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)
        self._passes: dict[int, _Pass] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (E, B, out) for inputs (B, in) shared by all members, or (E, B, in).

        The result is a buffer that the next call with the same B overwrites; so is what ``backward`` reads.
        """
        run = self._pass(x.shape[-2])
        x = x.expand(self.members, -1, -1)
        run.inputs[0] = x
        last = len(self.weights) - 1
        for i, (weight, bias, out) in enumerate(zip(self.weights, self.biases, run.outputs, strict=True)):
            torch.baddbmm(bias, run.inputs[i], weight, out=out)
            if i < last:
                out.relu_()
                run.inputs[i + 1] = out
        return run.outputs[-1]

    def backward(self, grad: Tensor, parameters: bool = True, inputs: bool = False) -> Tensor | None:
        """From d loss / d outputs (E, B, out): write ``self.grad`` and/or return d loss / d inputs (E, B, in)."""
        run = self._pass(grad.shape[-2])
        for i in reversed(range(len(self.weights))):
            if parameters:
                torch.bmm(run.inputs[i].transpose(1, 2), grad, out=self._weight_grads[i])
                torch.sum(grad, dim=1, keepdim=True, out=self._bias_grads[i])
            if i == 0 and not inputs:
                return None
            torch.bmm(grad, self.weights[i].transpose(1, 2), out=run.grads[i])
            grad = run.grads[i]
            if i > 0:
                # ReLU: the gradient passes where the unit was on.
                torch.ops.aten.threshold_backward.grad_input(grad, run.inputs[i], 0, grad_input=grad)
        return grad

    def _pass(self, batch: int) -> "_Pass":
        if batch not in self._passes:
            self._passes[batch] = _Pass.allocate(self.members, batch, self.sizes)
        return self._passes[batch]

    def _views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Weights (E, in, out) and biases (E, 1, out) as views into a flat vector."""
        weights, biases, start = [], [], 0
        for fan_in, fan_out in pairwise(self.sizes):
            weight, bias = self.members * fan_in * fan_out, self.members * fan_out
            weights.append(flat[start : start + weight].view(self.members, fan_in, fan_out))
            biases.append(flat[start + weight : start + weight + bias].view(self.members, 1, fan_out))
            start += weight + bias
        return weights, biases


class Adam:
    """Adam on an ensemble's flat parameters, after clipping the gradient's norm.

    Args:
        net: whose ``grad`` a step reads and whose ``flat`` it moves.
        learning_rate: of Adam, with its usual betas.
        max_norm: the gradient is scaled down to this 2-norm where it is longer.
    """

    def __init__(self, net: Ensemble, learning_rate: float, max_norm: float) -> None:
        self.parameter = torch.nn.Parameter(net.flat)
        self.parameter.grad = net.grad
        self.max_norm = max_norm
        self.optimizer = torch.optim.Adam([self.parameter], lr=learning_rate, fused=True)

    def step(self) -> None:
        """One step along the gradient the last ``backward`` wrote."""
        torch.nn.utils.clip_grad_norm_([self.parameter], self.max_norm)
        self.optimizer.step()


@dataclass
class _Pass:
    """The buffers of one forward and backward pass at one batch size."""

    outputs: list[Tensor]
    grads: list[Tensor]
    inputs: list[Tensor] = field(default_factory=list)

    @classmethod
    def allocate(cls, members: int, batch: int, sizes: tuple[int, ...]) -> "_Pass":
        buffers = [torch.empty(members, batch, width) for width in sizes]
        return cls(buffers[1:], [torch.empty_like(b) for b in buffers[:-1]], [buffers[0]] * (len(sizes) - 1))
