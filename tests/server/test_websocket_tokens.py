"""Browsers show a bearer token among the protocols of a WebSocket; nobody else gets to see it (issue 16)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator

import pytest

from fairlead.api.users import MASTERS, User
from fairlead.server.auth.authenticator import Credentials
from tests.server.aggregation_world import World, soon, within
from tests.server.http_world import TOKEN, Server, serving_in_a_thread
from tests.server.test_aggregation import STREAM

PREFIX = "base64url.bearer.authorization.k8s.io."
SPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        yield running


def shown(token: str) -> str:
    return PREFIX + urlsafe_b64encode(token.encode()).decode().rstrip("=")


def code(server: Server, protocols: str, upgrade: str = "websocket", **more: str) -> int:
    wish = {"Connection": "Upgrade", "Upgrade": upgrade, "Sec-WebSocket-Protocol": protocols}
    return server.ask("GET", SPACES, headers=wish | more, port=server.guarded_port).code


def test_a_token_among_the_protocols_is_a_token(server: Server) -> None:
    assert code(server, f"v5.channel.k8s.io, {shown(TOKEN)}") == 200
    assert code(server, f"{shown(TOKEN)},v5.channel.k8s.io") == 200


@pytest.mark.parametrize(
    "protocols",
    [
        "v5.channel.k8s.io",
        shown(TOKEN),  # nothing else to be spoken
        f"{shown(TOKEN)}, ,",
        f"v5, {shown('other')}",
        f"v5, {shown(TOKEN)}, {shown(TOKEN)}",
        f"v5, {PREFIX}",
        f"v5, {shown(TOKEN)}=",
        f"v5, {shown(TOKEN)}!",
        f"v5, {PREFIX}____",  # no text
        f"v5, {PREFIX}A",
        f"v5, {shown(TOKEN)}, {'x' * 40_000}",
        "," * 40_000 + shown(TOKEN),
    ],
)
def test_anything_else_is_not(server: Server, protocols: str) -> None:
    assert code(server, protocols) == 401


def test_only_a_websocket_has_such_protocols_and_a_bearer_token_counts_more(server: Server) -> None:
    assert code(server, f"v5, {shown(TOKEN)}", upgrade="SPDY/3.1") == 401
    assert code(server, f"v5, {shown(TOKEN)}", Authorization="Bearer other") == 401
    assert code(server, f"v5, {shown('other')}", Authorization=f"Bearer {TOKEN}") == 200


def test_it_goes_no_further() -> None:
    async def authenticate(credentials: Credentials) -> User | None:
        is_known = not credentials.protocol_token or credentials.bearer_token == "secret"
        return User("jane", (MASTERS,)) if is_known else None

    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        protocols = ("twice", shown("secret"))
        async with world.client.ws_connect(world.url + STREAM, protocols=protocols) as socket:
            assert socket.protocol == "twice"
            await socket.send_bytes(b"x")
            assert await socket.receive_bytes() == b"xx"
        (request,) = world.extension.asked()
        assert request.headers.getall("Sec-WebSocket-Protocol") == ["twice"]
        await soon(lambda: world.extension.watchers == 0)

    within(steps, authenticate=authenticate)
