"""Writes programs and claims out in SMT-LIB, the language of solvers: as IEEE floats, integers or real numbers.

Claims may say more than programs: ``below(a + b)`` and ``above(a + b)`` are the sum rounded down and up, which are the
largest float that is not above the exact sum, and the smallest that is not below it. So ``x <= below(a + b)`` says that
x <= a + b in exact arithmetic. ``exact(a - b)`` says that both are the same finite number, ``finite(x)`` what it says,
and other functions, such as ``travel(v)``, stand for any function of the integers.
"""

import ast
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slewrl.prove.program import FUNCTIONS, Expression, Program, expression

Numbers = Literal["float64", "float32", "float16", "integers", "reals"]
WIDTHS: dict[str, tuple[int, int]] = {"float64": (11, 53), "float32": (8, 24), "float16": (5, 11)}
"""Bits of the exponent and of the significand, its hidden one included."""
BOOLEANS = frozenset({"inside"})
"""Inputs that are true or false."""
CLAIMS = ("below", "above", "exact", "finite")
OPERATIONS = {ast.Add: ("add", "+"), ast.Sub: ("sub", "-"), ast.Mult: ("mul", "*"), ast.Div: ("div", "/")}
COMPARISONS = {ast.Lt: ("lt", "<"), ast.LtE: ("leq", "<="), ast.Gt: ("gt", ">"), ast.GtE: ("geq", ">=")}


@dataclass(frozen=True)
class Statement:
    """What is asked of a solver: that ``claim`` holds whenever all ``needs`` do."""

    program: Program
    claim: str
    needs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    """Definitions that are any number that meets the needs, not what the program says."""
    constants: tuple[tuple[str, float], ...] = ()
    numbers: Numbers = "float64"

    def refutation(self) -> str:
        """The text that is satisfiable if and only if the claim is false for some numbers."""
        return Writer(self).written(f"not ({self.claim})")

    def premises(self) -> str:
        """The text that is satisfiable unless the needs contradict one another."""
        return Writer(self).written(None)


