"""A request that takes long to understand, judge or show does not hold the event loop meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.api.users import MASTERS
from fairlead.runtime.http.protocol import TRANSPORT, WRITABLE
from fairlead.runtime.loops import run
from fairlead.server.assembly import Server
from fairlead.server.auth.tokens import anybody
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.store.memory import MemoryStore
from tests.turns import counting_turns

pytestmark = pytest.mark.slow  # large things, and many of them

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
SIZE = 20_000
#: In so many turns of the loop everything else is done that a request needs.
FEW_TURNS = 10


class Client:
    """Asks an application without a connection, and counts the turns of the loop meanwhile."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def define(self, definition: Obj) -> None:
        """Return when the kind is served."""
        await self.ask("POST", DEFINITIONS, encoded(definition))
        async with asyncio.timeout(30):
            while (await self.ask("GET", THINGS))[0] != HTTPStatus.OK:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", accept: str = "*/*"
    ) -> tuple[int, int]:
        """The code of the answer, and for how many turns it was waited."""
        writable = asyncio.Event()
        writable.set()
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "headers": [(b"host", b"localhost"), (b"content-type", kind.encode()), (b"accept", accept.encode())],
            TRANSPORT: Open(),
            WRITABLE: writable,
        }
        codes: list[int] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if "status" in message:
                codes.append(message["status"])

        _, turns = await counting_turns(self._application(scope, receive, send))
        return codes[0], turns


class Open(asyncio.Transport):
    """A transport to somebody who is still there."""

    def is_closing(self) -> bool:
        return False


def config_map(name: str, size: int) -> Obj:
    data = {f"key-{number}": "v" for number in range(size)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def encoded(obj: object) -> bytes:
    return json.dumps(obj).encode()


_ITEMS: Obj = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
_LIST: Obj = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": _ITEMS}


def definition(spec: Obj = _LIST) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def a_yaml_body(client: Client) -> tuple[int, int]:
    lines = "".join(f"  key-{number}: v\n" for number in range(SIZE))
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: y}}\ndata:\n{lines}".encode()
    return await client.ask("POST", MAPS, body, "application/yaml")


async def a_json_body(client: Client) -> tuple[int, int]:
    return await client.ask("POST", MAPS, encoded(config_map("j", 2 * SIZE)))


async def keys_that_come_twice(client: Client) -> tuple[int, int]:
    data = ",".join(['"a":"b"'] * SIZE)
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"d"}},"data":{{{data}}}}}'.encode()
    return await client.ask("POST", MAPS, body)


async def a_large_update(client: Client) -> tuple[int, int]:
    await client.ask("POST", MAPS, encoded(config_map("u", 2 * SIZE)))
    changed = config_map("u", 2 * SIZE)
    changed["data"] |= {"key-1": "w"}
    return await client.ask("PUT", f"{MAPS}/u", encoded(changed))


async def a_small_patch_of_a_large_object(client: Client) -> tuple[int, int]:
    await client.ask("POST", MAPS, encoded(config_map("p", 2 * SIZE)))
    patch = encoded({"data": {"key-1": "w"}})
    return await client.ask("PATCH", f"{MAPS}/p", patch, "application/merge-patch+json")


async def a_strategic_merge(client: Client) -> tuple[int, int]:
    def deployment(image: str) -> Obj:
        containers = [{"name": f"c-{number}", "image": image} for number in range(1000)]
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "s"}, "spec": spec}

    await client.ask("POST", DEPLOYMENTS, encoded(deployment("i")))
    patch = encoded({"spec": {"template": deployment("j")["spec"]["template"]}})
    return await client.ask("PATCH", f"{DEPLOYMENTS}/s", patch, "application/strategic-merge-patch+json")


async def an_apply(client: Client) -> tuple[int, int]:
    body = encoded(config_map("a", SIZE))
    return await client.ask("PATCH", f"{MAPS}/a?fieldManager=m", body, "application/apply-patch+yaml")


async def a_small_pod_with_many_defaults(client: Client) -> tuple[int, int]:
    item = {"type": "Container", "defaultRequest": {f"kubernetes.io/r{number}": "1" for number in range(SIZE // 2)}}
    metadata = {"name": "l"}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}
    await client.ask("POST", "/api/v1/namespaces/default/limitranges", encoded(limits))
    await client.ask("POST", "/api/v1/namespaces/default/serviceaccounts", encoded({"metadata": {"name": "default"}}))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return await client.ask("POST", "/api/v1/namespaces/default/pods", encoded(pod))


async def a_custom_resource(client: Client) -> tuple[int, int]:
    await client.define(definition())
    spec = [{"a": number} for number in range(SIZE)]
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}
    return await client.ask("POST", THINGS, encoded(thing))


async def a_small_object_of_a_large_kind(client: Client) -> tuple[int, int]:
    branches = [{"required": [f"a{number}"]} for number in range(SIZE // 4)]
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "anyOf": branches}
    await client.define(definition(spec))
    last = {f"a{SIZE // 4 - 1}": 1}
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": last}
    return await client.ask("POST", THINGS, encoded(thing))


async def what_a_user_of_many_rules_may_do(client: Client) -> tuple[int, int]:
    rules = [{"apiGroups": [""], "resources": [f"r{number}"], "verbs": ["get"]} for number in range(SIZE)]
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    await client.ask("POST", roles, encoded({"metadata": {"name": "r"}, "rules": rules}))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [{"kind": "Group", "name": MASTERS}]}
    await client.ask("POST", roles.replace("roles", "rolebindings"), encoded(binding))
    review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    return await client.ask("POST", review, encoded({"spec": {"namespace": "default"}}))


async def an_answer_in_yaml(client: Client) -> tuple[int, int]:
    await client.ask("POST", MAPS, encoded(config_map("g", SIZE)))
    return await client.ask("GET", f"{MAPS}/g", accept="application/yaml")


async def a_list_in_yaml(client: Client) -> tuple[int, int]:
    for name in ("l-1", "l-2"):
        await client.ask("POST", MAPS, encoded(config_map(name, SIZE)))
    return await client.ask("GET", MAPS, accept="application/yaml")


@pytest.mark.parametrize(
    "scenario",
    [
        a_yaml_body,
        a_json_body,
        keys_that_come_twice,
        a_large_update,
        a_small_patch_of_a_large_object,
        a_strategic_merge,
        an_apply,
        a_small_pod_with_many_defaults,
        a_custom_resource,
        a_small_object_of_a_large_kind,
        what_a_user_of_many_rules_may_do,
        an_answer_in_yaml,
        a_list_in_yaml,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_the_loop_turns_while_a_large_request_is_worked_on(
    scenario: Callable[[Client], Awaitable[tuple[int, int]]],
) -> None:
    async def main() -> tuple[int, int]:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        serving = asyncio.create_task(server.run())
        documents = Documents(server.registry, "127.0.0.1:1")
        try:
            return await scenario(Client(Application(server.registry, documents, anybody)))
        finally:
            serving.cancel()

    code, turns = run(main())
    assert code in (200, 201)
    assert turns > FEW_TURNS


def test_a_small_request_is_worked_on_where_it_came() -> None:
    """A way to a thread and back would take longer than the work."""

    async def main() -> tuple[int, int]:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        documents = Documents(server.registry, "127.0.0.1:1")
        client = Client(Application(server.registry, documents, anybody))
        return await client.ask("POST", MAPS, encoded(config_map("s", 10)))

    code, turns = run(main())
    assert code == 201
    assert turns < FEW_TURNS
