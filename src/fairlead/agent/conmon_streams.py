"""The streams of a container's own process, as conmon hands them to whoever attaches.

Each packet on its socket is a byte that names the output, and what was written. What is sent goes to the process, if
the container has an input; that stays open when the client goes, as the next may attach.
Source: conmon 2.1, `src/conn_sock.c`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from fairlead.agent import conmon_control
from fairlead.runtime.streaming.duplex import EndingSink, Inbox, Source
from fairlead.runtime.streaming.remote_command import Size, Wanted

_STDOUT, _STDERR = 2, 3
#: A packet is one write of a container, which conmon reads in pieces of 8 KiB (32 KiB in later versions).
_PACKET_BYTES: Final = 64 << 10
_SENT_BYTES: Final = 8 << 10


async def attach(folder: Path, wanted: Wanted, wait: Callable[[], Awaitable[int]]) -> ConmonStreams:
    """Attach to the container whose bundle that is (`conmon --full-attach`). `wait` tells its exit code.

    OSError: nobody listens, so it does not run.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:  # the path itself may be longer than an address
        await asyncio.get_running_loop().sock_connect(sock, f"/proc/self/fd/{directory}/attach")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    return ConmonStreams(sock, folder, wanted, wait)


class ConmonStreams:
    """`ProcessStreams` of an attached client."""

    def __init__(self, sock: socket.socket, folder: Path, wanted: Wanted, wait: Callable[[], Awaitable[int]]) -> None:
        self._sock, self._folder, self._wait = sock, folder, wait
        outputs = {_STDOUT: Inbox() if wanted.stdout else None, _STDERR: Inbox() if wanted.stderr else None}
        self.stdin: EndingSink | None = _Input(sock) if wanted.stdin else None
        self.stdout: Source | None = outputs[_STDOUT]
        self.stderr: Source | None = outputs[_STDERR]
        self._reading = asyncio.create_task(_read(sock, outputs))

    async def resize(self, size: Size) -> None:
        with contextlib.suppress(OSError):  # it has just ended
            conmon_control.resize(self._folder, size)

    async def wait(self) -> int:
        return await self._wait()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._sock.close()


class _Input:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), _SENT_BYTES):
            await loop.sock_sendall(self._sock, data[start : start + _SENT_BYTES])

    async def end(self) -> None:
        """conmon closes the input then, unless it was told to leave it open."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)


async def _read(sock: socket.socket, outputs: dict[int, Inbox | None]) -> None:
    loop = asyncio.get_running_loop()
    try:
        while packet := await loop.sock_recv(sock, _PACKET_BYTES):
            inbox = outputs.get(packet[0])
            if inbox is not None:
                await inbox.put(packet[1:])
    finally:
        for inbox in outputs.values():
            if inbox is not None:
                inbox.end()
