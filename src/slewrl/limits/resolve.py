"""Limits as a user writes them: RateLimits, a file, the name of a preset, or numbers. Read here, whoever takes them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slewrl.io.files import is_yaml
from slewrl.limits.parse import Values

if TYPE_CHECKING:
    from slewrl.limits.rate_limits import RateLimits


def named_preset(text: str) -> "RateLimits":
    """The preset "TASK:PRESET", such as "G1:paper"."""
    from slewrl.limits.presets import preset

    task, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"limits are {text!r}, expected TASK:PRESET such as 'G1:paper', or a limits.yaml")
    return preset(task, name)


def no_numbers(given: Any) -> "RateLimits":
    """Refuses numbers, where nobody knows the range of the joints they are for."""
    raise ValueError(f"limits are {given!r}, expected RateLimits, a limits.yaml, or TASK:PRESET such as 'G1:paper'")


def resolve_limits(
    given: "RateLimits | str | Path | Values",
    preset: "Callable[[str], RateLimits]" = named_preset,
    numbers: "Callable[[Values], RateLimits]" = no_numbers,
    said: str = "limits",
) -> "RateLimits":
    """The limits a user means.

    Args:
        given: RateLimits; a limits.yaml; the name of a preset; or numbers.
        preset: what a name stands for.
        numbers: what to make of numbers.
        said: where the user wrote it, for messages.

    Raises:
        FileNotFoundError: a name that ends in .yaml, and no such file.
        ValueError: a file with another ending, or one that does not hold limits.
    """
    from slewrl.limits.rate_limits import RateLimits

    if isinstance(given, RateLimits):
        return given
    if not isinstance(given, str | Path):
        return numbers(given)
    if is_yaml(given):
        if not Path(given).exists():
            raise FileNotFoundError(f"{said}: there is no file {str(given)!r} (slewrl limits writes one)")
        return RateLimits.from_yaml(given)
    if Path(given).is_file():
        raise ValueError(f"{said} is the file {str(given)!r}, expected a name that ends in .yaml, or a preset")
    return preset(str(given))
