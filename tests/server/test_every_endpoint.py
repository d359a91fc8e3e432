"""Strangers get 401 and who may do nothing gets 403, at every endpoint that discovery lists (issue 16).

No body is read for such answers: asking for one fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import ADMIN, User, authenticated
from fairlead.runtime.http.protocol import TRANSPORT, WRITABLE
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.server.registry.registry import Registry
from tests.registry_api import RegistryApi

#: Verb -> method, whether it means one object, query.
VERBS = {
    "get": ("GET", True, ""),
    "list": ("GET", False, ""),
    "watch": ("GET", False, "watch=1"),
    "create": ("POST", False, ""),
    "update": ("PUT", True, ""),
    "patch": ("PATCH", True, ""),
    "delete": ("DELETE", True, ""),
    "deletecollection": ("DELETE", False, ""),
}
POWERLESS = authenticated(User("nobody"))
#: What everybody who is known may ask about themselves (system:basic-user).
ABOUT_ONESELF = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
#: And what they may read (system:discovery, system:public-info-viewer), by how it begins.
OPEN = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")
#: Paths that no document lists.
FURTHER = (
    "/",
    "/metrics",
    "/metrics/slis",
    "/logs",
    "/debug/pprof/",
    "/debug/compact",
    "/debug/api_priority_and_fairness/dump_requests",
    "/healthz/etcd",
    "/readyz/ping",
    "/nowhere",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One verb on one path."""

    verb: str
    path: str
    resource: str = ""
    method: str = "GET"
    query: str = ""


@dataclass(slots=True)
class Answered:
    code: int = 0
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Any) -> None:
        self.code = message.get("status", self.code)
        self.body += message.get("body", b"")


async def ask(registry: Registry, user: User | None, endpoint: Endpoint) -> tuple[int, Any]:
    """The answer to a client that is known as that user."""

    async def authenticate(credentials: Credentials) -> User | None:
        return user

    async def receive() -> Any:
        raise AssertionError(f"the body is asked for: {endpoint}")

    application = Application(registry, Documents(registry, "127.0.0.1:1"), authenticate)
    answered = Answered()
    scope = {
        "method": endpoint.method,
        "raw_path": endpoint.path.encode(),
        "query_string": endpoint.query.encode(),
        "http_version": "1.1",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        TRANSPORT: asyncio.Transport(),
        WRITABLE: asyncio.Event(),
    }
    await application(scope, receive, answered.send)
    is_json = bytes(answered.body[:1]) == b"{"
    return answered.code, json.loads(answered.body) if is_json else bytes(answered.body).decode()


async def discovered(registry: Registry) -> list[Endpoint]:
    """Every verb of every resource and subresource that the server says it serves, to its administrator."""

    async def document(path: str) -> Obj:
        code, found = await ask(registry, ADMIN, Endpoint("get", path))
        assert code == 200, path
        return dict(found)

    roots = [f"/api/{version}" for version in (await document("/api"))["versions"]]
    for group in (await document("/apis"))["groups"]:
        roots += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    return [
        endpoint
        for root in roots
        for resource in (await document(root))["resources"]
        for endpoint in endpoints_of(root, resource)
    ]


def endpoints_of(root: str, resource: Obj) -> Iterator[Endpoint]:
    name, _, subresource = resource["name"].partition("/")
    collections = [f"{root}/namespaces/ns/{name}" if resource["namespaced"] else f"{root}/{name}"]
    if resource["namespaced"] and "list" in resource["verbs"]:
        collections.append(f"{root}/{name}")
    for verb in resource["verbs"]:
        method, is_one, query = VERBS[verb]
        for path in collections if verb in ("list", "watch") else collections[:1]:
            if subresource:
                path += f"/x/{subresource}"
            elif is_one:
                path += "/x"
            yield Endpoint(verb, path, resource["name"], method, query)
            if verb == "watch":
                yield Endpoint(verb, path.replace(root, f"{root}/watch"), resource["name"])


def is_open(endpoint: Endpoint) -> bool:
    """Whether everybody who is known may ask that."""
    if endpoint.resource:
        return endpoint.resource in ABOUT_ONESELF
    path = endpoint.path
    return path in OPEN or path.startswith(("/api/", "/apis/", "/openapi/")) or path == "/version/"


@dataclass(frozen=True, slots=True)
class Visited:
    """An endpoint, and what a stranger and somebody without rights are answered there."""

    endpoint: Endpoint
    stranger: tuple[int, Any]
    powerless: tuple[int, Any] | None


@pytest.fixture(scope="module")
def visited() -> list[Visited]:
    async def run() -> list[Visited]:
        async with RegistryApi() as api:
            await api.define(Resource("example.com", "v1", "things", "Thing"))
            registry = api.registry
            _, root = await ask(registry, ADMIN, Endpoint("get", "/"))
            paths = [Endpoint("get", path) for path in {*root["paths"], *FURTHER}]
            return [await visit(registry, endpoint) for endpoint in [*await discovered(registry), *paths]]

    return asyncio.run(run())


async def visit(registry: Registry, endpoint: Endpoint) -> Visited:
    powerless = None if is_open(endpoint) else await ask(registry, POWERLESS, endpoint)
    return Visited(endpoint, await ask(registry, None, endpoint), powerless)


def test_there_is_much_to_ask(visited: list[Visited]) -> None:
    asked = {(visit.endpoint.resource, visit.endpoint.verb) for visit in visited}
    for resource in ("pods", "pods/exec", "pods/binding", "secrets", "nodes/proxy", "serviceaccounts/token", "things"):
        assert any(name == resource for name, _ in asked), resource
    assert len(asked) > 300


def test_strangers_are_refused_everywhere(visited: list[Visited]) -> None:
    expected: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    expected |= {"message": "Unauthorized", "reason": "Unauthorized", "code": 401}
    assert [visit.endpoint for visit in visited if visit.stranger != (401, expected)] == []


def test_who_may_do_nothing_is_refused_everywhere(visited: list[Visited]) -> None:
    let_in = [visit.endpoint for visit in visited if visit.powerless is not None and visit.powerless[0] != 403]
    assert let_in == []
    for visit in visited:
        if visit.powerless is not None:
            status, endpoint = visit.powerless[1], visit.endpoint
            what = f'resource "{endpoint.resource}" in API group' if endpoint.resource else f'path "{endpoint.path}"'
            assert status["reason"] == "Forbidden"
            assert f'User "nobody" cannot {endpoint.verb} {what}' in status["message"], endpoint


def test_what_everybody_may_ask_is_little(visited: list[Visited]) -> None:
    allowed = {visit.endpoint.resource for visit in visited if visit.powerless is None}
    assert allowed == {"", *ABOUT_ONESELF}
