"""Regular expressions of schemas are Go's; this translates what Python spells or reads differently.

Without it `^a$` would let a trailing newline pass, and `\\z` or `[[:alpha:]]` would not compile at all.
"""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:blank:]": r"\t ",
    "[:cntrl:]": r"\x00-\x1f\x7f",
    "[:digit:]": "0-9",
    "[:graph:]": "!-~",
    "[:lower:]": "a-z",
    "[:print:]": " -~",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\.|\[:\^?[a-z]+:\]|\[\^?\]?|\]|\$|.", re.DOTALL)
#: Things that Python allows and RE2 does not: look-around, back-references, atomic groups, possessive repetition.
_FOREIGN = re.compile(r"\(\?(?:[=!#>(]|<[=!]|P[=>])|\\[1-9]|[*+?}]\+")


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled pattern; `re.error` if Go would not take it."""
    if _FOREIGN.search(pattern):
        raise re.error("invalid or unsupported Perl syntax")
    out: list[str] = []
    in_class = False
    multiline = "(?m" in pattern or "(?sm" in pattern or "(?im" in pattern
    for token in _TOKEN.findall(pattern):
        if in_class and token in _POSIX:
            out.append(_POSIX[token])
        elif token.startswith("[") and not in_class:
            in_class = True
            out.append(token)
        elif token == "]" and in_class:
            in_class = False
            out.append(token)
        elif (token == "$" and not in_class and not multiline) or token == r"\z":
            out.append(r"\Z")
        else:
            out.append(r"\[" if in_class and token == "[" else token)
    return re.compile("".join(out), re.ASCII)
