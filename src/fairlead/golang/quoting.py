"""Texts in quotes, as Go prints them (package strconv)."""

from __future__ import annotations

from typing import Final


def go_quote(text: str) -> str:
    """Go's `%q`: double quotes, with backslash escapes for what is not printable."""
    if text.isascii() and text.isprintable():
        return _plain(text)
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


def time_quote(text: str) -> str:
    """The quotes of package time, which prints the bytes of what is not ASCII."""
    if text.isascii() and text.isprintable():
        return _plain(text)
    out = []
    for char in text:
        if " " <= char < "\x80":
            out.append(f"\\{char}" if char in '"\\' else char)
        else:
            out += [f"\\x{byte:02x}" for byte in char.encode(errors="surrogatepass")]
    return '"' + "".join(out) + '"'


def _plain(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
