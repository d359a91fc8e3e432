"""Answers about short texts, remembered.

`lru_cache` bounds how many answers are kept and not how large their keys are. What a client may send is bounded in
megabytes, so a cache of a thousand texts could be made to hold gigabytes: texts that nobody would write are computed
each time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

#: The longest text that is worth a place.
LONGEST = 512

P = ParamSpec("P")
T = TypeVar("T")


def remembered(
    maxsize: int,
) -> Callable[[Callable[Concatenate[str, P], T]], Callable[Concatenate[str, P], T]]:
    """Like `lru_cache(maxsize)` on a function of a text (and little else); long texts are not kept."""

    def decorate(function: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
        known = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def answer(text: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if len(text) > LONGEST:
                return function(text, *args, **kwargs)
            return known(text, *args, **kwargs)  # type: ignore[arg-type]  # texts and flags can be hashed

        return answer

    return decorate
