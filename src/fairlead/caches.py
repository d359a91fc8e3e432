"""Caches whose memory is bounded, whatever strangers send.

`functools.lru_cache` bounds how many answers are kept and not how large their keys are. What a client may send is
bounded in megabytes, so a cache of a thousand texts could be made to hold gigabytes: texts that nobody would write are
computed each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, ItemsView, ValuesView
from contextlib import suppress
from functools import lru_cache, wraps
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

#: The longest text that is worth a place, where a cache does not say otherwise.
LONGEST: Final = 512

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Text = TypeVar("Text", str, bytes)


def bounded_cache(
    maxsize: int, longest: int = LONGEST
) -> Callable[[Callable[Concatenate[Text, P], T]], Callable[Concatenate[Text, P], T]]:
    """Like `lru_cache(maxsize)` on a function of a text (and little else); longer texts are not kept."""

    def decorate(function: Callable[Concatenate[Text, P], T]) -> Callable[Concatenate[Text, P], T]:
        cached = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def answer(text: Text, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if len(text) > longest:
                return function(text, *args, **kwargs)
            return cached(text, *args, **kwargs)  # type: ignore[arg-type]  # texts and flags can be hashed

        return answer

    return decorate


class LruCache(Generic[K, T]):
    """A dictionary that forgets what was not used for longest. Whoever puts something in bounds its size.

    Several threads may use it: objects that take long are judged beside the event loop.
    """

    def __init__(self, maxsize: int) -> None:
        #: May be changed; what is too much goes when something is put in.
        self.maxsize = maxsize
        self._items: OrderedDict[K, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def get(self, key: K) -> T | None:
        found = self._items.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread may just have put something in its place
                self._items.move_to_end(key)
        return found

    def put(self, key: K, value: T) -> None:
        self._items[key] = value
        with suppress(KeyError):
            self._items.move_to_end(key)
            while len(self._items) > self.maxsize:
                self._items.popitem(last=False)

    def clear(self) -> None:
        self._items.clear()

    def items(self) -> ItemsView[K, T]:
        return self._items.items()

    def values(self) -> ValuesView[T]:
        return self._items.values()
