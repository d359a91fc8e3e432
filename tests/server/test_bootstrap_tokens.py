"""Bootstrap tokens: whom they let in, and that they go when they expire (issue 16)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, SECRETS
from fairlead.api.objects import Obj
from fairlead.controllers.bootstraptokens import ExpiredBootstrapTokens, SignedClusterInfo, signature
from fairlead.runtime.clock import now, timestamp
from fairlead.runtime.loops import run_virtual
from fairlead.server.account_tokens import ISSUER
from fairlead.server.assembly import Server
from fairlead.server.auth.bootstrap_tokens import bootstrap_tokens
from fairlead.store.memory import MemoryStore
from tests.controllers.cluster import Cluster, run
from tests.played import played

TOKEN = "07401b.f395accd246ae52d"


def secret(name: str = "bootstrap-token-07401b", type_: str = "bootstrap.kubernetes.io/token", **data: str) -> Obj:
    values = {"token-id": "07401b", "token-secret": "f395accd246ae52d", "usage-bootstrap-authentication": "true"}
    values |= {key.replace("_", "-"): value for key, value in data.items()}
    return {"metadata": {"name": name}, "type": type_, "stringData": {k: v for k, v in values.items() if v}}


def shown(token: str, *secrets: Obj, namespace: str = "kube-system") -> Any:
    """The user of a token, in a cluster that has these secrets; None if it lets nobody in."""

    async def scene() -> Any:
        server = Server(MemoryStore())
        await server.open([])
        for obj in secrets:
            await server.api.create(SECRETS, obj, namespace)
        found = await bootstrap_tokens(server.registry)(token, [ISSUER])
        return found and found.user

    return run_virtual(scene())


def test_a_token_logs_in_as_its_id() -> None:
    user = shown(TOKEN, secret(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a"))
    assert user.name == "system:bootstrap:07401b"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")
    assert shown(TOKEN, secret(expiration="2999-01-01T00:00:00Z")).groups == ("system:bootstrappers",)


@pytest.mark.parametrize(
    "made",
    [
        secret(token_secret="f395accd246ae52e"),
        secret(token_secret=""),
        secret(token_id="07401c"),
        secret(type_="Opaque"),
        secret(name="bootstrap-token-07401c"),
        secret(usage_bootstrap_authentication="yes"),
        secret(expiration="1969-01-01T00:00:00Z"),
        secret(expiration="tomorrow"),
        secret(auth_extra_groups="system:masters"),
        secret(auth_extra_groups="system:bootstrappers:A"),
    ],
    ids=["secret", "no secret", "id", "type", "name", "usage", "expired", "no time", "masters", "upper case"],
)
def test_one_that_is_not_right_in_every_part_lets_nobody_in(made: Obj) -> None:
    assert shown(TOKEN, made) is None


@pytest.mark.parametrize("token", ["07401b.f395accd246ae52", TOKEN + "\n", TOKEN.upper(), "07401b.f395accd246ae52e"])
def test_another_text_lets_nobody_in(token: str) -> None:
    assert shown(token, secret()) is None


def test_other_namespaces_have_no_bootstrap_tokens() -> None:
    assert shown(TOKEN, secret(), namespace="default") is None


@played(run, ExpiredBootstrapTokens)
async def test_expired_tokens_go(cluster: Cluster) -> None:
    def expiring(name: str, expiration: str) -> Obj:
        return secret(name, expiration=expiration)

    await cluster.create(SECRETS, expiring("soon", timestamp(now() + 60)), "kube-system")
    await cluster.create(SECRETS, expiring("wrong", "tomorrow"), "kube-system")
    await cluster.create(SECRETS, expiring("later", timestamp(now() + 3600)), "kube-system")
    await asyncio.sleep(30)
    assert await names(cluster) == {"soon", "later"}
    await asyncio.sleep(31)
    assert await names(cluster) == {"later"}


async def names(cluster: Cluster) -> set[str]:
    return {item.obj()["metadata"]["name"] for item in (await cluster.api.list(SECRETS, "kube-system")).items}


def test_a_signature_is_that_of_kubernetes() -> None:
    content = "Hello from the other side. I must have called a thousand times."
    assert signature(content, "joshua", "my voice is my passcode") == (
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    )


@played(run, SignedClusterInfo)
async def test_tokens_sign_what_everybody_may_know_of_the_cluster(cluster: Cluster) -> None:
    async def signatures() -> Obj:
        await asyncio.sleep(1)
        found = await cluster.get(CONFIG_MAPS, "cluster-info", "kube-public")
        assert found is not None
        return {key: value for key, value in found["data"].items() if key != "kubeconfig"}

    made = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "a", "jws-kubeconfig-old": "x"}}
    await cluster.create(CONFIG_MAPS, made, "kube-public")
    assert await signatures() == {}, "nobody has signed it so"
    await cluster.create(SECRETS, secret(usage_bootstrap_signing="true"), "kube-system")
    await cluster.create(SECRETS, secret("bootstrap-token-000000", token_id="000000"), "kube-system")
    expected = {"jws-kubeconfig-07401b": signature("a", "07401b", "f395accd246ae52d")}
    assert await signatures() == expected, "the other must not sign"
    await cluster.patch(CONFIG_MAPS, "cluster-info", {"data": {"kubeconfig": "b"}}, namespace="kube-public")
    assert await signatures() == {"jws-kubeconfig-07401b": signature("b", "07401b", "f395accd246ae52d")}
    await cluster.delete(SECRETS, "bootstrap-token-07401b", "kube-system")
    assert await signatures() == {}
