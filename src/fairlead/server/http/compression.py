"""Large answers are compressed for clients that ask for it: they travel in a tenth of the bytes.

As kube-apiserver does it (endpoints/handlers/responsewriters/writers.go, 1.36): gzip at its fastest, from 128 KiB on.
It is made piece by piece in a thread, as the client takes it, so that nobody else waits for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from fairlead.server.http.answers import Answer
from fairlead.server.http.authorization import runs_long
from fairlead.server.http.request import Request

FROM_BYTES: Final = 128 << 10
_FASTEST: Final = 1
#: A window of 32 KiB, and the head and the end of gzip.
_GZIP: Final = zlib.MAX_WBITS | 16


def compressed(answer: Answer, request: Request) -> Answer:
    """The answer as it travels to this client."""
    wanted = request.headers.get(b"accept-encoding")
    if not wanted or (answer.length is not None and answer.length <= FROM_BYTES) or request.method == "HEAD":
        return answer
    if answer.code == HTTPStatus.NOT_MODIFIED:  # there is a length, and no body
        return answer
    if all(token.strip() != b"gzip" for token in wanted.split(b",")):
        return answer
    if request.asked is None or runs_long(request.asked):  # what is handed on from others stays as it is
        return answer
    headers = [*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    return replace(answer, body=b"", headers=headers, rest=_gzip(answer.pieces()), rest_length=None)


def _gzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()
