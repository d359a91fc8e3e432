"""A machine that shows a bootstrap token gets a certificate of its own, which it keeps and renews."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec.structs
import pytest
from click.testing import CliRunner
from cryptography import x509

from fairlead.agent.certificates.joining import joined, renewed
from fairlead.agent.certificates.requests import NoCertificate
from fairlead.api.builtin import CLUSTER_ROLE_BINDINGS, NODES, SECRETS
from fairlead.api.users import node_user
from fairlead.cli.main import main
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, load
from fairlead.compose import Cluster, Settings, cluster
from fairlead.server.auth.authentication import AuthenticationSettings
from tests.agent.machine import in_loop

TOKEN = "07401b.f395accd246ae52d"
REQUESTS = "certificates.k8s.io:certificatesigningrequests"
#: Who may what, as kubeadm has it.
ROLES = {
    "node-bootstrapper": "system:bootstrappers",
    f"{REQUESTS}:nodeclient": "system:bootstrappers",
    f"{REQUESTS}:selfnodeclient": "system:nodes",
}


def _settings(folder: Path) -> Settings:
    return Settings(
        data_dir=folder / "data",
        port=0,
        components=frozenset({"api", "controllers"}),
        authentication=AuthenticationSettings(has_bootstrap_tokens=True),
    )


async def _let_join(running: Cluster) -> None:
    id_, secret = TOKEN.split(".")
    data = {"token-id": id_, "token-secret": secret, "usage-bootstrap-authentication": "true"}
    token = {"metadata": {"name": f"bootstrap-token-{id_}"}, "type": "bootstrap.kubernetes.io/token"}
    await running.api.create(SECRETS, token | {"stringData": data}, "kube-system")
    for role, group in ROLES.items():
        reference = {"kind": "ClusterRole", "name": f"system:{role}", "apiGroup": "rbac.authorization.k8s.io"}
        subject = {"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        await running.api.create(CLUSTER_ROLE_BINDINGS, binding)


def _serial(access: Access) -> int:
    assert access.client_certificate is not None
    return x509.load_pem_x509_certificate(access.client_certificate).serial_number


@in_loop
async def test_a_token_gives_a_node_its_certificate_once(tmp_path: Path) -> None:
    file = tmp_path / "pki/kubelet-client.pem"
    async with cluster(_settings(tmp_path)) as running:
        assert running.kubeconfig is not None
        await _let_join(running)
        administrator = load(running.kubeconfig)
        found = await joined(administrator, TOKEN, "worker", file)
        async with HttpApi(found) as api:
            await api.create(NODES, {"metadata": {"name": "worker"}})
        assert file.stat().st_mode & 0o777 == 0o600
        assert _serial(await joined(administrator, "expire.dexpiredexpired", "worker", file)) == _serial(found)
        other = await joined(administrator, TOKEN, "another", file)  # that of another node is not shown
        assert _serial(other) != _serial(found)


@in_loop
async def test_who_may_not_join_is_told(tmp_path: Path) -> None:
    async with cluster(_settings(tmp_path)) as running:
        assert running.kubeconfig is not None
        with pytest.raises(NoCertificate, match="Unauthorized"):
            await joined(load(running.kubeconfig), TOKEN, "worker", tmp_path / "client.pem")


@in_loop
async def test_a_certificate_that_ends_is_followed_by_another(tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    async with cluster(_settings(tmp_path)) as running:
        assert running.kubeconfig is not None and running.authority is not None
        await _let_join(running)
        ending = running.authority.identify(node_user("worker"), seconds=2.0)
        access = msgspec.structs.replace(
            load(running.kubeconfig), client_certificate=ending.certificate, client_key=ending.key
        )
        async with HttpApi(access) as api:
            renewing = asyncio.create_task(renewed(api, access, "worker", file))
            while not file.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            renewing.cancel()
        found = x509.load_pem_x509_certificate(file.read_bytes())
        assert found.serial_number != _serial(access)


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(
        "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {}}], "
        "contexts: [{name: c, context: {cluster: c, user: u}}], current-context: c}"
    )
    asked = ["node", "run", "--kubeconfig", str(tmp_path / "kubeconfig"), "--join-token", "TOKEN"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 2 and "a bootstrap token is [a-z0-9]{6}.[a-z0-9]{16}" in result.output
