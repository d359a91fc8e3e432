"""`ChangeError`: a change that cannot be read or carried out, with the place where it is written."""

from __future__ import annotations

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where a step is written: a file and a line, or an option of the command line."""

    name: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}, line {self.line}" if self.line else self.name


class ChangeError(ValueError):
    def __init__(self, origin: Origin, problem: str) -> None:
        super().__init__(f"{origin}: {problem}")
        self.origin, self.problem = origin, problem

    def __reduce__(self) -> tuple[type[ChangeError], tuple[Origin, str]]:  # it comes out of processes of its own
        return ChangeError, (self.origin, self.problem)
