"""Answers calls of others: gRPC, by grpclib with our own messages. `listening.py` loads this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from fairlead.agent.grpc import protobuf
from fairlead.agent.grpc.client import Codec, bound, decoded
from fairlead.agent.grpc.listening import Refused, Served
from fairlead.agent.grpc.protobuf import Malformed, Message
from fairlead.runtime.offload import offload

#: What others ask is short.
_LONGEST_REQUEST: Final = 64 << 10
#: Who connects has so long to ask.
_ASK_SECONDS: Final = 10.0


class Calls:
    """Of all who connect to one socket."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._server = Server([_Handlers(served)], codec=Codec())
        self._protocols = WeakSet[H2Protocol]()

    def protocol(self) -> asyncio.BaseProtocol:
        """Of one connection."""
        made = self._server._protocol_factory()
        self._protocols.add(made)
        return made

    def close(self) -> None:
        """Hang up; grpclib would leave connections open."""
        for protocol in list(self._protocols):
            if hasattr(protocol, "connection"):  # it has come to that
                protocol.processor.close("the node ends")
                protocol.connection.close()


class _Handlers:
    """As grpclib asks for them."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._served = served

    def __mapping__(self) -> Mapping[str, Handler]:
        return {
            each.method.path: Handler(_handler(each), Cardinality.UNARY_UNARY, each.method.asked, each.method.answer)
            for each in self._served
        }


def _handler(served: Served) -> Callable[[Any], Awaitable[None]]:
    async def answer(stream: Any) -> None:
        bound(stream, _LONGEST_REQUEST)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                asked = await stream.recv_message()
            answered = await served.answer(await decoded(asked or b"", served.method.asked))
        except Malformed as problem:
            raise GRPCError(Status.INTERNAL, f"grpc: error unmarshalling request: {problem}") from None
        except Refused as refused:
            raise GRPCError(Status[refused.code], str(refused)) from None
        await stream.send_message(await _encoded(answered))

    return answer


async def _encoded(message: Message) -> bytes:
    """Beside the loop: nobody knows how long it is before."""
    return await offload(partial(protobuf.encode, message), is_long=True)
