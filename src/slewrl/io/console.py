"""What commands print to: every string is shown as it is, and only what is handed over as styled has a style.

Names of folders, joints and tasks are a user's, and ``[/]`` in one must neither vanish nor end the program, as it would
where rich looks for markup. So no other module makes a console of rich's.
"""

from typing import Any

import rich.console
from rich.text import Text


class Console(rich.console.Console):
    """A rich console that looks for neither markup nor emoji codes in strings."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does; a line with a styled part, which is a path or a command, is not broken: it is to be copied."""
        options.setdefault("soft_wrap", any(isinstance(part, Text) for part in objects))
        super().print(*objects, **options)


def bold(what: object) -> Text:
    """Part of a line, in bold."""
    return Text(str(what), style="bold")
