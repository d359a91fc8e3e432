"""Node groups of an autoscaler in a dump are pools in a study; what cannot be mapped is told."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.compose import Settings
from fairlead.sim.manifests import latest_date
from fairlead.study.changes.document import Change
from fairlead.study.changes.pools import NodePool
from fairlead.study.node_groups import NodeGroups, node_groups
from fairlead.study.outcome import Outcome
from fairlead.study.run import Scene, play
from tests.study.clusters import TIME, deployment, node

SIZES = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"


def karpenter(name: str = "general", **spec: Any) -> Obj:
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def machines(**annotations: str) -> Obj:
    version = "cluster.x-k8s.io/v1beta1"
    return {"apiVersion": version, "kind": "MachineDeployment", "metadata": {"name": "md", "annotations": annotations}}


def pool_of(groups: NodeGroups) -> NodePool:
    (step,) = groups.steps
    assert isinstance(step.action, NodePool)
    return step.action


def member(name: str, cpu: str = "4") -> Obj:
    return node(name, cpu, **{"karpenter.sh/nodepool": "general", "team": "a", f"own-{name}": "x"})


def test_a_pool_of_karpenter_is_as_most_of_its_nodes_and_as_large_as_its_limits_allow() -> None:
    nodes = [member("a"), member("b"), member("c", cpu="8"), node("other")]
    disruption = {"consolidateAfter": "5m", "budgets": [{"nodes": "10%"}]}
    found = node_groups([*nodes, karpenter(limits={"cpu": "18"}, disruption=disruption, weight=3)])
    pool = pool_of(found)
    assert (pool.cpu, pool.memory, pool.min, pool.max, pool.scale_down_after) == ("4", "16Gi", 0, 4, "5m")
    assert pool.labels == {"karpenter.sh/nodepool": "general", "team": "a"}
    assert found.notes[0] == "NodePool general: weight, budgets could not be mapped"
    assert [each["metadata"]["labels"].get("sim.fairlead.dev/pool") for each in nodes] == ["general"] * 3 + [None]


def test_machines_of_cluster_api_are_between_their_sizes_and_as_their_annotations_say() -> None:
    sizes = {f"{SIZES}min-size": "1", f"{SIZES}max-size": "5"}
    capacity = {f"{CAPACITY}cpu": "16", f"{CAPACITY}memory": "64Gi", f"{CAPACITY}labels": "a=b,c=d"}
    pool = pool_of(node_groups([machines(**sizes, **capacity)]))
    assert (pool.cpu, pool.memory, pool.min, pool.max, pool.labels) == ("16", "64Gi", 1, 5, {"a": "b", "c": "d"})
    own = node("md-7f8-x")
    own["metadata"]["annotations"] = {"cluster.x-k8s.io/owner-name": "md-7f8"}
    assert pool_of(node_groups([machines(**sizes), own])).cpu == "4"


@pytest.mark.parametrize(
    ("objects", "note"),
    [
        ([karpenter()], "NodePool general: the dump has none of its nodes"),
        ([member("a"), karpenter(template={"spec": {"taints": [{"key": "x"}]}})], "taints: x is no taint"),
        ([member("a"), karpenter(disruption={"consolidateAfter": "soon"})], "'soon' is no duration"),
        ([machines(**{f"{SIZES}min-size": "x", f"{SIZES}max-size": "5"})], "sizes 'x' to '5' are no bounds"),
        ([machines(**{f"{SIZES}min-size": "9", f"{SIZES}max-size": "5", f"{CAPACITY}cpu": "1"})], "how large they are"),
    ],
)
def test_what_cannot_be_mapped_is_left_out_and_told(objects: list[Obj], note: str) -> None:
    found = node_groups(objects)
    assert not found.steps
    assert note in found.notes[-1]


def test_that_half_empty_nodes_are_emptied_could_not_be_mapped() -> None:
    found = node_groups([member("a"), karpenter(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"})])
    assert len(found.steps) == 1
    assert "consolidationPolicy: WhenEmptyOrUnderutilized (nodes go when they are empty)" in found.notes[0]


def test_a_group_that_nobody_scales_is_none() -> None:
    assert node_groups([machines()]).notes == []
    assert node_groups([{**karpenter(), "spec": "x"}]).steps == []


def test_a_group_grows_in_every_variant_for_pods_that_wait_and_is_nobodys_change() -> None:
    objects = [member("a"), karpenter(limits={"nodes": "3"}), *deployment("web", ["a", "a"])]
    objects[2]["spec"]["replicas"] = objects[3]["spec"]["replicas"] = 12
    steps = node_groups(objects).steps
    nodes = (objects[0],)
    scene = Scene(Settings(nodes=nodes, imported=tuple(objects)), (), 3600.0, latest_date(objects) or 0.0, 1, steps)
    outcome = play(scene, Change("before"), lambda count, at: None)
    assert (outcome.waiting, outcome.summary["nodes"], outcome.steps) == (0, 3, [])


GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def with_gpus(name: str, count: str) -> Obj:
    found = member(name)
    for amounts in (found["status"]["capacity"], found["status"]["allocatable"]):
        amounts[GPU] = count
    found["spec"] = {"taints": [TAINT]}
    return found


def wanting(count: int, **spec: Any) -> list[Obj]:
    """A deployment of so many pods with that in their specs, none of which is there yet."""
    objects = deployment("web", [], **spec)
    for obj in objects:
        if obj["kind"] in ("Deployment", "ReplicaSet"):
            obj["spec"]["replicas"] = count
    return objects


def played(*objects: Obj) -> Outcome:
    steps = node_groups(objects).steps
    settings = Settings(nodes=tuple(obj for obj in objects if obj["kind"] == "Node"), imported=objects)
    return play(
        Scene(settings, (), 3600.0, latest_date(objects) or 0.0, 1, steps), Change("before"), lambda count, at: None
    )


def test_a_group_with_taints_and_gpus_grows_for_pods_that_tolerate_the_one_and_want_the_other() -> None:
    group = karpenter(limits={"nodes": "9"}, template={"spec": {"taints": [TAINT]}})
    pool = pool_of(node_groups([with_gpus("a", "2"), group]))
    assert (pool.resources, [taint.key for taint in pool.taints]) == ({GPU: "2"}, [GPU])
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    tolerant = {"tolerations": [{"key": GPU, "operator": "Exists"}], "containers": [container]}
    assert played(with_gpus("a", "2"), group, *wanting(8, **tolerant)).summary["nodes"] == 4
    refused = played(with_gpus("a", "2"), group, *wanting(8, containers=[container]))
    assert (refused.waiting, refused.summary["nodes"]) == (8, 0)  # it had nothing to do, and went


def test_annotations_of_cluster_api_say_which_gpus_and_taints_a_new_node_has() -> None:
    sizes = {f"{SIZES}min-size": "0", f"{SIZES}max-size": "5", f"{CAPACITY}cpu": "16", f"{CAPACITY}memory": "64Gi"}
    more = {f"{CAPACITY}gpu-type": GPU, f"{CAPACITY}gpu-count": "8", f"{CAPACITY}taints": f"{GPU}=present:NoSchedule"}
    pool = pool_of(node_groups([machines(**sizes, **more)]))
    assert pool.resources == {GPU: "8"}
    assert [(taint.key, taint.value, taint.effect) for taint in pool.taints] == [(GPU, "present", "NoSchedule")]


def test_a_group_whose_nodes_have_devices_grows_for_claims_of_them() -> None:
    """A node comes with its ResourceSlices, which go with it."""
    devices = [{"name": f"gpu-{number}"} for number in range(2)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    offered = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "a-gpus", "creationTimestamp": TIME},
        "spec": {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": devices},
    }
    of_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    outcome = played(
        member("a"), offered, of_class, template, karpenter(limits={"nodes": "9"}), *wanting(6, resourceClaims=claims)
    )
    assert (outcome.waiting, outcome.summary["nodes"]) == (0, 3)
