"""The API server's side: its own objections, rights, audit, what is measured, and kubelets that do not answer."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest

from fairlead.api.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NODES, PODS
from fairlead.api.users import User
from fairlead.client.tls import show, trusting
from fairlead.runtime.authority import Authority
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import run
from tests.agent.real_node import NODE, RealNode, real_node
from tests.kubectl import kubectl

CLIENT = kubectl("1.36")
MAIN = {"name": "main"}
POD = "/api/v1/namespaces/default/pods/p"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
}


async def ask(
    node: RealNode, method: str, path: str, headers: dict[str, str] | None = None, user: Identity | None = None
) -> tuple[int, str]:
    """As the API server answers; an upgrade that is agreed to is not used."""
    identity = user or node.authority.identify(User("admin", ("system:masters",)))
    context = trusting(node.authority.certificate_pem)
    show(context, identity.certificate, identity.key)
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, node.cluster.address + path, ssl=context, headers=headers) as response,
    ):
        return response.status, "" if response.status == 101 else await response.text()


def message(answer: tuple[int, str]) -> tuple[int, str]:
    return answer[0], json.loads(answer[1])["message"]


def test_what_is_no_upgrade_or_an_unknown_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            exec_ = f"{POD}/exec?command=true&stdout=true"
            assert message(await ask(node, "POST", exec_)) == (400, "Upgrade request required")
            answer = await ask(node, "POST", exec_, UPGRADE | {"Upgrade": "h2c"})
            assert answer == (400, "unable to upgrade: missing upgrade headers in request")
            answer = await ask(node, "POST", exec_, UPGRADE | {"X-Stream-Protocol-Version": "v0"})
            both = "client supports [v0], server accepts [v5.channel.k8s.io v4.channel.k8s.io]"
            assert answer == (403, f"unable to upgrade: unable to negotiate protocol: {both}")
            answer = await ask(node, "GET", exec_, WEBSOCKET | {"Sec-WebSocket-Protocol": "v0"})
            assert answer[0] == 403
            answer = await ask(node, "POST", f"{POD}/exec?command=true&stdout=0&stderr=0", UPGRADE)
            assert answer == (400, "you must specify at least 1 of stdin, stdout, stderr")
            assert (await ask(node, "POST", exec_, UPGRADE))[0] == 101
            headers = WEBSOCKET | {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"}
            answer = await ask(node, "GET", f"{POD}/portforward", headers)
            assert answer == (400, 'query parameter "port" is required')

    run(main())


def test_a_websocket_takes_the_right_to_create(tmp_path: Path) -> None:
    """It begins with a GET, and runs commands all the same (AuthorizePodWebsocketUpgradeCreatePermission)."""

    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}
            await node.cluster.api.create(CLUSTER_ROLES, {"metadata": {"name": "r"}, "rules": [rule]})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
            binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
            await node.cluster.api.create(CLUSTER_ROLE_BINDINGS, binding)
            reader = node.authority.identify(User("reader"))
            answer = await ask(node, "GET", f"{POD}/exec?command=true&stdout=true", WEBSOCKET, reader)
            expected = 'pods "p" is forbidden: User "reader" cannot create resource "pods/exec" in API group ""'
            assert message(answer) == (403, f'{expected} in the namespace "default"')

    run(main())


def test_a_kubelet_that_does_not_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            port = free_port()
            await point_to(node, port)
            dialled = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
            answer = await ask(node, "POST", f"{POD}/exec?command=true&stdout=true", UPGRADE)
            assert message(answer) == (500, f"error dialing backend: {dialled}")
            code, text = message(await ask(node, "GET", f"{POD}/log"))
            assert code == 500
            assert text == f'Get "https://127.0.0.1:{port}/containerLogs/default/p/main": {dialled}'
            answer = await ask(node, "GET", f"/api/v1/nodes/{NODE}/proxy/healthz")
            assert message(answer) == (503, f"error trying to reach service: {dialled}")

    run(main())


def test_a_kubelet_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            identity = Authority.make("stranger").certify_server(User("system:node:real"), ["127.0.0.1"])
            context = server_context_of(identity)
            asked: list[bytes] = []

            async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                asked.append(await reader.readuntil(b"\r\n\r\n"))
                writer.close()

            stranger = await asyncio.start_server(note, "127.0.0.1", 0, ssl=context)
            await point_to(node, stranger.sockets[0].getsockname()[1])
            for method, path, headers in (("POST", "exec?command=true&stdout=true", UPGRADE), ("GET", "log", {})):
                code, text = message(await ask(node, method, f"{POD}/{path}", headers))
                assert code == 500
                assert "certificate" in text
            assert asked == []
            assert (await ask(node, "GET", f"{POD}/log?insecureSkipTLSVerifyBackend=true"))[0] == 500
            assert asked[0].startswith(b"GET /containerLogs/default/p/main HTTP/1.1\r\n")
            assert b"authorization" not in asked[0].lower()
            stranger.close()

    run(main())


def test_a_node_proxies_to_its_kubelet(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            proxy = f"/api/v1/nodes/{NODE}/proxy"
            assert await ask(node, "GET", f"{proxy}/healthz") == (200, "ok")
            code, text = await ask(node, "GET", f"{proxy}/stats/summary?only_cpu_and_memory=true")
            assert (code, json.loads(text)["node"]["nodeName"]) == (200, NODE)
            assert (await ask(node, "GET", f"{proxy}/no/such"))[0] == 404
            assert (await ask(node, "POST", f"{proxy}/exec/default/p/main?command=true&output=1", UPGRADE))[0] == 101

    run(main())


def test_top_shows_what_the_kubelet_measured(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            pod = await node.start("p", MAIN)
            node.pods.use(pod, milli=250, mebibytes=64)
            done = await node.run(CLIENT, "top", "pod", "p", "--no-headers")
            assert done.out.split() == ["p", "250m", "64Mi"]

    run(main())


def test_streams_do_not_keep_a_cluster_from_stopping(tmp_path: Path) -> None:
    async def main() -> None:
        began = 0.0
        async with real_node(tmp_path) as node:
            await node.start("p", MAIN)
            running = [
                await node.begin(CLIENT, *command)
                for command in (("exec", "p", "--", "sh", "-c", "echo on; sleep 600"), ("logs", "-f", "p"))
            ]
            assert running[0].stdout is not None
            assert await running[0].stdout.readline() == b"on\n"
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 8

    run(main())


@pytest.mark.parametrize("name", ["p", "nobody"])
def test_pods_of_simulated_nodes_say_so_beside_real_ones(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.cluster.api.create(NODES, {"metadata": {"name": "simulated"}})
            spec = {"nodeName": "simulated", "containers": [{"name": "main", "image": "i"}]}
            await node.cluster.api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
            code, text = message(await ask(node, "GET", f"/api/v1/namespaces/default/pods/{name}/log"))
            expected = (400, "simulated containers run nothing, so they have no logs")
            assert (code, text) == (expected if name == "p" else (404, 'pods "nobody" not found'))

    run(main())


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def point_to(node: RealNode, port: int) -> None:
    """Let the kubelet's port be this one."""
    status = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
    await node.cluster.api.patch(NODES, NODE, "", status, subresource="status")


def server_context_of(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(context, identity.certificate, identity.key)
    return context
