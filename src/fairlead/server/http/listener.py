"""Listeners: who may connect, how many of those whom nobody knows, and how long they may take.

We accept connections ourselves, because only then can those be counted that have not finished their TLS handshake, and
because running out of file descriptors must neither stop the server for good nor go unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fairlead.server.auth.certificates import Pki
from fairlead.server.http.app import Application
from fairlead.server.http.protocol import Connection, Patience

LOOPBACK_ADDRESS = "127.0.0.1"
BACKLOG = 2048

#: What `accept` says when the process or the machine can have no more connections.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOOK_SECONDS = 1.0
_STOP_SECONDS = 1.0
#: How often at most it is said that there are no descriptors left.
_SAY_SECONDS = 60.0

log = logging.getLogger(__name__)


def _descriptors() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take of us."""

    patience: Patience = field(default_factory=Patience)
    #: Connections, at most; the rest of the process needs descriptors too.
    connections: int = field(default_factory=lambda: max(_descriptors() - 64, _descriptors() // 2))
    #: Of these, whose clients have not shown a credential yet.
    strangers: int = field(default_factory=lambda: min(128, _descriptors() // 4))
    #: How long a stranger may stay when others wait for its place.
    stranger_seconds: float = 2.0


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback interface; port 0 picks a free one. Raises OSError if it is taken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK_ADDRESS, port))
    except OSError:
        sock.close()
        raise
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


@asynccontextmanager
async def serving(
    application: Application, sock: socket.socket, pki: Pki | None = None, limits: Limits | None = None
) -> AsyncIterator[None]:
    """Serve on that socket while the block runs; with `pki` over TLS, without it in the clear."""
    listener = Listener(application, sock, pki.context() if pki else None, limits or Limits())
    accepting = asyncio.create_task(listener.accept(), name="listener")
    watching = asyncio.create_task(listener.watch_the_clock(), name="listener's clock")
    try:
        yield
    finally:
        application.close()
        for task in (accepting, watching):
            task.cancel()
        await asyncio.gather(accepting, watching, return_exceptions=True)
        await listener.stop()


class Listener:
    """The connections of one listening socket."""

    def __init__(
        self, application: Application, sock: socket.socket, context: ssl.SSLContext | None, limits: Limits
    ) -> None:
        self.application = application
        self.patience = limits.patience
        self._sock, self._context, self._limits = sock, context, limits
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        #: Since when they are here, the oldest first; and what greets them, while it does.
        self._strangers: dict[Connection, float] = {}
        self._greetings: dict[Connection, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._said = -_SAY_SECONDS

    # -- who comes

    async def accept(self) -> None:
        """Let clients in, until cancelled."""
        while True:
            await self._room()
            try:
                sock, _ = await self._loop.sock_accept(self._sock)
            except OSError as error:
                await self._not_accepted(error)
            else:
                self._welcome(sock)

    async def _not_accepted(self, error: OSError) -> None:
        if error.errno in _EXHAUSTED:
            await self._exhausted(error.strerror or str(error))
        elif error.errno != errno.ECONNABORTED:  # that one has gone before it was let in
            log.error("cannot accept a connection: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    def _welcome(self, sock: socket.socket) -> None:
        connection = Connection(self)
        self._open.add(connection)
        self._strangers[connection] = self._loop.time()
        greeting = self._loop.create_task(self._greet(connection, sock))
        self._greetings[connection] = greeting
        greeting.add_done_callback(lambda _: self._greetings.pop(connection, None))

    async def _greet(self, connection: Connection, sock: socket.socket) -> None:
        seconds = self.patience.head if self._context else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, sock, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except BaseException as error:
            sock.close()
            self.gone(connection)
            if not isinstance(error, OSError):
                raise

    async def _room(self) -> None:
        """Wait until one more may come in."""
        while len(self._strangers) >= self._limits.strangers:
            await self._one_less()
        while len(self._open) >= self._limits.connections:
            await self._exhausted("as many connections as there are descriptors for")

    async def _exhausted(self, why: str) -> None:
        if self._loop.time() >= self._said + _SAY_SECONDS:
            self._said = self._loop.time()
            log.error(
                "no more connections can be taken: %s (%d are open; the limit of descriptors, `ulimit -n`, is %d). "
                "New ones wait until others end.",
                why,
                len(self._open),
                _descriptors(),
            )
        await self._one_less()

    async def _one_less(self) -> None:
        """Wait for a connection to end, for a while; if a stranger has had time enough, it goes."""
        self._left.clear()
        pause = _LOOK_SECONDS
        if self._strangers:
            connection, since = next(iter(self._strangers.items()))
            pause = since + self._limits.stranger_seconds - self._loop.time()
            if pause <= 0:
                self._drop(connection)
                pause = _LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._left.wait()

    def _drop(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        if greeting := self._greetings.get(connection):
            greeting.cancel()
        else:
            connection.abort()

    # -- what connections tell

    def known(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._left.set()

    def gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._strangers.pop(connection, None)
        self._left.set()

    def working(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._left.set()

    # -- the end

    async def watch_the_clock(self) -> None:
        """End connections whose clients have had their time, until cancelled.

        Looking at all of them once a second costs less than a timer for each request.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._loop.time()
            for connection in [connection for connection in self._open if connection.deadline < now]:
                connection.expire()

    async def stop(self) -> None:
        """Take no more; what is being answered may take a moment."""
        self._sock.close()
        for connection in list(self._open):
            connection.shutdown()
        for greeting in list(self._greetings.values()):
            greeting.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._emptied()
        for task in self._tasks:
            task.cancel()
        for connection in self._open:
            connection.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._emptied()

    async def _emptied(self) -> None:
        while self._tasks or self._open:
            self._left.clear()
            await self._left.wait()
