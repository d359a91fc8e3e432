"""Sockets of this node at which it is called: gRPC, which is loaded when somebody connects.

On most nodes nobody does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead.agent.grpc.methods import Method
from fairlead.agent.grpc.protobuf import Message

if TYPE_CHECKING:
    from fairlead.agent.grpc.server import Calls

log = logging.getLogger(__name__)


class Refused(Exception):
    """Why a call is not answered; `code` is gRPC's word for it."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        self.code = code
        super().__init__(message)


class Served(NamedTuple):
    """A method, and what answers it: from a message of ours to another. Refused."""

    method: Method[Any, Any]
    answer: Callable[[Any], Awaitable[Message]]


@asynccontextmanager
async def listening(path: Path, served: Sequence[Served]) -> AsyncIterator[None]:
    """While the block runs, calls at that path are answered. OSError where nobody can listen there."""
    calls: Calls | None = None

    def connected() -> asyncio.BaseProtocol:
        nonlocal calls
        if calls is None:
            from fairlead.agent.grpc.server import Calls  # with what speaks gRPC

            calls = Calls(served)
        return calls.protocol()

    server = await asyncio.get_running_loop().create_unix_server(connected, path)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240  (at once)
        if calls is not None:
            calls.close()


async def serve(path: Path, served: Sequence[Served]) -> None:
    """Until cancelled; where nobody can listen there it is said once, and all else goes on."""
    try:
        async with listening(path, served):
            await asyncio.get_running_loop().create_future()
    except OSError as problem:
        log.warning("nobody can be answered at %s: %s", path, problem)
