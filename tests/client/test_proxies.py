"""By which proxy a server is reached."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from fairlead.api import builtin
from fairlead.api.errors import Forbidden
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load
from fairlead.client.proxies import proxy_of
from fairlead.client.unreachable import Unreachable, UnusableKubeconfig
from fairlead.compose import Settings, cluster
from fairlead.runtime.loops import run

SERVER = Settings(port=0, components=frozenset({"api"}), disabled_admission=("ServiceAccount",))


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://c.example", "http://secure.example:3128"),
        ("http://c.example:8080", "http://plain.example:3128"),
        ("https://localhost:6443", None),
        ("https://127.0.0.9:6443", None),
        ("https://[::1]:6443", None),
        ("https://api.inside.example:6443", None),
        ("https://10.1.2.3:6443", None),
        ("https://10.2.2.3:6443", "http://secure.example:3128"),
        ("https://192.168.0.7", None),
    ],
)
def test_the_environment_says_which_one(monkeypatch: pytest.MonkeyPatch, server: str, expected: str | None) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://secure.example:3128")
    monkeypatch.setenv("http_proxy", "http://plain.example:3128")
    monkeypatch.setenv("NO_PROXY", ".inside.example,10.1.0.0/16, 192.168.0.7")
    assert proxy_of(server, "") == expected
    assert proxy_of(server, "https://stated.example") == "https://stated.example"


def test_a_proxy_that_nobody_speaks_with_is_refused() -> None:
    with pytest.raises(UnusableKubeconfig, match='unsupported scheme "socks5"'):
        proxy_of("https://c.example", "socks5://proxy.example")


def test_a_proxy_of_the_environment_may_lack_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert proxy_of("https://c.example", "") == "http://proxy.example:3128"
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.example")
    with pytest.raises(UnusableKubeconfig, match="the proxy of the environment"):
        proxy_of("https://c.example", "")


class Tunnel:
    """A proxy that takes CONNECT, and notes where to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readline()).decode().split()
        while (await reader.readline()).strip():
            pass
        self.asked.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        away, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copied(reader, back), _copied(away, writer))


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            target.write(data)
        target.write_eof()
    except OSError:
        pass
    finally:
        target.close()


def test_a_server_is_reached_by_a_proxy_under_its_other_name_and_as_somebody_else() -> None:
    async def scene() -> None:
        tunnel = Tunnel()
        proxy = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        async with cluster(SERVER) as running:
            assert running.kubeconfig is not None
            access = replace(load(running.kubeconfig), proxy=url, server_name="kubernetes.default")
            async with HttpApi(access) as api:
                await api.list(builtin.PODS)
            async with HttpApi(replace(access, impersonation=(("Impersonate-User", "jane"),))) as api:
                with pytest.raises(Forbidden, match='User "jane" cannot list resource "pods"'):
                    await api.list(builtin.PODS)
            async with HttpApi(replace(access, server_name="another.example")) as api:
                with pytest.raises(Unreachable, match=r"another\.example"):
                    await api.list(builtin.PODS)
            assert set(tunnel.asked) == {f"CONNECT {access.server.removeprefix('https://')}"}
        proxy.close()

    run(scene())
