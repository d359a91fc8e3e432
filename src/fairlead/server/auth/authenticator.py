"""The question that every way to authenticate answers: who is this?

Source: pkg/kubeapiserver/authenticator/config.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from fairlead.api.users import ANONYMOUS_USER, User


class Credentials(msgspec.Struct, frozen=True):
    """What a client shows of itself before anything else of its request is looked at."""

    headers: Mapping[bytes, bytes]
    #: The connection, which knows the certificate of a TLS peer.
    transport: asyncio.BaseTransport
    #: What is asked for, without its query: some paths are open to everybody.
    path: str = ""
    #: All headers, of which some may come more than once.
    every_header: Sequence[tuple[bytes, bytes]] = ()
    #: A token that is shown among the protocols of a WebSocket.
    protocol_token: str = ""
    #: Names of headers that have said who it is: what the request goes on to must not read them.
    used: set[bytes] = msgspec.field(default_factory=set)

    @property
    def bearer_token(self) -> str:
        """The bearer token that is shown; "" without one. Another scheme of `Authorization` is none."""
        scheme, _, rest = self.headers.get(b"authorization", b"").strip().partition(b" ")
        token = rest.split(b" ", 1)[0].decode("latin-1") if scheme.lower() == b"bearer" else ""
        return token or self.protocol_token


#: Who it is; None: nobody we know.
Authenticator = Callable[[Credentials], Awaitable[User | None]]


def shown_first(bearer: Authenticator, *others: Authenticator) -> Authenticator:
    """Who shows a token is known by it, or by nothing; who shows none is known by the first of the others that can.

    kube-apiserver looks at the certificate first, so that `kubectl --token` beside one does nothing without a word.
    """

    async def authenticate(credentials: Credentials) -> User | None:
        if credentials.bearer_token:
            return await bearer(credentials)
        for other in others:
            if (user := await other(credentials)) is not None:
                return user
        return None

    return authenticate


def first_of(*authenticators: Authenticator) -> Authenticator:
    """Who is known by one of them, asked in this order."""

    async def authenticate(credentials: Credentials) -> User | None:
        for each in authenticators:
            if (user := await each(credentials)) is not None:
                return user
        return None

    return authenticate


def anonymous(paths: frozenset[str] = frozenset()) -> Authenticator:
    """Lets in whoever shows nothing: to these paths, or to all if none is named."""

    async def authenticate(credentials: Credentials) -> User | None:
        return ANONYMOUS_USER if not paths or credentials.path in paths else None

    return authenticate
