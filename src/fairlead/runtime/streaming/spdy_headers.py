"""Header blocks of SPDY/3: one zlib stream for each direction of a connection, begun with a dictionary that all know.

A block that grows when it is unpacked is refused before it is there. Source: SPDY protocol draft 3, 2.6.10.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

#: Of a block, unpacked; what clients send has a few hundred bytes.
MOST_HEADER_BYTES: Final = 64 << 10
_MOST_HEADERS: Final = 256
_LENGTH: Final = struct.Struct(">I")

_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXTS: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _prefixed(text: bytes) -> bytes:
    return _LENGTH.pack(len(text)) + text


#: Most likely texts last, as zlib likes it.
DICTIONARY: Final = b"".join(_prefixed(name.replace("_", " ").encode()) for name in _NAMES.split()) + _TEXTS.encode()


class SpdyError(ConnectionError):
    """The other end does not speak SPDY/3.1 as it is written."""


class HeaderPacker:
    """Packs the header blocks of one direction."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Mapping[str, str]) -> bytes:
        fields = [_prefixed(text.encode("latin-1")) for item in headers.items() for text in item]
        block = _LENGTH.pack(len(headers)) + b"".join(fields)
        return self._zlib.compress(block) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """Unpacks those of the other."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, packed: bytes) -> dict[str, str]:
        """The headers by their names in lower case; of one that is given twice, the first value. SpdyError."""
        try:
            block = self._zlib.decompress(packed, MOST_HEADER_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers that cannot be unpacked: {error}") from None
        if self._zlib.unconsumed_tail:
            raise SpdyError("headers of too many bytes")
        if self._zlib.unused_data or self._zlib.eof:
            raise SpdyError("headers after the end of headers")
        return _headers_of(block)


def _headers_of(block: bytes) -> dict[str, str]:
    count, at = _number(block, 0)
    if count > _MOST_HEADERS:
        raise SpdyError("too many headers")
    found: dict[str, str] = {}
    for _ in range(count):
        name, at = _text(block, at)
        value, at = _text(block, at)
        found.setdefault(name.lower(), value.partition("\0")[0])
    if at != len(block):
        raise SpdyError("headers with something behind them")
    return found


def _number(block: bytes, at: int) -> tuple[int, int]:
    if at + _LENGTH.size > len(block):
        raise SpdyError("headers that end too early")
    return _LENGTH.unpack_from(block, at)[0], at + _LENGTH.size


def _text(block: bytes, at: int) -> tuple[str, int]:
    length, at = _number(block, at)
    if at + length > len(block):
        raise SpdyError("headers that end too early")
    return block[at : at + length].decode("latin-1"), at + length
