"""The arbitrator's listener on a real cluster: extender, webhooks, health and metrics on one port.

Beyond this machine it speaks TLS only. Webhooks are called by the API server and tell nothing that is not in the
request; the extender and the metrics tell of the cluster, so there they are for those who show a certificate of the
authority that was named.
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
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fairlead.arbitrator import extender, webhooks
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.loop import always
from fairlead.arbitrator.review import World
from fairlead.runtime.tls import server_context

#: The nodes of a large cluster, whole, in one question; and an object before and after, which anybody may send.
_LARGEST_QUESTION: Final = 256 << 20
_LARGEST_REVIEW: Final = 8 << 20
_BUFFER: Final = 1 << 20
#: Longer than Go's clients keep an idle connection, so that it is they who close it.
_KEEP_ALIVE_SECONDS: Final = 120
#: How often to look whether the certificate is another.
LOOK_SECONDS: Final = 30.0

_NOT_YET: Final = "not leading, or not yet informed"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
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
    """Files: what to show, and whose certificates to believe."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError) for files that cannot be used."""
        context = server_context()
        self._load(context)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL  # an API server shows none to webhooks
        return context

    async def keep_fresh(self, context: ssl.SSLContext) -> None:
        """Load the files again whenever they are others: certificates are renewed while we run. Until cancelled."""
        seen = self._state()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if (now := self._state()) != seen:
                    self.context()  # half of them must not get into the one in use
                    self._load(context)
                    seen = now
            except OSError as error:
                log.warning("cannot load the renewed certificate: %s", error)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self.certificate, self.private_key)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)

    def _state(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in (self.certificate, self.private_key, self.client_ca) if file]


@dataclass(slots=True)
class State:
    """What is answered from. Questions that come before it is there are put off."""

    registry: CollectorRegistry
    world: World | None = None
    #: Once this arbitrator has divided the cluster.
    ledger: Ledger | None = None
    #: Whether it still is the one arbitrator. Only that one knows who was let start.
    is_leading: Callable[[], bool] = always
    #: As whom arbitrators write.
    arbitrators: frozenset[str] = frozenset()


def check(listen: Address, tls: Tls | None) -> None:
    """Raises ValueError for a listener that would let anybody in."""
    if tls is None and not listen.is_loopback:
        raise ValueError(
            f"{listen.host or 'every address'} is not loopback: "
            "listening there needs --tls-cert-file and --tls-private-key-file"
        )


@asynccontextmanager
async def listening(listen: Address, tls: Tls | None, state: State) -> AsyncIterator[int]:
    """Answer while the block runs; the port. Raises ValueError, or OSError for a port or files that cannot be used."""
    check(listen, tls)
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

    def __init__(self, state: State, *, is_private: bool) -> None:
        self._state, self._is_private = state, is_private

    async def ready(self, _: web.Request) -> web.Response:
        if self._state.world is None:
            return web.Response(status=503, text=_NOT_YET)
        return web.Response(text="ok")

    async def metrics(self, request: web.Request) -> web.Response:
        self._admit(request)
        return web.Response(body=generate_latest(self._state.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def filter(self, request: web.Request) -> web.Response:
        ledger = self._ledger(request)
        return await _answered(_large(request), lambda body: extender.answer(body, ledger))

    async def preempt(self, request: web.Request) -> web.Response:
        ledger = self._ledger(request)
        return await _answered(_large(request), lambda body: extender.preemption(body, ledger))

    async def validate(self, request: web.Request) -> web.Response:
        world = self._state.world
        if world is None:
            raise _not_yet()
        return await _answered(request, lambda body: webhooks.validated(body, world, self._state.arbitrators))

    async def gate(self, request: web.Request) -> web.Response:
        return await _answered(request, webhooks.gated)

    def _ledger(self, request: web.Request) -> Ledger:
        """Raises HTTPForbidden, or HTTPServiceUnavailable if we cannot know who may start."""
        self._admit(request)
        if self._state.ledger is None or not self._state.is_leading():
            raise _not_yet()
        return self._state.ledger

    def _admit(self, request: web.Request) -> None:
        """Raises HTTPForbidden for a stranger. TLS has verified whatever certificate there is."""
        if self._is_private and not request.get_extra_info("peercert"):
            raise web.HTTPForbidden(text="show a client certificate of the authority named by --client-ca-file")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _not_yet() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=_NOT_YET)


def _large(request: web.Request) -> web.Request:
    return request.clone(client_max_size=_LARGEST_QUESTION)


async def _answered(request: web.Request, answer: Callable[[bytes], bytes]) -> web.Response:
    try:
        body = answer(await request.read())
    except msgspec.DecodeError as error:
        raise web.HTTPBadRequest(text=f"{request.path}: {error}") from None
    return web.Response(body=body, content_type="application/json")
