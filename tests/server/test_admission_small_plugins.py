"""The plugins that are a page long: namespaces, nodes, tolerations, priority, topology, runtime classes, storage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.errors import ApiError, Forbidden, NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.admission.default_tolerations import DefaultTolerationSeconds
from fairlead.server.admission.ingress_class import DefaultIngressClass
from fairlead.server.admission.namespace_lifecycle import NamespaceLifecycle
from fairlead.server.admission.node_taints import TaintNodesByCondition
from fairlead.server.admission.pod_topology import PodTopologyLabels
from fairlead.server.admission.priority import Priority
from fairlead.server.admission.runtime_class import RuntimeClass
from fairlead.server.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from fairlead.server.admission.toleration_sets import all_allowed, merged_tolerations
from tests.server.admission_world import (
    CLAIMS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    World,
    admit,
    change,
    creation,
    pod,
)

NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


def message(plugin: Any, attributes: Attributes) -> str:
    with pytest.raises(ApiError) as refusal:
        admit(plugin, attributes)
    return refusal.value.message


# -- NamespaceLifecycle


def namespace(phase: str = "Active") -> World:
    return World().put("namespaces", {"metadata": {"name": "ns"}, "status": {"phase": phase}})


def test_nothing_is_created_in_a_missing_namespace() -> None:
    with pytest.raises(NotFound) as refusal:
        admit(NamespaceLifecycle(World().dependencies), creation(pod()))
    assert refusal.value.message == 'namespaces "ns" not found'


def test_nothing_is_created_in_a_terminating_namespace() -> None:
    with pytest.raises(Forbidden) as refusal:
        admit(NamespaceLifecycle(namespace("Terminating").dependencies), creation(pod()))
    assert refusal.value.message == (
        'pods "p" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert [cause.encode() for cause in refusal.value.causes] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_updates_and_access_reviews_pass_a_missing_namespace() -> None:
    admit(NamespaceLifecycle(World().dependencies), change(pod(), pod()))
    review = Resource("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview")
    admit(NamespaceLifecycle(World().dependencies), creation({"metadata": {"namespace": "ns"}}, review))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_first_namespaces_cannot_be_deleted(name: str) -> None:
    deletion = Attributes(Operation.DELETE, NAMESPACES, "", name, {"metadata": {"name": name}})
    expected = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert message(NamespaceLifecycle(World().dependencies), deletion) == expected


# -- TaintNodesByCondition, DefaultTolerationSeconds


def test_a_new_node_is_tainted_not_ready_once() -> None:
    node: Obj = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}
    for _ in range(2):
        admit(TaintNodesByCondition(World().dependencies), creation(node, NODES))
    assert node["spec"]["taints"] == [
        {"key": "own", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([NOT_READY | {"tolerationSeconds": 5}], [UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"key": UNREACHABLE["key"], "operator": "Exists"}], [NOT_READY]),
        ([{"key": NOT_READY["key"], "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
def test_missing_tolerations_of_silent_nodes_are_added(given: list[Obj], added: list[Obj]) -> None:
    found = admit(DefaultTolerationSeconds(World().dependencies), creation(pod(tolerations=given)))
    assert found["spec"]["tolerations"] == given + [toleration | {"tolerationSeconds": 300} for toleration in added]


# -- Priority


def priority_class(name: str, value: int, **rest: Any) -> Obj:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority", **rest}


def classes(*listed: Obj) -> Priority:
    world = World()
    for priority_class in listed:
        world.put("priorityclasses.scheduling.k8s.io", priority_class)
    return Priority(world.dependencies)


def test_a_pod_without_class_and_default_has_priority_zero() -> None:
    spec = admit(classes(), creation(pod()))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


def test_a_pod_gets_value_and_policy_of_its_class() -> None:
    """S3-06."""
    plugin = classes(priority_class("high", 777) | {"preemptionPolicy": "Never"})
    spec = admit(plugin, creation(pod(priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (777, "Never")


def test_the_lowest_of_several_defaults_applies() -> None:
    """S3-07."""
    plugin = classes(priority_class("a", 5, globalDefault=True), priority_class("b", 3, globalDefault=True))
    spec = admit(plugin, creation(pod()))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("b", 3)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priorityClassName": "high", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 777 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Always"},
            "the string value of PreemptionPolicy (Always) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_priorities_that_do_not_fit_are_refused(spec: Obj, why: str) -> None:
    """S3-06."""
    refused = message(classes(priority_class("high", 777)), creation(pod(**spec)))
    assert refused == f'pods "p" is forbidden: {why}'


def test_an_update_keeps_the_priority_that_the_client_left_out() -> None:
    spec = admit(classes(), change(pod(priority=7, preemptionPolicy="Never"), pod()))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


def test_a_second_default_class_is_refused() -> None:
    """S3-05."""
    first = priority_class("first", 1, globalDefault=True)
    plugin = classes(first)
    second = creation(priority_class("second", 2, globalDefault=True), PRIORITY_CLASSES)
    assert message(plugin, second) == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    admit(plugin, change(first, first, PRIORITY_CLASSES))


# -- PodTopologyLabels


def test_a_pod_born_on_a_node_and_a_binding_get_its_zone_but_keep_own_labels() -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    plugin = PodTopologyLabels(
        World().put("nodes", {"metadata": {"name": "n", "labels": {zone: "z", region: "r", "other": "o"}}}).dependencies
    )
    born = pod(nodeName="n")
    born["metadata"]["labels"] = {region: "mine"}
    assert admit(plugin, creation(born))["metadata"]["labels"] == {zone: "z", region: "mine"}
    binding = {"metadata": {"name": "p", "namespace": "ns"}, "target": {"kind": "Node", "name": "n"}}
    bound = admit(plugin, creation(binding, subresource="binding"))
    assert bound["metadata"]["labels"] == {zone: "z", region: "r"}
    assert "labels" not in admit(plugin, creation(pod(nodeName="missing")))["metadata"]


# -- RuntimeClass


def runtime(**rest: Any) -> RuntimeClass:
    return RuntimeClass(World().put("runtimeclasses.node.k8s.io", {"metadata": {"name": "kata"}, **rest}).dependencies)


def test_a_missing_runtime_class_is_refused() -> None:
    refused = message(runtime(), creation(pod(runtimeClassName="nope")))
    assert refused == 'pods "p" is forbidden: pod rejected: RuntimeClass "nope" not found'


def test_a_pod_pays_the_overhead_of_its_runtime_class() -> None:
    plugin = runtime(overhead={"podFixed": {"cpu": "250m"}})
    assert admit(plugin, creation(pod(runtimeClassName="kata")))["spec"]["overhead"] == {"cpu": "250m"}
    refused = message(plugin, creation(pod(runtimeClassName="kata", overhead={"cpu": "1"})))
    assert refused.endswith("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    refused = message(plugin, creation(pod(overhead={"cpu": "250m"})))
    assert refused.endswith("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def test_a_runtime_class_sends_its_pods_to_its_nodes() -> None:
    toleration = {"key": "kata", "operator": "Exists"}
    plugin = runtime(scheduling={"nodeSelector": {"kata": "yes"}, "tolerations": [toleration]})
    spec = admit(plugin, creation(pod(runtimeClassName="kata", nodeSelector={"a": "b"})))["spec"]
    assert spec["nodeSelector"] == {"a": "b", "kata": "yes"}
    assert spec["tolerations"] == [toleration]
    refused = message(plugin, creation(pod(runtimeClassName="kata", nodeSelector={"kata": "no"})))
    assert refused.endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no"
    )


def test_merging_tolerations_drops_those_that_others_cover() -> None:
    everything = {"operator": "Exists"}
    short = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    long = short | {"tolerationSeconds": 50}
    assert merged_tolerations([short, long]) == [long]
    assert merged_tolerations([short, everything, long]) == [everything]
    assert merged_tolerations([short, dict(short)]) == [short]
    different = {"key": "a", "operator": "Equal", "value": "v"}
    assert merged_tolerations([different, short]) == [different, short]


def slowly_merged(tolerations: list[Obj]) -> list[Obj]:
    """Each compared with each."""
    merged: list[Obj] = []
    for index, toleration in enumerate(tolerations):
        later = (candidate for candidate in tolerations[index + 1 :] if candidate != toleration)
        if not any(covers(candidate, toleration) for candidate in [*merged, *later]):
            merged.append(toleration)
    return merged


def covers(wide: Obj, narrow: Obj) -> bool:
    operator, key = wide.get("operator", "Equal"), wide.get("key", "")
    if wide == narrow:
        return True
    if key != narrow.get("key", "") and not (key == "" and operator == "Exists"):
        return False
    if wide.get("effect", "") not in ("", narrow.get("effect", "")):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Exists":
        return True
    return bool(narrow.get("operator", "Equal") == operator == "Equal" and wide.get("value") == narrow.get("value"))


_TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["a", "b"]),
            "operator": st.sampled_from(["Exists", "Equal", "Gt"]),
            "value": st.sampled_from(["1", "2"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
            "tolerationSeconds": st.integers(1, 2),
        },
    ),
    max_size=6,
)


@given(_TOLERATIONS)
def test_tolerations_are_merged_as_if_each_was_compared_with_each(tolerations: list[Obj]) -> None:
    assert merged_tolerations(tolerations) == slowly_merged(tolerations)


@given(_TOLERATIONS, _TOLERATIONS)
def test_tolerations_are_allowed_if_each_is_covered_by_one_that_is(tolerations: list[Obj], allowed: list[Obj]) -> None:
    slowly = all(any(covers(candidate, toleration) for candidate in allowed) for toleration in tolerations)
    assert all_allowed(tolerations, allowed) == slowly


# -- storage


def claim(**spec: Any) -> Obj:
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec, "status": {"phase": "Bound"}}


def sized(size: str, **spec: Any) -> Obj:
    return claim(resources={"requests": {"storage": size}}, **spec)


def storage_class(name: str, born: str, **rest: Any) -> Obj:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "creationTimestamp": born, "annotations": annotations}, **rest}


def test_a_claim_without_class_gets_the_youngest_default() -> None:
    world = World()
    for name, born in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z")):
        world.put("storageclasses.storage.k8s.io", storage_class(name, born))
    plugin = DefaultStorageClass(world.dependencies)
    assert admit(plugin, creation(claim(), CLAIMS))["spec"]["storageClassName"] == "new"
    assert admit(plugin, creation(claim(storageClassName=""), CLAIMS))["spec"]["storageClassName"] == ""


def test_a_class_with_a_topology_of_no_values_keeps_no_claim_from_being_made() -> None:
    topology = {"matchLabelExpressions": [{"key": "zone", "values": None}]}
    odd = storage_class("odd", "2026-01-01T00:00:00Z", allowedTopologies=[topology])
    plugin = DefaultStorageClass(World().put("storageclasses.storage.k8s.io", odd).dependencies)
    assert admit(plugin, creation(claim(), CLAIMS))["spec"]["storageClassName"] == "odd"


def test_a_claim_is_protected_while_in_use() -> None:
    found = admit(StorageObjectInUseProtection(World().dependencies), creation(claim(), CLAIMS))
    assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_a_claim_grows_only_where_its_class_allows() -> None:
    world = World().put("storageclasses.storage.k8s.io", storage_class("fast", "", allowVolumeExpansion=True))
    plugin = PersistentVolumeClaimResize(world.dependencies)
    admit(plugin, change(sized("1Gi", storageClassName="fast"), sized("2Gi", storageClassName="fast"), CLAIMS))
    admit(plugin, change(sized("1Gi"), sized("1024Mi"), CLAIMS))
    assert "must support resize" in message(plugin, change(sized("1Gi"), sized("2Gi"), CLAIMS))
    pending = sized("1Gi", storageClassName="fast") | {"status": {"phase": "Pending"}}
    assert "Only bound" in message(plugin, change(pending, sized("2Gi", storageClassName="fast"), CLAIMS))


def test_refusals_name_an_unnamed_object_by_its_generate_name() -> None:
    unnamed = {"metadata": {"generateName": "web-", "namespace": "ns"}, "spec": {}}
    attributes = Attributes(Operation.CREATE, PODS, "ns", "", unnamed)
    assert attributes.forbidden("no").message == 'pods "web-" is forbidden: no'
    assert Attributes(Operation.CREATE, PODS, "ns", "", {}).forbidden("no").message == 'pods "Unknown" is forbidden: no'


# -- DefaultIngressClass

INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")


def ingress_class(name: str, made: str, is_default: str = "true") -> Obj:
    annotations = {"ingressclass.kubernetes.io/is-default-class": is_default}
    return {"metadata": {"name": name, "creationTimestamp": made, "annotations": annotations}}


def class_of(ingress: Obj, *classes: Obj) -> str | None:
    world = World()
    for found in classes:
        world.put("ingressclasses.networking.k8s.io", found)
    made: str | None = admit(DefaultIngressClass(world.dependencies), creation(ingress, INGRESSES))["spec"].get(
        "ingressClassName"
    )
    return made


def test_an_ingress_without_class_gets_the_youngest_default() -> None:
    old, young = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    plain = {"metadata": {"name": "i", "namespace": "ns"}, "spec": {}}
    named = plain | {"spec": {"ingressClassName": "mine"}}
    of_old = plain | {"metadata": {"name": "i", "annotations": {"kubernetes.io/ingress.class": "mine"}}}
    classes = [
        ingress_class("a", old),
        ingress_class("c", young),
        ingress_class("b", young),
        ingress_class("d", "2026-03-01T00:00:00Z", "false"),
    ]
    assert class_of(plain | {"spec": {}}, *classes) == "b"
    assert class_of(plain | {"spec": {}}, classes[3]) is None
    assert class_of(named, *classes) == "mine"
    assert class_of(of_old | {"spec": {}}, *classes) is None
