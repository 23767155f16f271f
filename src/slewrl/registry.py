"""Registries of names whose objects are imported on access; "package.module:Attribute" works as a name, too."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class Registry(Mapping[str, Any]):
    """A mapping from names to the objects at "package.module:Attribute" paths; ``kind`` is their noun in messages."""

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
        """The names."""
        return f"{self.kind}s: {', '.join(self)}"

    def _unknown(self, name: str) -> str:
        unknown = f"unknown {self.kind} {name!r}.{did_you_mean(name, self)}"
        return f"{unknown} Known: {', '.join(self)}; or a path 'package.module:Class'"


def option_names(kind: Any) -> list[str]:
    """The fields of a dataclass that a user may set; a layer's density has an argument of its own."""
    return [field.name for field in dataclasses.fields(kind) if field.init and field.name != "density"]


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """A question to end a message with, after a space; "" if no known name is like ``name``."""
    close = get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f" Did you mean {close[0]!r}?" if close else ""


def _split(path: str) -> tuple[str, str]:
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ValueError(f"{path!r} is not a path of the form 'package.module:Attribute'")
    return module, attribute
