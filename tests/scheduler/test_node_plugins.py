"""Which nodes a pod may go to by what the nodes are: cordons, taints, labels, names, ports, images."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.encoded import encoded
from fairlead.api.node_affinity import meets_required, required_test
from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.cluster_events import node_changed
from fairlead.scheduler.configuration import load
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.plugins.node.volumes import VolumeBinding
from tests.scheduler.scheduler_world import Cluster, node, node_obj, pod
from tests.work import growth

HOST = "kubernetes.io/hostname"
MIB = 1024 * 1024


def taint(text: str) -> dict[str, str]:
    """`key=value:Effect`."""
    head, _, effect = text.partition(":")
    key, _, value = head.partition("=")
    return {"key": key, "value": value, "effect": effect}


def test_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    """S0-04."""
    cluster = Cluster(node(unschedulable=True))
    assert cluster.message(pod()) == "0/1 nodes are available: 1 node(s) were unschedulable."
    tolerant = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert cluster.feasible(tolerant) == {"n1"}


@pytest.mark.parametrize(
    ("tolerations", "feasible"),
    [
        ([], {"free", "slow"}),
        ([{"key": "team", "value": "red", "effect": "NoSchedule"}], {"free", "slow", "red"}),
        ([{"key": "team", "operator": "Exists", "effect": "NoExecute"}], {"free", "slow", "fled"}),
        ([{"key": "team", "operator": "Exists"}], {"free", "slow", "red", "fled"}),
        ([{"operator": "Exists"}], {"free", "slow", "red", "fled"}),
        ([{"key": "team", "operator": "Gt", "value": "1"}], {"free", "slow"}),
    ],
)
def test_taints_keep_away_who_does_not_tolerate_them(tolerations: list[Any], feasible: set[str]) -> None:
    cluster = Cluster(
        node("free"),
        node("slow", taints=[taint("slow=:PreferNoSchedule")]),
        node("red", taints=[taint("team=red:NoSchedule")]),
        node("fled", taints=[taint("team=blue:NoExecute")]),
    )
    assert cluster.feasible(pod(tolerations=tolerations)) == feasible


def test_a_pod_goes_to_nodes_that_declare_what_it_needs() -> None:
    """KEP-5328: here, to start all its containers again when one has ended (KEP-5532)."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    needy = pod(containers=[{"name": "c", "restartPolicy": "Never", "restartPolicyRules": [rule]}])
    told = node_obj("new")
    features = ["InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits"]
    told["status"]["declaredFeatures"] = features
    old, new = node("old"), encoded(told).view(Node)
    assert Cluster(old, new).feasible(needy) == {"new"}
    assert Cluster(old, new).feasible(pod()) == {"old", "new"}
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's required features."
    assert Cluster(old).message(needy) == message
    assert EventKind.NODE_FEATURES in node_changed(node("new"), new).kinds


