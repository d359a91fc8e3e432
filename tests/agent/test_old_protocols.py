"""Commands over the first protocols and over those in base64, and logs over a WebSocket, of real containers."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead.api.users import User
from fairlead.client.tls import show, trusting
from fairlead.runtime.loops import run
from tests.agent.real_node import RealNode, real_node

POD = "/api/v1/namespaces/default/pods/p"
SLEEPING = {"name": "main", "command": ["sleep", "infinity"]}
TALKING = {"name": "main", "command": ["sh", "-c", "echo one; echo two; exec sleep infinity"]}


def on_real_node(folder: Path, container: dict[str, Any], story: Callable[[RealNode], Awaitable[None]]) -> None:
    async def main() -> None:
        async with real_node(folder) as node:
            await node.start("p", container)
            async with asyncio.timeout(60):
                await story(node)

    run(main())


@asynccontextmanager
async def websocket(
    node: RealNode, path: str, protocols: Sequence[str]
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    identity = node.authority.identify(User("admin", ("system:masters",)))
    context = trusting(node.authority.certificate_pem)
    show(context, identity.certificate, identity.key)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(node.cluster.address + path, ssl=context, protocols=protocols) as socket,
    ):
        yield socket


async def messages(socket: aiohttp.ClientWebSocketResponse) -> list[aiohttp.WSMessage]:
    return [message async for message in socket]


def test_a_command_over_base64(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        script = "command=sh&command=-c&command=read+x%3B+echo+got+$x%3B+exit+3&stdin=true&stdout=true"
        for protocol in ("base64.channel.k8s.io", "v4.base64.channel.k8s.io"):
            async with websocket(node, f"{POD}/exec?{script}", [protocol]) as socket:
                assert socket.protocol == protocol
                await socket.send_str("0" + b64encode(b"something\n").decode())
                found: dict[str, bytes] = {}
                for message in await messages(socket):
                    assert message.type is aiohttp.WSMsgType.TEXT
                    found[message.data[0]] = found.get(message.data[0], b"") + b64decode(message.data[1:])
            assert found["1"] == b"got something\n"
            told = b"command terminated with non-zero exit code: exit status 3"
            assert found["3"] == told if protocol.startswith("base64") else b'"ExitCode"' in found["3"]

    on_real_node(tmp_path, SLEEPING, story)


@pytest.mark.parametrize("protocols", [["channel.k8s.io"], []])
def test_a_command_over_the_first_protocol_tells_success_by_nothing(tmp_path: Path, protocols: list[str]) -> None:
    async def story(node: RealNode) -> None:
        async with websocket(node, f"{POD}/exec?command=echo&command=hello&stdout=true", protocols) as socket:
            found = b"".join(message.data[1:] for message in await messages(socket))
        assert found == b"hello\n"

    on_real_node(tmp_path, SLEEPING, story)


def test_a_log_over_a_websocket(tmp_path: Path) -> None:
    async def story(node: RealNode) -> None:
        for protocols in ([], ["binary.k8s.io"]):
            async with websocket(node, f"{POD}/log", protocols) as socket:
                found = await messages(socket)
                assert {message.type for message in found} == {aiohttp.WSMsgType.BINARY}
                assert b"".join(message.data for message in found) == b"one\ntwo\n"
                assert socket.close_code == 1000
        async with websocket(node, f"{POD}/log?tailLines=1", ["x", "base64.binary.k8s.io"]) as socket:
            texts = [message.data for message in await messages(socket)]
            assert texts[0] == ""
            assert b"".join(map(b64decode, texts)) == b"two\n"
        async with websocket(node, f"{POD}/log?follow=true", ["binary.k8s.io"]) as socket:
            text = b""
            while text != b"one\ntwo\n":
                text += await socket.receive_bytes()
        for path, protocol, code in (("log", "v4", 403), ("log?container=x", "binary.k8s.io", 400)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with websocket(node, f"{POD}/{path}", [protocol]):
                    pass
            assert refused.value.status == code

    on_real_node(tmp_path, TALKING, story)
