"""Commands and attached containers by a runtime's streaming server: SPDY/3.1, as a kubelet speaks it with containerd.

The runtime says where the streams are (a URL that counts once); there a stream is opened for each that is wanted. The
error stream brings how it ended. Source: client-go `tools/remotecommand` (1.36).
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from fairlead.agent.kubelet_api.pod_streams import NotRun
from fairlead.runtime.streaming.command_protocols import V4
from fairlead.runtime.streaming.command_status import EXIT_CODE
from fairlead.runtime.streaming.duplex import Connection, EndingSink, Source
from fairlead.runtime.streaming.handshake import SPDY
from fairlead.runtime.streaming.remote_command import Size, Wanted
from fairlead.runtime.streaming.spdy import SpdyConnection, SpdyStream

CONNECT_SECONDS: Final = 10.0
#: How long the Status at the end may be.
_MOST_STATUS_BYTES: Final = 64 << 10
_SWITCHED: Final = b"HTTP/1.1 101 "


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Status(msgspec.Struct):
    status: str = ""
    message: str = ""
    details: _Details | None = None


async def open_streams(url: str, wanted: Wanted) -> RemoteStreams:
    """OSError says why there are none."""
    where = urlsplit(url)
    if where.scheme != "http" or not where.hostname:
        raise OSError(f"the runtime offers its streams at {url}, and only http:// can be reached")
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await _upgraded(where)
    spdy = SpdyConnection(connection, is_server=False)
    reading = asyncio.create_task(spdy.run())
    try:
        streams = {kind: await spdy.open({"streamtype": kind}) for kind in _kinds(wanted)}
        await streams["error"].end()
    except BaseException:
        reading.cancel()
        await connection.close()
        raise
    return RemoteStreams(connection, reading, streams)


class RemoteStreams:
    """`ProcessStreams` of a command, or of a container's own process."""

    def __init__(self, connection: Connection, reading: asyncio.Task[None], streams: dict[str, SpdyStream]) -> None:
        self._connection, self._reading, self._streams = connection, reading, streams
        self.stdin: EndingSink | None = streams.get("stdin")
        self.stdout: Source | None = streams.get("stdout")
        self.stderr: Source | None = streams.get("stderr")

    async def resize(self, size: Size) -> None:
        if (stream := self._streams.get("resize")) is not None:
            await stream.write(b'{"Width":%d,"Height":%d}\n' % size)

    async def wait(self) -> int:
        text = b""
        while (piece := await self._streams["error"].read()) and len(text) < _MOST_STATUS_BYTES:
            text += piece
        return _exit_code(text)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._connection.close()


async def _upgraded(where: SplitResult) -> Connection:
    reader, writer = await asyncio.open_connection(where.hostname, where.port or 80)
    try:
        writer.write(_head(where))
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(_SWITCHED):
            line = answer.partition(b"\r\n")[0].decode(errors="replace")
            raise OSError(f"the runtime refuses its streams: {line}")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        raise OSError("the runtime refuses its streams: malformed HTTP response") from None
    except BaseException:
        writer.close()
        raise
    return Connection(reader, writer)


def _head(where: SplitResult) -> bytes:
    target = f"{where.path or '/'}?{where.query}" if where.query else where.path or "/"
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: Upgrade",
        f"Upgrade: {SPDY}",
        f"X-Stream-Protocol-Version: {V4}",
        "Content-Length: 0",
    )
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _kinds(wanted: Wanted) -> list[str]:
    """In the order in which clients open them."""
    has = {"stdin": wanted.stdin, "stdout": wanted.stdout, "stderr": wanted.stderr and not wanted.is_terminal}
    terminal = ["resize"] if wanted.is_terminal else []
    return ["error", *(kind for kind, is_wanted in has.items() if is_wanted), *terminal]


def _exit_code(text: bytes) -> int:
    """NotRun for a command that did not come so far, or whose end is not known."""
    try:
        status = msgspec.json.decode(text, type=_Status)
    except msgspec.DecodeError:
        raise NotRun(text.decode(errors="replace") or "the runtime ended the connection") from None
    if status.status == "Success":
        return 0
    causes = status.details.causes if status.details is not None else []
    code = next((cause.message for cause in causes if cause.reason == EXIT_CODE), "")
    if not code.isdecimal():
        raise NotRun(status.message)
    return int(code)
