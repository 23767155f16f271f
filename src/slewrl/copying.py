"""Copies of objects with state: independent, or refused. Standard library only.

By default a copied view of another attribute is no longer a view, and ``copy.copy`` shares arrays with the original.
"""

import copy
from typing import Any, ClassVar, Self


class Copied:
    """``copy``, ``deepcopy`` and pickling make an independent object with the same state."""

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._join()

    def _join(self) -> None:
        """Make every attribute that is a view of another one anew; called on a copy."""


class Uncopied:
    """Objects that can be neither copied nor pickled."""

    instead: ClassVar[str]
    """What to do instead."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied: {self.instead}")
