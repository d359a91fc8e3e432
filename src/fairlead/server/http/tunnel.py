"""A request for another protocol, handed on to a kubelet as it is: once that agrees, bytes go both ways, unread.

Nothing is gathered: a side that does not read makes the other wait. Whoever goes ends both.
Source: apimachinery `util/proxy/upgradeaware.go` (1.36).
"""

from __future__ import annotations

import asyncio
from typing import Final

import httptools

from fairlead.api.errors import BadRequest, InternalError
from fairlead.runtime.http.upgrading import UPGRADE, Upgrade
from fairlead.runtime.streaming.duplex import Connection, copy
from fairlead.server.http.answers import Answer
from fairlead.server.http.forwarding import forwarded
from fairlead.server.http.request import Request
from fairlead.server.nodes.kubelets import Kubelet, Kubelets

_SWITCHED: Final = 101
_MOST_HEAD_BYTES: Final = 64 << 10
_MOST_REFUSAL_BYTES: Final = 64 << 10
#: How long the kubelet may take to agree or refuse.
_ANSWER_SECONDS: Final = 30.0


class Tunnels:
    """Those of one listener."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End them: the listener is about to stop."""
        for task in self._open:
            task.cancel()

    async def run(self, request: Request, kubelets: Kubelets, kubelet: Kubelet, target: str) -> Answer | None:
        """What the kubelet says; None: it agreed, and all is over."""
        upgrade: Upgrade | None = request.scope.get(UPGRADE)
        if upgrade is None:
            raise BadRequest("Upgrade request required")
        try:
            backend = Connection(*await kubelets.connect(kubelet))
        except OSError as error:
            raise InternalError(f"error dialing backend: {_why(kubelet, error)}") from None
        try:
            await backend.write(_head(request, upgrade, kubelet, target))
            answer = await _first_answer(backend)
            if answer.code != _SWITCHED:
                return Answer(answer.code, bytes(answer.body), answer.media_type)
            request.is_streamed = True
            if request.audit is not None:
                request.audit.answers_code(_SWITCHED)
            client = Connection(*upgrade.take())
            await client.write(answer.raw)
            await self._pump(client, backend)
            return None
        except (ConnectionError, TimeoutError) as error:
            if not request.is_streamed:
                raise InternalError(f"error dialing backend: {error or 'EOF'}") from None
            return None
        finally:
            await backend.close()

    async def _pump(self, client: Connection, backend: Connection) -> None:
        """Until one of them has gone, and the other has what it said."""
        tasks = [asyncio.create_task(copy(client, backend)), asyncio.create_task(copy(backend, client))]
        self._open.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._open.difference_update(tasks)
            await client.close()


def _head(request: Request, upgrade: Upgrade, kubelet: Kubelet, target: str) -> bytes:
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {kubelet.authority}"]
    lines += [f"{name}: {value}" for name, value in forwarded(request)]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade.wished}", "Content-Length: 0"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class _Answer:
    """The head of an answer, and its body if it is a refusal."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.raw = b""
        self.body = bytearray()
        self.media_type = "text/plain; charset=utf-8"
        self.is_complete = False

    @property
    def code(self) -> int:
        return int(self._parser.get_status_code())

    def feed(self, data: bytes) -> None:
        if len(self.raw) + len(data) > _MOST_HEAD_BYTES + _MOST_REFUSAL_BYTES:
            raise ConnectionError("the answer of the kubelet is too long")
        self.raw += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.is_complete = True
        except httptools.HttpParserError:
            raise ConnectionError("malformed HTTP response") from None

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.media_type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.code == _SWITCHED:
            self.is_complete = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _first_answer(backend: Connection) -> _Answer:
    """Head and, of a refusal, body. What follows an agreement is kept as it came."""
    answer = _Answer()
    async with asyncio.timeout(_ANSWER_SECONDS):
        while not answer.is_complete:
            data = await backend.read()
            if not data:
                raise ConnectionError("EOF")
            answer.feed(data)
    return answer


def _why(kubelet: Kubelet, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {kubelet.authority}: connect: connection refused"
    return str(error) or f"dial tcp {kubelet.authority}: i/o timeout"
