"""What may be wrong with an expression, when it is compiled and when it is evaluated."""

from __future__ import annotations

from typing import ClassVar, Final

#: How many errors of one expression are told.
MOST_ERRORS: Final = 100
#: A longer line is not shown with an error about it.
_LONGEST_LINE: Final = 1000


class CelError(Exception):
    """An evaluation has no value; says why."""


class TooCostlyError(CelError):
    """An evaluation takes more than it may: nothing goes on after this."""


class CompileError(Exception):
    """An expression cannot be compiled. `str` of it is as cel-go prints it, with the source and a mark below it."""

    #: What did not work, as Kubernetes' messages call it.
    step: ClassVar[str] = "compilation failed"

    def __init__(self, source: str, found: list[tuple[int, str]]) -> None:
        in_order = sorted(found, key=lambda entry: entry[0])
        told = [_shown(source, at, text) for at, text in in_order[:MOST_ERRORS]]
        if len(found) > MOST_ERRORS:
            told.append(f"{len(found) - MOST_ERRORS} more errors were truncated")
        super().__init__("\n".join(told))


class ProgramError(CompileError):
    """An expression is sound, and cannot be evaluated whatever the variables are: a constant part has no value."""

    step = "program instantiation failed"

    def __init__(self, why: CelError) -> None:
        Exception.__init__(self, str(why))


def _shown(source: str, at: int, text: str) -> str:
    before = source[:at]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    snippet = source.split("\n")[line - 1]
    told = f"ERROR: <input>:{line}:{column + 1}: {text}"
    return told if len(snippet) > _LONGEST_LINE else f"{told}\n | {snippet}\n | {'.' * column}^"