@pytest.mark.parametrize("values", [["no label"], ["red", "no label"]])
@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_a_term_with_a_value_that_no_label_has_matches_nothing(operator: str, values: list[str]) -> None:
    """A pod may have it from a release that let it in."""
    term = {"matchExpressions": [{"key": "team", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    subject = pod(affinity={"nodeAffinity": required})
    red, blue = node("red", labels={"team": "red"}), node("blue", labels={"team": "blue"})
    assert Cluster(red, blue).feasible(subject) == set()
    affinity = Cluster().requirements(subject).node_affinity
    assert not meets_required({}, affinity, {"team": "red"}, "red")
    assert not required_test({}, affinity)({"team": "blue"}, "blue")


def test_each_unwelcoming_taint_costs_score() -> None:
    cluster = Cluster(
        node("none"),
        node("one", taints=[taint("a=:PreferNoSchedule")]),
        node("three", taints=[taint(f"{key}=:PreferNoSchedule") for key in "abc"]),
    )
    assert cluster.scores(pod(cpu=1), "TaintToleration") == {"none": 300, "one": 201, "three": 0}


@pytest.mark.parametrize(
    ("operator", "values", "feasible"),
    [
        ("In", ["ssd", "nvme"], {"n1", "n3"}),
        ("NotIn", ["ssd"], {"n2", "n3", "n4"}),
        ("Exists", None, {"n1", "n2", "n3"}),
        ("DoesNotExist", None, {"n4"}),
        ("In", [], set()),
        ("Like", ["ssd"], set()),
    ],
)
def test_required_affinity_matches_labels(operator: str, values: list[str] | None, feasible: set[str]) -> None:
    disks = {"n1": "ssd", "n2": "hdd", "n3": "nvme"}
    cluster = Cluster(*(node(name, labels={"disk": disk}) for name, disk in disks.items()), node("n4"))
    expression = {"key": "disk", "operator": operator} | ({} if values is None else {"values": values})
    assert cluster.feasible(pod(affinity=required([{"matchExpressions": [expression]}]))) == feasible


@pytest.mark.parametrize(
    ("operator", "bound", "feasible"),
    [
        ("Gt", "8", {"n2"}),
        ("Lt", "16", {"n1"}),
        ("Gt", "many", set()),
        ("Lt", "+16", set()),  # no label has such a value
        ("Gt", "-1", set()),
    ],
)
def test_affinity_compares_whole_numbers(operator: str, bound: str, feasible: set[str]) -> None:
    cores = {"n1": "8", "n2": "16", "n3": "many", "n4": "1_0"}
    cluster = Cluster(*(node(name, labels={"cores": text}) for name, text in cores.items()), node("n5"))
    expression = {"key": "cores", "operator": operator, "values": [bound]}
    assert cluster.feasible(pod(affinity=required([{"matchExpressions": [expression]}]))) == feasible


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    cluster = Cluster(node("n1", labels={"a": "1"}), node("n2", labels={"b": "1"}), node("n3"))
    exists = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in "ab"]
    assert cluster.feasible(pod(affinity=required([*exists, {}]))) == {"n1", "n2"}
    assert cluster.feasible(pod(affinity=required([{}]))) == set()


def test_node_selector_and_affinity_must_both_hold() -> None:
    cluster = Cluster(node("n1", labels={"a": "1", "b": "1"}), node("n2", labels={"a": "1"}))
    both = pod(nodeSelector={"a": "1"}, affinity=required([{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]))
    assert cluster.feasible(both) == {"n1"}


def test_affinity_to_names_narrows_the_nodes() -> None:
    """The nodes that were never looked at are counted apart from those that were."""
    cluster = Cluster(node("n1"), node("n2"), node("n3"))
    by_name = required([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}])
    assert cluster.feasible(pod(affinity=by_name)) == {"n2"}
    assert cluster.message(pod(affinity=by_name, cpu=5)) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_affinity_to_two_names_at_once_is_a_conflict() -> None:
    cluster = Cluster(node("n1"), node("n2"))
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    assert cluster.message(pod(affinity=required([{"matchFields": fields}])), whole=True) == (
        "0/2 nodes are available: pod affinity terms conflict. not found"
    )


def test_preferred_weights_add_up_and_are_normalised_to_the_best() -> None:
    cluster = Cluster(node("n1", labels={"a": "1"}), node("n2", labels={"a": "1", "b": "1"}), node("n3"))
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for weight, key in ((30, "a"), (50, "b"))
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert cluster.scores(pod(affinity=affinity), "NodeAffinity") == {"n1": 2 * 37, "n2": 200, "n3": 0}


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 80, "hostIP": "127.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 80}, False),
        ({"containerPort": 80}, {"containerPort": 80}, True),
    ],
)
def test_host_ports_clash_by_address_protocol_and_number(taken: Any, wanted: Any, fits: bool) -> None:
    cluster = Cluster(node())
    cluster.place(pod("old", ports=[taken]), "n1")
    assert bool(cluster.feasible(pod(ports=[wanted]))) is fits
    cluster.snapshot.remove("default/old")
    assert cluster.feasible(pod(ports=[wanted])) == {"n1"}


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    cluster = Cluster(node())
    cluster.place(pod("old", ports=[9000]), "n1")
    init = {"name": "i", "ports": [{"hostPort": 9000}]}
    assert cluster.feasible(pod(initContainers=[init])) == {"n1"}
    assert cluster.feasible(pod(initContainers=[init | {"restartPolicy": "Always"}])) == set()


def test_whoever_leaves_takes_a_host_port_along_that_another_holds_too() -> None:
    """Until that one is heard of again, as upstream: ports are a set, and an update removes and adds the pod."""
    cluster, seeker = Cluster(node()), pod(ports=[80])
    first = pod("a", ports=[80])
    for holder in (first, pod("b", ports=[80])):
        cluster.place(holder, "n1")
    assert cluster.feasible(seeker) == set()
    cluster.snapshot.remove("default/b")
    assert cluster.feasible(seeker) == {"n1"}
    cluster.place(first, "n1")
    assert cluster.feasible(seeker) == set()


@pytest.mark.parametrize(("labels", "helps"), [({"disk": "ssd"}, False), ({"disk": "ssd", "team": "red"}, True)])
def test_a_node_that_the_profile_does_not_mean_wakes_nobody(labels: Any, helps: bool) -> None:
    added = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": added}}
    config = load({"profiles": [{"pluginConfig": [{"name": "NodeAffinity", "args": args}]}]})
    (plugin,) = config.profiles[0].named(frozenset({"NodeAffinity"}))
    waiting = Cluster().request(pod(nodeSelector={"disk": "ssd"}))
    assert plugin.helps(node_changed(None, node(labels=labels)), waiting) is helps


