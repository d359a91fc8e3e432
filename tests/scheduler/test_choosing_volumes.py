"""Which volumes claims get on which node, compared with the plain way: node after node, claim after claim."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.attachments import CSIDriver, CSIStorageCapacity
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.encoded import encoded
from fairlead.scheduler.plugins.node.volume_choice import choose, plan_for
from fairlead.scheduler.snapshot import Snapshot
from tests.scheduler.scheduler_world import Cluster, node

SELECTED = "volume.kubernetes.io/selected-node"
NODES = ("n1", "n2", "n3")
MODES = ("ReadWriteOnce", "ReadOnlyMany")

sizes = st.integers(1, 4)
modes = st.sets(st.sampled_from(MODES), min_size=1).map(sorted)


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, Any]:
    reach = draw(st.none() | st.sets(st.sampled_from(NODES), min_size=1).map(sorted))
    spec: dict[str, Any] = {
        "capacity": {"storage": f"{draw(sizes)}Gi"},
        "accessModes": draw(modes),
        "storageClassName": draw(st.sampled_from(["local", "made", "other"])),
    }
    if reach is not None:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": reach}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    if kept := draw(st.sampled_from(["", "", "c0", "c1"])):
        spec["claimRef"] = {"namespace": "default", "name": kept}
    return {"spec": spec, "status": {"phase": draw(st.sampled_from(["Available", "Available", "Bound"]))}}


@st.composite
def claims(draw: st.DrawFn) -> dict[str, Any]:
    node = draw(st.sampled_from([None, None, None, *NODES]))
    return {
        "metadata": {"annotations": {SELECTED: node} if node else {}},
        "spec": {
            "storageClassName": draw(st.sampled_from(["local", "made"])),
            "accessModes": draw(modes),
            "resources": {"requests": {"storage": f"{draw(sizes)}Gi"}},
        },
    }


@st.composite
def capacities(draw: st.DrawFn) -> dict[str, Any]:
    """Room for volumes on some of the nodes, which are named in one of the ways of selectors."""
    names, key = draw(st.sets(st.sampled_from(NODES), min_size=1).map(sorted)), "kubernetes.io/hostname"
    others = [name for name in NODES if name not in names]
    selectors: list[Any] = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": names}]},
        {"matchExpressions": [{"key": key, "operator": "NotIn", "values": others}, {"key": key, "operator": "Exists"}]},
    ]
    if len(names) == 1:
        one = {key: names[0]}
        selectors += [{"matchLabels": one | more} for more in ({}, {"side": "left"}, {"disks": "fast"})]
    topology = draw(st.none() | st.sampled_from(selectors))
    biggest = draw(st.none() | sizes)
    return {
        "nodeTopology": topology,
        "storageClassName": draw(st.sampled_from(["made", "made", "other"])),
        "capacity": f"{draw(sizes)}Gi",
        "names": names if topology and "disks" not in topology.get("matchLabels", {}) else [],
    } | ({"maximumVolumeSize": f"{biggest}Gi"} if biggest else {})


@given(
    st.lists(volumes(), max_size=6),
    st.lists(claims(), min_size=1, max_size=3),
    st.sets(st.sampled_from(NODES)),
    st.none() | st.lists(capacities(), max_size=4),
)
def test_all_nodes_at_once_and_one_by_one_choose_the_same(
    drawn: list[dict[str, Any]], asked: list[dict[str, Any]], zones: set[str], room: list[dict[str, Any]] | None
) -> None:
    """`zones`: the nodes where the class "made" may make volumes; `room`: what its driver reports, if it does."""
    cluster = Cluster(*(node(name, labels={"side": "left"}) for name in NODES))
    known = cluster.snapshot.volumes
    there = [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": sorted(zones) or ["nowhere"]}]}]
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/x")):
        made = {"metadata": {"name": name}, "provisioner": provisioner, "allowedTopologies": there}
        known.classes[name] = encoded(made).view(StorageClass)
    if room is not None:
        driver = {"metadata": {"name": "example.com/x"}, "spec": {"storageCapacity": True}}
        cluster.snapshot.storage_capacities.set_driver(None, encoded(driver).view(CSIDriver))
    for number, capacity in enumerate(room or ()):
        reported = {"metadata": {"name": f"r{number}", "namespace": "default"}} | capacity
        cluster.snapshot.storage_capacities.set_capacity(None, encoded(reported).view(CSIStorageCapacity))
    for number, volume in enumerate(drawn):
        known.set_volume(None, encoded({"metadata": {"name": f"v{number}"}} | volume).view(PersistentVolume))
    found = []
    for number, claim in enumerate(asked):
        meta = claim["metadata"] | {"name": f"c{number}", "namespace": "default", "uid": f"u{number}"}
        found.append(encoded(claim | {"metadata": meta}).view(PersistentVolumeClaim))
    rows = cluster.snapshot.rows()
    possible = choose(found, cluster.snapshot, rows).possible
    for index, row in enumerate(rows.tolist()):
        name = cluster.snapshot.names[row]
        wanted = plainly(found, drawn, name, zones, room)
        assert bool(possible[index]) == (wanted is not None)
        if wanted is not None:
            plan = plan_for(found, cluster.snapshot, row)
            bound = {claim.metadata.name: volume.metadata.name for claim, volume in plan.bindings}
            bound |= dict.fromkeys((claim.metadata.name for claim in plan.provisions), "")
            assert bound == wanted


@given(st.integers(1, 40), st.sampled_from([{}, {"side": "left"}]))
def test_labels_of_nodes_are_looked_at_once_however_many_say_where_there_is_room(
    nodes: int, more: dict[str, str]
) -> None:
    """Where disks are the nodes' own, each of thousands of nodes has an object of a class."""
    names = [f"n{number}" for number in range(nodes)]
    cluster = Cluster(*(node(name, labels={"side": "left"}) for name in names))
    driver = {"metadata": {"name": "example.com/x"}, "spec": {"storageCapacity": True}}
    cluster.snapshot.storage_capacities.set_driver(None, encoded(driver).view(CSIDriver))
    made = {"metadata": {"name": "made"}, "provisioner": "example.com/x"}
    cluster.snapshot.volumes.classes["made"] = encoded(made).view(StorageClass)
    for name in names[1:]:
        topology = {"matchLabels": {"kubernetes.io/hostname": name} | more}
        room = {"nodeTopology": topology, "storageClassName": "made", "capacity": "1Gi"}
        reported = encoded({"metadata": {"name": name, "namespace": "default"}} | room).view(CSIStorageCapacity)
        cluster.snapshot.storage_capacities.set_capacity(None, reported)
    spec = {"storageClassName": "made", "resources": {"requests": {"storage": "1Gi"}}}
    claim = encoded({"metadata": {"name": "c", "namespace": "default"}, "spec": spec}).view(PersistentVolumeClaim)
    rows = cluster.snapshot.rows()
    with patch.object(Snapshot, "labels", autospec=True, side_effect=Snapshot.labels) as looked:
        possible = choose([claim], cluster.snapshot, rows).possible
    assert {cluster.snapshot.names[row] for row in rows[possible]} == set(names[1:])
    assert looked.call_count <= 2


