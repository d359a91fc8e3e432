"""The arbitrator's listener on a real cluster: extender, webhooks, health and metrics on one port.

On addresses other than loopback it requires TLS. Webhook answers contain nothing that is not in the request, so the API
server needs no certificate; extender and metrics reveal the cluster, so their clients need a certificate of the client
CA.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from fairlead.arbitrator import extender, webhooks
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.loop import always
from fairlead.arbitrator.review import ReviewContext
from fairlead.golang.json import UNREADABLE
from fairlead.runtime.http.bodies import Bodies
from fairlead.runtime.http.exchange import Receive, Scope
from fairlead.runtime.http.listener import Limits, bind, serving
from fairlead.runtime.http.protocol import ON_AUTHENTICATED, TRANSPORT, Patience
from fairlead.runtime.http.replies import Failed, Reply
from fairlead.runtime.http.routes import Routes, healthy, measured
from fairlead.runtime.metrics import MetricsRegistry
from fairlead.runtime.tls import server_context

#: A question holds all nodes of a large cluster. A review, which any client may send, holds two objects.
_LARGEST_QUESTION: Final = 256 << 20
_LARGEST_REVIEW: Final = 8 << 20
#: What is held of all that come at once.
_QUESTIONS_TOGETHER: Final = 512 << 20
_REVIEWS_TOGETHER: Final = 64 << 20
#: API servers wait for a webhook for 30 s at most. Go's clients end an idle connection first, and so never write to one
#: that is closed.
_LIMITS: Final = Limits(Patience(head=30.0, body=30.0, idle=120.0))
_EVERY_ADDRESS: Final = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
#: How often to check for a renewed certificate.
LOOK_SECONDS: Final = 30.0

_NOT_YET: Final = Reply(b"not leading, or not yet informed", 503)

log = logging.getLogger(__name__)


class ListenAddress(msgspec.Struct, frozen=True):
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


class Tls(msgspec.Struct, frozen=True):
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


class ListenerState(msgspec.Struct):
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
    context = tls.context() if tls else None
    sock = bind(listen.port, listen.host or _EVERY_ADDRESS)
    renewing = asyncio.create_task(tls.keep_fresh(context)) if tls and context else None
    try:
        async with serving(_Answers(state, is_private=not listen.is_loopback).routes, sock, context, _LIMITS):
            yield sock.getsockname()[1]
    finally:
        if renewing is not None:
            renewing.cancel()


class _Answers:
    """The handlers over a state."""

    def __init__(self, state: ListenerState, *, is_private: bool) -> None:
        self._state, self._is_private = state, is_private
        self._questions = Bodies(_LARGEST_QUESTION, _QUESTIONS_TOGETHER)
        self._reviews = Bodies(_LARGEST_REVIEW, _REVIEWS_TOGETHER)
        self._turn = asyncio.Lock()
        self.routes = Routes(
            {"/healthz": healthy, "/readyz": self._ready, "/metrics": self._metrics},
            {
                "/filter": self._filter,
                "/preempt": self._preempt,
                "/validate": self._validate,
                "/gate": self._gate,
            },
        )

    async def _ready(self, scope: Scope, receive: Receive) -> Reply:
        return _NOT_YET if self._state.context is None else await healthy(scope, receive)

    async def _metrics(self, scope: Scope, receive: Receive) -> Reply:
        self._admit(scope)
        return await measured(self._state.metrics)(scope, receive)

    async def _filter(self, scope: Scope, receive: Receive) -> Reply:
        grants = self._grants(scope)
        return await self._answered(self._questions, scope, receive, lambda body: extender.filter_result(body, grants))

    async def _preempt(self, scope: Scope, receive: Receive) -> Reply:
        grants = self._grants(scope)
        return await self._answered(
            self._questions, scope, receive, lambda body: extender.preemption_result(body, grants)
        )

    async def _validate(self, scope: Scope, receive: Receive) -> Reply:
        context = self._state.context
        if context is None:
            return _NOT_YET
        return await self._reviewed(
            scope, receive, lambda body: webhooks.validated(body, context, self._state.arbitrators)
        )

    async def _gate(self, scope: Scope, receive: Receive) -> Reply:
        return await self._reviewed(scope, receive, webhooks.gated)

    async def _reviewed(self, scope: Scope, receive: Receive, answer: Callable[[bytes], bytes]) -> Reply:
        """API servers show no certificate: whoever asks what makes sense is taken for one."""
        reply = await self._answered(self._reviews, scope, receive, answer)
        scope[ON_AUTHENTICATED]()
        return reply

    async def _answered(
        self, bodies: Bodies, scope: Scope, receive: Receive, answer: Callable[[bytes], bytes]
    ) -> Reply:
        """One at a time: what many ask at once holds up nobody else for longer than one of them."""
        async with bodies.whole(scope, receive) as body, self._turn:
            await asyncio.sleep(0)
            try:
                return Reply.json(answer(body))
            except UNREADABLE as error:
                raise Failed(400, f"{scope['raw_path'].decode('ascii')}: {error}") from None

    def _grants(self, scope: Scope) -> GrantTable:
        """Raises Failed for strangers, and if this replica does not lead."""
        self._admit(scope)
        if self._state.grants is None or not self._state.is_leading():
            raise Failed(_NOT_YET.code, _NOT_YET.body.decode())
        return self._state.grants

    def _admit(self, scope: Scope) -> None:
        """Raises Failed for a client without a certificate. TLS has verified the one that it presents."""
        if self._is_private and not scope[TRANSPORT].get_extra_info("peercert"):
            raise Failed(403, "show a client certificate of the authority named by --client-ca-file")
        scope[ON_AUTHENTICATED]()
