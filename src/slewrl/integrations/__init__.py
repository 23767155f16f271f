"""Other people's simulators, used from here. Each module imports its simulator only when worlds of it are made."""

from typing import Any

MODEL_VERSION = 2
"""Of what a model of `sb3.py` says of itself, for export."""


def full_name(kind: Any) -> str:
    """Of a class, with its module, so that nobody else's class passes for it; of anything else, its repr."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else repr(kind)
