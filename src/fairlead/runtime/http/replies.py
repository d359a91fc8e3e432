"""Answers that are known as a whole: plain text where something is wrong, as Go's servers say it."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.runtime.http.exchange import Send

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"


class Reply(msgspec.Struct, frozen=True):
    """An answer that is known as a whole."""

    body: bytes
    code: int = 200
    media_type: str = TEXT

    @classmethod
    def json(cls, body: bytes) -> Reply:
        return cls(body, media_type=JSON)

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", self.media_type.encode()), (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


#: Go's http.NotFound.
NOT_FOUND: Final = Reply(b"404 page not found\n", 404)


class Failed(Exception):
    """What was asked for cannot be had; the message is told."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def reply(self) -> Reply:
        return Reply(str(self).encode(), self.code)
