"""A bearer token among the protocols of a WebSocket, where a browser can put one: it cannot set `Authorization`.

Whoever the request goes on to never sees it. Source: apiserver, pkg/authentication/request/websocket (1.36).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from typing import Final

from fairlead.server.account_tokens import MOST_BYTES

_HEADER: Final = b"sec-websocket-protocol"
_PREFIX: Final = b"base64url.bearer.authorization.k8s.io."
#: Longer lists of protocols hold no token that anybody would know.
_MOST_PROTOCOL_BYTES: Final = 2 * MOST_BYTES

Headers = list[tuple[bytes, bytes]]


class BadProtocols(Exception):
    """There is a token, and it is none, or nothing else is there to be spoken."""


def taken_out(headers: Headers) -> tuple[str, Headers]:
    """The token, and the headers without it; "" and the same headers if there is none."""
    values = [value for name, value in headers if name == _HEADER]
    if not any(_PREFIX in value for value in values):
        return "", headers
    if sum(map(len, values)) > _MOST_PROTOCOL_BYTES:
        raise BadProtocols
    protocols = [protocol.strip() for value in values for protocol in value.split(b",")]
    tokens = [protocol.removeprefix(_PREFIX) for protocol in protocols if protocol.startswith(_PREFIX)]
    spoken = [protocol for protocol in protocols if not protocol.startswith(_PREFIX)]
    if not tokens:
        return "", headers
    if len(tokens) > 1 or not any(spoken):
        raise BadProtocols
    rest = [header for header in headers if header[0] != _HEADER]
    return _decoded(tokens[0]), [*rest, (_HEADER, b", ".join(spoken))]


def _decoded(text: bytes) -> str:
    if not _is_plain(text):
        raise BadProtocols
    try:
        token = urlsafe_b64decode(text + b"=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadProtocols from None
    if not token:
        raise BadProtocols
    return token


def _is_plain(text: Iterable[int]) -> bool:
    """Python's decoder passes over what does not belong there."""
    return all(byte in _ALPHABET for byte in text)


_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
