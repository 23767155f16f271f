"""Program: a few lines of arithmetic that can be computed in floats and written out for a solver.

A program is text in Python's own syntax, one definition per line, each over inputs and earlier definitions:

    sum = prev + rise
    top = next_down(sum) if error < 0 else sum

Names that are not defined are its inputs. There are + - * / and comparisons, ``a if c else b``, and, or, not, and the
functions in ``FUNCTIONS``. Each operation is one rounded operation of the format, in the order written. min and max are
those of the C code, ``a if a < b else b``.
"""

import ast
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Expression = ast.expr
FUNCTIONS = {
    "min": 2, "max": 2, "abs": 1, "next_down": 1, "next_up": 1, "next_to_zero": 1, "floor": 1, "ceil": 1, "rint": 1,
    "sqrt": 1,
}  # fmt: skip
"""Function -> number of arguments."""


class Program:
    """Named definitions, in order.

    Args:
        text: one ``name = expression`` per line; lines that begin with # and empty ones are skipped.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip() + "\n"
        self.definitions: dict[str, Expression] = {}
        for line in ast.parse(self.text).body:
            if not (isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name)):
                raise ValueError(f"{ast.unparse(line)!r} is no definition, expected name = expression")
            self.definitions[line.targets[0].id] = line.value

    def edited(self, before: str, after: str) -> "Program":
        """The program with one piece of its text replaced, such as a mutant of it."""
        if self.text.count(before) != 1:
            raise ValueError(f"{before!r} is there {self.text.count(before)} times, expected once")
        return Program(self.text.replace(before, after))

    def needed(self, expressions: Iterable[Expression], given: Iterable[str] = ()) -> tuple[list[str], list[str]]:
        """The definitions that expressions depend on, in order, and their inputs; ``given`` ones count as inputs."""
        wanted = set().union(*(names_in(expression) for expression in expressions))
        for name in reversed(self.definitions):
            if name in wanted and name not in set(given):
                wanted |= names_in(self.definitions[name])
        inputs = [name for name in sorted(wanted) if name not in self.definitions or name in set(given)]
        return [name for name in self.definitions if name in wanted and name not in set(given)], inputs

    def written(self, name: str) -> str:
        """The expression that a name is defined by."""
        return ast.unparse(self.definitions[name])

    def compute(self, wanted: str, values: Mapping[str, Any]) -> Any:
        """The value of a definition, in the floats of ``values``: numpy arrays of one dtype, and booleans."""
        found = dict(values)
        with np.errstate(all="ignore"):
            for name in self.needed([self.definitions[wanted]], values)[0]:
                found[name] = computed(self.definitions[name], found)
            return computed(self.definitions[wanted], found)


def expression(text: str) -> Expression:
    """Parse one expression."""
    return ast.parse(text, mode="eval").body


def names_in(node: Expression) -> set[str]:
    """The names in an expression, without those of functions."""
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in called}


def computed(node: Expression, values: Mapping[str, Any]) -> Any:  # noqa: PLR0911 (one per kind of expression)
    """Compute an expression in numpy, element by element."""
    match node:
        case ast.Name():
            return values[node.id]
        case ast.Constant():
            return node.value
        case ast.BinOp():
            left, right = computed(node.left, values), computed(node.right, values)
            return BINARY[type(node.op)](left, right)
        case ast.UnaryOp():
            inner = computed(node.operand, values)
            return np.logical_not(inner) if isinstance(node.op, ast.Not) else np.negative(inner)
        case ast.Compare(ops=[op], comparators=[other]):
            return COMPARISONS[type(op)](computed(node.left, values), computed(other, values))
        case ast.BoolOp():
            parts = [computed(part, values) for part in node.values]
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return join.reduce(np.broadcast_arrays(*parts)) if len(parts) > 1 else parts[0]
        case ast.IfExp():
            return np.where(*(computed(part, values) for part in (node.test, node.body, node.orelse)))
        case ast.Call(func=ast.Name(id=name)):
            return CALLS[name](*(computed(part, values) for part in node.args))
    raise ValueError(f"{ast.unparse(node)!r} is not part of the language")


BINARY: dict[type[ast.operator], Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip


def _towards(x: Any, end: float) -> Any:
    return np.nextafter(x, np.asarray(end, np.asarray(x).dtype))


CALLS: dict[str, Any] = {
    "min": lambda a, b: np.where(np.less(a, b), a, b),
    "max": lambda a, b: np.where(np.greater(a, b), a, b),
    "abs": np.abs,
    "next_down": lambda x: _towards(x, -np.inf),
    "next_up": lambda x: _towards(x, np.inf),
    "next_to_zero": lambda x: _towards(x, 0.0),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "sqrt": np.sqrt,
}
