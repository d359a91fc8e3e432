"""Who reaches a kubelet: nobody without credentials, and everybody only as far as the API server allows."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fairlead.agent.kubelet_api.rules import ServingRules
from fairlead.api.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SERVICE_ACCOUNTS
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.client.tls import show, trusting
from fairlead.node.configuration.load import configure
from fairlead.runtime.authority import Authority
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import run
from tests.agent.real_node import RealNode, real_node

PATHS = (
    "healthz",
    "pods",
    "configz",
    "metrics",
    "metrics/resource",
    "metrics/cadvisor",
    "metrics/probes",
    "stats/summary",
    "containerLogs/default/p/main",
    "exec/default/p/main?command=true&output=1",
    "attach/default/p/main?output=1",
    "portForward/default/p?port=80",
    "run/default/p/main",
    "no/such/path",
)


def context(node: RealNode, identity: Identity | None = None) -> ssl.SSLContext:
    found = trusting(node.authority.certificate_pem)
    if identity is not None:
        show(found, identity.certificate, identity.key)
    return found


async def ask(
    node: RealNode, path: str, identity: Identity | None = None, token: str = "", method: str = "GET"
) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{node.kubelet_port}/{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, ssl=context(node, identity), headers=headers) as response,
    ):
        return response.status, await response.text()


async def allow(node: RealNode, user: str, *subresources: str, verbs: tuple[str, ...] = ("get", "create")) -> None:
    """A role that allows these subresources of nodes, and its binding."""
    name = user.replace(":", "-")
    rule = {"apiGroups": [""], "resources": [f"nodes/{found}" for found in subresources], "verbs": list(verbs)}
    role = {"metadata": {"name": name}, "rules": [rule]}
    await node.cluster.api.create(CLUSTER_ROLES, role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await node.cluster.api.create(CLUSTER_ROLE_BINDINGS, binding)


def test_nobody_gets_anything_without_credentials(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            for path in PATHS:
                assert await ask(node, path) == (401, "Unauthorized"), path
                assert await ask(node, path, token="wrong") == (401, "Unauthorized"), path

    run(main())


def test_a_certificate_of_another_authority_is_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            stranger = Authority.make("stranger").identify(User("admin", ("system:masters",)))
            with pytest.raises(aiohttp.ClientError):
                await ask(node, "pods", stranger)

    run(main())


def test_who_is_known_gets_what_is_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            nobody = node.authority.identify(User("nobody"))
            for path in PATHS:
                code, text = await ask(node, path, nobody)
                assert (code, text[:39]) == (403, "Forbidden (user=nobody, verb=get, resou"), path
            assert (await ask(node, "pods", nobody))[1] == (
                "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
            )
            for subresource, allowed in {
                "pods": ["pods"],
                "healthz": ["healthz"],
                "configz": ["configz"],
                "stats": ["stats/summary"],
                "metrics": ["metrics", "metrics/resource", "metrics/cadvisor", "metrics/probes"],
                "proxy": ["pods", "healthz", "configz"],
            }.items():
                await allow(node, f"only:{subresource}", subresource)
                user = node.authority.identify(User(f"only:{subresource}"))
                for path in PATHS[:8]:
                    code, _ = await ask(node, path, user)
                    assert code == (200 if path in allowed else 403), (subresource, path)

    run(main())


def test_reading_does_not_run_commands(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", {"name": "main"})
            await allow(node, "reader", "proxy", verbs=("get",))
            reader = node.authority.identify(User("reader"))
            assert (await ask(node, "pods", reader))[0] == 200
            code, text = await ask(node, "exec/default/p/main?command=true&output=1", reader, method="POST")
            assert code == 403
            assert "verb=create" in text

    run(main())


def test_a_token_that_the_api_server_knows_lets_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            token = await _token(node)
            assert (await ask(node, "metrics/resource", token=token))[0] == 403
            await allow(node, "system:serviceaccount:default:default", "stats")
            assert (await ask(node, "stats/summary", token=token))[0] == 200

    run(main())


def test_what_is_measured_is_shown(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path) as node:
            await node.start("p", {"name": "main"})
            admin = node.authority.identify(User("admin", ("system:masters",)))
            assert await ask(node, "healthz", admin) == (200, "ok")
            assert '"name":"p"' in (await ask(node, "pods", admin))[1]
            assert '"nodeName": "real"' in (await ask(node, "stats/summary", admin))[1]
            assert "node_cpu_usage_seconds_total" in (await ask(node, "metrics/resource", admin))[1]
            shown = (await ask(node, "metrics", admin))[1]
            assert 'kubelet_evictions{eviction_signal="memory.available"} 2\n' in shown
            assert "\nkubelet_running_pods " in shown and "\nprocess_open_fds " in shown
            assert '"kind":"PodList"' in (await ask(node, "runningpods/", admin))[1].replace(" ", "")
            text = (await ask(node, "metrics", admin))[1]
            labels = 'long_running="false",method="GET",path="metrics/resource",server_type="readwrite"'
            assert f"kubelet_http_requests_total{{{labels}}} 1\n" in text
            assert f"kubelet_http_requests_duration_seconds_count{{{labels}}} 1\n" in text
            assert "KubeletConfiguration" in (await ask(node, "configz", admin))[1]
            assert (await ask(node, "metrics/made-up", admin))[0] == 404
            assert "made-up" not in (await ask(node, "metrics", admin))[1]
            assert (await ask(node, "pods", admin, method="POST"))[0] == 405
            assert (await ask(node, "no/such/path", admin))[0] == 404

    run(main())


def test_who_shows_nothing_may_be_somebody_and_may_be_allowed_everything(tmp_path: Path) -> None:
    async def main() -> None:
        anonymous = {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}
        async with real_node(tmp_path / "asked", _rules(authentication=anonymous)) as node:
            forbidden = "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[stats])\n"
            assert await ask(node, "stats/summary") == (403, forbidden)
            token = await _token(node)
            assert await ask(node, "stats/summary", token=token) == (403, forbidden)  # nobody asks whose it is
        always = _rules(authentication=anonymous, authorization={"mode": "AlwaysAllow"})
        async with real_node(tmp_path / "always", always) as node:
            assert (await ask(node, "stats/summary"))[0] == 200

    run(main())


def test_what_a_token_may_is_kept_as_long_as_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        rules = _rules(authorization={"webhook": {"cacheUnauthorizedTTL": "1ns"}})
        async with real_node(tmp_path, rules) as node:
            user = node.authority.identify(User("late"))
            assert (await ask(node, "stats/summary", user))[0] == 403
            await allow(node, "late", "stats")
            assert (await ask(node, "stats/summary", user))[0] == 200

    run(main())


def test_without_debugging_nobody_reads_logs_and_runs_commands(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path, _rules(enableDebuggingHandlers=False)) as node:
            await node.start("p", {"name": "main"})
            admin = node.authority.identify(User("admin", ("system:masters",)))
            for path in ("containerLogs/default/p/main", "exec/default/p/main?command=true", "runningpods/", "logs/"):
                assert await ask(node, path, admin) == (405, "Debug endpoints are disabled.\n"), path
            assert (await ask(node, "configz", admin))[0] == 404
            assert (await ask(node, "pods", admin))[0] == (await ask(node, "metrics", admin))[0] == 200

    run(main())


def test_versions_and_suites_of_tls_are_those_that_are_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with real_node(tmp_path, _rules(tlsMinVersion="VersionTLS13")) as node:
            client = context(node)
            client.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(aiohttp.ClientError):
                async with aiohttp.ClientSession() as session:
                    await session.get(f"https://127.0.0.1:{node.kubelet_port}/healthz", ssl=client)
            assert await ask(node, "healthz") == (401, "Unauthorized")

    run(main())
    wanted = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]
    assert _rules(tlsCipherSuites=wanted).tls_suites == "ECDHE-ECDSA-AES256-GCM-SHA384"
    assert _rules(tlsCipherSuites=wanted[1:]).least_tls == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ValueError, match="Cipher suite TLS_NO not supported or doesn't exist"):
        _rules(tlsCipherSuites=["TLS_NO"])
    with pytest.raises(ValueError, match="unknown tls version"):
        _rules(tlsMinVersion="1.3")


async def _token(node: RealNode) -> str:
    request: Obj = {"spec": {"audiences": []}}
    made = await node.cluster.api.create(SERVICE_ACCOUNTS, request, "default", name="default", subresource="token")
    return str(made.obj()["status"]["token"])


def _rules(**fields: Any) -> ServingRules:
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return ServingRules.of(configure({**kind, **fields}).configuration)
