"""Checks on the fields of a config: ``learning_rate: Annotated[float, POSITIVE] = 1e-3``."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints


class Check(NamedTuple):
    """What a field's value must be."""

    passes: Callable[[Any], bool]
    expected: str
    """The condition in words, for the message."""


def is_number(value: Any) -> bool:
    """Whether a value is an int or a float, and neither a bool nor NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def at_least(minimum: int) -> Check:
    """A whole number of at least ``minimum``."""
    return Check(lambda value: type(value) is int and value >= minimum, f"a whole number of at least {minimum}")


def one_of(*choices: str) -> Check:
    """One of these strings."""
    return Check(lambda value: value in choices, " or ".join(map(repr, choices)))


def or_none(check: Check) -> Check:
    """None, or what another check accepts."""
    return check._replace(passes=lambda value: value is None or check.passes(value))


def _numbers(value: Any, count: int) -> bool:
    return isinstance(value, tuple) and len(value) == count and all(map(is_number, value))


def _are_widths(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(type(n) is int and n > 0 for n in value)


POSITIVE = Check(lambda value: is_number(value) and value > 0, "a number > 0")
SHARE = Check(lambda value: is_number(value) and 0 <= value <= 1, "a number in [0, 1]")
NOT_NEGATIVE = Check(lambda value: is_number(value) and 0 <= value < math.inf, "a finite number >= 0")
FINITE = Check(lambda value: is_number(value) and math.isfinite(value), "a finite number")
COUNT = at_least(1)
SWITCH = Check(lambda value: isinstance(value, bool), "true or false")
WIDTHS = Check(_are_widths, "widths such as (256, 256)")
RANGE = Check(lambda value: _numbers(value, 2) and value[0] < value[1], "(low, high) with low < high")
BETAS = Check(lambda value: _numbers(value, 2) and all(0 <= beta < 1 for beta in value), "two numbers in [0, 1)")

NETWORK = "network"
"""Marks a field that decides the shape of the networks: weights fit only where it is the same."""


def network_fields(kind: type) -> list[str]:
    """The fields of a config that are marked ``NETWORK``."""
    hints = get_type_hints(kind, include_extras=True)
    return [name for name, hint in hints.items() if NETWORK in getattr(hint, "__metadata__", ())]


class Checked:
    """The base of a config dataclass: it refuses a value that does not pass the check of its field."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            for check in getattr(hint, "__metadata__", ()):
                if isinstance(check, Check) and not check.passes(value):
                    raise ValueError(f"{name} is {value!r}, expected {check.expected}")
