"""Names of the world are asked of the servers that this machine itself asks.

A question goes out from a port of its own under an id of its own, and only the server that was asked can answer it.
What comes back is handed on as it is.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from fairlead.runtime import rng

#: As the resolver of the C library: three servers, and a wait for each.
MOST_SERVERS: Final = 3
TIMEOUT_SECONDS: Final = 2.0
PORT: Final = 53
_LARGEST_FILE: Final = 64 * 1024

log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """Nobody has answered, or there is nobody to ask."""


class Upstream:
    def __init__(self, resolv_conf: Path, ourselves: str, port: int = PORT) -> None:
        self._path, self._ourselves, self._port = resolv_conf, ourselves, port
        self._read_at = -1
        self._servers: Sequence[str] = ()

    async def ask(self, query: bytes, *, over_tcp: bool) -> bytes:
        """The answer to a question, in the form of the wire, under the id of the question."""
        number = rng.source().getrandbits(16).to_bytes(2, "big")
        ask = _over_tcp if over_tcp else _over_udp
        for server in self._current():
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    answer = await ask(server, self._port, number + query[2:])
                return query[:2] + answer[2:]
            except (OSError, EOFError, ValueError):  # TimeoutError is one of the first
                continue
        raise NoAnswer

    def _current(self) -> Sequence[str]:
        """The servers as the file has them now: a laptop gets others with each network that it joins."""
        try:
            changed_at = self._path.stat().st_mtime_ns
            if changed_at != self._read_at:
                with self._path.open("rb") as file:
                    self._servers = name_servers(os.fsdecode(file.read(_LARGEST_FILE)), self._ourselves)
                self._read_at = changed_at
        except OSError:
            self._servers, self._read_at = (), -1
        return self._servers


def name_servers(resolv_conf: str, ourselves: str) -> list[str]:
    """Without ourselves: a question would go round for ever."""
    found = []
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver" and words[1] != ourselves:
            try:
                ip_address(words[1].partition("%")[0])
            except ValueError:
                continue
            found.append(words[1])
    return found[:MOST_SERVERS]


class _OneAnswer(asyncio.DatagramProtocol):
    def __init__(self, number: bytes) -> None:
        self._number = number
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._number and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


async def _over_udp(server: str, port: int, query: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(lambda: _OneAnswer(query[:2]), remote_addr=(server, port))
    try:
        transport.sendto(query)
        return await protocol.answer
    finally:
        transport.close()


async def _over_tcp(server: str, port: int, query: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server, port)
    try:
        writer.write(len(query).to_bytes(2, "big") + query)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        if answer[:2] != query[:2]:
            raise ValueError("an answer to another question")
        return answer
    finally:
        writer.close()
