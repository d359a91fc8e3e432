from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.server.admission.base import Attributes
from fairlead.server.admission.service_account import TOKEN_PATH, ServiceAccount
from tests.server.admission_world import World, admit, change, container, creation, pod, run


def accounts(name: str = "default", **rest: Any) -> World:
    annotations = rest.pop("annotations", {})
    meta = {"name": name, "namespace": "ns", "annotations": annotations}
    return World().put("serviceaccounts", {"metadata": meta, **rest})


def refusal(world: World, attributes: Attributes) -> str:
    with pytest.raises(Forbidden) as refused:
        admit(ServiceAccount(world.dependencies), attributes)
    return refused.value.message.partition(" is forbidden: ")[2]


def test_a_pod_runs_as_default_and_mounts_a_token() -> None:
    spec = admit(ServiceAccount(accounts().dependencies), creation(pod(initContainers=[container("i")])))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"]["defaultMode"] == 420
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    for container_ in (*spec["containers"], *spec["initContainers"]):
        assert container_["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}]


def test_a_container_with_something_else_in_that_place_keeps_it() -> None:
    own = {"name": "mine", "mountPath": TOKEN_PATH}
    spec = admit(
        ServiceAccount(accounts().dependencies), creation(pod(containers=[container("c", volumeMounts=[own])]))
    )["spec"]
    assert spec["containers"][0]["volumeMounts"] == [own]
    assert "volumes" not in spec


@pytest.mark.parametrize(
    ("account", "pod_setting", "is_mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_the_pods_wish_counts_more_than_the_accounts(
    account: bool | None, pod_setting: bool | None, is_mounted: bool
) -> None:
    world = accounts() if account is None else accounts(automountServiceAccountToken=account)
    spec: Obj = {} if pod_setting is None else {"automountServiceAccountToken": pod_setting}
    assert ("volumes" in admit(ServiceAccount(world.dependencies), creation(pod(**spec)))["spec"]) is is_mounted


def test_pull_secrets_of_the_account_are_used_unless_the_pod_has_its_own() -> None:
    world = accounts("build", imagePullSecrets=[{"name": "reg"}])
    found = admit(ServiceAccount(world.dependencies), creation(pod(serviceAccountName="build")))
    assert found["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    found = admit(
        ServiceAccount(world.dependencies),
        creation(pod(serviceAccountName="build", imagePullSecrets=[{"name": "own"}])),
    )
    assert found["spec"]["imagePullSecrets"] == [{"name": "own"}]


def test_a_missing_account_is_refused() -> None:
    expected = 'error looking up service account ns/nosuch: serviceaccount "nosuch" not found'
    assert refusal(World(), creation(pod(serviceAccountName="nosuch"))) == expected


def test_the_default_account_is_waited_for() -> None:
    world = World()

    async def main() -> Obj:
        attributes = creation(pod())
        waiting = asyncio.create_task(ServiceAccount(world.dependencies).admit(attributes))
        await asyncio.sleep(0)
        world.put("serviceaccounts", {"metadata": {"name": "default", "namespace": "ns"}})
        await waiting
        return attributes.spec

    assert run(main())["serviceAccountName"] == "default"


MIRROR = {"kubernetes.io/config.mirror": "x"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_a_mirror_pod_has_no_identity(spec: Obj, why: str) -> None:
    mirror = pod(**spec)
    mirror["metadata"]["annotations"] = MIRROR
    assert refusal(World(), creation(mirror)) == why


def test_a_plain_mirror_pod_is_left_alone() -> None:
    mirror = pod()
    mirror["metadata"]["annotations"] = MIRROR
    assert "serviceAccountName" not in admit(ServiceAccount(World().dependencies), creation(mirror))["spec"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}, 'volume with secret.secretName="x"'),
        (
            {"containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}]},
            'container c with envVar E referencing secret.secretName="x"',
        ),
        ({"imagePullSecrets": [{"name": "x"}]}, 'imagePullSecrets[0].name="x"'),
    ],
)
def test_an_account_may_limit_the_secrets_of_its_pods(spec: Obj, why: str) -> None:
    world = accounts(
        annotations={"kubernetes.io/enforce-mountable-secrets": "true"},
        secrets=[{"name": "ok"}],
        automountServiceAccountToken=False,
    )
    admit(ServiceAccount(world.dependencies), creation(pod(volumes=[{"name": "v", "secret": {"secretName": "ok"}}])))
    message = refusal(world, creation(pod(**spec)))
    assert message.startswith(f"{why} is not allowed because service account default does not reference that ")


def test_ephemeral_containers_are_limited_too() -> None:
    world = accounts(annotations={"kubernetes.io/enforce-mountable-secrets": "true"})
    debug = {"name": "d", "envFrom": [{"secretRef": {"name": "x"}}]}
    new = pod(serviceAccountName="default", ephemeralContainers=[debug])
    message = refusal(world, change(pod(), new, subresource="ephemeralcontainers"))
    assert message.startswith('ephemeral container d with envFrom referencing secret.secretName="x" is not allowed')
