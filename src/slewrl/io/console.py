"""The console that commands print to; rich's own would take ``[/]`` in a user's path for markup."""

from collections.abc import Collection
from typing import Any

import rich.console
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


class Console(rich.console.Console):
    """A rich console that prints strings as they are: without markup and emoji codes."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does, but a line with a styled part, a path or a command to be copied, is not wrapped."""
        options.setdefault("soft_wrap", any(isinstance(part, Text) for part in objects))
        super().print(*objects, **options)

    def detail(self, line: str) -> None:
        """Print an indented line without highlighting."""
        self.print(f"  {line}", highlight=False)


def bold(what: object) -> Text:
    """A part of a line in bold."""
    return Text(str(what), style="bold")


def number_table(*columns: str, title: str | None = None, text: Collection[str] = ()) -> Table:
    """An empty table; its columns are of numbers, aligned to the right, but for those in ``text``."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="left" if column in text else "right")
    return table
