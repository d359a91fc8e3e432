"""Another API server answers for a version of a group, and clients notice nothing of it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from fairlead.api.builtin import API_SERVICES, CONFIG_MAPS, ENDPOINT_SLICES, SERVICES
from fairlead.api.objects import Obj
from fairlead.api.users import MASTERS, User
from fairlead.api.verbs import PatchType
from fairlead.runtime.authority import Authority
from fairlead.server.auth.authenticator import Credentials
from tests.server.aggregation_world import GADGETS, GROUP, NAME, ROOT, VERSION, World, gadget, soon, within

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_requests_are_handed_on_in_the_name_of_the_user() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        headers = {
            "Authorization": "Bearer secret",
            "X-Remote-Group": "system:masters",
            "Impersonate-User": "jane",
            "Impersonate-Group": "dev",
            "Impersonate-Uid": "u-1",
            "Impersonate-Extra-example.com%2fteam": "blue",
        }
        role = {"metadata": {"name": "gadgets"}, "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]}
        await world.ask("/apis/rbac.authorization.k8s.io/v1/clusterroles", "POST", 201, json=role)
        binding = {
            "metadata": {"name": "gadgets"},
            "roleRef": {"kind": "ClusterRole", "name": "gadgets", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await world.ask("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "POST", 201, json=binding)
        async with world.client.get(f"{world.url}{GADGETS}?limit=5", headers=headers) as response:
            assert response.status == 200
            assert response.headers["X-Own"] == "yes"
            assert (await response.json())["items"] == [gadget("a")]
        (request,) = world.extension.asked()
        assert request.headers["X-Remote-User"] == "jane"
        assert request.headers["X-Remote-Uid"] == "u-1"
        assert request.headers.getall("X-Remote-Group") == ["dev", "system:authenticated"]
        assert request.headers["X-Remote-Extra-example.com%2Fteam"] == "blue"
        assert request.headers["Audit-Id"] == response.headers["Audit-Id"]
        assert request.headers["X-Forwarded-Uri"] == GADGETS
        assert request.query_string == "limit=5"
        assert not any(name.lower() in ("authorization", "impersonate-user") for name in request.headers)
        assert (("commonName", "front-proxy-client"),) in world.extension.peers[-1]["subject"]

    within(steps)


def test_who_may_not_do_that_is_refused_here() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        refusal = await world.ask(GADGETS, code=403, headers={"Impersonate-User": "jane"})
        assert refusal["message"] == (
            f'gadgets.{GROUP} is forbidden: User "jane" cannot list resource "gadgets" in API group "{GROUP}" '
            'in the namespace "default"'
        )
        assert world.extension.asked() == []

    within(steps)


def test_writes_refusals_and_watches_come_back_as_they_are() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        assert await world.ask(GADGETS, "POST", 201, json=gadget("b")) == gadget("b")
        assert (await world.ask(f"{GADGETS}/nope", code=404))["message"] == "no such gadget"
        async with world.client.get(f"{world.url}{GADGETS}?watch=1") as response:
            for name in ("a", "b"):
                event = {"type": "ADDED", "object": gadget(name)}
                world.extension.events.put_nowait(event)
                assert json.loads(await response.content.readline()) == event
            assert world.extension.watchers == 1
        await soon(lambda: world.extension.watchers == 0)
        async with world.client.get(f"{world.url}{GADGETS}?watch=1") as response:
            world.extension.events.put_nowait(None)
            assert await response.read() == b""

    within(steps)


def test_discovery_tells_of_it_among_the_others() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        groups = [group["name"] for group in (await world.ask("/apis"))["groups"]]
        assert groups.index("flowcontrol.apiserver.k8s.io") < groups.index(GROUP)
        assert (await world.ask(f"/apis/{GROUP}"))["preferredVersion"]["version"] == VERSION
        resources = (await world.ask(ROOT))["resources"]
        assert [resource["name"] for resource in resources] == ["gadgets", "gadgets/status"]
        assert ROOT in (await world.ask("/"))["paths"]
        whole = await world.ask("/apis", headers={"Accept": AGGREGATED})
        (versions,) = (item["versions"] for item in whole["items"] if item["metadata"]["name"] == GROUP)
        kind = {"group": "", "version": "", "kind": "Gadget"}
        assert versions == [
            {
                "version": VERSION,
                "resources": [
                    {
                        "resource": "gadgets",
                        "responseKind": kind,
                        "scope": "Namespaced",
                        "singularResource": "gadget",
                        "verbs": ["create", "get", "list", "watch"],
                        "shortNames": ["gd"],
                        "subresources": [
                            {
                                "subresource": "status",
                                "responseKind": kind,
                                "verbs": ["create", "get", "list", "watch"],
                            }
                        ],
                    }
                ],
                "freshness": "Current",
            }
        ]
        url = (await world.ask("/openapi/v3"))["paths"][ROOT.strip("/")]["serverRelativeURL"]
        assert url == f"/openapi/v3{ROOT}?hash=ABC"
        assert (await world.ask(url))["info"]["title"] == "extras"

    within(steps)


def test_one_that_breaks_is_unavailable_and_what_it_said_is_stale() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        world.extension.is_broken = True
        await world.server.api.patch(SERVICES, "extras", "default", {"metadata": {"labels": {"a": "b"}}})
        condition = await world.comes_to("FailedDiscoveryCheck")
        url = f"https://localhost:{world.extension.port}{ROOT}"
        assert condition["message"] == f"failing or missing response from {url}: bad status from {url}: 500"
        async with world.client.get(world.url + GADGETS) as response:
            assert (response.status, await response.text()) == (503, "service unavailable\n")
        assert await world.ask(ROOT, code=503) == "service unavailable\n"
        whole = await world.ask("/apis", headers={"Accept": AGGREGATED})
        (versions,) = (item["versions"] for item in whole["items"] if item["metadata"]["name"] == GROUP)
        assert (versions[0]["freshness"], len(versions[0]["resources"])) == ("Stale", 1)
        assert GROUP in [group["name"] for group in (await world.ask("/apis"))["groups"]]
        world.extension.is_broken = False
        await world.available()
        await world.ask(GADGETS)
        await world.server.api.delete(API_SERVICES, NAME)
        await world.ask(GADGETS, code=404)
        assert GROUP not in [group["name"] for group in (await world.ask("/apis"))["groups"]]

    within(steps)


def test_what_is_wrong_with_its_service_is_told_as_it_changes() -> None:
    async def steps(world: World) -> None:
        await world.register()
        port = world.extension.port
        missing = {"status": "False", "reason": "ServiceNotFound"}
        assert await world.comes_to("ServiceNotFound") == missing | {
            "message": 'service/extras in "default" is not present'
        }
        api = world.server.api
        service: Obj = {"metadata": {"name": "extras"}, "spec": {"ports": [{"name": "https", "port": 1}]}}
        await api.create(SERVICES, service, "default")
        assert (await world.comes_to("ServicePortError"))["message"] == (
            f'service/extras in "default" is not listening on port {port}'
        )
        ports = {"spec": {"ports": [{"name": "https", "port": port}]}}
        await api.patch(SERVICES, "extras", "default", ports, PatchType.MERGE)
        assert (await world.comes_to("EndpointsNotFound"))["message"] == (
            'cannot find endpointslices for service/extras in "default"'
        )
        slice_ = {
            "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "extras"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": False}}],
            "ports": [{"name": "https", "port": port}],
        }
        await api.create(ENDPOINT_SLICES, slice_, "default")
        assert (await world.comes_to("MissingEndpoints"))["message"] == (
            'endpointslices for service/extras in "default" have no addresses with port name "https"'
        )

        def on_this_machine(obj: Obj) -> Obj:  # nobody may write addresses of it
            return obj | {"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]}

        await world.server.registry.guaranteed_update(ENDPOINT_SLICES.qualified, "s", "default", on_this_machine)
        passed = {"status": "True", "reason": "Passed", "message": "all checks passed"}
        assert await world.comes_to("Passed") == passed
        await world.ask(GADGETS)

    within(steps)


@pytest.mark.parametrize("is_insecure", [False, True])
def test_whoever_is_not_who_they_should_be_is_not_believed_unless_that_is_said(is_insecure: bool) -> None:
    async def steps(world: World) -> None:
        spec = {"caBundle": None, "insecureSkipTLSVerify": True} if is_insecure else {}
        await world.serve_extras(**spec)
        await world.comes_to("Passed")
        if is_insecure:
            await world.ask(GADGETS)
        else:
            text = await world.ask(GADGETS, code=503)
            assert text == (
                "error trying to reach service: tls: failed to verify certificate: x509: certificate is not valid for "
                "any names, but wanted to match extras.default.svc\n"
            )

    within(steps, host="somebody.else")


def test_everybody_can_read_whom_to_believe() -> None:
    async def steps(world: World) -> None:
        name, space = "extension-apiserver-authentication", "kube-system"
        data = (await world.server.api.get(CONFIG_MAPS, name, space)).obj()["data"]
        assert data["requestheader-client-ca-file"] == world.authority.decode()
        assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
        assert data["requestheader-username-headers"] == '["X-Remote-User"]'
        assert data["requestheader-extra-headers-prefix"] == '["X-Remote-Extra-"]'

    within(steps)


def test_a_server_that_goes_ends_the_watches_that_it_handed_on() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        watching = asyncio.create_task(world.ask(f"{GADGETS}?watch=1"))
        await soon(lambda: world.extension.watchers == 1)
        watching.cancel()
        await soon(lambda: world.extension.watchers == 0)

    within(steps)


STREAM = f"{GADGETS}/a/stream"
OTHER = b64encode(Authority.make("others").certificate_pem).decode()


def test_a_websocket_goes_through_in_the_name_of_the_user() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        headers = {"Authorization": "Bearer secret", "X-Remote-User": "root"}
        async with world.client.ws_connect(world.url + STREAM, protocols=("twice",), headers=headers) as socket:
            assert socket.protocol == "twice"
            for size in (1, 1 << 20):
                await socket.send_bytes(b"x" * size)
                assert await socket.receive_bytes() == b"x" * size * 2
        (request,) = world.extension.asked()
        assert request.headers.getall("X-Remote-User") == ["system:admin"]
        assert request.headers["X-Forwarded-Uri"] == STREAM
        assert "Authorization" not in request.headers
        peer = dict(item for part in world.extension.peers[-1]["subject"] for item in part)
        assert peer["commonName"] == "front-proxy-client"
        await soon(lambda: world.extension.watchers == 0)

    within(steps)


def test_what_refuses_another_protocol_or_is_not_there_is_told() -> None:
    wish = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}

    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        assert await world.ask(STREAM, code=400, headers=wish) == "no WebSocket"
        with_body = wish | {"Content-Length": "1"}
        refusal = await world.ask(STREAM, code=400, headers=with_body, data=b"x")
        assert refusal["message"] == "a request for another protocol has no body"
        # who offers a newer HTTP is answered in this one
        found = await world.ask(GADGETS, headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"})
        assert found["items"] == [gadget("a")]

        def elsewhere(obj: Obj) -> Obj:
            return obj | {"spec": obj["spec"] | {"caBundle": OTHER}}

        await world.server.registry.guaranteed_update(API_SERVICES.qualified, NAME, "", elsewhere)
        text = await world.ask(STREAM, code=503, headers=wish)
        assert text.startswith("error dialing backend: ")

    within(steps)


def test_the_name_of_a_user_says_nothing_of_others() -> None:
    async def somebody(credentials: Credentials) -> User:
        return User("jane\r\nX-Remote-Group: system:masters", (MASTERS,))

    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        wish = {"Connection": "Upgrade", "Upgrade": "websocket"}
        text = await world.ask(STREAM, code=503, headers=wish)
        assert text == 'net/http: invalid header field value for "X-Remote-User"\n'
        assert (await world.ask(GADGETS, code=503)).startswith("error trying to reach service: ")
        assert world.extension.asked() == []

    within(steps, authenticate=somebody)


UPLOAD = f"{GADGETS}/a/upload"


def test_a_body_goes_on_as_it_comes_however_long_it_is() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        size = 8 << 20  # more than a body of our own may have
        assert await world.ask(UPLOAD, "PUT", data=b"x" * size) == f"{size} {size}"
        more = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"first"
            await more.wait()
            yield b"second"

        sending = asyncio.create_task(world.ask(UPLOAD, "POST", data=pieces()))
        await soon(lambda: world.extension.received == 5)
        more.set()
        assert await sending == "11 chunked"
        assert await world.ask(UPLOAD, "POST") == "0 0"

    within(steps)


def test_whoever_goes_while_a_body_is_sent_ends_the_other_side() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        gone = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield b"first"
            await gone.wait()

        sending = asyncio.create_task(world.ask(UPLOAD, "POST", data=endless()))
        await soon(lambda: world.extension.received == 5)
        sending.cancel()
        await soon(lambda: world.extension.uploads == 0)

    within(steps)


def test_an_answer_may_come_before_the_body_has_ended() -> None:
    async def steps(world: World) -> None:
        await world.serve_extras()
        await world.available()
        refused = await world.ask(f"{GADGETS}/b", "PUT", 404, data=b"x" * (4 << 20))
        assert refused["message"] == "no such gadget"
        assert (await world.ask(GADGETS))["items"] == [gadget("a")]

    within(steps)
