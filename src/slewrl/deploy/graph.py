"""A strict reader for a policy's ONNX graph, with numpy alone.

ONNX Runtime loads more than a policy needs: weights from other files, subgraphs, functions, custom operators. This
reader accepts only the protobuf fields and operators in the tables below, each written in one way, so that an accepted
graph means the same here and in ONNX Runtime.
"""

import struct
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slewrl.limits.parse import repeated

OPERATORS = frozenset((
    "Abs", "Add", "And", "Atan", "Cast", "Ceil", "Celu", "Clip", "Concat", "Cos", "Div", "Elu", "Equal", "Erf", "Exp",
    "Floor", "Gather", "Gelu", "Gemm", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf",
    "IsNaN", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "Min",
    "Mish", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceSum", "Relu", "Reshape", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Slice", "Softmax", "Softplus",
    "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze", "Where",
))  # fmt: skip
"""The accepted operators: arithmetic of ONNX's default domain, without control flow."""
TYPES: dict[int, Any] = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}
"""ONNX data type -> dtype of a stored array."""
GROWTH = 1 << 12
"""The largest accepted growth by all Concat nodes together; an export has one Concat, of two or three inputs."""
VALUES = {1: "f", 2: "i", 3: "s", 7: "ints"}
"""Attribute type -> the field that holds its value."""

Message = dict[str, Any]
Fields = dict[int, tuple[str, Any]]
"""Field number -> name, with * if it is repeated, and type: int, float, str, bytes, or the fields of a message."""

_ENTRY: Fields = {1: ("key", str), 2: ("value", str)}
_SHAPE: Fields = {1: ("dim*", {1: ("dim_value", int), 2: ("dim_param", str)})}
_TYPE: Fields = {1: ("tensor_type", {1: ("elem_type", int), 2: ("shape", _SHAPE)})}
_VALUE: Fields = {1: ("name", str), 2: ("type", _TYPE), 3: ("doc_string", str), 4: ("metadata_props*", _ENTRY)}
_TENSOR: Fields = {
    1: ("dims*", int), 2: ("data_type", int), 8: ("name", str), 9: ("raw_data", bytes), 12: ("doc_string", str),
}  # fmt: skip
_ATTRIBUTE: Fields = {
    1: ("name", str), 2: ("f", float), 3: ("i", int), 4: ("s", bytes), 8: ("ints*", int), 13: ("doc_string", str),
    20: ("type", int),
}  # fmt: skip
_NODE: Fields = {
    1: ("input*", str), 2: ("output*", str), 3: ("name", str), 4: ("op_type", str), 5: ("attribute*", _ATTRIBUTE),
    6: ("doc_string", str), 7: ("domain", str), 9: ("metadata_props*", _ENTRY),
}  # fmt: skip
_GRAPH: Fields = {
    1: ("node*", _NODE), 2: ("name", str), 5: ("initializer*", _TENSOR), 10: ("doc_string", str),
    11: ("input*", _VALUE), 12: ("output*", _VALUE), 13: ("value_info*", _VALUE), 16: ("metadata_props*", _ENTRY),
}  # fmt: skip
_MODEL: Fields = {
    1: ("ir_version", int), 2: ("producer_name", str), 3: ("producer_version", str), 4: ("domain", str),
    5: ("model_version", int), 6: ("doc_string", str), 7: ("graph", _GRAPH),
    8: ("opset_import*", {1: ("domain", str), 2: ("version", int)}), 14: ("metadata_props*", _ENTRY),
}  # fmt: skip
_REFUSED = {
    ("model", 20): "a training graph", ("model", 25): "functions of its own",
    ("initializer", 13): "weights in another file, which no digest here covers",
    ("initializer", 14): "weights in another file, which no digest here covers",
    ("graph", 15): "sparse weights", ("attribute", 5): "a tensor as an attribute", ("attribute", 6): "a subgraph",
    ("attribute", 11): "subgraphs",
}  # fmt: skip
"""Descriptions of some refused fields, for messages."""


class Node(NamedTuple):
    """One operation of a graph."""

    op_type: str
    name: str
    input: tuple[str, ...]
    output: tuple[str, ...]
    attributes: dict[str, Any]


class Graph(NamedTuple):
    """A graph: its operations and its stored arrays."""

    nodes: tuple[Node, ...]
    """The operations, in the file's order."""
    stored: dict[str, NDArray[Any]]
    """The stored arrays by name, read-only."""


