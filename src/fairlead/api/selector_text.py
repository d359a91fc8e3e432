"""The text form of label selectors, as in a query: `a=b,c!=d,e in (x,y),!f,g>1`.

Grammar and messages are those of k8s.io/apimachinery 1.36, pkg/labels/selector.go.
"""

from __future__ import annotations

import re
from typing import Final

from fairlead.api import names
from fairlead.api.selectors import (
    SET_OPERATORS,
    UNARY_OPERATORS,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    requirement,
)
from fairlead.caches import bounded_cache
from fairlead.golang.quoting import go_quote

_BINARY_TEXT: Final = ", ".join(operator for operator in Operator if operator not in UNARY_OPERATORS)


@bounded_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """The selector a text stands for; the empty text selects everything."""
    return Selector.of(_Parser(text).requirements())


_TOKEN: Final = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_END: Final = ""
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", _END})
_SYMBOL_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def _is_word(token: str) -> bool:
    return token not in _SYMBOLS


class _Parser:
    """Recursive descent over the tokens; `in` and `notin` are words wherever no operator is expected."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._position = 0

    def _next(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]

    @property
    def _ahead(self) -> str:
        return self._tokens[self._position]

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._ahead == _END:
            return found
        if not _is_word(self._ahead) and self._ahead != "!":
            raise SelectorError(f"found '{self._ahead}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error.message}") from None
            token = self._next()
            if token == _END:
                return found
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if not _is_word(self._ahead) and self._ahead != "!":
                raise SelectorError(f"found '{self._ahead}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        is_negated = self._ahead == "!"
        if is_negated:
            self._next()
        key = self._next()
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if wrong := names.qualified_name(key):
            # Upstream prints the path of this error, which it does not know.
            raise SelectorError(f"<nil>: Invalid value: {go_quote(key)}: {'; '.join(wrong)}")
        if is_negated:
            return Requirement(key, Operator.DOES_NOT_EXIST)
        if self._ahead in (_END, ","):
            return Requirement(key, Operator.EXISTS)
        token = self._next()
        operator = _SYMBOL_OPERATORS.get(token)
        if operator is None:
            raise SelectorError(f"found '{token}', expected: {_BINARY_TEXT}")
        values = self._set() if operator in SET_OPERATORS else {self._value()}
        return requirement(key, operator, sorted(values))

    def _value(self) -> str:
        if self._ahead in (_END, ","):
            return ""
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> set[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        if self._ahead == ")":
            self._next()
            return {""}
        if not _is_word(self._ahead) and self._ahead != ",":
            raise SelectorError(f"found '{self._ahead}', expected: ',', ')' or identifier")
        values = self._listed()
        self._next()
        return values

    def _listed(self) -> set[str]:
        """Words and gaps up to the closing parenthesis; a gap counts as the empty value."""
        values: set[str] = set()
        while True:
            token = self._next()
            if _is_word(token):
                values.add(token)
                if self._ahead == ")":
                    return values
                if self._ahead != ",":
                    raise SelectorError(f"found '{self._ahead}', expected: ',' or ')'")
            elif token == ",":
                if not values or self._ahead in (")", ","):
                    values.add("")
                if self._ahead == ")":
                    return values
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
