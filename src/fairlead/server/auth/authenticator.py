"""The question that every way to authenticate answers: who is this?

Source: pkg/kubeapiserver/authenticator/config.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.api.users import ANONYMOUS, UNAUTHENTICATED, User

#: Whoever shows nothing, where that is enough.
ANONYMOUS_USER: Final = User(ANONYMOUS, (UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows of itself before anything else of its request is looked at."""

    headers: Mapping[bytes, bytes]
    #: The connection, which knows the certificate of a TLS peer.
    transport: asyncio.BaseTransport
    #: What is asked for, without its query: some paths are open to everybody.
    path: str = ""

    @property
    def bearer_token(self) -> str:
        """The bearer token that is shown; "" without one. Another scheme of `Authorization` is none."""
        scheme, _, rest = self.headers.get(b"authorization", b"").strip().partition(b" ")
        return rest.split(b" ", 1)[0].decode("latin-1") if scheme.lower() == b"bearer" else ""


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


def anonymous(paths: frozenset[str] = frozenset()) -> Authenticator:
    """Lets in whoever shows nothing: to these paths, or to all if none is named."""

    async def authenticate(credentials: Credentials) -> User | None:
        return ANONYMOUS_USER if not paths or credentials.path in paths else None

    return authenticate
