"""An overload: one function for arguments of certain types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from fairlead.cel.types import Type

#: What a call costs beside the one unit that every call does, of its arguments.
Cost = Callable[..., int]


class Overload(msgspec.Struct, frozen=True):
    """A function of arguments; those of a method begin with its target."""

    function: str
    parameters: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    is_method: bool = False
    cost: Cost | None = None
    #: Whether `call` gets its second argument as a function of nothing, to be called if it is needed.
    is_lazy: bool = False
    #: Given a second argument that is written out: the call of the first, and what that costs.
    prepare: Callable[[Any], tuple[Callable[[Any], Any], Cost]] | None = None


def methods(
    target: Type, *rows: tuple[str, Sequence[Type], Type, Callable[..., Any]], cost: Cost | None = None
) -> Iterable[Overload]:
    """Methods of one type, as (name, further parameters, result, call)."""
    for name, parameters, result, call in rows:
        yield Overload(name, (target, *parameters), result, call, True, cost)


def functions(
    *rows: tuple[str, Sequence[Type], Type, Callable[..., Any]], cost: Cost | None = None
) -> Iterable[Overload]:
    """Functions that are no methods, as (name, parameters, result, call)."""
    for name, parameters, result, call in rows:
        yield Overload(name, tuple(parameters), result, call, False, cost)
