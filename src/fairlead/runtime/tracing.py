"""Which steps of a request took how long, told to whoever traces it. Where nobody does, a step costs a look.

What a span is and where it goes is the business of those who begin one for a request; the parts that take its steps
know only their names.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol


class Span(Protocol):
    """Something that takes time, and is traced."""

    def child(self, name: str) -> Span:
        """A step of it, which begins now."""
        ...

    def end(self, error: BaseException | None = None) -> None: ...


_current: Final[ContextVar[Span | None]] = ContextVar("span", default=None)
_UNTRACED: Final[AbstractContextManager[None]] = nullcontext()


class Entered:
    """A span while the block runs: what begins in it is a step of it."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        self._token = _current.set(self._span)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        _current.reset(self._token)
        self._span.end(error)


def step(name: str) -> AbstractContextManager[None]:
    """A step of what is traced at this moment, if anything is."""
    span = _current.get()
    return _UNTRACED if span is None else Entered(span.child(name))
