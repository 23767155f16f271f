"""Looks names up in the package's source without importing it: integrations need libraries that may not be there."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def exists(symbol: str) -> bool:
    """Whether "slewrl.limits:RateLimits.box" names something that is written there."""
    module, _, name = symbol.partition(":")
    if (body := body_of(module)) is None:
        return False
    first, _, attribute = name.partition(".")
    found = [node for node, names in statements(body) if first in names]
    if not attribute:
        return bool(found)
    return any(attribute in names for node in found for _, names in statements(getattr(node, "body", [])))


def dotted_exists(path: str) -> bool:
    """The same of "slewrl.limits.RateLimits", or of a module "slewrl.paper.theory"."""
    if body_of(path) is not None:
        return True
    parts = path.split(".")
    return any(exists(f"{'.'.join(parts[:i])}:{'.'.join(parts[i:])}") for i in range(1, len(parts)))


@cache
def body_of(module: str) -> list[ast.stmt] | None:
    """The statements of a module of ours."""
    place = ROOT / "src" / Path(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.exists():
            return ast.parse(path.read_text(encoding="utf-8")).body
    return None


def statements(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, set[str]]]:
    """Statements and the names they define, those in a top-level ``if`` or ``try`` included."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from statements([*node.body, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, {node.name}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield node, {target.id for target in targets if isinstance(target, ast.Name)}


@cache
def names_of_tests(file: str) -> set[str]:
    """The names of the tests in a file of tests/."""
    path = ROOT / file
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
