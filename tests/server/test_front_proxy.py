"""A front proxy says in headers who asks; nobody else does, and its certificate is no user's (issue 16)."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from fairlead.api.builtin import CONFIG_MAPS
from fairlead.api.users import MASTERS, User
from fairlead.client.tls import show, trusting
from fairlead.compose import Cluster, Settings, cluster
from fairlead.runtime.authority import Authority
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import run
from fairlead.server.auth.authentication import AnonymousAccess, AuthenticationSettings
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.auth.front_proxy import FrontProxy, FrontProxySettings
from tests.server import aggregation_world
from tests.server.test_certificates import ShownCertificate

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
PROXIES = Authority.make("proxies")
PROXY = PROXIES.identify(User("proxy"))
JANE = [
    ("X-Remote-User", "jane"),
    ("X-Remote-Group", "dev"),
    ("X-Remote-Group", "ops"),
    ("X-Remote-Uid", "7"),
    ("X-Remote-Extra-example.com%2FTeam", "blue"),
    ("X-Remote-Extra-example.com%2FTeam", "red"),
]


def found_settings() -> FrontProxySettings:
    return FrontProxySettings(
        PROXIES.certificate_pem,
        ("X-Remote-User",),
        ("X-Remote-Uid",),
        ("X-Remote-Group",),
        ("X-Remote-Extra-",),
        ("proxy",),
    )


def settings(**more: Any) -> AuthenticationSettings:
    return AuthenticationSettings(front_proxy=replace(found_settings(), **more))


@dataclass
class World:
    running: Cluster

    @asynccontextmanager
    async def client(self, identity: Identity | None) -> AsyncIterator[aiohttp.ClientSession]:
        assert self.running.authority is not None
        context: ssl.SSLContext = trusting(self.running.authority.certificate_pem)
        if identity is not None:
            show(context, identity.certificate, identity.key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            yield session

    async def who(self, identity: Identity | None, headers: Iterable[tuple[str, str]] = ()) -> Any:
        """What the server says who asks; the code, if that is none."""
        async with (
            self.client(identity) as client,
            client.post(self.running.address + WHO_AM_I, json=REVIEW, headers=list(headers)) as response,
        ):
            answer = json.loads(await response.read())
            return answer["status"]["userInfo"] if response.status == 201 else response.status


def within(steps: Callable[[World], Awaitable[None]], authentication: AuthenticationSettings | None = None) -> None:
    async def whole() -> None:
        found = Settings(components=frozenset(), authentication=authentication or settings())
        async with cluster(found) as running:
            await steps(World(running))

    run(whole())


def test_who_a_front_proxy_names_is_who_asks() -> None:
    async def steps(world: World) -> None:
        assert await world.who(PROXY, JANE) == {
            "username": "jane",
            "uid": "7",
            "groups": ["dev", "ops", "system:authenticated"],
            "extra": {"example.com/team": ["blue", "red"]},
        }
        assert (await world.who(PROXY, [*JANE, ("Authorization", "Bearer nonsense")]))["username"] == "jane"
        nobody = [("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")]
        # who is not known may not even ask who they are
        assert await world.who(PROXY, nobody) == 403

    within(steps)


def test_nobody_else_is_believed() -> None:
    async def steps(world: World) -> None:
        assert world.running.authority is not None
        root = [("X-Remote-User", "root"), ("X-Remote-Group", MASTERS)]
        user = world.running.authority.identify(User("proxy"))  # by name, but of the other authority
        assert (await world.who(user, root))["username"] == "proxy"
        assert await world.who(None, root) == 401
        other = PROXIES.identify(User("other", (MASTERS,)))
        assert await world.who(other, root) == 401
        # a certificate of the authority for proxies is no user's
        assert await world.who(PROXY) == 401
        assert await world.who(PROXIES.identify(User("admin", (MASTERS,)))) == 401
        with pytest.raises(aiohttp.ClientError):
            await world.who(Authority.make("strangers").identify(User("proxy")), JANE)

    within(steps)
    within(steps, replace(settings(), known_tokens={"t": User("x")}))


def test_any_name_will_do_where_none_is_named() -> None:
    async def steps(world: World) -> None:
        other = PROXIES.identify(User("other"))
        assert (await world.who(other, JANE))["username"] == "jane"
        assert await world.who(other) == 403  # as anybody who shows nothing, where that is let in

    within(steps, replace(settings(allowed_names=()), anonymous=AnonymousAccess()))


def test_others_are_told_whom_to_believe() -> None:
    async def steps(world: World) -> None:
        found = await world.running.api.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
        data = found.obj()["data"]
        assert data["requestheader-client-ca-file"].count("BEGIN CERTIFICATE") == 2
        assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client", "proxy"]
        assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User", "X-Own-User"]
        assert json.loads(data["requestheader-group-headers"]) == ["X-Remote-Group"]

    within(steps, settings(username_headers=("X-Own-User", "x-remote-user")))


def test_headers_that_said_who_asks_go_no_further() -> None:
    """Another server would take them to be from this one."""
    proxy = FrontProxy(replace(found_settings(), username_headers=("X-Own-User",), group_headers=("X-Own-Group",)))

    async def authenticate(shown: Credentials) -> User | None:
        """The test's client speaks no TLS, so its connection is taken for one of the proxy."""
        return await proxy(replace(shown, transport=ShownCertificate(PROXY.certificate)))

    async def steps(world: aggregation_world.World) -> None:
        await world.serve_extras()
        await world.available()
        headers = {"X-Own-User": "jane", "X-Own-Group": MASTERS, "X-Own": "stays"}
        await world.ask(aggregation_world.GADGETS, headers=headers)
        (request,) = world.extension.asked()
        assert request.headers.getall("X-Remote-User") == ["jane"]
        assert request.headers["X-Own"] == "stays"
        assert not {"X-Own-User", "X-Own-Group"} & set(request.headers)

    aggregation_world.within(steps, authenticate=authenticate)
