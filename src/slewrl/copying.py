"""What a copy of an object with state is: an object of its own with the same state, or refused in plain words.

Left alone, numpy and torch copy each array for itself, so that a view of another attribute is copied into an array that
nothing writes to any more, and ``copy.copy`` shares every array with the original. Standard library only.
"""

import copy
from typing import Any, ClassVar, Self


class Copied:
    """``copy``, ``deepcopy`` and what sends an object to another process make one of its own, with the same state."""

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._join()

    def _join(self) -> None:
        """Make anew every attribute that is a view of another one; called on a copy."""


class Uncopied:
    """Cannot be copied, nor sent to another process."""

    instead: ClassVar[str]
    """What to do instead."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied: {self.instead}")
