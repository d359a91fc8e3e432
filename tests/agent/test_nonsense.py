"""What is sent instead of a protocol that was agreed on ends that connection, and nothing else."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from fairlead.api.users import User
from fairlead.client.tls import show, trusting
from fairlead.runtime.loops import run
from tests.agent.real_node import RealNode, real_node
from tests.runtime.streaming.test_websocket_frames import client_frame

SPDY = (
    "POST {} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {}\r\n\r\n"
)
WEBSOCKET = (
    "GET {} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {}\r\n\r\n"
)
COMMAND = "/exec/default/p/main?command=sleep&command=600&input=1&output=1&tty=1"
PORTS = "/portForward/default/p?port=1"


def context(node: RealNode) -> ssl.SSLContext:
    found = trusting(node.authority.certificate_pem)
    identity = node.authority.identify(User("admin", ("system:masters",)))
    show(found, identity.certificate, identity.key)
    return found


@pytest.mark.parametrize(
    ("head", "path", "protocol"),
    [
        (SPDY, COMMAND, "v4.channel.k8s.io"),
        (SPDY, PORTS, "portforward.k8s.io"),
        (WEBSOCKET, COMMAND, "v5.channel.k8s.io"),
        (WEBSOCKET, PORTS, "v4.channel.k8s.io"),
        (WEBSOCKET, PORTS, "SPDY/3.1+portforward.k8s.io"),
    ],
)
def test_nonsense_ends_its_connection_alone(tmp_path: Path, head: str, path: str, protocol: str) -> None:
    randomness = random.Random(1)

    async def attack(node: RealNode) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.kubelet_port, ssl=context(node))
        writer.write(head.format(path, protocol).encode())
        assert b" 101 " in (await reader.readuntil(b"\r\n\r\n")).splitlines()[0]
        nonsense = randomness.randbytes(randomness.randrange(1, 2000))
        writer.write(client_frame(2, nonsense) if head is WEBSOCKET and randomness.random() < 0.5 else nonsense)
        writer.close()
        while await reader.read(1 << 16):
            pass

    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", {"name": "main"})
            async with asyncio.timeout(60):
                for _ in range(20):
                    await attack(node)
            reader, writer = await asyncio.open_connection("127.0.0.1", node.kubelet_port, ssl=context(node))
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"ok")
            writer.close()

    run(main())
