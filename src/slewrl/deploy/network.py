"""Reads the network of a bundle's graph as a list of steps, for the C export and for rebuilding it in torch."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.deploy.bundle import Bundle
from slewrl.deploy.graph import Node, read_graph
from slewrl.errors import UserFacingError

Floats = NDArray[np.float32]
Stored = dict[str, NDArray[Any]]


def joined_inputs(bundle: Bundle) -> list[str]:
    """The inputs of the graph in the order in which the network takes them."""
    velocity = [] if bundle.limits.acceleration is None else ["previous_velocity"]
    return ["observation", *velocity, "previous_action"]


class Dense(NamedTuple):
    """A linear layer: weight x + bias, with weights (outputs, inputs) and biases (outputs,)."""

    weight: Floats
    bias: Floats


class Normalize(NamedTuple):
    """Normalisation of the inputs, (x - shift) scale, with shift 0 and scale 1 for the previous action."""

    shift: Floats
    scale: Floats


class Clamp(NamedTuple):
    """A clip of the inputs to [low, high], which never binds for the previous action."""

    low: Floats
    high: Floats


class LayerNorm(NamedTuple):
    """Layer normalisation: weight (x - mean) / sqrt(variance + epsilon) + bias."""

    weight: Floats
    bias: Floats
    epsilon: float


class Activation(NamedTuple):
    """An elementwise activation: "relu", "tanh", or "silu", which is x / (1 + exp(-x))."""

    name: str


Step = Dense | Normalize | Clamp | LayerNorm | Activation


def read_network(bundle: Bundle) -> list[Step]:
    """Read the steps from (observation, previous action) to the latent, before its tanh bound, if it has one.

    Raises:
        UserFacingError: the graph has an unsupported operation; the message names it.
    """
    nodes, stored = read_graph(bundle.onnx)
    inputs = joined_inputs(bundle)
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.input:
            users.setdefault(name, []).append(node)
    joined = [node.output[0] for node in nodes if node.op_type == "Concat" and list(node.input) == inputs]
    products = sum(node.op_type in ("Gemm", "MatMul") for node in nodes)
    if len(joined) != 1 or not products:
        raise UserFacingError(f"the policy has {products} linear layers on {' and '.join(inputs)}, expected a network")
    steps: list[Step] = []
    value = joined[0]
    while sum(isinstance(step, Dense) for step in steps) < products:
        step, value = _step(value, users, stored)
        steps.append(step)
    d = len(bundle.limits.names)
    _check(steps, bundle.observation_size + (len(inputs) - 1) * d, d)
    return steps


def _step(value: str, users: dict[str, list[Node]], stored: Stored) -> tuple[Step, str]:
    """Read the step that uses ``value``, and the name of its output."""
    nodes = {node.op_type: node for node in users.get(value, [])}
    kinds = sorted(node.op_type for node in users.get(value, []))
    if kinds == ["Gemm"]:
        return _dense(nodes["Gemm"], stored), nodes["Gemm"].output[0]
    if kinds in (["Relu"], ["Tanh"]):
        return Activation(kinds[0].lower()), nodes[kinds[0]].output[0]
    if kinds == ["Mul", "Sigmoid"] and set(nodes["Mul"].input) == {value, nodes["Sigmoid"].output[0]}:
        return Activation("silu"), nodes["Mul"].output[0]
    if kinds == ["LayerNormalization"]:
        return _layer_norm(nodes["LayerNormalization"], stored), nodes["LayerNormalization"].output[0]
    pairs: dict[str, tuple[str, Any]] = {"Sub": ("Mul", Normalize), "Max": ("Min", Clamp)}
    if len(kinds) == 1 and kinds[0] in pairs:
        second, made = pairs[kinds[0]]
        first, after = nodes[kinds[0]], users.get(nodes[kinds[0]].output[0], [])
        if [node.op_type for node in after] == [second]:
            return made(*_arrays(first, stored, 1), *_arrays(after[0], stored, 1)), after[0].output[0]
    raise UserFacingError(
        f"the policy has {' and '.join(kinds) or 'nothing'} after {value!r}, expected a network of linear layers with "
        "ReLU, SiLU, tanh, LayerNorm and a normalised observation"
    )


def _dense(node: Node, stored: Stored) -> Dense:
    weight, *bias = _arrays(node, stored, 2)
    options = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **node.attributes}
    if (options["alpha"], options["beta"], options["transA"]) != (1, 1, 0):
        raise UserFacingError(f"the policy has a {node.op_type} that is no plain linear layer: {node.name}")
    weight = weight if options["transB"] else weight.T
    return Dense(weight, *(bias or [np.zeros(len(weight), np.float32)]))  # the exporter omits a bias of 0


def _layer_norm(node: Node, stored: Stored) -> LayerNorm:
    axis, (weight, *bias) = node.attributes.get("axis", -1), _arrays(node, stored, 2)
    if axis not in (-1, 1):
        raise UserFacingError(f"the policy has a LayerNormalization over axis {axis}, expected 1, the last")
    offset = bias[0] if bias else np.zeros_like(weight)
    return LayerNorm(weight, offset, float(node.attributes.get("epsilon", 1e-5)))


def _arrays(node: Node, stored: Stored, most: int) -> list[Floats]:
    """The stored arrays among a node's inputs after the first: one to ``most`` of them."""
    names = list(node.input)[1:]
    if not 1 <= len(names) <= most or not set(names) <= set(stored):
        raise UserFacingError(
            f"the policy has a {node.op_type} of {list(node.input)}, expected stored arrays as its other inputs"
        )
    return [stored[name].astype(np.float32) for name in names]


def _check(steps: list[Step], inputs: int, outputs: int) -> None:
    """Refuse inconsistent sizes, and weights that are not finite."""
    width = inputs
    for step in steps:
        arrays = [part for part in step if isinstance(part, np.ndarray)]
        if not all(np.isfinite(array).all() for array in arrays):
            raise UserFacingError("the policy has weights that are NaN or infinite")
        expected = [(len(step.bias), width), (len(step.bias),)] if isinstance(step, Dense) else [(width,)] * len(arrays)
        shapes = [array.shape for array in arrays]
        if shapes != expected:
            raise UserFacingError(f"the policy has weights {shapes} for {width} values, expected {expected}")
        width = len(step.bias) if isinstance(step, Dense) else width
    if width != outputs:
        raise UserFacingError(f"the policy ends in {width} outputs, expected {outputs}")
