"""Regular expressions of schemas and of CEL are Go's, and are run by RE2, which Go's engine descends from.

Python's engine tries every way to match: `^(a+)+$` would take longer than the universe has. RE2 takes time linear in
the text. What differs between the two is settled here: how errors are worded (regexp/syntax), repeat counts that RE2
reads as text, and `\\C`, which Go does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import re2

from fairlead.caches import bounded_cache

#: How often a part may be repeated, in Go and in RE2.
_MOST_REPEATED: Final = 1000
#: Memory of one compiled pattern and what matching remembers of it: first, and for the few that need more.
_MEMORY: Final = (256 << 10, 8 << 20)
#: Instructions that all patterns of a schema together may compile to, and what one that is too large counts for.
_MOST_INSTRUCTIONS: Final = 1 << 20
_TOO_MANY_INSTRUCTIONS: Final = 1 << 17

#: Patterns that are longer than this are compiled each time.
_LONGEST_KEPT: Final = 16_384

_TOO_LARGE: Final = "pattern too large - compile failed"
_NOT_IN_GO: Final = r"\C"
#: What may hold braces that repeat nothing, and repetition. Without a leading zero, for Go reads that as text.
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|\{(0|[1-9][0-9]*)(?:,(0|[1-9][0-9]*)?)?\}", re.DOTALL
)
#: RE2's words for what is wrong, in Go's.
_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    _TOO_LARGE: "expression too large",
}


class BadPattern(ValueError):
    """Go refuses the pattern; `str()` is Go's message."""

    def __init__(self, why: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {why}: `{where}`")
        self.is_too_large = why == _WORDS[_TOO_LARGE]


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        _check_tokens(text)
        self._compiled = _compiled(text)

    @property
    def instructions(self) -> int:
        size: int = self._compiled.programsize
        return size

    def matches(self, text: str) -> bool:
        """Whether the pattern occurs in a text."""
        return self._compiled.search(text) is not None

    def each_in(self, text: str) -> Iterator[str]:
        """What of a text it matches, from left to right."""
        for found in self._compiled.finditer(text):
            yield found[0]


@bounded_cache(maxsize=1024, longest=_LONGEST_KEPT)
def compile_pattern(text: str) -> Pattern:
    """The compiled pattern. Raises `BadPattern`."""
    return Pattern(text)


def fit_together(texts: Iterable[str]) -> bool:
    """Whether one schema may have all these patterns, sound or not: some take very long to compile."""
    budget = _MOST_INSTRUCTIONS
    for text in dict.fromkeys(texts):
        try:
            budget -= compile_pattern(text).instructions
        except BadPattern as error:
            budget -= _TOO_MANY_INSTRUCTIONS if error.is_too_large else 0
        if budget < 0:
            return False
    return True


def _check_tokens(text: str) -> None:
    for token in _TOKEN.finditer(text):
        if token.group() == _NOT_IN_GO:
            raise BadPattern("invalid escape sequence", _NOT_IN_GO)
        for count in token.groups():
            if count and (len(count) > len(str(_MOST_REPEATED)) or int(count) > _MOST_REPEATED):
                raise BadPattern("invalid repeat count", token.group())


def _compiled(text: str) -> re2._Regexp[str]:
    for memory in _MEMORY:
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = memory, False, True
        try:
            return re2.compile(text, options)
        except re2.error as error:
            message = error.args[0]
            why, _, where = (message.decode("utf-8", "replace") if isinstance(message, bytes) else message).partition(
                ": "
            )
            if why != _TOO_LARGE:
                break
    raise BadPattern(_WORDS.get(why, why), text if why == _TOO_LARGE else where)
