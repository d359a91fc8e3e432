"""A small, fast HTTP/1.1 client, so that a benchmark measures the server and not its driver."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from fairlead.client import tls
from fairlead.client.kubeconfig import Access, load


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    async def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        """The body of the answer; RuntimeError if it is a refusal."""
        self.send(method, path, body, content_type)
        status, answer = await self._answer()
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return answer

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> None:
        head = b"%b %b HTTP/1.1\r\n%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (
            method.encode(),
            path.encode(),
            self._head,
            content_type.encode(),
            len(body),
        )
        self._writer.write(head + body)

    async def _answer(self) -> tuple[int, bytes]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        low = head.lower()
        at = low.find(b"content-length:")
        length = int(low[at + 15 : low.index(b"\r\n", at)])
        chunks = []
        while length > 0:
            chunk = await self._reader.read(min(length, 1 << 20))
            if not chunk:
                raise ConnectionResetError("the server closed the connection within an answer")
            chunks.append(chunk)
            length -= len(chunk)
        return status, b"".join(chunks)

    async def lines(self, path: str, on_line: Callable[[bytes], None]) -> None:
        """Stream a watch; `on_line` gets every chunk as it comes."""
        await self.begin(path)
        while chunk := await self._reader.read(1 << 18):
            on_line(chunk)

    async def begin(self, path: str) -> None:
        """Ask for a watch; return when it has begun."""
        self.send("GET", path)
        await self._reader.readuntil(b"\r\n\r\n")

    def ask_without_reading(self, path: str) -> None:
        """Send a request and take nothing of its answer."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.send("GET", path)

    def close(self) -> None:
        self._writer.close()


@cache
def tls_of(access: Access) -> ssl.SSLContext | None:
    """The context of all connections of that access: to make one takes 30 ms."""
    return tls.tls_of(access) if access.server.startswith("https") else None


async def connect(access: Access, accept: str = "application/json") -> Connection:
    url = urlsplit(access.server)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=tls_of(access), limit=1 << 26)
    token = f"authorization: Bearer {access.token}\r\n" if access.token else ""
    return Connection(reader, writer, f"host: {url.netloc}\r\naccept: {accept}\r\n{token}".encode())


class Discard:
    """A blocking connection that throws away what it reads: asyncio reads 20 MB slower than they are sent."""

    def __init__(self, access: Access, accept: str = "application/json") -> None:
        url, context = urlsplit(access.server), tls_of(access)
        self._socket = socket.create_connection((url.hostname or "", url.port or 443))
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname=url.hostname)
        token = f"authorization: Bearer {access.token}\r\n" if access.token else ""
        self._head = f"host: {url.netloc}\r\naccept: {accept}\r\n{token}\r\n".encode()
        self._room = memoryview(bytearray(1 << 20))

    def get(self, path: str) -> None:
        """Read one answer to its end; RuntimeError if it is a refusal."""
        self._socket.sendall(b"GET %b HTTP/1.1\r\n%b" % (path.encode(), self._head))
        begin = b""
        while b"\r\n\r\n" not in begin:
            begin += self._room[: self._some()]
        head, _, body = begin.partition(b"\r\n\r\n")
        if int(head[9:12]) != HTTPStatus.OK:
            raise RuntimeError(f"GET {path}: {head[:300]!r}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        left = int(length.partition(b":")[2]) - len(body)
        while left > 0:
            left -= self._some()

    def _some(self) -> int:
        count = self._socket.recv_into(self._room)
        if not count:
            raise ConnectionResetError("the server closed the connection within an answer")
        return count

    def close(self) -> None:
        self._socket.close()


async def spread(
    kubeconfig: Path,
    connections: int,
    jobs: Iterable[tuple[str, str, bytes]],
    content_type: str = "application/json",
) -> None:
    """Send the requests over so many connections, each as soon as the one before it is answered."""
    access = load(kubeconfig)
    queue = iter(jobs)

    async def work() -> None:
        connection = await connect(access)
        for method, path, body in queue:
            await connection.request(method, path, body, content_type)
        connection.close()

    await _all(work() for _ in range(connections))


async def _all(tasks: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*tasks)


def user_of(admin: Path, name: str, group: str) -> Path:
    """The kubeconfig of a user who may do everything, but is not exempt from queues as the admin is."""
    command = [sys.executable, "-m", "fairlead", "kubeconfig", "--data-dir", str(admin.parent)]
    made = subprocess.run([*command, "--user", name, "--group", group], stdout=subprocess.PIPE, check=True)
    admin.with_name(name).write_bytes(made.stdout)
    binding = ("create", "clusterrolebinding", name, "--clusterrole=cluster-admin", f"--group={group}")
    subprocess.run(["kubectl", "--kubeconfig", admin, *binding], stdout=subprocess.DEVNULL, check=True)
    return admin.with_name(name)
