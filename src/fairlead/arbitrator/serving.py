"""The arbitrator's listener on a real cluster: extender, webhooks, health and metrics on one port.

On addresses other than loopback it requires TLS. Webhook answers contain nothing that is not in the request, so the API
server needs no certificate; extender and metrics reveal the cluster, so their clients need a certificate of the client
CA.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec
from aiohttp import web

from fairlead.arbitrator import extender, webhooks
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.loop import always
from fairlead.arbitrator.review import ReviewContext
from fairlead.runtime.exposition import MEDIA_TYPE, exposition
from fairlead.runtime.metrics import MetricsRegistry
from fairlead.runtime.tls import server_context

#: Extender arguments hold all nodes of a large cluster. A review, which any client may send, holds two objects.
_LARGEST_EXTENDER_REQUEST: Final = 256 << 20
_LARGEST_REVIEW: Final = 8 << 20
_BUFFER: Final = 1 << 20
#: Longer than Go's clients keep an idle connection, so that the client closes first and never writes to a closed one.
_KEEP_ALIVE_SECONDS: Final = 120
#: How often to check for a renewed certificate.
LOOK_SECONDS: Final = 30.0

_NOT_YET: Final = "not leading, or not yet informed"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`HOST:PORT`; an IPv6 address in brackets, no host for every address. ValueError for anything else."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is not HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a TLS listener."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError) for files that cannot be used."""
        context = server_context()
        self._load(context)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL  # API servers call webhooks without a client certificate
        return context

    async def keep_fresh(self, context: ssl.SSLContext) -> None:
        """Reload the files whenever they change: certificates are renewed while we run. Runs until cancelled."""
        seen = self._state()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if (now := self._state()) != seen:
                    self.context()  # check them all first: a half-written set must not get into the context in use
                    self._load(context)
                    seen = now
            except OSError as error:
                log.warning("cannot load the renewed certificate: %s", error)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self.certificate, self.private_key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)

    def _state(self) -> list[int]:
        return [path.stat().st_mtime_ns for path in (self.certificate, self.private_key, self.client_ca) if path]


@dataclass(slots=True)
class ListenerState:
    """What the listener answers from. Until a part is there, requests that need it get 503."""

    metrics: MetricsRegistry
    context: ReviewContext | None = None
    #: Once this arbitrator has divided the cluster.
    grants: GrantTable | None = None
    #: Whether this replica leads. Only the leader knows which pods were allowed to start.
    is_leading: Callable[[], bool] = always
    #: The users that arbitrators write as.
    arbitrators: frozenset[str] = frozenset()


def check_listener(listen: ListenAddress, tls: Tls | None) -> None:
    """Raises ValueError for a listener without TLS that is not on loopback."""
    if tls is None and not listen.is_loopback:
        raise ValueError(
            f"{listen.host or 'every address'} is not loopback: "
            "listening there needs --tls-cert-file and --tls-private-key-file"
        )


@asynccontextmanager
async def listening(listen: ListenAddress, tls: Tls | None, state: ListenerState) -> AsyncIterator[int]:
    """Listen while the block runs; yields the port. Raises ValueError, or OSError for an unusable port or file."""
    check_listener(listen, tls)
    answers = _Answers(state, is_private=not listen.is_loopback)
    application = web.Application(client_max_size=_LARGEST_REVIEW)
    application.add_routes(
        [
            web.get("/healthz", _healthy),
            web.get("/readyz", answers.ready),
            web.get("/metrics", answers.metrics),
            web.post("/filter", answers.filter),
            web.post("/preempt", answers.preempt),
            web.post("/validate", answers.validate),
            web.post("/gate", answers.gate),
        ]
    )
    runner = web.AppRunner(application, access_log=None, read_bufsize=_BUFFER, keepalive_timeout=_KEEP_ALIVE_SECONDS)
    context = tls.context() if tls else None
    renewing = asyncio.create_task(tls.keep_fresh(context)) if tls and context else None
    try:
        await runner.setup()
        await web.TCPSite(runner, listen.host or None, listen.port, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        if renewing is not None:
            renewing.cancel()
        await runner.cleanup()


class _Answers:
    """The handlers over a state."""

    def __init__(self, state: ListenerState, *, is_private: bool) -> None:
        self._state, self._is_private = state, is_private

    async def ready(self, _: web.Request) -> web.Response:
        if self._state.context is None:
            return web.Response(status=503, text=_NOT_YET)
        return web.Response(text="ok")

    async def metrics(self, request: web.Request) -> web.Response:
        self._admit(request)
        return web.Response(body=await exposition(self._state.metrics), headers={"Content-Type": MEDIA_TYPE})

    async def filter(self, request: web.Request) -> web.Response:
        grants = self._grants(request)
        return await _answered(_large(request), lambda body: extender.filter_result(body, grants))

    async def preempt(self, request: web.Request) -> web.Response:
        grants = self._grants(request)
        return await _answered(_large(request), lambda body: extender.preemption_result(body, grants))

    async def validate(self, request: web.Request) -> web.Response:
        context = self._state.context
        if context is None:
            raise _not_yet()
        return await _answered(request, lambda body: webhooks.validated(body, context, self._state.arbitrators))

    async def gate(self, request: web.Request) -> web.Response:
        return await _answered(request, webhooks.gated)

    def _grants(self, request: web.Request) -> GrantTable:
        """Raises HTTPForbidden, or HTTPServiceUnavailable if this replica does not lead."""
        self._admit(request)
        if self._state.grants is None or not self._state.is_leading():
            raise _not_yet()
        return self._state.grants

    def _admit(self, request: web.Request) -> None:
        """Raises HTTPForbidden for a client without a certificate. TLS has verified the one that it presents."""
        if self._is_private and not request.get_extra_info("peercert"):
            raise web.HTTPForbidden(text="show a client certificate of the authority named by --client-ca-file")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _not_yet() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=_NOT_YET)


def _large(request: web.Request) -> web.Request:
    return request.clone(client_max_size=_LARGEST_EXTENDER_REQUEST)


async def _answered(request: web.Request, answer: Callable[[bytes], bytes]) -> web.Response:
    try:
        body = answer(await request.read())
    except msgspec.DecodeError as error:
        raise web.HTTPBadRequest(text=f"{request.path}: {error}") from None
    return web.Response(body=body, content_type="application/json")
