"""The question that every way to authenticate answers: who is this?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fairlead.api.users import User


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows of itself before anything else of its request is looked at."""

    headers: Mapping[bytes, bytes]
    #: The connection, which knows the certificate of a TLS peer.
    transport: asyncio.BaseTransport


#: Who it is; None: nobody we know.
Authenticator = Callable[[Credentials], Awaitable[User | None]]


def shown_first(bearer: Authenticator, otherwise: Authenticator) -> Authenticator:
    """Who shows a token is known by it, or by nothing; who shows none is known otherwise.

    kube-apiserver looks at the certificate first, so that `kubectl --token` beside one does nothing without a word.
    """

    async def authenticate(credentials: Credentials) -> User | None:
        return await (bearer if b"authorization" in credentials.headers else otherwise)(credentials)

    return authenticate
