"""Names to classes, imported only when asked for; any dotted path "package.module:Attribute" works as a name."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class Registry(Mapping[str, Any]):
    """A mapping from short names to "package.module:Attribute" strings that resolves on access.

    Args:
        kind: what the entries are, for messages ("layer").
        entries: name -> dotted path.
    """

    def __init__(self, kind: str, entries: dict[str, str]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def register(self, name: str, path: str) -> None:
        """Add a name for "package.module:Attribute"; refuses one that is taken by another path."""
        if self._entries.get(name, path) != path:
            raise ValueError(f"{self.kind} {name!r} is already {self._entries[name]!r}")
        _split(path)
        self._entries[name] = path

    def __getitem__(self, name: str) -> Any:
        """The object behind a name or a dotted path; KeyError lists what exists."""
        path = self._entries.get(name, name)
        if ":" not in path:
            raise KeyError(self._unknown(name))
        module, attribute = _split(path)
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise KeyError(f"{self.kind} {name!r}: cannot load {path!r} ({error})") from error

    def __iter__(self) -> Iterator[str]:
        """The short names."""
        return iter(self._entries)

    def __len__(self) -> int:
        """How many short names there are."""
        return len(self._entries)

    def __repr__(self) -> str:
        """The names, since that is what a person prints it for."""
        return f"{self.kind}s: {', '.join(self)}"

    def _unknown(self, name: str) -> str:
        said = f"unknown {self.kind} {name!r}.{did_you_mean(name, self)}"
        return f"{said} Known: {', '.join(self)}; or a path 'package.module:Class'"


def option_names(kind: Any) -> list[str]:
    """What a user may set of a dataclass; a layer's density has an argument of its own."""
    return [field.name for field in dataclasses.fields(kind) if field.init and field.name != "density"]


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """A question for the end of a message, with a blank before it; "" if nothing known is like ``name``."""
    close = get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f" Did you mean {close[0]!r}?" if close else ""


def _split(path: str) -> tuple[str, str]:
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ValueError(f"{path!r} is not a path of the form 'package.module:Attribute'")
    return module, attribute
