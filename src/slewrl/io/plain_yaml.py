"""YAML files as plain data: of bounded size, without repeated keys, with no tags but those asked for."""

from pathlib import Path
from re import compile as pattern
from typing import Any

import yaml

from slewrl.io.files import check_regular

MAX_ENTRIES = 20_000
"""The most entries of a file, with aliases expanded; limits of a hundred joints have some two thousand."""
SHORT = r"^(?=.{1,40}$)"  # a longer number stays text, which is read as the exact decimal


class TextLoader(yaml.SafeLoader):
    """Loads text, lists and mappings; numbers stay text."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012
    tags: tuple[str, ...] = ()
    """Tags that a subclass has a constructor for."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As PyYAML does, within bounds."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", *self.tags):
            expected = f"expected {' or '.join(self.tags)}" if self.tags else "expected none"
            raise ValueError(f"line {line} has the tag {tag!r}, {expected}")
        node: Any = super().compose_node(parent, index)
        if node not in self._sizes:
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"line {line} has an alias of what it is part of")
            self._sizes[node] = 1 + sum(self._sizes[part] for part in _parts(node))
        if max(self._sizes[node], len(self._sizes)) > MAX_ENTRIES:
            raise ValueError(f"more than {MAX_ENTRIES:,} entries at line {line}, its aliases written out")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """As PyYAML does, but a repeated key is refused."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ValueError(f"{key.value!r} is given twice")
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
        return super().construct_mapping(node, deep)


class UsualLoader(TextLoader):
    """Loads what PyYAML's SafeLoader does, true, false and 100_000 included, within the same bounds."""

    yaml_implicit_resolvers = yaml.SafeLoader.yaml_implicit_resolvers


class PlainLoader(TextLoader):
    """Loads text, lists, mappings, null and decimal numbers: no octal, no 1_0, no 1:30, no yes and no."""


TextLoader.add_implicit_resolver("tag:yaml.org,2002:merge", pattern("^<<$"), ["<"])
for _name, _number in (
    ("null", pattern("^(?:~|null|Null|NULL|)$")),
    ("int", pattern(SHORT + r"[-+]?(?:0|[1-9][0-9]*)$")),
    ("float", pattern(SHORT + r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$")),
    ("float", pattern(r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")),
):
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _number, None)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def load_yaml(path: str | Path, loader: type[TextLoader] = PlainLoader) -> Any:
    """The data in a file, or a ValueError that names the file and what is wrong with it."""
    check_regular(Path(path))
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=loader)  # noqa: S506
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply, expected a few levels") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not readable as YAML ({error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
