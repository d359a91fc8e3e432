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


def first_of(*ways: Authenticator) -> Authenticator:
    """Several ways to be known, asked in order; a way that knows the client ends it."""

    async def authenticate(credentials: Credentials) -> User | None:
        for way in ways:
            if (user := await way(credentials)) is not None:
                return user
        return None

    return authenticate
