"""An ASGI application of a handful of paths, for components that stand alone: health, metrics, questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from fairlead.runtime.exposition import MEDIA_TYPE, exposition
from fairlead.runtime.http.exchange import Receive, Scope, Send
from fairlead.runtime.http.replies import NOT_FOUND, Failed, Reply
from fairlead.runtime.metrics import MetricsRegistry

#: Answers a request, or raises Failed.
Handler: TypeAlias = Callable[[Scope, Receive], Awaitable[Reply]]

_NOT_ALLOWED: Final = Reply(b"Method Not Allowed\n", 405)


class Routes:
    """Handlers by path, of GET and of POST. What a GET answers is answered to HEAD."""

    def __init__(self, gets: Mapping[str, Handler], posts: Mapping[str, Handler] | None = None) -> None:
        posts = posts or {}
        self._handlers = {"GET": gets, "HEAD": gets, "POST": posts}
        self._paths = frozenset((*gets, *posts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._reply(scope, receive)
        except Failed as error:
            reply = error.reply
        await reply.send(send)

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        path = scope["raw_path"].decode("ascii")
        handler = self._handlers.get(scope["method"], {}).get(path)
        if handler is None:
            return _NOT_ALLOWED if path in self._paths else NOT_FOUND
        return await handler(scope, receive)

    def close(self) -> None:
        """Nothing here goes on for long."""

    def note_failed_handshake(self) -> None:
        """Nobody counts them here."""


async def healthy(_: Scope, __: Receive) -> Reply:
    """Of a process that answers at all."""
    return Reply(b"ok")


def measured(metrics: MetricsRegistry) -> Handler:
    """`/metrics` of these."""

    async def answer(_: Scope, __: Receive) -> Reply:
        return Reply(await exposition(metrics), media_type=MEDIA_TYPE)

    return answer
