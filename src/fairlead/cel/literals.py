"""What is wrong with constant parts of an expression, found when it is written and not when somebody depends on it.

A duration, a time or a pattern that is written out and is none is an error of the expression (cel-go's AST validators).
Of other conversions and patterns cel-go finds out when it makes a program (its optimisations). Both need no variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fairlead.cel.errors import CelError
from fairlead.cel.functions.regex import compiled
from fairlead.cel.functions.table import OVERLOADS
from fairlead.cel.syntax import Call, Literal, Node, walked
from fairlead.cel.types import accepts
from fairlead.golang.patterns import fit_together

_CONVERSIONS: Final = (*("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),)
_MATCHING: Final = ("matches", "find", "findAll")


def faults(node: Node) -> Iterator[tuple[int, str]]:
    """What makes an expression of sound types unsound, each with its place."""
    calls = [call for call in walked(node) if isinstance(call, Call)]
    if not fit_together(pattern for call in calls if (pattern := _pattern(call)) is not None):
        yield node.at, "patterns are too large together"
        return
    for call in calls:
        literal = call.arguments[0] if call.arguments else None
        if isinstance(literal, Literal) and _is_bad(call, literal.value):
            yield literal.at, f"invalid {call.function} argument"


def check_constants(node: Node) -> None:
    """Raises CelError for a constant part that has no value."""
    for call in reversed(list(walked(node))):
        if not isinstance(call, Call):
            continue
        if (pattern := _pattern(call)) is not None:
            compiled(pattern)
        elif call.function in _CONVERSIONS and call.target is None and len(call.arguments) == 1:
            (argument,) = call.arguments
            if isinstance(argument, Literal):
                _converted(call.function, argument.value)


def _is_bad(call: Call, value: Any) -> bool:
    try:
        if call.function in ("duration", "timestamp") and call.target is None:
            _converted(call.function, value)
        elif call.function == "matches" and isinstance(value, str):
            compiled(value)
    except CelError:
        return True
    return False


def _converted(function: str, value: Any) -> None:
    for overload in OVERLOADS[function]:
        if accepts(overload.parameters[0], value):
            overload.call(value)
            return


def _pattern(call: Call) -> str | None:
    """The pattern of a call, if it is written out."""
    if call.function not in _MATCHING:
        return None
    parts = call.arguments if call.target is None else (call.target, *call.arguments)
    if len(parts) > 1 and isinstance(parts[1], Literal) and isinstance(parts[1].value, str):
        return parts[1].value
    return None