def read_graph(data: bytes) -> Graph:
    """Read the graph of an ONNX model.

    Raises:
        ValueError: the data are not an ONNX model, or have something that ``export`` does not write.
    """
    if data[4:8] == b"ORTM":
        raise ValueError("ONNX Runtime would read it in its own ORT format, expected an ONNX model")
    model = _message(memoryview(data), _MODEL, "model")
    imported = [entry.get("domain", "") for entry in model["opset_import"]]
    if imported != [""]:
        raise ValueError(f"it imports the operators of {imported}, expected those of ONNX itself, ['']")
    if "graph" not in model:
        raise ValueError("it has no graph")
    stored = _unique([(tensor.get("name", ""), _array(tensor)) for tensor in model["graph"]["initializer"]], "array")
    nodes = tuple(map(_node, model["graph"]["node"]))
    growth = prod(max(1, len(node.input)) for node in nodes if node.op_type == "Concat")
    if growth > GROWTH:
        size = f"{growth:,}" if growth < 1 << 64 else "countless"
        raise ValueError(f"its Concats may join {size} times what they are given, expected at most {GROWTH:,} times")
    return Graph(nodes, stored)


def _node(found: Message) -> Node:
    kind, domain = found.get("op_type", ""), found.get("domain", "")
    if domain or kind not in OPERATORS:
        name = f"{domain}.{kind}" if domain else kind
        raise ValueError(
            f"it has the operator {name[:60]!r}, which no export writes: expected arithmetic, such as Gemm"
        )
    attributes = _unique([(entry.get("name", ""), _value(entry)) for entry in found["attribute"]], "attribute")
    return Node(kind, found.get("name", ""), tuple(found["input"]), tuple(found["output"]), attributes)


def _value(attribute: Message) -> Any:
    key = VALUES.get(attribute.get("type", 0))
    given = {name for name in VALUES.values() if attribute.get(name, []) != []}
    if key is None or given - {key} or (not given and key != "ints"):
        raise ValueError(f"its attribute {attribute.get('name')!r} has {given} and type {attribute.get('type')}")
    return attribute[key]


def _array(tensor: Message) -> NDArray[Any]:
    dtype, shape, raw = TYPES.get(tensor.get("data_type", 0)), tensor["dims"], tensor.get("raw_data", b"")
    if dtype is None or min(shape, default=0) < 0 or prod(shape) * np.dtype(dtype).itemsize != len(raw):
        raise ValueError(
            f"its array {tensor.get('name')!r} has {len(raw)} bytes, type {tensor.get('data_type')} and shape "
            f"{shape[:8]}, which do not fit each other"
        )
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def _unique(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    if twice := repeated(name for name, _ in pairs):
        raise ValueError(f"it has {what} {twice[0][:60]!r} twice")
    return dict(pairs)


def _message(data: memoryview, fields: Fields, what: str) -> Message:
    """Read all fields of a message; repeated ones are lists."""
    found: Message = {name[:-1]: [] for name, _ in fields.values() if name.endswith("*")}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number not in fields:
            holds = _REFUSED.get((what, number), f"field {number} of ONNX's")
            raise ValueError(f"its {what} keeps {holds}, which no export writes")
        name, kind = fields[number]
        value, at = _field(data, at, wire, kind, name.rstrip("*"))
        if name.endswith("*"):
            found[name[:-1]].append(value)
        elif name in found:
            raise ValueError(f"its {what} has {name!r} twice")
        else:
            found[name] = value
    return found


def _field(data: memoryview, at: int, wire: int, kind: Any, name: str) -> tuple[Any, int]:
    """Read a value; return it with the position of the next field."""
    if wire != (0 if kind is int else 5 if kind is float else 2):
        raise ValueError(f"its {name!r} is written in another way than expected (wire type {wire})")
    if kind is int:
        value, at = _varint(data, at)
        return value - (value >> 63 << 64), at
    size, at = (4, at) if kind is float else _varint(data, at)
    if size > len(data) - at:
        raise ValueError("it is cut off")
    part, at = data[at : at + size], at + size
    if kind is float:
        return struct.unpack("<f", part)[0], at
    if kind is bytes:
        return bytes(part), at
    return (str(part, "utf-8") if kind is str else _message(part, kind, name)), at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits in its shortest form; return it with the position after it."""
    value = 0
    for count, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            if (count and not byte) or value >> 64:
                raise ValueError("it writes a number in another way than protobuf does")
            return value, at + count + 1
    raise ValueError("it is cut off, or no ONNX model")