EPHEMERAL = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        ({"name": "v", "persistentVolumeClaim": {"claimName": "w-v"}}, 'persistentvolumeclaim "w-v" not found'),
        (EPHEMERAL, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "w-v"'),
    ],
)
def test_a_claim_that_is_not_there_is_missed_or_awaited(volume: Any, reason: str) -> None:
    cluster, seeker = Cluster(node()), pod("w", volumes=[volume])
    assert cluster.message(seeker, whole=True) == f"0/1 nodes are available: {reason}. not found"


def claim(name: str, volume: str = "", *, owner: str = "", is_bound: bool = True, **more: Any) -> PersistentVolumeClaim:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "w", "uid": owner, "controller": True}] if owner else []
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if is_bound else {}
    meta = {"name": name, "namespace": "default", "ownerReferences": owners, "annotations": annotations}
    return encoded({"metadata": meta, "spec": {"volumeName": volume} | more}).view(PersistentVolumeClaim)


def volume_for(name: str, host: str) -> PersistentVolume:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return encoded({"metadata": {"name": name}, "spec": spec}).view(PersistentVolume)


def claiming(*names: str) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return pod("w", volumes=volumes)


@pytest.mark.parametrize(("owner", "fits"), [("uid-w", True), ("uid-other", False), ("", False)])
def test_a_claim_that_is_made_for_a_pod_must_be_its_own(owner: str, fits: bool) -> None:
    cluster, seeker = Cluster(node()), pod("w", volumes=[EPHEMERAL])
    cluster.snapshot.volumes.claims["default/w-v"] = claim("w-v", "pv", owner=owner)
    cluster.snapshot.volumes.volumes["pv"] = volume_for("pv", "n1")
    if fits:
        assert cluster.feasible(seeker) == {"n1"}
    else:
        reason = "PVC default/w-v was not created for pod default/w (pod is not owner)"
        assert cluster.message(seeker) == f"0/1 nodes are available: {reason}."


def test_the_first_claim_that_a_node_fails_speaks() -> None:
    """Without VolumeZone, which looks for the volumes before any node is looked at."""
    disabled = {"multiPoint": {"disabled": [{"name": "VolumeZone"}]}}
    cluster = Cluster(node("n1"), node("n2"), profile=load({"profiles": [{"plugins": disabled}]}).profiles[0])
    volumes = cluster.snapshot.volumes
    volumes.claims |= {"default/a": claim("a", "pv"), "default/b": claim("b", "gone")}
    volumes.volumes["pv"] = volume_for("pv", "n1")
    gone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    elsewhere = "node(s) didn't match PersistentVolume's node affinity"
    assert cluster.message(claiming("a", "b")) == f"0/2 nodes are available: 1 {elsewhere}, 1 {gone}."
    assert cluster.message(claiming("b", "a")) == f"0/2 nodes are available: 2 {gone}."


def test_a_claim_that_names_its_volume_waits_for_no_consumer() -> None:
    cluster = Cluster(node())
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.snapshot.volumes.classes["late"] = encoded(late).view(StorageClass)
    cluster.snapshot.volumes.claims["default/a"] = claim("a", "pv", is_bound=False, storageClassName="late")
    reason = "pod has unbound immediate PersistentVolumeClaims"
    assert cluster.message(claiming("a")) == f"0/1 nodes are available: {reason}."


@pytest.mark.parametrize(
    ("event", "helps"), [("default/a", True), ("default/b", False), ("other/a", False), ("", True)]
)
def test_of_the_claims_its_own_wake_a_pod(event: str, helps: bool) -> None:
    assert (
        VolumeBinding().helps(ClusterEvent(EventKind.VOLUMES, claim=event), Cluster().request(claiming("a"))) is helps
    )


def test_image_counts_by_size_and_spread() -> None:
    """The first node to report an image fixes its size for all."""
    cluster = Cluster(
        node("n1", images={"registry.test/app:latest": 500 * MIB}),
        node("n2", images={"registry.test/app:latest": 5 * MIB}),
        node("n3"),
        node("n4"),
    )
    untagged = pod(image="registry.test/app")
    assert cluster.scores(untagged, "ImageLocality") == {"n1": 23, "n2": 23, "n3": 0, "n4": 0}
    cluster.snapshot.remove_node("n4")
    assert cluster.scores(untagged, "ImageLocality") == {"n1": 31, "n2": 31, "n3": 0}


def required(terms: list[Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_of_thousands_of_labels_that_no_node_has_the_first_decides() -> None:
    def asked(size: int) -> None:
        selector = {f"label-{number}": "x" for number in range(size)}
        assert Cluster(node()).feasible(pod(nodeSelector=selector)) == (set() if size else {"n1"})

    assert growth(asked, 300) < 1.5
