"""Tests that are coroutines: each is given a world of its own, in virtual time, and its other parameters by pytest."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

Test = Callable[..., Awaitable[None]]


def played(play: Callable[..., None], *args: Any, **settings: Any) -> Callable[[Test], Callable[..., None]]:
    """`play(act, *args, **settings)` makes a world and gives it to `act`: here the test, as its first parameter."""

    def decorate(test: Test) -> Callable[..., None]:
        @wraps(test)
        def run(**given: Any) -> None:
            play(lambda world: test(world, **given), *args, **settings)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]  # where pytest looks for it
            parameters=list(signature.parameters.values())[1:]
        )
        return run

    return decorate
