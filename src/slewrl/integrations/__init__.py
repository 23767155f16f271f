"""Adapters to other frameworks and simulators. Each module needs its framework only when it is imported or used."""

from typing import Any

MODEL_VERSION = 2
"""The version of the description that a model of `sb3.py` carries for export."""


def full_name(kind: Any) -> str:
    """The full name of a class, with its module; the repr of anything else."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else repr(kind)
