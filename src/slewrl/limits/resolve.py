"""Resolves limits as a user writes them (RateLimits, a file, the name of a preset, or numbers) to RateLimits."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from slewrl.io.files import is_yaml
from slewrl.limits.parse import Values

if TYPE_CHECKING:
    from slewrl.limits.rate_limits import RateLimits


def resolve_limits(
    given: "RateLimits | str | Path | Values",
    preset: "Callable[[str], RateLimits] | None" = None,
    numbers: "Callable[[Values], RateLimits] | None" = None,
    label: str = "limits",
) -> "RateLimits":
    """The limits that a user means by ``given``.

    Args:
        given: RateLimits; a limits.yaml; the name of a preset; or numbers.
        preset: reads a preset by name; default: "TASK:PRESET" such as "G1:paper".
        numbers: makes limits of numbers, if the range of the joints is known.
        label: the name of the option or argument, for messages.

    Raises:
        FileNotFoundError: the name ends in .yaml, and there is no such file.
        ValueError: the file has another ending, or does not hold limits.
    """
    from slewrl.limits.rate_limits import RateLimits

    if isinstance(given, RateLimits):
        return given
    if not isinstance(given, str | Path):
        if numbers is None:
            known = "RateLimits, a limits.yaml, or TASK:PRESET such as 'G1:paper'"
            raise ValueError(f"limits are {given!r}, expected {known}")
        return numbers(given)
    if is_yaml(given):
        if not Path(given).exists():
            raise FileNotFoundError(f"{label}: there is no file {str(given)!r} (slewrl limits writes one)")
        return RateLimits.from_yaml(given)
    if Path(given).is_file():
        raise ValueError(f"{label} is the file {str(given)!r}, expected a name that ends in .yaml, or a preset")
    if preset is not None:
        return preset(str(given))
    task, colon, name = str(given).partition(":")
    if not colon:
        raise ValueError(f"limits are {given!r}, expected TASK:PRESET such as 'G1:paper', or a limits.yaml")
    return RateLimits.preset(task, name)
