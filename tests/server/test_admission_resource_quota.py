"""ResourceQuota: who is charged what, and what the refusals say (S0-79)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, parse
from fairlead.api.resources import Resource
from fairlead.runtime import loops, turns
from fairlead.server.admission.base import Attributes
from fairlead.server.admission.resource_quota import ResourceQuotaAdmission
from tests.server.admission_world import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SERVICES,
    World,
    admit,
    change,
    container,
    creation,
    pod,
    run,
)
from tests.turns import counting_turns


def quota(hard: Obj, used: Obj | None = None, name: str = "q", **spec: Any) -> Obj:
    there = dict.fromkeys(hard, "0") if used is None else used
    return {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": there},
    }


def world(*quotas: Obj) -> World:
    made = World()
    for quota in quotas:
        made.put("resourcequotas", quota)
    return made


def used(world: World, name: str = "q") -> Obj:
    found: Obj = world.get("resourcequotas", name, "ns")["status"]["used"]
    return found


def charge(world: World, attributes: Attributes) -> None:
    admit(ResourceQuotaAdmission(world.dependencies), attributes)


def refusal(world: World, attributes: Attributes) -> str:
    with pytest.raises(Forbidden) as refused:
        charge(world, attributes)
    return refused.value.message


def asking(**amounts: str) -> Obj:
    return pod(containers=[container("c", amounts, amounts)])


def test_a_pod_is_charged_and_the_next_one_finds_no_room() -> None:
    there = world(quota({"pods": "1", "count/pods": "5"}))
    charge(there, creation(pod("a")))
    assert used(there) == {"pods": "1", "count/pods": "1"}
    assert refusal(there, creation(pod("b"))) == (
        'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert used(there) == {"pods": "1", "count/pods": "1"}


def test_only_what_is_exceeded_is_told_sorted() -> None:
    there = world(
        quota(
            {"requests.cpu": "1", "limits.cpu": "2", "pods": "10"},
            {"requests.cpu": "800m", "limits.cpu": "1600m", "pods": "2"},
        )
    )
    assert refusal(there, creation(pod(containers=[container("c", {"cpu": "400m"}, {"cpu": "800m"})]))) == (
        'pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=800m,requests.cpu=400m, '
        "used: limits.cpu=1600m,requests.cpu=800m, limited: limits.cpu=2,requests.cpu=1"
    )


@pytest.mark.parametrize(
    ("hard", "amounts"),
    [
        ({"cpu": "1"}, {"cpu": "500m"}),
        ({"requests.cpu": "1", "limits.cpu": "1"}, {"cpu": "500m"}),
        ({"requests.ephemeral-storage": "1Gi", "limits.ephemeral-storage": "1Gi"}, {"ephemeral-storage": "512Mi"}),
        ({"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}),
        ({"requests.example.com/gpu": "2"}, {"example.com/gpu": "1"}),
    ],
)
def test_compute_resources_count_under_each_of_their_names(hard: Obj, amounts: dict[str, str]) -> None:
    there = world(quota(hard))
    charge(there, creation(asking(**amounts)))
    assert used(there) == dict.fromkeys(hard, next(iter(amounts.values())))


def test_init_containers_count_as_the_scheduler_counts_them() -> None:
    there = world(quota({"requests.cpu": "1"}))
    sidecar = container("s", {"cpu": "700m"}, restartPolicy="Always")
    first = container("i", {"cpu": "200m"})
    charge(there, creation(pod(containers=[container("c", {"cpu": "100m"})], initContainers=[sidecar, first])))
    assert used(there) == {"requests.cpu": "900m"}


def test_every_container_must_say_what_the_quota_limits() -> None:
    there = world(quota({"requests.memory": "1Gi", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"}))
    containers = [container("b"), container("a"), container("c", {"memory": "1Mi"})]
    assert refusal(there, creation(pod(containers=containers))) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: a,b,c; requests.memory for: a,b'
    )
    charge(there, creation(pod(resources={"requests": {"memory": "1Mi"}, "limits": {"memory": "2Mi"}})))
    assert used(there) == {
        "requests.memory": "1Mi",
        "limits.memory": "2Mi",
        "requests.ephemeral-storage": "0",
    }


def test_a_quota_whose_usage_is_not_known_refuses_and_one_without_status_does_not_restrict() -> None:
    there = world(quota({"pods": "5", "count/pods": "5"}, {}))
    assert refusal(there, creation(pod())) == (
        'pods "p" is forbidden: status unknown for quota: q, resources: count/pods,pods'
    )
    charge(world(quota({"pods": "0"}) | {"status": {}}), creation(pod()))


def test_all_quotas_must_agree_and_a_refused_pod_is_charged_nowhere() -> None:
    there = world(quota({"pods": "5"}), quota({"pods": "0"}, name="r"))
    assert "exceeded quota: r, " in refusal(there, creation(pod()))
    assert used(there) == {"pods": "0"}


def test_a_dry_run_is_checked_but_not_charged() -> None:
    there = world(quota({"pods": "1"}))
    charge(there, creation(pod(), dry_run=True))
    assert used(there) == {"pods": "0"}


def test_a_failed_write_gives_back_what_was_charged() -> None:
    there = world(quota({"pods": "5", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "100m"}))
    attributes = creation(asking(cpu="400m"))
    charge(there, attributes)
    assert used(there) == {"pods": "2", "requests.cpu": "500m"}
    run(undo(attributes))
    assert used(there) == {"pods": "1", "requests.cpu": "100m"}


async def undo(attributes: Attributes) -> None:
    """What the registry does after a refusal or a failed write."""
    for action in attributes.on_failure:
        await action()


def test_two_requests_cannot_both_take_the_last_place() -> None:
    there = world(quota({"pods": "1"}))
    plugin = ResourceQuotaAdmission(there.dependencies)

    async def both() -> list[BaseException | None]:
        tries = (plugin.validate(creation(pod(name))) for name in "ab")
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = run(both())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Forbidden", "NoneType"]
    assert used(there) == {"pods": "1"}


def test_a_lost_race_on_a_second_quota_gives_back_the_first() -> None:
    there = world(quota({"pods": "5"}), quota({"pods": "1"}, name="r"))
    plugin = ResourceQuotaAdmission(there.dependencies)

    async def try_one(name: str) -> None:
        attributes = creation(pod(name))
        try:
            await plugin.validate(attributes)
        except Forbidden:
            await undo(attributes)

    async def both() -> None:
        await asyncio.gather(try_one("a"), try_one("b"))

    run(both())
    assert (used(there), used(there, "r")) == ({"pods": "1"}, {"pods": "1"})


def stored(obj: Obj) -> Obj:
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": "1"}}


def test_a_resize_is_charged_the_difference() -> None:
    there = world(quota({"requests.cpu": "1"}, {"requests.cpu": "500m"}))
    charge(there, change(stored(asking(cpu="500m")), asking(cpu="900m"), subresource="resize"))
    assert used(there) == {"requests.cpu": "900m"}
    assert refusal(there, change(stored(asking(cpu="900m")), asking(cpu="1100m"), subresource="resize")) == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=200m, '
        "used: requests.cpu=900m, limited: requests.cpu=1"
    )
    charge(there, change(stored(asking(cpu="900m")), asking(cpu="100m"), subresource="resize"))
    assert used(there) == {"requests.cpu": "900m"}


def test_a_pod_that_gets_a_deadline_moves_into_the_terminating_quota() -> None:
    there = world(quota({"pods": "1"}, scopes=["Terminating"]))
    charge(there, change(stored(pod()), pod(activeDeadlineSeconds=5)))
    assert used(there) == {"pods": "1"}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, pod(), asking(cpu="1")),
        ({"scopes": ["NotBestEffort"]}, asking(cpu="1"), pod()),
        ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=0), pod()),
        ({"scopes": ["NotTerminating"]}, pod(), pod(activeDeadlineSeconds=5)),
        ({"scopes": ["NotTerminating", "BestEffort"]}, pod(), asking(cpu="1")),
        ({"scopes": ["PriorityClass"]}, pod(priorityClassName="high"), pod()),
    ],
)
def test_a_scoped_quota_counts_only_pods_in_scope(scope: Obj, inside: Obj, outside: Obj) -> None:
    there = world(quota({"pods": "1"}, **scope))
    charge(there, creation(outside))
    assert used(there) == {"pods": "0"}
    charge(there, creation(inside))
    assert used(there) == {"pods": "1"}


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [
        ("In", ["high"], {"high"}),
        ("NotIn", ["high"], {"low", ""}),
        ("Exists", [], {"high", "low"}),
        ("DoesNotExist", [], {""}),
    ],
)
def test_a_scope_selector_chooses_priority_classes(operator: str, values: list[str], counted: set[str]) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    for name in ("high", "low", ""):
        there = world(quota({"pods": "1"}, scopeSelector={"matchExpressions": [expression]}))
        charge(there, creation(pod(**({"priorityClassName": name} if name else {}))))
        assert (used(there)["pods"] == "1") is (name in counted)


@pytest.mark.parametrize(
    ("term", "is_counted"), [({"namespaces": ["x"]}, True), ({"namespaceSelector": {}}, True), ({}, False)]
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_affinity_to_other_namespaces_is_a_scope(kind: str, term: Obj, is_counted: bool) -> None:
    weighted = [{"weight": 1, "podAffinityTerm": {"topologyKey": "h", **term}}]
    affinity = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    there = world(quota({"pods": "1"}, scopes=["CrossNamespacePodAffinity"]))
    charge(there, creation(pod(affinity=affinity)))
    assert used(there) == {"pods": "1" if is_counted else "0"}


def test_scoped_quotas_do_not_count_other_kinds() -> None:
    there = world(quota({"configmaps": "0"}, scopes=["NotTerminating"]))
    charge(there, creation({"metadata": {"name": "c", "namespace": "ns"}}, CONFIG_MAPS))


def service(kind: str = "ClusterIP", ports: int = 1, **spec: Any) -> Obj:
    listed = [{"port": 80 + offset} for offset in range(ports)]
    return {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"type": kind, "ports": listed, **spec}}


@pytest.mark.parametrize(
    ("made", "node_ports", "balancers"),
    [
        (service(), "0", "0"),
        (service("NodePort", 2), "2", "0"),
        (service("LoadBalancer"), "1", "1"),
        (service("LoadBalancer", allocateLoadBalancerNodePorts=False), "0", "1"),
    ],
)
def test_services_count_by_type(made: Obj, node_ports: str, balancers: str) -> None:
    there = world(quota({"services": "9", "services.nodeports": "9", "services.loadbalancers": "9"}))
    charge(there, creation(made, SERVICES))
    assert used(there) == {"services": "1", "services.nodeports": node_ports, "services.loadbalancers": balancers}


def test_a_service_that_changes_its_type_is_charged_the_difference() -> None:
    there = world(quota({"services": "1", "services.nodeports": "0"}, {"services": "1", "services.nodeports": "0"}))
    message = refusal(there, change(stored(service()), service("NodePort"), SERVICES))
    assert message.endswith(
        "requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"
    )


def test_claims_count_in_all_and_by_storage_class() -> None:
    gold = "gold.storageclass.storage.k8s.io/"
    hard = {"persistentvolumeclaims": "9", "requests.storage": "5Gi", f"{gold}requests.storage": "2Gi"}
    there = world(quota({**hard, f"{gold}persistentvolumeclaims": "1"}))

    def claim(storage_class: str) -> Obj:
        spec = {"storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
        return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}

    charge(there, creation(claim("gold"), CLAIMS))
    assert used(there) == {
        "persistentvolumeclaims": "1",
        "requests.storage": "1Gi",
        f"{gold}requests.storage": "1Gi",
        f"{gold}persistentvolumeclaims": "1",
    }
    charge(there, creation(claim("tin"), CLAIMS))
    assert used(there)["requests.storage"] == "2Gi"
    assert used(there)[f"{gold}requests.storage"] == "1Gi"


def test_claims_are_scoped_by_their_attributes_class() -> None:
    expression = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    there = world(quota({"persistentvolumeclaims": "9"}, scopeSelector={"matchExpressions": [expression]}))
    for name in ("fast", "slow"):
        claim = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeAttributesClassName": name}}
        charge(there, creation(claim, CLAIMS))
    assert used(there) == {"persistentvolumeclaims": "1"}


def test_devices_are_counted_by_class() -> None:
    there = world(quota({"gpu.deviceclass.resource.k8s.io/devices": "4"}))
    claims = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")

    def claim(count: int) -> Obj:
        asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
        return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}

    charge(there, creation(claim(3), claims))
    assert refusal(there, creation(claim(2), claims)) == (
        'resourceclaims.resource.k8s.io "c" is forbidden: exceeded quota: q, requested: '
        "gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=3, limited: "
        "gpu.deviceclass.resource.k8s.io/devices=4"
    )


def test_devices_are_counted_by_the_extended_resource_that_their_class_stands_for() -> None:
    there = world(quota({"requests.example.com/gpu": "4"}))
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    there.put("deviceclasses.resource.k8s.io", device_class)
    claims = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")

    def claim(name: str) -> Obj:
        asked = {"deviceClassName": name, "allocationMode": "ExactCount", "count": 3}
        spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
        return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}

    charge(there, creation(claim("gpu"), claims))
    charge(there, creation(claim("other"), claims))
    assert used(there) == {"requests.example.com/gpu": "3"}
    asking = pod(containers=[container(requests={"example.com/gpu": "2"}, limits={"example.com/gpu": "2"})])
    assert "requested: requests.example.com/gpu=2, used: requests.example.com/gpu=3" in refusal(there, creation(asking))


def test_any_kind_can_be_counted() -> None:
    there = world(quota({"configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0"}))
    named = {"metadata": {"name": "x", "namespace": "ns"}}
    charge(there, creation(named, CONFIG_MAPS))
    assert used(there) == {"configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0"}
    assert refusal(there, creation(named, DEPLOYMENTS)) == (
        'deployments.apps "x" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, '
        "used: count/deployments.apps=0, limited: count/deployments.apps=0"
    )


def test_events_and_plain_updates_are_nobodys_business() -> None:
    plugin = ResourceQuotaAdmission(World().dependencies)
    events = Resource("", "v1", "events", "Event")
    made = creation({"metadata": {"namespace": "ns"}}, events)
    assert not plugin.concerns(made.operation, events.qualified, "")
    updated = change(pod(), pod())
    assert not plugin.concerns(updated.operation, CONFIG_MAPS.qualified, "")
    there = world(quota({"pods": "0"}))
    charge(there, change(stored(pod()), pod()))


def test_a_negative_amount_is_refused() -> None:
    there = world(quota({"requests.cpu": "1"}))
    message = refusal(there, creation(pod(containers=[container("c", {"cpu": "-1"})])))
    assert message == 'pods "p" is forbidden: quota usage is negative for resource(s): cpu,requests.cpu'


def test_hundreds_of_quotas_are_charged_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)
    count = 100
    there = world(*(quota({"pods": "1"}, name=f"q{number}") for number in range(count)))
    plugin = ResourceQuotaAdmission(there.dependencies)
    _, others = loops.run(counting_turns(plugin.validate(creation(pod("a")))))
    assert others >= count
    assert all(used(there, f"q{number}") == {"pods": "1"} for number in range(count))


def test_of_a_quota_with_thousands_of_names_those_of_the_object_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(text: str) -> Quantity:
        read.append(text)
        return parse(text)

    monkeypatch.setattr("fairlead.api.podresources.parse", noted)
    others = {f"requests.example.com/r{number}": "5" for number in range(2000)}
    there = world(quota({"pods": "1", **others}))
    charge(there, creation(pod("a")))
    assert used(there) == {"pods": "1", **dict.fromkeys(others, "0")}
    assert refusal(there, creation(pod("b"))).endswith("requested: pods=1, used: pods=1, limited: pods=1")
    assert len(read) < 20
