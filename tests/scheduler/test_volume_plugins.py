"""Volumes that only one pod may have (KEP-2485), of which a node takes only so many, or that are in a zone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.attachments import CSINode, VolumeAttachment
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.disks import Disk, clash
from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.scheduler.facts.volume_uses import VolumeUses
from fairlead.scheduler.framework import ClusterEvent, EventKind, Nominate
from fairlead.scheduler.plugins.node.volume_limits import NodeVolumeLimits
from fairlead.scheduler.plugins.node.volume_restrictions import VolumeRestrictions
from tests.scheduler.scheduler_world import Cluster, node, pod

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER = "disks.example.com"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
TOO_MANY = "node(s) exceed max volume count"
NO_ZONE = "node(s) had no available volume zone"
NO_DISK = "node(s) had no available disk"


def claim(name: str, volume: str = "", *modes: str, of: str = "") -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"volumeName": volume, "accessModes": modes or ["ReadWriteOnce"], "storageClassName": of}
    return encoded({"metadata": meta, "spec": spec}).view(PersistentVolumeClaim)


def csi_volume(name: str, driver: str = DRIVER, **labels: str) -> PersistentVolume:
    spec = {"csi": {"driver": driver, "volumeHandle": f"handle-{name}"}}
    return encoded({"metadata": {"name": name, "labels": labels}, "spec": spec}).view(PersistentVolume)


def limit(name: str, count: int | None, driver: str = DRIVER) -> CSINode:
    allocatable = {} if count is None else {"allocatable": {"count": count}}
    spec = {"drivers": [{"name": driver, "nodeID": name, "topologyKeys": None} | allocatable]}
    return encoded({"metadata": {"name": name}, "spec": spec}).view(CSINode)


def attachment(name: str, volume: str, node: str) -> VolumeAttachment:
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return encoded({"metadata": {"name": name}, "spec": spec}).view(VolumeAttachment)


def claiming(name: str, *claims: str, **more: Any) -> Pod:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return pod(name, volumes=volumes, **more)


def having(cluster: Cluster, *names: str, modes: tuple[str, ...] = (), driver: str = DRIVER) -> None:
    """Claims of these names, each with a volume of the driver."""
    for name in names:
        cluster.snapshot.volumes.set_claim(None, claim(name, f"pv-{name}", *modes))
        cluster.snapshot.volumes.set_volume(None, csi_volume(f"pv-{name}", driver))


# --- VolumeRestrictions ---------------------------------------------------------------------------------------------


def test_a_claim_for_one_pod_is_had_by_one_pod() -> None:
    cluster = Cluster(node("n1"), node("n2"))
    having(cluster, "alone", modes=("ReadWriteOncePod",))
    having(cluster, "shared")
    cluster.place(claiming("first", "alone", "shared"), "n1")
    assert cluster.message(claiming("w", "alone")) == f"0/2 nodes are available: 2 {IN_USE}."
    assert cluster.feasible(claiming("w", "shared")) == {"n1", "n2"}
    cluster.snapshot.remove("default/first")
    assert cluster.feasible(claiming("w", "alone")) == {"n1", "n2"}


def test_who_is_more_important_takes_the_claim_over() -> None:
    cluster = Cluster(node("n1"), node("n2"))
    having(cluster, "alone", modes=("ReadWriteOncePod",))
    cluster.place(claiming("first", "alone"), "n2")
    nobody = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    told = cluster.message(claiming("w", "alone"), whole=True)
    assert told == f"0/2 nodes are available: 2 {IN_USE}. no new claims to deallocate, {nobody}"
    found = cluster.preempt(claiming("w", "alone", priority=5))
    assert isinstance(found, Nominate)
    assert (found.node, [victim.key for victim in found.victims]) == ("n2", ["default/first"])


DISKS: dict[str, dict[str, Any]] = {
    "gce": {"gcePersistentDisk": {"pdName": "d"}},
    "gce-ro": {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
    "aws": {"awsElasticBlockStore": {"volumeID": "d"}},
    "aws-ro": {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
    "iscsi": {"iscsi": {"iqn": "d", "targetPortal": "1.2.3.4", "lun": 0}},
    "iscsi-ro": {"iscsi": {"iqn": "d", "targetPortal": "1.2.3.4", "lun": 1, "readOnly": True}},
    "rbd": {"rbd": {"monitors": ["a", "b"], "image": "d"}},
    "rbd-ro": {"rbd": {"monitors": ["b", "c"], "image": "d", "pool": "rbd", "readOnly": True}},
    "rbd-far": {"rbd": {"monitors": ["c"], "image": "d"}},
    "rbd-pool": {"rbd": {"monitors": ["a", "b"], "image": "d", "pool": "other"}},
}


@pytest.mark.parametrize(
    ("theirs", "own", "fits"),
    [
        ("gce", "gce", False),
        ("gce", "gce-ro", False),
        ("gce-ro", "gce", False),
        ("gce-ro", "gce-ro", True),
        ("aws-ro", "aws-ro", False),
        ("gce", "aws", True),
        ("iscsi", "iscsi-ro", False),
        ("iscsi-ro", "iscsi-ro", True),
        ("rbd", "rbd-ro", False),
        ("rbd-ro", "rbd-ro", True),
        ("rbd", "rbd-far", True),
        ("rbd", "rbd-pool", True),
        ("rbd-ro", "rbd-far", False),
    ],
)
def test_a_disk_that_somebody_writes_to_is_his_alone_on_a_node(theirs: str, own: str, fits: bool) -> None:
    cluster = Cluster(node("n1"), node("n2"))
    cluster.place(pod("first", volumes=[{"name": "v", **DISKS[theirs]}]), "n1")
    seeker = pod("w", volumes=[{"name": "v", **DISKS[own]}])
    assert cluster.feasible(seeker) == ({"n1", "n2"} if fits else {"n2"})
    if not fits:
        cluster.place(pod("second", volumes=[{"name": "v", **DISKS[theirs]}]), "n2")
        assert cluster.message(seeker) == f"0/2 nodes are available: 2 {NO_DISK}."


disks = st.lists(
    st.builds(
        Disk,
        st.lists(st.sampled_from([("rbd", letter) for letter in "abc"]), min_size=1, max_size=2).map(tuple),
        st.booleans(),
    ),
    max_size=2,
)


@given(st.lists(st.tuples(st.integers(0, 2), disks), max_size=5), st.data(), disks)
def test_disks_in_use_clash_where_those_of_a_pod_there_do(
    placed: list[tuple[int, list[Disk]]], data: st.DataObject, own: list[Disk]
) -> None:
    uses = VolumeUses()
    for row, theirs in placed:
        uses.count(row, (), theirs, 1)
    gone = data.draw(st.sets(st.integers(0, len(placed) - 1)) if placed else st.just(set[int]()))
    for index in gone:
        uses.count(placed[index][0], (), placed[index][1], -1)
    left = [entry for index, entry in enumerate(placed) if index not in gone]
    for rows in ([0, 1, 2], [1]):
        assert uses.clashes(own, rows) & set(rows) == {row for row, theirs in left if clash(theirs, own)} & set(rows)


@pytest.mark.parametrize(
    ("kinds", "about", "helps"),
    [
        (EventKind.VOLUMES, {"claim": "default/alone"}, True),
        (EventKind.VOLUMES, {"claim": "default/other"}, False),
        (EventKind.NODE_ADDED, {}, True),
        (EventKind.POD_REMOVED, {"left": "alone"}, True),
        (EventKind.POD_REMOVED, {"left": "other"}, False),
    ],
)
def test_what_may_free_a_claim_wakes_who_waits_for_it(kinds: EventKind, about: dict[str, str], helps: bool) -> None:
    cluster = Cluster(node())
    left = cluster.requirements(claiming("gone", about["left"])) if "left" in about else None
    event = ClusterEvent(kinds, old_requirements=left, claim=about.get("claim", ""))
    assert VolumeRestrictions().helps(event, cluster.request(claiming("w", "alone"))) is helps


# --- NodeVolumeLimits -----------------------------------------------------------------------------------------------


def limited(count: int | None = 2) -> Cluster:
    """Two nodes, of which one takes so many volumes, and three claims that have one each."""
    cluster = Cluster(node("n1"), node("n2"))
    cluster.snapshot.attach_limits.set_node(None, limit("n1", count))
    having(cluster, "a", "b", "c")
    return cluster


def test_a_node_takes_as_many_volumes_as_its_driver_can() -> None:
    cluster = limited()
    assert cluster.feasible(claiming("w", "a", "b")) == {"n1", "n2"}
    assert cluster.feasible(claiming("w", "a", "b", "c")) == {"n2"}
    cluster.place(claiming("first", "a", "b"), "n1")
    assert cluster.feasible(claiming("w", "c")) == {"n2"}
    cluster.snapshot.attach_limits.set_node(None, limit("n2", 0))
    assert cluster.message(claiming("w", "c")) == f"0/2 nodes are available: 2 {TOO_MANY}."
    cluster.snapshot.remove("default/first")
    assert cluster.feasible(claiming("w", "c")) == {"n1"}


def test_a_volume_that_is_there_already_takes_no_more_room() -> None:
    cluster = limited()
    cluster.place(claiming("first", "a", "b"), "n1")
    assert cluster.feasible(claiming("w", "a")) == {"n1", "n2"}
    assert cluster.feasible(claiming("w", "a", "c")) == {"n2"}


@pytest.mark.parametrize("count", [None, 3])
def test_without_a_limit_or_below_it_everything_fits(count: int | None) -> None:
    cluster = limited(count)
    cluster.place(claiming("first", "a", "b"), "n1")
    assert cluster.feasible(claiming("w", "c")) == {"n1", "n2"}


def test_volumes_of_other_drivers_do_not_count() -> None:
    cluster = limited()
    having(cluster, "x", "y", driver="others.example.com")
    cluster.place(claiming("first", "a", "x", "y"), "n1")
    assert cluster.feasible(claiming("w", "b")) == {"n1", "n2"}


def test_volumes_that_are_to_be_made_count_for_their_class() -> None:
    cluster = limited()
    late = {"metadata": {"name": "late"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.snapshot.volumes.classes["late"] = encoded(late).view(StorageClass)
    for name in "xyz":
        cluster.snapshot.volumes.set_claim(None, claim(name, of="late"))
    assert cluster.feasible(claiming("w", "x", "y")) == {"n1", "n2"}
    assert cluster.feasible(claiming("w", "x", "y", "z")) == {"n2"}


def test_what_is_attached_counts_although_its_pod_has_gone() -> None:
    """Attached for whom it is wanted, it takes no room of its own."""
    cluster = limited()
    limits = cluster.snapshot.attach_limits
    assert not limits.set_attachment(None, attachment("1", "pv-a", "n1"))
    cluster.place(claiming("first", "a"), "n1")
    assert cluster.feasible(claiming("w", "b")) == {"n1", "n2"}
    limits.set_attachment(None, late := attachment("2", "pv-c", "n1"))
    assert cluster.feasible(claiming("w", "b")) == {"n2"}
    assert cluster.feasible(claiming("w", "c")) == {"n1", "n2"}
    assert limits.set_attachment(late, None)
    assert cluster.feasible(claiming("w", "b")) == {"n1", "n2"}


@pytest.mark.parametrize(("before", "after", "helps"), [(2, 3, True), (3, 2, False), (2, None, True), (None, 2, False)])
def test_a_limit_that_rises_wakes_who_waits(before: int | None, after: int | None, helps: bool) -> None:
    cluster = Cluster(node("n1"))
    limits = cluster.snapshot.attach_limits
    limits.set_node(None, old := limit("n1", before))
    assert limits.set_node(old, limit("n1", after)) is helps


def test_who_leaves_with_volumes_makes_room() -> None:
    cluster, plugin = limited(), NodeVolumeLimits()
    seeker = cluster.request(claiming("w", "a"))
    for left, helps in ((claiming("gone", "b"), True), (pod("gone"), False)):
        event = ClusterEvent(EventKind.POD_REMOVED, old_requirements=cluster.requirements(left))
        assert plugin.helps(event, seeker) is helps
    assert plugin.helps(ClusterEvent(EventKind.ATTACH_LIMITS), seeker)


# --- VolumeZone -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "feasible"),
    [
        ({}, {"a", "b", "old", "bare"}),
        ({ZONE: "a"}, {"a", "bare"}),
        ({ZONE: "a__b"}, {"a", "b", "bare"}),
        ({ZONE: "a____b"}, {"a", "b", "old", "bare"}),
        ({ZONE: "a", REGION: "r"}, {"a", "bare"}),
        ({ZONE: "b", REGION: "r"}, {"bare"}),
        ({OLD_ZONE: "a"}, {"a", "old", "bare"}),
    ],
)
def test_a_volume_is_used_in_its_zone(labels: dict[str, str], feasible: set[str]) -> None:
    cluster = Cluster(
        node("a", labels={ZONE: "a", REGION: "r"}),
        node("b", labels={ZONE: "b"}),
        node("old", labels={OLD_ZONE: "a"}),
        node("bare"),
    )
    cluster.snapshot.volumes.set_claim(None, claim("data", "pv"))
    cluster.snapshot.volumes.set_volume(None, csi_volume("pv", **labels))
    assert cluster.feasible(claiming("w", "data")) == feasible


def test_no_node_of_its_zone() -> None:
    cluster = Cluster(node("b", labels={ZONE: "b"}))
    cluster.snapshot.volumes.set_claim(None, claim("data", "pv"))
    cluster.snapshot.volumes.set_volume(None, csi_volume("pv", **{ZONE: "a"}))
    unhelpful = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    told = cluster.message(claiming("w", "data"), whole=True)
    assert told == f"0/1 nodes are available: 1 {NO_ZONE}. no new claims to deallocate, {unhelpful}"


def test_a_volume_that_is_gone_is_missed_before_nodes_are_looked_at() -> None:
    cluster = Cluster(node())
    cluster.snapshot.volumes.set_claim(None, claim("data", "pv"))
    assert cluster.message(claiming("w", "data")) == '0/1 nodes are available: persistentvolume "pv" not found.'
