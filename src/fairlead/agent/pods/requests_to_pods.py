"""What a node asks of containers itself: probes and hooks, by command, HTTP, gRPC or a connection.

Source: pkg/probe, pkg/kubelet/lifecycle.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from fairlead import COMPATIBILITY_VERSION
from fairlead.agent import linux
from fairlead.agent.runtimes.base import Runtime, RuntimeFailure
from fairlead.api.objects import Obj

#: How much of an answer is told.
MOST_OUTPUT: Final = 10 << 10
_MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_USER_AGENT: Final = f"kube-probe/{'.'.join(COMPATIBILITY_VERSION.split('.')[:2])}"


class Answer(NamedTuple):
    """What came of a question: why it failed, empty if all is well; and what is odd about an answer that is well."""

    failure: str = ""
    warning: str = ""


_WELL: Final = Answer()


class Asker:
    """Asks one container, at its pod's address and from within its network, so that nothing can be in between."""

    def __init__(
        self, runtime: Runtime, container_id: str, netns: Path | None, address: str, ports: Sequence[Obj]
    ) -> None:
        self._runtime, self._id, self._netns, self._address = runtime, container_id, netns, address
        self._ports: Mapping[str, int] = {port["name"]: port["containerPort"] for port in ports if port.get("name")}

    async def ask(self, action: Obj, seconds: float) -> Answer:
        """Do what a probe or hook says; it fails if it takes longer."""
        if (service := action.get("grpc")) is not None:
            return Answer(await self._health(service, seconds))
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(action, seconds)
        except TimeoutError:
            if "exec" in action:
                return Answer(f"command timed out after {seconds:g}s")
            return Answer("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")

    async def run_hook(self, hook: Obj, seconds: float) -> str:
        """Why a hook fails. A connection alone means nothing to one: Kubernetes has the field, and fails it."""
        if "tcpSocket" in hook:
            return "invalid handler: tcpSocket"
        return (await self.ask(hook, seconds)).failure

    async def _ask(self, action: Obj, seconds: float) -> Answer:
        if (command := action.get("exec")) is not None:
            return Answer(await self._exec(command.get("command") or (), seconds))
        if (request := action.get("httpGet")) is not None:
            return await self._http(request)
        if (connection := action.get("tcpSocket")) is not None:
            return Answer(await self._connect(connection))
        await asyncio.sleep(action["sleep"]["seconds"])
        return _WELL

    async def _exec(self, command: Sequence[str], seconds: float) -> str:
        try:
            done = await self._runtime.run_in(self._id, command, seconds)
        except RuntimeFailure as failure:
            return str(failure)
        if done.exit_code == 0:
            return ""
        return done.output[:MOST_OUTPUT].decode(errors="replace") or f"command exited with {done.exit_code}"

    async def _http(self, request: Obj) -> Answer:
        host, scheme = request.get("host") or self._address, (request.get("scheme") or "HTTP").lower()
        path = request.get("path") or "/"
        url = f"{scheme}://{host}:{self._port(request['port'])}{path if path.startswith('/') else '/' + path}"
        headers = {"User-Agent": _USER_AGENT, "Accept": "*/*", "Connection": "close"}
        headers |= {header["name"]: header["value"] for header in request.get("httpHeaders") or ()}
        connector = aiohttp.TCPConnector(ssl=False, force_close=True, socket_factory=self._socket)
        try:
            async with aiohttp.ClientSession(connector=connector) as session:
                return await _followed(session, URL(url), headers)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(f'Get "{url}": {_refusal(error, host, self._port(request["port"]))}')

    async def _connect(self, connection: Obj) -> str:
        host, port = connection.get("host") or self._address, self._port(connection["port"])
        try:
            (await self._connected(host, port)).close()
        except OSError as error:
            return _refusal(error, host, port)
        return ""

    async def _health(self, service: Obj, seconds: float) -> str:
        port, name = service["port"], service.get("service") or ""
        from fairlead.agent.pods.grpc_health import check  # 2 MB, where somebody is asked so

        return await check(lambda: self._connected(self._address, port), f"{self._address}:{port}", name, seconds)

    async def _connected(self, host: str, port: int) -> socket.socket:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = self._socket(found[0])
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, found[0][4])
        except BaseException:
            sock.close()
            raise
        return sock

    def _socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        return linux.socket_in(self._netns, family, kind, protocol)

    def _port(self, port: int | str) -> int:
        """A port may have a name; one that nobody knows is refused by the kernel."""
        if isinstance(port, int):
            return port
        return self._ports.get(port, 0) if not port.isdecimal() else int(port)


async def _followed(session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str]) -> Answer:
    """Redirects lead to the same host only; where one leads away, it is the answer, with a warning."""
    first = url.host
    for _ in range(_MOST_REDIRECTS):
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            if not 200 <= response.status < 400:
                return Answer(f"HTTP probe failed with statuscode: {response.status}")
            if response.status < 300:
                return _WELL
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or location is None or (url := url.join(URL(location))).host != first:
                body = (await response.content.read(MOST_OUTPUT)).decode(errors="replace")
                return Answer(warning=f"Probe terminated redirects, Response body: {body}")
    raise ValueError(f"stopped after {_MOST_REDIRECTS} redirects")


def _refusal(error: Exception, host: str, port: int) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ConnectionRefusedError):
        return f"dial tcp {host}:{port}: connect: connection refused"
    return f"dial tcp {host}:{port}: {cause}" if isinstance(cause, OSError) else str(error)
