"""The way of a request and the way of a write, where steps that come later will stand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SERVICES
from fairlead.api.errors import ApiError, Forbidden, Invalid, ServiceUnavailable
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import INTERNAL_USER, User
from fairlead.api.verbs import WriteOptions
from fairlead.compose import Settings, simulation
from fairlead.runtime.http.protocol import TRANSPORT, WRITABLE
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation
from fairlead.server.assembly import Server
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.context import INTERNAL
from fairlead.server.http.app import Application
from fairlead.server.http.chain import CHAIN
from fairlead.server.http.documents import Documents
from fairlead.server.http.request_info import RequestInfo, request_info
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore
from tests.registry_api import definition_of


def pod() -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Replacing(AdmissionPlugin):
    """Hands back another object, as a mutating webhook does."""

    name = "Replacing"
    resources = frozenset({"pods", "configmaps"})

    def __init__(self) -> None:
        """It needs nothing of the server."""

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource == PODS:
            sidecar: Obj = {"name": "sidecar", "image": "s", "resources": {"limits": {"cpu": "0.5"}}}
            spec = attributes.spec | {"containers": [*attributes.spec["containers"], sidecar | {"unknown": 1}]}
            attributes.obj = attributes.obj | {"spec": spec}
        else:
            attributes.obj = attributes.obj | {"data": {"by": str(attributes.operation)}}


class Witness(AdmissionPlugin):
    """Writes down who asks for what."""

    name = "Witness"
    operations = frozenset(Operation)
    subresources = None

    def __init__(self) -> None:
        """It needs nothing of the server."""
        self.seen: set[tuple[str, str]] = set()

    async def validate(self, attributes: Attributes) -> None:
        verb = "/".join(filter(None, (attributes.resource.plural, attributes.subresource)))
        self.seen.add((attributes.user.name, verb))


class Meanwhile(AdmissionPlugin):
    """Something happens while the first request of a kind is being judged."""

    name = "Meanwhile"

    def __init__(self, resource: Resource) -> None:
        """It needs nothing of the server."""
        self._resource = resource
        self.happens: Callable[[], Awaitable[None]] | None = None

    async def admit(self, attributes: Attributes) -> None:
        if self.happens is not None and attributes.resource.qualified == self._resource.qualified:
            happens, self.happens = self.happens, None
            await happens()


class Charging(AdmissionPlugin):
    """Charges twice for what it then refuses; the first charge cannot be taken back."""

    name = "Charging"

    def __init__(self) -> None:
        """It needs nothing of the server."""
        self.is_taken_back = False

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == CONFIG_MAPS:
            attributes.on_failure += [self._fail, self._take_back]
            raise attributes.forbidden("because")

    async def _fail(self) -> None:
        raise ServiceUnavailable("the store cannot write")

    async def _take_back(self) -> None:
        self.is_taken_back = True


async def opened(*admission: AdmissionPlugin) -> Server:
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"], admission)
    await server.api.create(NAMESPACES, {"metadata": {"name": "n"}})
    return server


def test_what_admission_hands_back_is_made_normal_and_given_defaults() -> None:
    async def main() -> None:
        server = await opened(Replacing())
        made = (await server.api.create(PODS, pod(), "n")).obj()
        added = made["spec"]["containers"][1]
        assert added["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}
        assert added["terminationMessagePath"] == "/dev/termination-log"
        assert "unknown" not in added
        await server.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")
        patched = await server.api.patch(CONFIG_MAPS, "a", "n", {"data": {"by": "me"}})
        assert patched.obj()["data"] == {"by": "UPDATE"}

    run_virtual(main())


def test_an_update_that_is_tried_again_begins_with_what_was_sent() -> None:
    async def main() -> None:
        meanwhile = Meanwhile(SERVICES)
        server = await opened(meanwhile)
        service: Obj = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"port": 80}]}}
        await server.api.create(SERVICES, service, "n")
        sent: Obj = {"metadata": dict(service["metadata"]), "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        sent["spec"]["nope"] = 1
        before = deepcopy(sent)

        async def label() -> None:
            await server.api.patch(SERVICES, "s", "n", {"metadata": {"labels": {"a": "b"}}})

        meanwhile.happens = label
        options = WriteOptions(field_validation="Warn")
        stored = await server.registry.update(INTERNAL, SERVICES, sent, options=options)
        assert meanwhile.happens is None
        assert stored.warnings == ['unknown field "spec.nope"']
        assert sent == before

    run_virtual(main())


def test_nothing_is_born_into_a_namespace_that_went_while_it_was_judged() -> None:
    async def main() -> None:
        meanwhile = Meanwhile(CONFIG_MAPS)
        server = await opened(meanwhile)

        async def delete() -> None:
            await server.api.delete(NAMESPACES, "n")

        meanwhile.happens = delete
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await server.api.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "n")
        assert not (await server.api.list(CONFIG_MAPS, "n")).items

    run_virtual(main())


def test_nothing_is_born_of_a_kind_that_went_while_it_was_judged() -> None:
    async def main() -> None:
        things = Resource("example.com", "v1", "things", "Thing")
        definition = definition_of(things)
        meanwhile = Meanwhile(things)
        server = await opened(meanwhile)
        running = asyncio.create_task(server.run())
        await server.api.create(CUSTOM_RESOURCE_DEFINITIONS, deepcopy(definition))
        await asyncio.sleep(10)

        async def delete() -> None:
            await server.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "things.example.com")
            await asyncio.sleep(10)
            assert server.registry.catalogue.stored("things.example.com") is None

        meanwhile.happens = delete
        with pytest.raises(Forbidden, match="while custom resource definition is terminating"):
            await server.api.create(things, {"metadata": {"name": "late"}}, "n")
        await server.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await asyncio.sleep(10)
        assert not (await server.api.list(things, "n")).items
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())


def test_a_charge_that_cannot_be_taken_back_keeps_no_other_and_hides_no_refusal() -> None:
    async def main() -> None:
        charging = Charging()
        server = await opened(charging)
        with pytest.raises(Forbidden, match="because"):
            await server.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")
        assert charging.is_taken_back

    run_virtual(main())


def test_each_component_asks_in_its_own_name() -> None:
    witness = Witness()

    async def main() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape())))
        async with simulation(settings) as (api, _):
            api.registry.admission.plugins += (witness,)  # type: ignore[attr-defined]  # the real chain
            await api.create(PODS, pod(), "default")
            await asyncio.sleep(30)

    run_virtual(main())
    assert {("system:kube-scheduler", "pods/binding"), ("system:node:node-1", "pods/status")} <= witness.seen
    assert (INTERNAL_USER.name, "pods") in witness.seen
    assert {user for user, resource in witness.seen if resource == "pods/binding"} == {"system:kube-scheduler"}


def test_whether_fields_are_tracked_is_said_by_the_context_and_not_by_who_it_is() -> None:
    async def main() -> None:
        server = await opened()
        options = WriteOptions(field_manager="test")
        for name, tracks_fields in (("a", True), ("b", False)):
            user = server.registry.as_user(INTERNAL_USER, tracks_fields=tracks_fields)
            made = await user.create(
                CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "v"}}, "n", options=options
            )
            assert ("managedFields" in made.obj()["metadata"]) is tracks_fields

    run_virtual(main())


def test_a_refusal_tells_what_was_noticed_before_it() -> None:
    async def main() -> None:
        server = await opened()
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u"}
        broken: Obj = {"metadata": {"name": "A_", "ownerReferences": [owner, owner]}}
        with pytest.raises(Invalid) as refused:
            await server.registry.create(INTERNAL, CONFIG_MAPS, broken, "n")
        assert "contains duplicate entries" in refused.value.warnings[0]

    run_virtual(main())


def test_a_stranger_gets_json_even_where_it_cannot_be_found_out_who_it_is() -> None:
    sent: list[Any] = []

    async def broken(credentials: Credentials) -> User | None:
        raise RuntimeError("out of order")

    async def receive() -> Any:
        raise AssertionError("nothing more of a stranger's request is read")

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        server = await opened()
        headers = [(b"host", b"localhost"), (b"accept", b"application/yaml")]
        scope: dict[str, Any] = {"method": "GET", "raw_path": b"/api", "query_string": b"", "headers": headers}
        scope |= {"http_version": "1.1", TRANSPORT: asyncio.Transport(), WRITABLE: asyncio.Event()}
        application = Application(server.registry, Documents(server.registry, "127.0.0.1:1"), broken)
        await application(scope, receive, send)

    run_virtual(main())
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"])["code"] == 500


def test_the_steps_of_a_request_are_one_list() -> None:
    assert [step.__name__ for step in CHAIN] == [
        "recover",
        "bound",
        "authenticate",
        "trace",
        "audit",
        "impersonate",
        "authorize",
        "receive",
        "take_turn",
        "dispatch",
    ]


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/api/v1/pods", {"verb": "list", "version": "v1", "resource": "pods"}),
        ("GET", "/api/v1/namespaces/a", {"verb": "get", "version": "v1", "resource": "namespaces", "name": "a"}),
        (
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            {
                "verb": "update",
                "group": "apps",
                "version": "v1",
                "resource": "deployments",
                "namespace": "a",
                "name": "d",
                "subresource": "scale",
            },
        ),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            {"verb": "update", "version": "v1", "resource": "namespaces", "name": "a", "subresource": "finalize"},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods",
            {"verb": "deletecollection", "version": "v1", "resource": "pods", "namespace": "a"},
        ),
        (
            "GET",
            "/api/v1/watch/pods",
            {"verb": "watch", "version": "v1", "resource": "pods", "is_watch_path": True},
        ),
        ("GET", "/healthz", {"verb": "get"}),
        ("GET", "/apis/apps", {"verb": "get"}),
        ("POST", "/api/v1/pods//log", {"verb": "post"}),
    ],
)
def test_a_path_says_what_is_asked_of_what(method: str, path: str, found: dict[str, Any]) -> None:
    assert request_info(method, path) == RequestInfo(path=path, **found)


def test_an_error_of_a_shared_kind_keeps_its_warnings_to_itself() -> None:
    assert list(ApiError("a").warnings) == []
