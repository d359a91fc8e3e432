"""Bytes as Go's encoding/base64 reads and writes them, in JSON and in continue tokens.

Clients wrap lines and set bits that no byte uses; what reads back has neither. What is no base64 is refused with the
position at which Go stops reading, because that is what people search a long secret for.
"""

from __future__ import annotations

import binascii
from typing import Final


class CorruptInput(ValueError):
    """The text is no base64; `str()` of it is Go's message."""


def encode(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def decode(text: str) -> bytes:
    """The bytes that a canonical text stands for."""
    return binascii.a2b_base64(text)


def canonical(text: str) -> str:
    """The text as Go's encoder would write the same bytes."""
    try:
        return encode(binascii.a2b_base64(text.replace("\r", "").replace("\n", ""), strict_mode=True))
    except ValueError:
        raise CorruptInput(f"illegal base64 data at input byte {_stop(text)}") from None


def encode_url(raw: bytes) -> str:
    """As `base64.RawURLEncoding` writes it."""
    return binascii.b2a_base64(raw, newline=False).decode().translate(_TO_URL).rstrip("=")


def decode_url(text: str) -> bytes:
    """As `base64.RawURLEncoding` reads it: no padding, line breaks do not count."""
    sent = text.encode()
    digits = sent.replace(b"\r", b"").replace(b"\n", b"")
    stop = next((index for index, byte in enumerate(sent) if byte not in _URL_BYTES), len(sent))
    if stop < len(sent) or len(digits) % 4 == 1:
        raise CorruptInput(f"illegal base64 data at input byte {min(stop, len(sent) - 1)}")
    return binascii.a2b_base64(digits.translate(_FROM_URL) + b"=" * (-len(digits) % 4))


def _stop(text: str) -> int:
    """Where Go stops reading a text that is no base64."""
    digits = 0
    for index, char in enumerate(text):
        if char in "\r\n":
            continue
        if char == "=":
            return _stop_in_padding(text, index, digits % 4)
        if char not in _ALPHABET:
            return len(text[:index].encode())
        digits += 1
    return len(text) - digits % 4


def _stop_in_padding(text: str, index: int, digits: int) -> int:
    if digits < 2:
        return index
    rest = text[index + 1 :].lstrip("\r\n")
    after = len(text) - len(rest)
    if digits == 3:
        return after
    if not rest:
        return len(text)
    return after + 1 if rest[0] == "=" else after - 1


_TO_URL: Final = str.maketrans("+/", "-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_URL_BYTES: Final = frozenset("".join(_ALPHABET).translate(_TO_URL).encode()) | frozenset(b"\r\n")
