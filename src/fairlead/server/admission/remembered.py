"""What was made of stored objects, as long as they are stored so: nothing is decoded or compiled at every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from fairlead.api.encoded import Encoded
from fairlead.caches import LruCache

T = TypeVar("T")
_MOST: Final = 1024


class Remembered(Generic[T]):
    """What a function makes of stored objects."""

    def __init__(self, make: Callable[[Encoded], T]) -> None:
        self._make = make
        #: By identity: a changed object is another one. It is held here, so that its identity stays its own.
        self._known: LruCache[int, tuple[Encoded, T]] = LruCache(_MOST)

    def of(self, entry: Encoded) -> T:
        """What it makes of this object."""
        known = self._known.get(id(entry))
        if known is None:
            known = entry, self._make(entry)
            self._known.put(id(entry), known)
        return known[1]
