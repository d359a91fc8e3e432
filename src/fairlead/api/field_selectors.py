r"""Field selectors: `metadata.name=a,status.phase!=Running`.

Unlike labels, fields have arbitrary values, so values may escape `\`, `,` and `=` with a backslash. Which fields a kind
offers is the server's business; here a selector is only parsed, matched and written. Grammar and messages are those of
k8s.io/apimachinery 1.36, pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.selectors import SelectorError
from fairlead.caches import bounded_cache


class Term(msgspec.Struct, frozen=True):
    field: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.is_negated else '='}{escape(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    terms: tuple[Term, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether all terms hold; a field that is not there has the empty value."""
        return all((fields.get(term.field, "") == term.value) is not term.is_negated for term in self.terms)

    def exact(self, field: str) -> str | None:
        """The value the field must have, if a term demands one: lets an index answer."""
        for term in self.terms:
            if term.field == field and not term.is_negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING: Final = FieldSelector()

_TERMS: Final = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_OPERATOR: Final = re.compile("!=|==|=")


@bounded_cache(maxsize=1024)
def parse(text: str) -> FieldSelector:
    """The selector a text stands for; the empty text selects everything."""
    terms = []
    for part in sorted(_TERMS.findall(text)):
        found = _OPERATOR.search(part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = unescape(part[found.end() :])
        terms.append(Term(part[: found.start()], value, is_negated=found.group() == "!="))
    return FieldSelector(tuple(terms))


_SPECIAL: Final = re.compile(r"[\\,=]")


def escape(value: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", value)


def unescape(text: str) -> str:
    """The value a term's right side stands for."""
    if not _SPECIAL.search(text):
        return text
    value, characters = "", iter(text)
    for char in characters:
        if char == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            value += escaped
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            value += char
    return value
