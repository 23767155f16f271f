"""Code that a file names by a dotted path runs only if the user trusts it (docs/trust.md).

What users name themselves, on the command line or in Python, needs no more than that.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from slewrl.errors import UserFacingError, shortened

SIMULATED = ("mjlab:", "isaaclab:")
"""Prefixes of the tasks of another simulator."""


class UntrustedCodeError(UserFacingError):
    """A file names code that the user did not trust; the message says what would have run."""


def code_named(task: str = "", layer: str = "", agent: str = "") -> list[str]:
    """Descriptions of the code, other than slewrl's own, that a run with these names would import."""
    found = [
        f"{kind} {shortened(name, 80)} (imports {_module(name)})"
        for kind, name in (("layer", layer), ("agent", agent))
        if ":" in name
    ]
    bare = task
    for prefix in SIMULATED:
        bare = bare.removeprefix(prefix)
    if ":" in bare and not task.startswith("robot:"):
        found.append(f"task {shortened(task, 80)} (Gymnasium imports {_module(bare)})")
    return found


def require_trust(named: Iterable[str], source: Path | str, trust: bool) -> None:
    """Raise an UntrustedCodeError if the file or folder ``source`` names code, unless ``trust`` is set."""
    named = list(dict.fromkeys(named))
    if not named:
        return
    if not trust:
        raise UntrustedCodeError(
            f"{source} names code that would run on this machine: {', '.join(named[:5])}"
            f"{f' and {len(named) - 5} more' if len(named) > 5 else ''}; pass --trust (in Python: trust=True) if you "
            "trust whoever made it (docs/trust.md)"
        )
    allow_modules_here()


def allow_modules_here() -> None:
    """Let modules be imported from the current folder, last, so that they hide nothing that is installed.

    Only for code that the user has named or trusts: that folder may be somebody else's.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def _module(path: str) -> str:
    return shortened(path.partition(":")[0], 80).strip("'\"")
