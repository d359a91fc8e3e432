"""What Go says about JSON that is none (sigs.k8s.io/json, a fork of encoding/json: scanner.go)."""

from __future__ import annotations

import re
from typing import Final

from fairlead.golang.quoting import go_quote

UNEXPECTED_END: Final = "unexpected end of JSON input"

_BLANKS: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_HEX: Final = re.compile(rb"[0-9a-fA-F]{0,4}")
_DIGITS: Final = re.compile(rb"[0-9]*")
#: encoding/json's `maxNestingDepth`.
_MOST_NESTED: Final = 10000
_WORDS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _Broken(Exception):
    pass


def json_error(body: bytes) -> str | None:
    """The complaint about the first byte that cannot be JSON; None if all of it is."""
    try:
        _Scanner(body).document()
    except _Broken as broken:
        return str(broken)
    return None


class _Scanner:
    """Walks over a JSON text as encoding/json's scanner does, to stop where it stops."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def document(self) -> None:
        """One value. Containers are kept on a stack, because a hostile body nests deeply."""
        closers: list[int] = []
        self._blanks()
        while True:
            is_open = self._value(closers)
            while not is_open:
                self._blanks()
                if not closers:
                    if self._at < len(self._body):
                        self._refuse("after top-level value")
                    return
                is_open = self._between(closers)

    def _between(self, closers: list[int]) -> bool:
        """After a member: whether another one follows; if not, the container is closed."""
        char = self._peek()
        if char == closers[-1]:
            closers.pop()
            self._at += 1
            return False
        if char != ord(","):
            is_object = closers[-1] == ord("}")
            self._refuse("after object key:value pair" if is_object else "after array element")
        self._at += 1
        self._blanks()
        if closers[-1] == ord("}"):
            self._key()
        return True

    def _value(self, closers: list[int]) -> bool:
        """A scalar, or the start of a container: whether a value must follow at once."""
        char = self._peek()
        if char == ord('"'):
            self._string()
        elif char in _WORDS:
            self._word(_WORDS[char])
        elif char == ord("-") or chr(char) in "0123456789":
            self._number()
        elif char in (ord("{"), ord("[")):
            if len(closers) == _MOST_NESTED:
                raise _Broken("exceeded max depth")
            closers.append(char + 2)  # in ASCII the closing bracket is two after the opening one
            self._at += 1
            self._blanks()
            if self._peek() == closers[-1]:
                closers.pop()
                self._at += 1
                return False
            if char == ord("{"):
                self._key()
            return True
        else:
            self._refuse("looking for beginning of value")
        return False

    def _key(self) -> None:
        if self._peek() != ord('"'):
            self._refuse("looking for beginning of object key string")
        self._string()
        self._blanks()
        if self._peek() != ord(":"):
            self._refuse("after object key")
        self._at += 1
        self._blanks()

    def _string(self) -> None:
        self._at += 1
        while True:
            self._skip(_PLAIN)
            char = self._peek()
            if char == ord('"'):
                self._at += 1
                return
            if char != ord("\\"):
                self._refuse("in string literal")
            self._at += 1
            escape = chr(self._peek())
            if escape not in 'bfnrt\\/"u':
                self._refuse("in string escape code")
            self._at += 1
            if escape == "u" and self._skip(_HEX) < 4:
                self._refuse("in \\u hexadecimal character escape")

    def _word(self, literal: bytes) -> None:
        for expected in literal:
            if self._peek() != expected:
                self._refuse(f"in literal {literal.decode()} (expecting '{chr(expected)}')")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == ord("-"):
            self._at += 1
        if self._peek() == ord("0"):
            self._at += 1
        elif not self._skip(_DIGITS):
            self._refuse("in numeric literal")
        if self._takes(b"."):
            self._fraction("after decimal point in numeric literal")
        if self._takes(b"eE"):
            self._takes(b"+-")
            self._fraction("in exponent of numeric literal")

    def _fraction(self, where: str) -> None:
        if not self._skip(_DIGITS):
            self._refuse(where)

    def _takes(self, bytes_: bytes) -> bool:
        found = self._at < len(self._body) and self._body[self._at] in bytes_
        self._at += found
        return found

    def _blanks(self) -> None:
        self._skip(_BLANKS)

    def _skip(self, pattern: re.Pattern[bytes]) -> int:
        found = pattern.match(self._body, self._at)
        length = len(found.group()) if found else 0
        self._at += length
        return length

    def _peek(self) -> int:
        if self._at >= len(self._body):
            raise _Broken(UNEXPECTED_END)
        return self._body[self._at]

    def _refuse(self, where: str) -> None:
        char = chr(self._peek())
        shown = {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"
        raise _Broken(f"invalid character {shown} {where}")
