"""A service that a kubeconfig names, as those are that an operator tells the API server to ask or to tell.

Source: k8s.io/apiserver, pkg/util/webhook (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlead.client import kubeconfig
from fairlead.client.calls import Connections, without_password
from fairlead.client.tls import tls_of
from fairlead.runtime import rng

#: How long an answer may take, unless something else is said.
SECONDS: Final = 30.0
#: How often a call is tried, and how long is waited before the second try, unless something else is said.
_MOST_TRIES: Final = 5
FIRST_WAIT_SECONDS: Final = 0.5


class KubeconfigService:
    """One service. Whoever has made it closes it. ValueError or OSError: the kubeconfig cannot be used."""

    def __init__(self, file: Path, seconds: float = SECONDS) -> None:
        import aiohttp  # noqa: F401  (it takes long, and who is named at the start is called later, on the loop)

        self._access = kubeconfig.load(file)
        if not self._access.server:
            raise ValueError(f"{file}: the current context has no server")
        if self._access.plugin is not None:
            raise ValueError(f"{file}: exec is not supported where this server shows a service who it is")
        self._context, self._seconds = tls_of(self._access), seconds
        self._connections = Connections()

    @property
    def url(self) -> str:
        """Which it is, to be told."""
        return without_password(self._access.server)

    async def close(self) -> None:
        await self._connections.close()

    async def post(self, body: bytes, *, most: int, allows_empty: bool = False) -> bytes:
        """The answer, which has at most so many bytes. Raises CallError."""
        return await self._connections.ask(
            "POST",
            self._access.server,
            body,
            context=self._context,
            seconds=self._seconds,
            most=most,
            headers=await kubeconfig.authorization(self._access),
            allows_empty=allows_empty,
        )


def back_off(first_wait_seconds: float) -> Iterator[float]:
    """How long is waited before each further try: half as much more each time."""
    wait = first_wait_seconds
    for _ in range(_MOST_TRIES - 1):
        yield wait * (1 + 0.2 * rng.source().random())
        wait *= 1.5
