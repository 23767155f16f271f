"""Joins lemmas: asks z3 whether they imply, together, what a user wants to know of a step.

To z3 a float is here a real number or NaN, and an infinity is a number of at least 2^1024 in magnitude, so that
comparisons are those of IEEE 754. Of sums and differences it knows what the lemmas say: ``exact(a - b)`` is that the
definition ``a - b`` has no rounding error, and ``below(a + b)`` is a float that is not above the sum, and not below any
other float of which that is true. In the claim that is to follow, + and - are those of real numbers.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slewrl.prove.program import Expression, expression, names_in
from slewrl.prove.smt import BOOLEANS, Numbers, Statement, Writer

INFINITY = f"(define-fun INFINITY () Real {2**1024})"


@dataclass(frozen=True)
class Join:
    """That ``claim`` follows from lemmas of one program, whenever all ``needs`` hold."""

    lemmas: tuple[Statement, ...]
    claim: str
    needs: tuple[str, ...]
    numbers: Numbers = "reals"

    def refutation(self) -> str:
        """The text that is satisfiable if and only if the lemmas do not imply the claim."""
        return JoinWriter(self.lemmas).joined([*self.needs, f"not ({self.claim})"])

    def premises(self) -> str:
        """The text that is satisfiable unless lemmas and needs contradict one another."""
        return JoinWriter(self.lemmas).joined(self.needs)


class JoinWriter(Writer):
    """Writes lemmas as implications between floats of which nothing else is known."""

    def __init__(self, lemmas: Sequence[Statement]) -> None:
        constants = dict(part for lemma in lemmas for part in lemma.constants)
        super().__init__(Statement(lemmas[0].program, "", constants=tuple(constants.items()), numbers="reals"))
        self.lemmas = lemmas
        self.defined = {self.program.written(name): name for name in self.program.definitions}
        """Expression -> the name it defines."""
        self.rounded: dict[str, str] = {}
        """A sum that is rounded down or up -> the name of the result."""

    def joined(self, asserted: Sequence[str]) -> str:
        """The whole text: the floats, the lemmas, the assertions, and what it means to be rounded."""
        wanted = [expression(text) for text in asserted]
        lemmas = [([_said(need) for need in lemma.needs], _said(lemma.claim)) for lemma in self.lemmas]
        nodes = [*wanted, *(node for needs, claim in lemmas for node in (*needs, claim))]
        self.lines = ["(set-logic QF_NRA)", INFINITY]
        floats = self._declare_all(sorted(set().union(*(self._names(node) for node in nodes))))
        texts = [f"(=> (and true {' '.join(map(self.term, needs))}) {self.term(claim)})" for needs, claim in lemmas]
        texts += [self.term(node) for node in [*self._negations(), *wanted]]
        for total, name in self.rounded.items():
            texts += self._rounding(expression(total), name, floats)
        return "\n".join([*self.lines, *(f"(assert {text})" for text in texts)]) + "\n"

    # ------------------------------------------------------------------ names

    def _names(self, node: Expression) -> set[str]:
        """The names in a claim, and those of the definitions that it says to be exact."""
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        return names_in(node) | {self._result(call).id for call in calls if _function(call) == "exact"}

    def _result(self, call: ast.Call) -> ast.Name:
        """The name of what ``exact(a - b)`` speaks of."""
        return ast.Name(self.defined[ast.unparse(call.args[0])])

    def _declare_all(self, names: Sequence[str]) -> list[str]:
        """Declare names, and return those of floats that are not constants."""
        floats = []
        for name in names:
            kind = self.program.definitions.get(name)
            self.truths[name] = name in BOOLEANS or isinstance(kind, ast.BoolOp | ast.Compare)
            if name in self.constants:
                self._declare(name)
            elif self.truths[name]:
                self.lines.append(f"(declare-const {name} Bool)")
            else:
                self._declare_float(name)
                floats.append(name)
        return floats

    def _negations(self) -> Iterator[Expression]:
        """The definitions that change a sign, which is exact."""
        for name, node in self.program.definitions.items():
            if name in self.truths and isinstance(node, ast.UnaryOp):
                yield expression(f"{name} == {ast.unparse(node)}")

    def _declare_float(self, name: str) -> None:
        finite = f"(and (not nan_{name}) (< (- INFINITY) {name} INFINITY))"
        self.lines += [f"(declare-const {name} Real)", f"(declare-const nan_{name} Bool)"]
        self.lines += [f"(define-fun finite_{name} () Bool {finite})"]

    def _floats(self, node: Expression) -> list[str]:
        """The floats that an expression is of."""
        if isinstance(node, ast.Call) and _function(node) in ("below", "above"):
            return [self.rounded[ast.unparse(node)]]
        if isinstance(node, ast.Call):
            return self._floats(node.args[0])
        if isinstance(node, ast.Name):
            return [] if node.id in self.constants else [node.id]
        parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return [name for part in parts for name in self._floats(part)]

    # ------------------------------------------------------------------ claims

    def _finite(self, node: Expression) -> str:
        return f"(and true {' '.join(f'finite_{name}' for name in self._floats(node))})"

    def _rounding(self, total: Expression, name: str, floats: Sequence[str]) -> Iterator[str]:
        """What it means that ``name`` is a sum rounded down, or up: it is the nearest float on that side."""
        assert isinstance(total, ast.Call)
        exactly, usable = self.term(total.args[0]), self._finite(total.args[0])
        sign = "<=" if _function(total) == "below" else ">="
        yield f"(=> {usable} (and (not nan_{name}) ({sign} {name} {exactly})))"
        for x in floats:
            yield f"(=> (and {usable} finite_{x} ({sign} {x} {exactly})) ({sign} {x} {name}))"

    def compared(self, left: Expression, op: ast.cmpop, right: Expression) -> str:
        """A comparison as IEEE has it: NaN is neither less than, nor equal to, anything."""
        if self.is_truth(left):
            return super().compared(left, op, right)
        if isinstance(op, ast.NotEq):
            return f"(not {self.compared(left, ast.Eq(), right)})"
        text = super().compared(left, op, right)
        numbers = (f"(not nan_{name})" for name in [*self._floats(left), *self._floats(right)])
        return f"(and {' '.join(numbers)} {text})"

    def called(self, name: str, arguments: list[Expression]) -> str:
        """A function of claims."""
        call = ast.Call(ast.Name(name), arguments, [])
        if name == "finite":
            return self._finite(arguments[0])
        if name == "exact":
            result = self._result(call)
            same = f"(= {result.id} {self.term(arguments[0])})"
            return f"(and {self._finite(arguments[0])} {self._finite(result)} {same})"
        if name in ("below", "above"):
            return self._named(ast.unparse(call), name)
        if name != "abs":
            raise ValueError(f"there is no {name} in claims of several lemmas")
        return super().called(name, arguments)

    def _named(self, rounded: str, name: str) -> str:
        if rounded not in self.rounded:
            self.rounded[rounded] = f"{name}_{len(self.rounded)}"
            self._declare_float(self.rounded[rounded])
        return self.rounded[rounded]


def _said(text: str) -> Expression:
    """Parse a claim or need of a lemma, where a sum that is not said to be exact or rounded down or up is rounded."""
    node = expression(text)
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    usable = [call.args[0] for call in calls if _function(call) in ("below", "above", "exact")]
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and part not in usable:
            raise ValueError(f"{ast.unparse(part)!r} is rounded in a lemma, expected below(), above() or exact() of it")
    return node


def _function(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""
