"""Texts in quotes, as Go prints them (package strconv)."""

from __future__ import annotations

from typing import Final


def go_quote(text: str) -> str:
    """Go's `%q`: double quotes, with backslash escapes for what is not printable."""
    out = []
    for char in text:
        if (escape := _ESCAPES.get(char)) is not None:
            out.append(escape)
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'


_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}
