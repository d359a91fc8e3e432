"""Listeners: they accept connections, and limit those of unauthenticated clients in number and time.

The server accepts connections itself, so that those in their TLS handshake can be counted, and so that running out of
file descriptors neither stops it for good nor goes unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from fairlead.runtime.http.exchange import Receive, Scope, Send
from fairlead.runtime.http.protocol import Connection, Patience
from fairlead.runtime.token_bucket import TokenBucket

LOOPBACK_ADDRESS = "127.0.0.1"
BACKLOG = 2048

#: The errors of `accept` when the process or the machine has no more descriptors or memory.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CHECK_SECONDS = 1.0
_STOP_SECONDS = 1.0
#: Exhausted descriptors are logged once in that time.
_REPORT_SECONDS = 60.0

log = logging.getLogger(__name__)

#: Whether somebody with that address may connect at all.
Admits = Callable[[str], bool]


def _descriptors() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit


class Limits(msgspec.Struct, frozen=True):
    """The limits of one listener."""

    patience: Patience = msgspec.field(default_factory=Patience)
    #: Connections, at most; the rest of the process needs descriptors too.
    connections: int = msgspec.field(default_factory=lambda: max(_descriptors() - 64, _descriptors() // 2))
    #: Of these, unauthenticated ones.
    strangers: int = msgspec.field(default_factory=lambda: min(128, _descriptors() // 4))
    #: How long an unauthenticated connection may stay when others wait to be accepted.
    stranger_seconds: float = 2.0


class Application(Protocol):
    """What a listener serves: an ASGI application that can be told of the end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def close(self) -> None:
        """The listener is about to stop: end what would go on for long."""

    def note_failed_handshake(self) -> None:
        """A connection ended before it was one."""


def bind(port: int, address: str = LOOPBACK_ADDRESS) -> socket.socket:
    """A listening socket; port 0 picks a free one. Raises OSError if it is taken, or the address is not ours."""
    sock = reserve(port, address)
    sock.listen(BACKLOG)
    return sock


def reserve(port: int, address: str) -> socket.socket:
    """The same, but whoever connects is refused until it listens."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def is_free(port: int) -> bool:
    """Whether this process could listen there on loopback."""
    try:
        reserve(port, LOOPBACK_ADDRESS).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def serving(
    application: Application,
    sock: socket.socket,
    context: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    admits: Admits = lambda address: True,
) -> AsyncIterator[None]:
    """Serve on that socket while the block runs; with a context over TLS, without one in the clear. Whom `admits` does
    not name by its address is not heard.
    """
    listener = Listener(application, sock, context, limits or Limits(), admits)
    accepting = asyncio.create_task(listener.accept(), name="listener")
    watching = asyncio.create_task(listener.enforce_deadlines(), name="listener's clock")
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
        self,
        application: Application,
        sock: socket.socket,
        context: ssl.SSLContext | None,
        limits: Limits,
        admits: Admits,
    ) -> None:
        self.application, self._admits = application, admits
        self.patience = limits.patience
        self._sock, self._context, self._limits = sock, context, limits
        self._loop = asyncio.get_running_loop()
        self._open: set[Connection] = set()
        #: Unauthenticated connections, oldest first, with the time of their accept; and the handshakes under way.
        self._strangers: dict[Connection, float] = {}
        self._handshakes: dict[Connection, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._complaints = TokenBucket(1 / _REPORT_SECONDS, 1, self._loop.time())

    # -- accepting

    async def accept(self) -> None:
        """Accept connections, until cancelled."""
        while True:
            await self._wait_until_free()
            try:
                sock, peer = await self._loop.sock_accept(self._sock)
            except OSError as error:
                await self._not_accepted(error)
            else:
                if self._admits(peer[0]):
                    self._admit(sock)
                else:
                    sock.close()

    async def _not_accepted(self, error: OSError) -> None:
        if error.errno in _EXHAUSTED:
            await self._wait_without_descriptors(error.strerror or str(error))
        elif error.errno != errno.ECONNABORTED:  # the client closed it before the accept
            log.error("cannot accept a connection: %s", error)
            await asyncio.sleep(_CHECK_SECONDS)

    def _admit(self, sock: socket.socket) -> None:
        connection = Connection(self)
        self._open.add(connection)
        self._strangers[connection] = self._loop.time()
        handshake = self._loop.create_task(self._connect(connection, sock))
        self._handshakes[connection] = handshake
        handshake.add_done_callback(lambda _: self._handshakes.pop(connection, None))

    async def _connect(self, connection: Connection, sock: socket.socket) -> None:
        seconds = self.patience.head if self._context else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, sock, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except BaseException as error:
            sock.close()
            self.on_closed(connection)
            if self._context is not None and isinstance(error, OSError):
                self.application.note_failed_handshake()
            if not isinstance(error, OSError):
                raise

    async def _wait_until_free(self) -> None:
        """Wait until the limits allow one more connection."""
        while len(self._strangers) >= self._limits.strangers:
            await self._wait_for_room()
        while len(self._open) >= self._limits.connections:
            await self._wait_without_descriptors("as many connections as there are descriptors for")

    async def _wait_without_descriptors(self, why: str) -> None:
        if self._complaints.take(self._loop.time()):
            log.error(
                "no more connections can be taken: %s (%d are open; the limit of descriptors, `ulimit -n`, is %d). "
                "New ones wait until others end.",
                why,
                len(self._open),
                _descriptors(),
            )
        await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        """Wait for a connection to end, for a while; drops the oldest unauthenticated one if its time is over."""
        self._changed.clear()
        pause = _CHECK_SECONDS
        if self._strangers:
            connection, since = next(iter(self._strangers.items()))
            pause = since + self._limits.stranger_seconds - self._loop.time()
            if pause <= 0:
                self._drop(connection)
                pause = _CHECK_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()

    def _drop(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        if handshake := self._handshakes.get(connection):
            handshake.cancel()
        else:
            connection.abort()

    # -- called by connections

    def on_authenticated(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._changed.set()

    def on_closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._strangers.pop(connection, None)
        self._changed.set()

    def on_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    # -- deadlines and shutdown

    async def enforce_deadlines(self) -> None:
        """End connections past their deadline, until cancelled.

        A look at all of them once a second costs less than a timer for each request.
        """
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = self._loop.time()
            for connection in [connection for connection in self._open if connection.deadline < now]:
                connection.expire()

    async def stop(self) -> None:
        """Stop accepting; requests under way get a moment to finish."""
        self._sock.close()
        for connection in list(self._open):
            connection.shutdown()
        for handshake in list(self._handshakes.values()):
            handshake.cancel()
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
            self._changed.clear()
            await self._changed.wait()
