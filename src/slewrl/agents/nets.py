"""Multi-layer perceptrons with hand-written forward and backward passes, for small networks on a CPU.

A network here is an *ensemble* of E equal MLPs (E = 1 for an actor, 2 for twin critics) whose parameters lie in one
flat vector: an optimiser step, a gradient norm and a target update are each one operation on one tensor. Buffers are
allocated once, and few, so that they fit the cache. Hidden units have a column of ones beside them, and a layer's bias
is the last row of its weights, so that biases and their gradients are part of a matrix product.
"""

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from slewrl.copying import Copied

SWEEP = 100
"""Steps of Adam between two sweeps of its moments."""
LARGE, NARROW = 2**20, 8
"""oneDNN's matrix product is the faster one from so many multiplications, and from so many columns of the result."""
NORM_EPSILON = 1e-5
"""Added to the variance of a layer norm, as torch does."""


class Ensemble(Copied):
    """E MLPs, all evaluated on the same input.

    Args:
        members: E.
        sizes: widths from input to output, e.g. (29, 256, 256, 1); at least one hidden layer.
        generator: draws the initial weights uniformly in +-1/sqrt(fan_in), as ``torch.nn.Linear`` does.
        activation: "relu", "tanh", or "norm_relu": layer norm without learned scale and shift, then ReLU.
    """

    def __init__(
        self, members: int, sizes: tuple[int, ...], generator: torch.Generator, activation: str = "relu"
    ) -> None:
        self.members, self.sizes, self.activation = members, tuple(sizes), activation
        count = members * sum((i + 1) * o for i, o in pairwise(sizes))
        self.flat, self.grad = torch.empty(count), torch.zeros(count)
        self._join()
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=generator)
            bias.uniform_(-bound, bound, generator=generator)

    def _join(self) -> None:
        self._passes: dict[int, _Pass] = {}
        if hasattr(self, "flat"):  # ``member`` removes it
            self.weights, self.biases = self.views(self.flat)
            self._nets = self._layers(self.flat, self.grad)

    def make_orthogonal(self, gains: tuple[float, ...], generator: torch.Generator) -> None:
        """Initialise the weights orthogonally, times a gain for each layer, and the biases to 0."""
        for weight, bias, gain in zip(self.weights, self.biases, gains, strict=True):
            for matrix in weight:
                torch.nn.init.orthogonal_(matrix, gain, generator)
            bias.zero_()

    def move(self, flat: Tensor, grad: Tensor) -> None:
        """Keep parameters and gradient in these vectors from now on, so that networks can share an optimiser step."""
        self.flat, self.grad = flat.copy_(self.flat), grad
        self._join()

    def target(self) -> "Ensemble":
        """A target network: a copy to update by ``flat.lerp_``; it only runs forward, in the same buffers."""
        twin = self._shared()
        twin.flat = self.flat.clone()
        twin.weights, twin.biases = self.views(twin.flat)
        twin._nets = self._layers(twin.flat, self.grad)
        return twin

    def widened(self, flat: Tensor, at: int, inputs: int) -> Tensor:
        """Parameters of such an ensemble without the ``inputs`` from ``at`` on, as parameters of this one.

        Their weights are 0, so that outputs are the same; ``flat`` itself is returned if it is not of that size.
        """
        fan_out = self.sizes[1]
        if flat.numel() != self.flat.numel() - self.members * inputs * fan_out:
            return flat
        before, after = flat.view(self.members, -1).tensor_split([at * fan_out], -1)
        return torch.cat([before, flat.new_zeros(self.members, inputs * fan_out), after], -1).flatten()

    def member(self, j: int) -> "Ensemble":
        """Member j as an ensemble of one, on the same parameters, with buffers of its own; it only runs forward."""
        one = self._shared()
        one.members, one._passes, one._nets = 1, {}, self._nets[j : j + 1]
        del one.flat, one.grad, one.weights, one.biases  # those of all members
        return one

    def _shared(self) -> "Ensemble":
        """Another ensemble with the very same attributes."""
        twin = Ensemble.__new__(Ensemble)
        vars(twin).update(vars(self))
        return twin

    def views(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Weights (E, in, out) and biases (E, out) per layer, as views into a flat vector."""
        weights, biases, start = [], [], 0
        table = flat.view(self.members, -1)
        for fan_in, fan_out in pairwise(self.sizes):
            middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
            weights.append(table[:, start:middle].view(self.members, fan_in, fan_out))
            biases.append(table[:, middle:end])
            start = end
        return weights, biases

    def _layers(self, flat: Tensor, grad: Tensor) -> list[list["_Layer"]]:
        """The layers of each member, made once since making a view takes microseconds."""
        starts = accumulate(((i + 1) * o for i, o in pairwise(self.sizes)), initial=0)
        layers = list(zip(starts, pairwise(self.sizes), strict=False))
        return [
            [_Layer(*(x[start : start + (i + 1) * o].view(i + 1, o) for x in net)) for start, (i, o) in layers]
            for net in zip(flat.view(self.members, -1), grad.view(self.members, -1), strict=True)
        ]

    def forward(self, x: Tensor, keep: bool = True) -> Tensor:
        """Outputs (E, B, out) for inputs (B, in), in a buffer that the next call with the same B overwrites.

        ``keep`` keeps the hidden units of every member for ``backward``; else members share buffers.
        """
        run = self._pass(x)
        for j, net in enumerate(self._nets):
            _forward(net, x, run.hidden[j if keep else 0], run.member_outputs[j])
        return run.outputs

    def fit(self, x: Tensor, target: Tensor) -> Tensor:
        """Write ``self.grad`` of the squared error to ``target`` (B,), mean over B and summed over members.

        Returns the errors (E, B, 1).
        """
        run, goal, share = self._pass(x), target.unsqueeze(-1), 2 / target.shape[0]
        for net, out in zip(self._nets, run.member_outputs, strict=True):
            _forward(net, x, run.hidden[0], out)
            out.sub_(goal)
            _backward(net, x, run.hidden[0], out * share, run.grads)
        return run.outputs

    def backward(self, x: Tensor, grad: Tensor) -> None:
        """After ``forward(x)``: write ``self.grad`` from d loss / d outputs (E, R, out) of the first R <= B rows."""
        run, rows = self._pass(x), grad.shape[1]
        grads = [to_units[:rows] for to_units in run.grads]
        for j, net in enumerate(self._nets):
            _backward(net, x[:rows], [units.first(rows) for units in run.hidden[j]], grad[j], grads)

    def min_q_and_grad(self, x: Tensor, inputs: int) -> tuple[Tensor, Tensor]:
        """The smallest output (B,) over members, and its gradient by the last ``inputs`` columns of x (B, in).

        The gradient passes through one member in each row, so each member works on its own rows only.
        """
        values, run = self.forward(x).numpy()[..., 0], self._pass(x)
        value, which = torch.from_numpy(values.min(0)), values.argmin(0)
        if self.members == 1:
            return value, _to_inputs(self._nets[0], run.hidden[0], run.grads, inputs)
        grad = torch.empty(x.shape[0], inputs)
        for j, net in enumerate(self._nets):
            rows = torch.from_numpy((which == j).nonzero()[0])
            count = rows.shape[0]
            hidden = [some.first(count) for some in run.gathered]
            for units, some in zip(run.hidden[j], hidden, strict=True):
                units.gather(rows, some)
            grads = [to_units[:count] for to_units in run.grads]
            grad.index_copy_(0, rows, _to_inputs(net, hidden, grads, inputs))
        return value, grad

    def _pass(self, x: Tensor) -> "_Pass":
        batch = x.shape[0]  # len(x) takes three times as long
        if batch not in self._passes:
            self._passes[batch] = _Pass.allocate(self.members, batch, self.sizes, UNITS[self.activation])
        return self._passes[batch]


def as_module(net: Ensemble, outputs: int, bounded: bool = False) -> nn.Sequential:
    """A network with one member as a torch module: its first ``outputs``, through a tanh if ``bounded``."""
    units = nn.Tanh if net.activation == "tanh" else nn.ReLU
    layers: list[nn.Module] = []
    for weight, bias in zip(net.weights, net.biases, strict=True):
        linear = nn.Linear(*weight.shape[1:])
        linear.weight, linear.bias = nn.Parameter(weight[0].t().clone()), nn.Parameter(bias[0].clone())
        layers += [linear, units()]
    linear.weight, linear.bias = nn.Parameter(linear.weight[:outputs]), nn.Parameter(linear.bias[:outputs])
    return nn.Sequential(*layers[:-1], *([nn.Tanh()] if bounded else []))


class _Layer:
    """One layer of one member: weights with the bias below them (in + 1, out), and its gradient."""

    def __init__(self, whole: Tensor, whole_grad: Tensor) -> None:
        self.whole, self.whole_grad = whole, whole_grad
        self.weight, self.bias = whole[:-1], whole[-1]
        self.weight_grad, self.bias_grad = whole_grad[:-1], whole_grad[-1]
        self.transposed = self.weight.t()


class _Units:
    """The ReLU units of one hidden layer, (B, width), with a column of ones beside them.

    Rows are padded with ones to a multiple of 64 bytes; ReLU does not change them.
    """

    def __init__(self, padded: Tensor, width: int) -> None:
        self.padded, self.units, self.table = padded, padded[:, :width], padded[:, : width + 1]
        self.transposed = self.table.t()
        self.sums = self.units
        """(B, width): where the layer below writes its output."""

    @classmethod
    def allocate(cls, batch: int, width: int) -> "_Units":
        return cls(torch.ones(batch, 16 * (width // 16 + 1)), width)

    def first(self, rows: int) -> "_Units":
        """The units of the first rows."""
        return self if rows == self.table.shape[0] else type(self)(self.padded[:rows], self.units.shape[1])

    def activated(self) -> Tensor:
        """Apply ReLU in place; returns (B, width + 1)."""
        self.padded.relu_()
        return self.table

    def back(self, grad: Tensor, out: Tensor) -> Tensor:
        """The gradient (B, width) before ReLU, in ``out``."""
        return torch.ops.aten.threshold_backward.grad_input(grad, self.units, 0, grad_input=out)

    def gather(self, rows: Tensor, into: Any) -> None:
        """Copy what ``back`` reads of these rows."""
        torch.index_select(self.padded, 0, rows, out=into.padded)


class _TanhUnits(_Units):
    """Units with tanh."""

    def activated(self) -> Tensor:
        """Apply tanh in place, but not to the ones."""
        self.units.tanh_()
        return self.table

    def back(self, grad: Tensor, out: Tensor) -> Tensor:
        """The gradient (B, width) before tanh, in ``out``."""
        return torch.ops.aten.tanh_backward.grad_input(grad, self.units, grad_input=out)


class _NormUnits(_Units):
    """Units with layer norm before ReLU: (x - mean) / sqrt(variance + epsilon) over the units of a row."""

    def __init__(self, padded: Tensor, width: int, sums: Tensor | None = None, moments: Tensor | None = None) -> None:
        super().__init__(padded, width)
        rows = padded.shape[0]
        self.sums = torch.empty(rows, width) if sums is None else sums
        self.moments = torch.empty(2, rows, 1) if moments is None else moments
        """Mean and 1 / standard deviation of each row."""
        self.scale, self.shift = torch.ones(width), torch.zeros(width)  # torch's kernel is slower without

    def first(self, rows: int) -> "_NormUnits":
        """The units of the first rows."""
        if rows == self.table.shape[0]:
            return self
        return _NormUnits(self.padded[:rows], self.units.shape[1], self.sums[:rows], self.moments[:, :rows])

    def activated(self) -> Tensor:
        """Apply layer norm and ReLU; returns (B, width + 1)."""
        width = self.sums.shape[1:]
        normal, *moments = torch.native_layer_norm(self.sums, width, self.scale, self.shift, NORM_EPSILON)
        torch.clamp(normal, min=0, out=self.units)
        torch.stack(moments, out=self.moments)
        return self.table

    def back(self, grad: Tensor, out: Tensor) -> Tensor:
        """The gradient (B, width) before layer norm, in ``out``."""
        grad = super().back(grad, out)
        mean, deviation = self.moments
        to_sums = torch.ops.aten.native_layer_norm_backward(
            grad, self.sums, self.sums.shape[1:], mean, deviation, None, None, [True, False, False]
        )[0]
        return out.copy_(to_sums)

    def gather(self, rows: Tensor, into: Any) -> None:
        """Copy what ``back`` reads of these rows."""
        super().gather(rows, into)
        torch.index_select(self.sums, 0, rows, out=into.sums)
        into.moments.copy_(self.moments.index_select(1, rows))


UNITS: dict[str, type[_Units]] = {"relu": _Units, "tanh": _TanhUnits, "norm_relu": _NormUnits}


def _forward(net: list[_Layer], x: Tensor, hidden: list[_Units], out: Tensor) -> None:
    """Write the output (B, out) for x (B, in)."""
    product(x, net[0].weight, hidden[0].sums, net[0].bias)
    for layer, below, units in zip(net[1:-1], hidden, hidden[1:], strict=False):
        product(below.activated(), layer.whole, units.sums)
    product(hidden[-1].activated(), net[-1].whole, out)


def _backward(net: list[_Layer], x: Tensor, hidden: list[_Units], grad: Tensor, grads: list[Tensor]) -> None:
    """Write the gradient of the parameters, from that of the output (B, out)."""
    for layer, below, to_units in reversed(list(zip(net[1:], hidden, grads, strict=True))):
        product(below.transposed, grad, layer.whole_grad)
        # With one output it is an outer product, for which mm is slow.
        one = grad.shape[1] == 1
        grad = torch.mul(grad, layer.transposed, out=to_units) if one else product(grad, layer.transposed, to_units)
        grad = below.back(grad, grad)
    product(x.t(), grad, net[0].weight_grad)
    torch.sum(grad, dim=0, out=net[0].bias_grad)


def _to_inputs(net: list[_Layer], hidden: list[_Units], grads: list[Tensor], inputs: int) -> Tensor:
    """The gradient of the one output by the last ``inputs`` inputs, for given hidden units."""
    grad = net[-1].transposed.expand(grads[-1].shape[0], -1)
    for i in reversed(range(len(hidden))):
        if i < len(hidden) - 1:
            grad = product(grad, net[i + 1].transposed, grads[i])
        grad = hidden[i].back(grad, grads[i])
    return torch.mm(grad, net[0].transposed[:, -inputs:])


def product(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
    """The matrix product of a (m, k) and b (k, n), in ``out`` (m, n), plus a bias (n,)."""
    rows, columns = out.shape
    if ONEDNN is not None and columns >= NARROW and rows * a.shape[1] * columns >= LARGE:
        return out.copy_(ONEDNN(a, b.t(), bias, "none", [], ""))
    return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias, a, b, out=out)


ONEDNN: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch._C._has_mkldnn else None
"""oneDNN's float32 product a b^T, which is faster than MKL's on AMD processors; None if torch lacks it."""


class Adam(Copied):
    """Adam on one flat vector of parameters, with gradient clipping.

    Args:
        flat: the parameters.
        grad: their gradient, which a step may scale.
        learning_rate: learning rate; the betas are Adam's usual ones.
        max_norm: the gradient is clipped to this 2-norm; inf never clips.
        epsilon: added to Adam's denominator.
    """

    def __init__(
        self, flat: Tensor, grad: Tensor, learning_rate: float, max_norm: float = math.inf, epsilon: float = 1e-8
    ) -> None:
        self.flat, self.grad, self.learning_rate, self.max_norm = flat, grad, learning_rate, max_norm
        self.epsilon = epsilon
        self.mean, self.square, self.count = torch.zeros_like(flat), torch.zeros_like(flat), torch.tensor(0.0)

    def step(self) -> None:
        """One step by the kernel of torch's fused Adam, without its slower wrappers."""
        scale = None
        if self.max_norm < math.inf:
            norm = math.sqrt(torch.dot(self.grad, self.grad).item())
            if norm > self.max_norm:
                scale = torch.tensor(norm / self.max_norm)  # what the kernel divides the gradient by
        self.count += 1
        if int(self.count) % SWEEP == 0:
            self._sweep()
        torch._fused_adam_(
            [self.flat], [self.grad], [self.mean], [self.square], [], [self.count], lr=self.learning_rate, beta1=0.9,
            beta2=0.999, weight_decay=0.0, eps=self.epsilon, amsgrad=False, maximize=False, grad_scale=scale,
        )  # fmt: skip

    def _sweep(self) -> None:
        """Set tiny moments to 0: those of a dead unit become subnormal numbers, which make a step ten times slower."""
        for moment in (self.mean, self.square):
            moment.masked_fill_(moment.abs() < 1e-30, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Adam's moments and step count."""
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from where ``state_dict`` was taken."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


@dataclass
class _Pass:
    """The buffers of one forward and backward pass at one batch size B."""

    hidden: list[list[_Units]]
    """Hidden units per member and layer."""
    grads: list[Tensor]
    """Their gradients (B, width) per layer, shared by the members."""
    gathered: list[_Units]
    """Some rows of the hidden units of one member, per layer."""
    outputs: Tensor
    """(E, B, out)"""
    member_outputs: list[Tensor]
    """Views of ``outputs``, (B, out) each."""

    @classmethod
    def allocate(cls, members: int, batch: int, sizes: tuple[int, ...], units: type[_Units]) -> "_Pass":
        widths = sizes[1:-1]
        hidden = [[units.allocate(batch, width) for width in widths] for _ in range(members)]
        gathered = [units.allocate(batch, width) for width in widths]
        outputs = torch.empty(members, batch, sizes[-1])
        return cls(hidden, [torch.empty(batch, width) for width in widths], gathered, outputs, list(outputs))