class Writer:
    """Writes one statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement, self.program = statement, statement.program
        self.constants = dict(statement.constants)
        self.floats = WIDTHS.get(statement.numbers)
        self.lines: list[str] = []
        self.bits = 0
        self.truths: dict[str, bool] = {}
        """Name -> whether it is a truth value."""

    def written(self, more: str | None) -> str:
        """The whole text: declarations, definitions, the needs, and one more assertion."""
        asserted = [expression(text) for text in (*self.statement.needs, *([] if more is None else [more]))]
        definitions, inputs = self.program.needed(asserted, self.statement.given)
        logic = {"integers": "QF_UFLIA", "reals": "QF_LRA"}.get(self.statement.numbers, "QF_BVFP")
        self.lines = [f"(set-logic {logic})"]
        for name in inputs:
            self._declare(name)
        for name in sorted({part for node in asserted for part in functions_in(node)}):
            self.lines.append(f"(declare-fun {name} ({self.sort}) {self.sort})")
        for name in definitions:
            node = self.program.definitions[name]
            text, truth = self.term(node), self.is_truth(node)
            self.truths[name] = truth
            self.lines.append(f"(define-fun {name} () {'Bool' if truth else self.sort} {text})")
        for node in asserted:
            text = self.term(node)
            self.lines.append(f"(assert {text})")
        return "\n".join(self.lines) + "\n"

    @property
    def sort(self) -> str:
        """The sort of numbers."""
        if self.floats:
            return f"(_ FloatingPoint {self.floats[0]} {self.floats[1]})"
        return "Int" if self.statement.numbers == "integers" else "Real"

    def _declare(self, name: str) -> None:
        self.truths[name] = name in BOOLEANS
        if name in self.constants:
            self.lines.append(f"(define-fun {name} () {self.sort} {self.number(self.constants[name])})")
        else:
            self.lines.append(f"(declare-const {name} {'Bool' if self.truths[name] else self.sort})")

    def number(self, value: float) -> str:
        """A number, exact to the bit."""
        if self.floats:
            exponent, significand = self.floats
            bits = f"{pattern(value, self.statement.numbers):0{exponent + significand}b}"
            return f"(fp #b{bits[0]} #b{bits[1 : exponent + 1]} #b{bits[exponent + 1 :]})"
        if value != int(value):
            raise ValueError(f"{value} is no whole number")
        return str(int(value)) if value >= 0 else f"(- {-int(value)})"

    def is_truth(self, node: Expression) -> bool:
        """Whether an expression is a truth value rather than a number."""
        match node:
            case ast.Name():
                return self.truths[node.id]
            case ast.IfExp():
                return self.is_truth(node.body)
            case ast.UnaryOp():
                return isinstance(node.op, ast.Not)
            case ast.Call(func=ast.Name(id=name)):
                return name in ("exact", "finite")
        return isinstance(node, ast.Compare | ast.BoolOp)

    def term(self, node: Expression) -> str:  # noqa: PLR0911 (one per kind of expression)
        """An expression in SMT-LIB."""
        match node:
            case ast.Name():
                return node.id
            case ast.Constant():
                return self.number(float(node.value))  # type: ignore[arg-type]
            case ast.BinOp():
                return self.operation(node, "RNE")
            case ast.UnaryOp(op=ast.Not()):
                return f"(not {self.term(node.operand)})"
            case ast.UnaryOp():
                return f"({'fp.neg' if self.floats else '-'} {self.term(node.operand)})"
            case ast.BoolOp():
                word = "and" if isinstance(node.op, ast.And) else "or"
                return f"({word} {' '.join(self.term(part) for part in node.values)})"
            case ast.IfExp():
                return f"(ite {self.term(node.test)} {self.term(node.body)} {self.term(node.orelse)})"
            case ast.Compare(ops=[op], comparators=[other]):
                return self.compared(node.left, op, other)
            case ast.Call(func=ast.Name(id=name)):
                return self.called(name, node.args)
        raise ValueError(f"{ast.unparse(node)!r} is not part of the language")

    def operation(self, node: Expression, rounding: str) -> str:
        """A sum, difference, product or quotient, rounded as said."""
        if not isinstance(node, ast.BinOp):
            raise ValueError(f"{ast.unparse(node)!r} is no operation, expected one such as a + b")
        named, sign = OPERATIONS[type(node.op)]
        how = f"fp.{named} {rounding}" if self.floats else sign
        return f"({how} {self.term(node.left)} {self.term(node.right)})"

    def compared(self, left: Expression, op: ast.cmpop, right: Expression) -> str:
        """A comparison; of floats as IEEE says, so that NaN equals nothing and 0 equals -0."""
        a, b = self.term(left), self.term(right)
        if isinstance(op, ast.Eq | ast.NotEq):
            equal = f"({'=' if self.is_truth(left) or not self.floats else 'fp.eq'} {a} {b})"
            return equal if isinstance(op, ast.Eq) else f"(not {equal})"
        named, sign = COMPARISONS[type(op)]
        return f"({f'fp.{named}' if self.floats else sign} {a} {b})"

    def called(self, name: str, arguments: list[Expression]) -> str:
        """A function of the language, or of claims."""
        if name in ("below", "above", "exact"):
            down, up = (self.operation(arguments[0], mode) for mode in ("RTN", "RTP"))
            return {"below": down, "above": up, "exact": f"(and (fp.eq {down} {up}) (not (fp.isInfinite {down})))"}[
                name
            ]
        parts = [self.term(argument) for argument in arguments]
        if name == "finite":
            return f"(not (or (fp.isNaN {parts[0]}) (fp.isInfinite {parts[0]})))"
        if name not in FUNCTIONS:
            return f"({name} {' '.join(parts)})"
        if name in ("min", "max"):
            less = ("fp.lt", "fp.gt") if self.floats else ("<", ">")
            return f"(ite ({less[name == 'max']} {' '.join(parts)}) {parts[0]} {parts[1]})"
        if name == "abs":
            return f"(fp.abs {parts[0]})" if self.floats else f"(ite (< {parts[0]} 0) (- {parts[0]}) {parts[0]})"
        if name.startswith("next_") and self.floats:
            return self.neighbour(parts[0], name)
        raise ValueError(f"there is no {name} among {self.statement.numbers}")

    def neighbour(self, x: str, name: str) -> str:
        """The float beside x, as C's nextafter has it, by its bits as an integer."""
        assert self.floats is not None
        width, self.bits = sum(self.floats), self.bits + 1
        bits, as_float = f"bits{self.bits}", f"(_ to_fp {self.floats[0]} {self.floats[1]})"
        self.lines.append(f"(declare-const {bits} (_ BitVec {width}))")
        self.lines.append(f"(assert (= ({as_float} {bits}) {x}))")
        further, nearer = (f"({as_float} ({op} {bits} (_ bv1 {width})))" for op in ("bvadd", "bvsub"))
        if name == "next_to_zero":
            return f"(ite (or (fp.isNaN {x}) (fp.isZero {x})) {x} {nearer})"
        down = name == "next_down"
        least = f"({as_float} (concat {'#b1' if down else '#b0'} (_ bv1 {width - 1})))"
        ahead, behind = ("fp.isNegative", "fp.isPositive") if down else ("fp.isPositive", "fp.isNegative")
        end = f"(or (fp.isNaN {x}) (and (fp.isInfinite {x}) ({ahead} {x})))"
        return f"(ite {end} {x} (ite (fp.isZero {x}) {least} (ite ({behind} {x}) {nearer} {further})))"


def functions_in(node: Expression) -> Iterable[str]:
    """The functions in an expression that are neither of programs nor of claims."""
    for part in ast.walk(node):
        known = (*FUNCTIONS, *CLAIMS)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id not in known:
            yield part.func.id


def pattern(value: float, numbers: str) -> int:
    """The bits of a float as an integer; a value that the format does not hold is refused."""
    with np.errstate(over="ignore"):
        held = np.dtype(numbers).type(value)
    if float(held) != value and value == value:
        raise ValueError(f"{value} is no {numbers}")
    return int(held.view(f"u{held.itemsize}"))


def from_pattern(bits: str, numbers: str) -> float:
    """The float of a string of zeros and ones."""
    if numbers == "float64":
        return float(struct.unpack(">d", int(bits, 2).to_bytes(8, "big"))[0])
    dtype = np.dtype(numbers)
    return float(np.array(int(bits, 2), f"u{dtype.itemsize}").view(dtype))


def known_as(values: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Constants as a statement has them."""
    return tuple(sorted(values.items()))
