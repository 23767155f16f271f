"""Multi-layer perceptrons with hand-written forward and backward passes, into buffers that are allocated once.

A network here is an *ensemble* of E equal MLPs (E = 1 for an actor, 2 for twin critics) whose parameters lie in one
flat vector: an optimiser step, a gradient norm and a target update are each one operation on one tensor. On a CPU,
autograd's bookkeeping and its 256 KB temporaries otherwise take as long as half the matrix products. The buffers are few,
because what does not fit the second-level cache is paid for at every step.
"""

import copy
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class Ensemble:
    """E MLPs with ReLU between layers, evaluated on E inputs of their own or on one they share.

    Args:
        members: E.
        sizes: widths from input to output, e.g. (29, 256, 256, 1).
        generator: draws the initial weights uniformly in +-1/sqrt(fan_in), as ``torch.nn.Linear`` does.
        target_of: begin as a copy of this ensemble, and use its buffers: a target network only ever runs forward.
    """

    def __init__(
        self,
        members: int,
        sizes: tuple[int, ...],
        generator: torch.Generator | None = None,
        target_of: "Ensemble | None" = None,
    ) -> None:
        self.members, self.sizes = members, tuple(sizes)
        count = members * sum((i + 1) * o for i, o in pairwise(sizes))
        self.flat = torch.empty(count)
        self.weights, self.biases = self._views(self.flat)
        if target_of is not None:
            self.flat.copy_(target_of.flat)
            self._passes = target_of._passes
            return
        self.grad = torch.zeros(count)
        self._weight_grads, self._bias_grads = self._views(self.grad)
        self._passes: dict[int, _Pass] = {}
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)

    def target(self) -> "Ensemble":
        """A target network: equal now, to be moved by ``flat.lerp_``."""
        return Ensemble(self.members, self.sizes, target_of=self)

    def member(self, j: int) -> "Ensemble":
        """Member j as an ensemble of one, on the same parameters, with buffers of its own."""
        one = copy.copy(self)
        one.members, one._passes = 1, {}
        one.weights, one.biases = ([x[j : j + 1] for x in part] for part in (self.weights, self.biases))
        return one

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (E, B, out) for inputs (B, in) shared by all members, or (E, B, in).

        The result is a buffer that the next call with the same B overwrites (a target's call, too); so is what
        ``backward`` reads.
        """
        run = self._pass(x.shape[-2])
        run.inputs[0] = x.expand(self.members, -1, -1)
        last = len(self.weights) - 1
        for i, (weight, bias, out) in enumerate(zip(self.weights, self.biases, run.outputs, strict=True)):
            torch.bmm(run.inputs[i], weight, out=out)
            out.add_(bias)
            if i < last:
                out.relu_()
                run.inputs[i + 1] = out
        return run.outputs[-1]

    def backward(self, grad: Tensor, batch: int | None = None, parameters: bool = True, inputs: int = 0) -> Tensor:
        """From d loss / d outputs (E, R, out), write ``self.grad``, return d loss / d the last ``inputs`` columns.

        Args:
            grad: of the first R <= B rows of the last ``forward``; the loss does not depend on the others.
            batch: B, if not R.
            parameters: whether to write ``self.grad``.
            inputs: how many input columns, counted from the last, to return the gradient of, shape (E, R, inputs).
        """
        rows = grad.shape[-2]
        run = self._pass(rows if batch is None else batch)
        for i in reversed(range(len(self.weights))):
            below = run.inputs[i][:, :rows]
            if parameters:
                torch.bmm(below.transpose(1, 2), grad, out=self._weight_grads[i])
                torch.sum(grad, dim=1, keepdim=True, out=self._bias_grads[i])
            if i > 0:
                grad = times_transposed(grad, self.weights[i], run.grads[i][:, :rows])
                # ReLU: the gradient passes where the unit was on.
                torch.ops.aten.threshold_backward.grad_input(grad, below, 0, grad_input=grad)
        return torch.bmm(grad, self.weights[0][:, self.sizes[0] - inputs :].transpose(1, 2))

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


def times_transposed(grad: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """grad (E, R, o) times the transpose of weight (E, i, o); for o = 1 an outer product, which ``bmm`` is slow at."""
    if grad.shape[-1] == 1:
        return torch.mul(grad, weight.transpose(1, 2), out=out)
    return torch.bmm(grad, weight.transpose(1, 2), out=out)


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
    """The buffers of one forward and backward pass at one batch size."""

    outputs: list[Tensor]
    grads: list[Tensor]
    inputs: list[Tensor] = field(default_factory=list)

    @classmethod
    def allocate(cls, members: int, batch: int, sizes: tuple[int, ...]) -> "_Pass":
        buffers = [torch.empty(members, batch, width) for width in sizes[1:]]
        # The gradient of the input is not kept, so the first place is never used.
        grads = [torch.empty(0), *(torch.empty_like(b) for b in buffers[:-1])]
        return cls(buffers, grads, [torch.empty(0)] * (len(sizes) - 1))