def plainly(
    asked: list[PersistentVolumeClaim],
    drawn: list[dict[str, Any]],
    name: str,
    zones: set[str],
    room: list[dict[str, Any]] | None,
) -> dict[str, str] | None:
    """Claim → volume, empty where one is made; None where some claim gets nothing."""
    given_away: dict[str, str] = {}
    for claim in sorted(asked, key=lambda claim: claim.requested):
        selected = claim.metadata.annotations.get(SELECTED)
        if selected is not None and selected != name:
            return None
        best = None if selected else _best(claim, drawn, name, set(given_away.values()))
        if best is None and (claim.class_name != "made" or name not in zones or not _has_room(claim, name, room)):
            return None
        given_away[claim.metadata.name] = best or ""
    return given_away


def _has_room(claim: PersistentVolumeClaim, name: str, room: list[dict[str, Any]] | None) -> bool:
    return room is None or any(
        name in capacity["names"]
        and capacity["storageClassName"] == "made"
        and int(capacity.get("maximumVolumeSize", capacity["capacity"])[:-2]) >= claim.requested.units >> 30
        for capacity in room
    )


def _best(claim: PersistentVolumeClaim, drawn: list[dict[str, Any]], name: str, taken: set[str]) -> str | None:
    free = []
    for number, volume in enumerate(drawn):
        spec = volume["spec"]
        size = int(spec["capacity"]["storage"][:-2])
        kept = spec.get("claimRef", {}).get("name")
        if (
            spec["storageClassName"] != claim.class_name
            or f"v{number}" in taken
            or kept not in (None, claim.metadata.name)
        ):
            continue
        if size < claim.requested.units >> 30:
            continue
        terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
        reaches = terms is None or name in terms[0]["matchExpressions"][0]["values"]
        if kept:  # of several, the smallest
            free.append((0, size, number, reaches))
        elif (
            volume["status"]["phase"] == "Available"
            and reaches
            and set(claim.spec.access_modes or ()) <= set(spec["accessModes"])
        ):
            free.append((1, size, number, True))
    best = min(free, default=None)
    return f"v{best[2]}" if best is not None and best[3] else None
