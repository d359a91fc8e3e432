"""How a registry asks for a login: the header WWW-Authenticate, of which it may send several (RFC 9110, 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

_MOST: Final = 4096
_PARAMETER: Final = re.compile(r'\s*,?\s*([A-Za-z_]+)\s*=\s*(?:"([^"\\]*)"|([^\s",]+))')


class Challenge(msgspec.Struct, frozen=True):
    #: `bearer` or `basic`.
    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def challenge(headers: Iterable[str]) -> Challenge | None:
    """The one to answer: a token if one is asked for, else a password."""
    found: Challenge | None = None
    for header in headers:
        scheme, _, rest = header[:_MOST].strip().partition(" ")
        match scheme.lower():
            case "bearer":
                given = _parameters(rest)
                return Challenge("bearer", given.get("realm", ""), given.get("service", ""), given.get("scope", ""))
            case "basic":
                found = Challenge("basic")
    return found


def _parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while match := _PARAMETER.match(text, at):
        name, quoted, bare = match.groups()
        found.setdefault(name.lower(), quoted if quoted is not None else bare)
        at = match.end()
    return found
