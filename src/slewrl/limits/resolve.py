"""Resolves limits as a user writes them (RateLimits, a file, the name of a preset, or numbers) to RateLimits."""

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
    """Refuse numbers, where the range of the joints is not known."""
    raise ValueError(f"limits are {given!r}, expected RateLimits, a limits.yaml, or TASK:PRESET such as 'G1:paper'")


def resolve_limits(
    given: "RateLimits | str | Path | Values",
    preset: "Callable[[str], RateLimits]" = named_preset,
    numbers: "Callable[[Values], RateLimits]" = no_numbers,
    said: str = "limits",
) -> "RateLimits":
    """The limits that a user means by ``given``.

    Args:
        given: RateLimits; a limits.yaml; the name of a preset; or numbers.
        preset: reads a preset by name.
        numbers: makes limits of numbers.
        said: the name of the option or argument, for messages.

    Raises:
        FileNotFoundError: the name ends in .yaml, and there is no such file.
        ValueError: the file has another ending, or does not hold limits.
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
