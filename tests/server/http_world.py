"""The real listener over a registry in memory, in a thread of its own, and a client that can also misbehave."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from fairlead.api.objects import Obj
from fairlead.runtime.http.listener import LOOPBACK_ADDRESS, Limits, bind, serving
from fairlead.runtime.loops import run
from fairlead.server import assembly
from fairlead.server.audit.auditor import AuditSettings, auditing
from fairlead.server.auth.authentication import Authentication, AuthenticationSettings
from fairlead.server.auth.authorization import NODE_AND_RBAC, AuthorizationSettings
from fairlead.server.auth.tokens import anybody
from fairlead.server.fairness.fairness import DEFAULT_SEATS, Fairness
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.server.http.health import Progress
from fairlead.server.nodes.agents import NodeAgents
from fairlead.server.registry.registry import Registry
from fairlead.store.memory import MemoryStore

TOKEN = "let-me-in"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"content-type": "application/json"}
#: How long a client waits; a machine may have other things to do.
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    code: int
    headers: Mapping[str, str]
    body: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def obj(self) -> Obj:
        found: Obj = json.loads(self.body)
        return found


class Server:
    """Two listeners of one registry: `port` lets everybody in, `guarded_port` those who show `TOKEN`."""

    registry: Registry
    fairness: Fairness
    port: int
    guarded_port: int

    def __init__(
        self,
        limits: Limits | None = None,
        agents: NodeAgents | None = None,
        authentication: AuthenticationSettings | None = None,
        seats: int = DEFAULT_SEATS,
        audit: AuditSettings | None = None,
        authorization: AuthorizationSettings = NODE_AND_RBAC,
    ) -> None:
        self._authorization = authorization
        self._audit = audit
        self.progress = Progress()
        self._authentication = authentication or AuthenticationSettings()
        self._agents = agents
        self._limits, self._seats = limits, seats
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: run(self._serve()))
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = assembly.Server(MemoryStore(), self._seats)
        await server.open(["ServiceAccount"])
        if self._agents is not None:
            server.serve_nodes(self._agents)
        self.registry, self.fairness = server.registry, server.fairness
        following = asyncio.create_task(server.run())
        documents = Documents(self.registry, "127.0.0.1:1", server.aggregator)
        async with AsyncExitStack() as stack:
            auditor = await stack.enter_async_context(auditing(self._audit, self.registry.metrics.audit))
            ports = []
            login = Authentication(self._authentication, TOKEN, self.registry.account_tokens, self.registry)
            self.registry.verify_token = login.verify_token
            await stack.enter_async_context(login.running())
            await stack.enter_async_context(server.authorization(self._authorization).running())
            for authenticate in (anybody, login.authenticate):
                sock = bind(0)
                ports.append(sock.getsockname()[1])
                fairness = server.fairness
                application = Application(
                    self.registry, documents, authenticate, self.progress, fairness, auditor, server.aggregator
                )
                await stack.enter_async_context(serving(application, sock, limits=self._limits))
            self.port, self.guarded_port = ports
            self._ready.set()
            await self._stop.wait()
        following.cancel()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    # -- asking

    def connection(self, port: int = 0) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(LOOPBACK_ADDRESS, port or self.port, timeout=SECONDS)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = JSON,
        port: int = 0,
        on: http.client.HTTPConnection | None = None,
    ) -> Reply:
        """One request; a body that is not bytes is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = on or self.connection(port)
        try:
            connection.request(method, path, data, dict(headers))
            return read(connection.getresponse())
        finally:
            if on is None:
                connection.close()

    @contextmanager
    def raw(self, data: bytes, port: int = 0) -> Iterator[socket.socket]:
        """A connection on which these very bytes have been sent."""
        with socket.create_connection((LOOPBACK_ADDRESS, port or self.port), SECONDS) as sock:
            sock.sendall(data)
            yield sock

    def watchers(self, plural: str = "configmaps") -> int:
        served = self.registry.catalogue.stored(plural)
        assert served is not None
        return served.cache.watchers

    def soon(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds; no longer than a patient person would."""
        deadline = monotonic() + SECONDS
        while not holds():
            assert monotonic() < deadline, "it never came to be"
            sleep(0.005)


def read(response: http.client.HTTPResponse) -> Reply:
    warnings = response.headers.get_all("warning") or []
    return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read(), warnings)


def answer_on(sock: socket.socket, method: str = "GET") -> Reply:
    """The next answer on a connection."""
    response = http.client.HTTPResponse(sock, method=method)
    response.begin()
    return read(response)


def check_status(reply: Reply, code: int, reason: str) -> str:
    """The answer must be a `Status` through and through; its message."""
    assert reply.code == code, reply.body
    status = reply.obj
    assert (status["kind"], status["apiVersion"], status["metadata"]) == ("Status", "v1", {})
    assert (status["status"], status["code"], status.get("reason", "")) == ("Failure", code, reason)
    assert "Traceback" not in status["message"]
    message: str = status["message"]
    return message


class Complaints(logging.Handler):
    """What the server logs as an error: a bug, whatever the client did."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def __enter__(self) -> Complaints:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@contextmanager
def uncomplaining() -> Iterator[None]:
    """Fails if anything is logged as an error while the block runs."""
    with Complaints() as complaints:
        yield
    assert not complaints.texts, "\n".join(complaints.texts)


@contextmanager
def serving_in_a_thread(
    limits: Limits | None = None,
    authentication: AuthenticationSettings | None = None,
    seats: int = DEFAULT_SEATS,
    authorization: AuthorizationSettings = NODE_AND_RBAC,
) -> Iterator[Server]:
    server = Server(limits, authentication=authentication, seats=seats, authorization=authorization)
    server.start()
    try:
        yield server
    finally:
        server.stop()
