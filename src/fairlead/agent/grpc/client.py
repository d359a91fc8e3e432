"""Calls of a container runtime, or of who else has a socket here: gRPC, by grpclib with our own messages.

Every call opens the connection anew where it was lost, so a runtime may be restarted at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.config import Configuration
from grpclib.const import Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from fairlead.agent.grpc import protobuf
from fairlead.agent.grpc.methods import Answer, Asked, Method
from fairlead.agent.grpc.protobuf import M, Malformed
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.runtime.offload import offload
from fairlead.runtime.watchdog import current_name

T = TypeVar("T")

#: As a kubelet has it (runtimeRequestTimeout).
CALL_SECONDS: Final = 120.0
_SCHEME: Final = "unix://"
#: As much as a kubelet takes.
_LONGEST_ANSWER: Final = 16 << 20
#: From how many bytes on it may take tenths of a second to decode one.
_LONG_ANSWER: Final = 32 << 10
#: What grpclib raises at an answer that is cut off, is compressed, or has no status of HTTP.
_NONSENSE: Final = (AssertionError, NotImplementedError, KeyError)
#: How much of an answer may be on its way at once.
_WINDOW_BYTES: Final = 4 << 20


class CallFailed(RuntimeFailure):
    """The runtime refused; `code` is gRPC's word for why, as Go spells it."""

    def __init__(self, status: Status, message: str) -> None:
        self.status, self.code, self.message = status, _code(status), message
        super().__init__(f"rpc error: code = {self.code} desc = {message}")


class Unreachable(RuntimeFailure):
    """Nobody answers at the socket."""


class Client:
    def __init__(self, endpoint: str, who: str = "the container runtime", longest: int = _LONGEST_ANSWER) -> None:
        """ValueError for what is no path of a socket, or `unix://` before one; `who` listens there, and may answer so
        many bytes at once."""
        path = endpoint.removeprefix(_SCHEME)
        if not path.startswith("/"):
            raise ValueError(f"container runtime endpoint {endpoint!r}: write unix:///path/of/the/socket")
        self.socket, self._who, self._longest = Path(path), who, longest
        config = Configuration(http2_connection_window_size=_WINDOW_BYTES, http2_stream_window_size=_WINDOW_BYTES)
        self._channel = Channel(path=path, codec=Codec(), config=config)

    async def call(self, method: Method[Asked, Answer], asked: Asked, seconds: float | None = CALL_SECONDS) -> Answer:
        """CallFailed, Unreachable; without `seconds` it may take for ever."""
        answer = await apart(self._called(method, asked, seconds))
        with self._failures_of(method.path):
            if answer is None:
                raise Malformed("no message")
            return await decoded(answer, method.answer)

    async def _called(self, method: Method[Asked, Answer], asked: Asked, seconds: float | None) -> bytes | None:
        remote = UnaryUnaryMethod[Asked, bytes](self._channel, method.path, method.asked, bytes)
        with self._failures_of(method.path):
            async with remote.open(timeout=seconds) as stream:
                await stream.send_message(asked, end=True)
                bound(stream, self._longest)
                return await stream.recv_message()

    async def stream(self, method: Method[Asked, Answer], asked: Asked) -> AsyncGenerator[Answer, None]:
        """What the runtime tells one after the other, until it ends that. CallFailed, Unreachable."""
        async with aclosing(self.stream_bytes(method, asked)) as told:
            async for answer in told:
                with self._failures_of(method.path):
                    found = await decoded(answer, method.answer)
                yield found

    async def stream_bytes(self, method: Method[Asked, Answer], asked: Asked) -> AsyncGenerator[bytes, None]:
        """The same as it comes, for whoever does not look at all of it."""
        told = self._told(method, asked)
        try:
            while (answer := await apart(following(told))) is not None:
                yield answer
        finally:
            with suppress(RuntimeFailure):  # nobody listens any more
                await told.aclose()

    async def _told(self, method: Method[Asked, Answer], asked: Asked) -> AsyncGenerator[bytes, None]:
        remote = UnaryStreamMethod[Asked, bytes](self._channel, method.path, method.asked, bytes)
        with self._failures_of(method.path):
            async with remote.open() as stream:
                await stream.send_message(asked, end=True)
                bound(stream, self._longest)
                async for answer in stream:
                    yield answer

    async def connected(self) -> asyncio.Future[None]:
        """Connect, if that is not so yet; what comes back is done once the connection is lost. Unreachable."""
        with self._failures_of("connect"):
            protocol = await self._channel.__connect__()
        lost = asyncio.get_running_loop().create_future()
        ended = protocol.connection_lost

        def connection_lost(problem: BaseException | None) -> None:
            ended(problem)
            if not lost.done():
                lost.set_result(None)

        protocol.connection_lost = connection_lost  # type: ignore[assignment,method-assign]
        return lost

    @contextmanager
    def _failures_of(self, path: str) -> Iterator[None]:
        try:
            yield
        except GRPCError as error:
            raise CallFailed(error.status, error.message or "") from None
        except TimeoutError:
            raise CallFailed(Status.DEADLINE_EXCEEDED, "context deadline exceeded") from None
        except (OSError, StreamTerminatedError, ProtocolError) as error:
            raise Unreachable(f"{self._who} at {self.socket} does not answer: {error or 'EOF'}") from None
        except (Malformed, *_NONSENSE) as error:
            raise CallFailed(Status.INTERNAL, f"{path} answers nonsense: {error}") from None
        except ValueError as error:  # what is no path
            raise Unreachable(f"{self._who} at {self.socket} cannot be reached: {error}") from None

    def close(self) -> None:
        self._channel.close()


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it, in a task of its own.

    To tell whoever waits that a connection is lost, or that it takes too long, grpclib cancels his task, and what else
    cancels it at that moment is lost: a task that was to end would go on.
    """
    task = asyncio.create_task(work, name=current_name())
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task.result()


async def following(told: AsyncIterator[bytes]) -> bytes | None:
    """What is told next; None: nothing any more."""
    return await anext(told, None)


def bound(stream: Any, longest: int) -> None:
    """Of a request of grpclib that was sent, or is answered: it takes a message of any length, and has no setting."""
    remote = stream._stream

    async def read(size: int) -> bytes:
        if size > longest:
            problem = f"grpc: received message larger than max ({size} vs. {longest})"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, problem)
        data: bytes = await remote.buffer.read(size)
        return data

    remote.recv_data = read


async def decoded(data: bytes, kind: type[M]) -> M:
    """A long one beside the loop. Malformed for bytes that are no such message."""
    return await offload(partial(protobuf.decode, data, kind), is_long=len(data) > _LONG_ANSWER)


class Codec(CodecBase):
    """For grpclib: of our messages, which go out; what comes in stays bytes, since it may be long. What goes out may be
    bytes, too.
    """

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return message if isinstance(message, bytes) else protobuf.encode(message)

    def decode(self, data: bytes, message_type: Any) -> Any:
        return data


def _code(status: Status) -> str:
    if status is Status.CANCELLED:
        return "Canceled"
    return "".join(word.capitalize() for word in status.name.split("_"))
