"""The part of google-re2 that Fairlead uses."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T", str, bytes)

class error(Exception): ...

class Options:
    max_mem: int
    log_errors: bool
    never_capture: bool

class _Regexp(Generic[_T]):
    @property
    def programsize(self) -> int: ...
    def search(self, text: _T) -> Any | None: ...
    def finditer(self, text: _T) -> Iterator[Any]: ...

def compile(pattern: str, options: Options | None = None) -> _Regexp[str]: ...
