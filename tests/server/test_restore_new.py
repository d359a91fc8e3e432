"""What people write by hand comes in as `kubectl create` would bring it, beside a dump that stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from fairlead.api.objects import Obj
from fairlead.server.registry.restore import restore
from fairlead.sim import manifests
from tests.played import played
from tests.server.registry_world import POD_SPEC, World, run

BY_HAND = Path(__file__).parent / "by_hand.yaml"


def of(kind: str, name: str, api: str = "v1", **fields: Any) -> Obj:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "n"}, **fields}


def service(name: str, **spec: Any) -> Obj:
    return of("Service", name, spec={"selector": {"app": "web"}, "ports": [{"port": 80}], **spec})


@played(run)
async def test_a_manifest_of_every_kind_is_taken(world: World) -> None:
    """In whatever order they stand in the file."""
    objects = [manifests.portable(obj) for obj in manifests.read(BY_HAND)]
    restored = await restore(world.registry, objects[::-1])
    assert (restored.stored.total(), restored.skipped) == (len(objects), {})


@played(run)
async def test_services_without_an_address_get_one(world: World) -> None:
    written = [service("plain"), service("lb", type="LoadBalancer", externalTrafficPolicy="Local"), service("fixed")]
    written[2]["spec"]["clusterIP"] = "10.96.0.10"  # in the network of its own cluster
    await restore(world.registry, [*written, service("none", clusterIP="None")])
    plain, balanced, fixed, headless = [
        found["spec"] for name in ("plain", "lb", "fixed", "none") if (found := await world.get(SERVICES, name))
    ]
    assert plain["clusterIP"].startswith("10.0.0.")
    assert plain["clusterIPs"] == [plain["clusterIP"]]
    assert plain["ipFamilies"] == ["IPv4"]
    assert 30000 <= balanced["ports"][0]["nodePort"] < 32768
    assert balanced["healthCheckNodePort"] != balanced["ports"][0]["nodePort"]
    assert (fixed["clusterIP"], fixed["clusterIPs"]) == ("10.96.0.10", ["10.96.0.10"])
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "10.0.0"}, {"type": "ExternalName", "clusterIP": "10.0.0.9"}, {"ports": []}]
)
@played(run)
async def test_services_are_refused_as_by_kubectl(world: World, spec: Obj) -> None:
    with pytest.raises(ValueError, match="Service n/s cannot be stored"):
        await restore(world.registry, [service("s") | {"spec": {"ports": [{"port": 80}]} | spec}])
    assert await world.names(SERVICES) == []


@played(run)
async def test_pods_have_what_admission_gives(world: World) -> None:
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
    limits = of("LimitRange", "l", spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "300m"}}]})
    standard: Obj = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p"}
    standard["metadata"] = {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    claim = of("PersistentVolumeClaim", "c", spec={"accessModes": ["ReadWriteOnce"]})
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    pod = of("Pod", "p", spec=POD_SPEC | {"priorityClassName": "gold"})
    await restore(world.registry, [pod, claim, limits, standard, gold])
    made, claimed = await world.get(PODS, "p"), await world.get(PERSISTENT_VOLUME_CLAIMS, "c")
    assert made is not None
    assert claimed is not None
    assert made["spec"]["priority"] == 1000
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "300m"}
    assert {taint["tolerationSeconds"] for taint in made["spec"]["tolerations"]} == {300}
    assert claimed["spec"]["storageClassName"] == "s"


@played(run)
async def test_what_a_quota_of_the_dump_forbids_is_refused_and_leaves_nothing(world: World) -> None:
    quota = of("ResourceQuota", "q", spec={"hard": {"pods": "1"}})
    quota |= {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    quota["metadata"]["uid"] = "u1"
    pods = [of("Pod", name, spec=POD_SPEC) for name in ("a", "b")]
    with pytest.raises(ValueError, match=r"Pod n/b cannot be stored: .*exceeded quota: q") as refused:
        await restore(world.registry, [quota, *pods])
    assert refused.value.about["metadata"]["name"] == "b"  # type: ignore[attr-defined]
    assert await world.names(PODS) == await world.names(RESOURCE_QUOTAS) == []


@played(run)
async def test_what_has_only_the_beginning_of_a_name_gets_the_same_name_each_time(world: World) -> None:
    def written() -> list[Obj]:
        pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "namespace": "n"}}
        return [pod | {"metadata": dict(pod["metadata"]), "spec": POD_SPEC} for _ in range(2)]

    assert (await restore(world.registry, written())).stored == {"Pod": 2}
    names = await world.names(PODS)
    assert [name[:2] for name in names] == ["p-", "p-"]
    assert (await restore(world.registry, written())).stored == {}
    assert await world.names(PODS) == names


@played(run)
async def test_what_kubectl_writes_without_a_server_is_new(world: World) -> None:
    """`kubectl create … --dry-run=client -o yaml` and `kubectl expose` have a status in which there is nothing."""
    job = of("Job", "j", "batch/v1", spec={"template": {"spec": POD_SPEC | {"restartPolicy": "Never"}}}, status={})
    job["metadata"]["creationTimestamp"] = None
    exposed = service("s") | {"status": {"loadBalancer": {}}}
    await restore(world.registry, [job, exposed])
    made, there = await world.get(JOBS, "j"), await world.get(SERVICES, "s")
    assert made is not None
    assert there is not None
    assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}
    assert there["spec"]["clusterIP"]


@played(run)
async def test_a_misspelt_field_is_a_mistake_by_hand_and_of_a_newer_version_in_a_dump(world: World) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}}
    written = of("Deployment", "d", "apps/v1", spec=spec | {"replica": 3})
    with pytest.raises(ValueError, match=r'Deployment n/d: unknown field "spec\.replica"'):
        await restore(world.registry, [written | {"metadata": dict(written["metadata"])}])
    written["metadata"]["uid"] = "u1"
    await restore(world.registry, [written])
    assert await world.names(DEPLOYMENTS) == ["d"]


@played(run)
async def test_no_webhook_is_asked(world: World) -> None:
    """It may run in the cluster that only begins."""
    hook: Obj = {"name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None"}
    hook["admissionReviewVersions"] = ["v1"]
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    configuration = kind | {"metadata": {"name": "w"}, "webhooks": [hook | {"rules": [everything]}]}
    await restore(world.registry, [configuration, of("ConfigMap", "c"), {**of("Node", "node"), "status": {}}])
    assert await world.names(CONFIG_MAPS) == ["c"]
    assert await world.names(NODES) == ["node"]
