"""What steps do to nodes: cordon, drain, fail, remove, add, and replace a pool batch by batch."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import OUT_OF_SERVICE, Node
from fairlead.api.objects import Obj
from fairlead.api.pods import MIRROR, Pod
from fairlead.api.verbs import PatchType
from fairlead.node.configuration.errors import StartupError
from fairlead.runtime.clock import monotonic
from fairlead.sim.behaviour import PREFIX
from fairlead.sim.node_settings import KUBELET_CONFIG, restated
from fairlead.sim.nodes import ALLOCATABLE, COMPUTED, FAILED, GOES_DOWN
from fairlead.study.changes.changed_cluster import ChangedCluster, NothingThere, natural

#: As `kubectl drain` tries again what a disruption budget forbids.
_RETRY_SECONDS: Final = 5.0


async def cordon(name: str, cluster: ChangedCluster, *, is_unschedulable: bool = True) -> None:
    cluster.node(name)
    patch = {"spec": {"unschedulable": True if is_unschedulable else None}}
    await cluster.patch(NODES, name, "", patch, PatchType.MERGE)


async def drain(name: str, cluster: ChangedCluster, patience: float = math.inf) -> None:
    """As `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, which waits until the pods are gone."""
    await cordon(name, cluster)
    give_up_at = monotonic() + patience
    waiting = [pod for pod in cluster.pods_on(name) if _is_to_go(pod)]
    while waiting:
        for pod in waiting:
            if not pod.metadata.is_terminating:
                await _evict(pod, cluster)
            else:
                cluster.hold_up(pod, _why_it_stays(pod))
        if monotonic() >= give_up_at:
            return
        await asyncio.sleep(_RETRY_SECONDS)
        waiting = [found for pod in waiting if (found := _same(cluster.pods.get(pod.metadata.key), pod)) is not None]


async def _evict(pod: Pod, cluster: ChangedCluster) -> None:
    """It stays for now where a disruption budget is in the way, or several are."""
    meta = pod.metadata
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta.name}}
    try:
        await cluster.api.create(PODS, body, meta.namespace, name=meta.name, subresource="eviction")
    except NotFound:
        cluster.let_go(pod)
    except ApiError as error:
        cluster.hold_up(pod, "; ".join(cause.message for cause in error.causes) or str(error))
    else:
        cluster.let_go(pod)


def _why_it_stays(pod: Pod) -> str:
    finalizers = ", ".join(pod.metadata.finalizers)
    return "it is being deleted" + (f", and waits for its finalizers: {finalizers}" if finalizers else "")


def _is_to_go(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return not (MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet"))


def _same(found: Pod | None, pod: Pod) -> Pod | None:
    return found if found is not None and found.metadata.uid == pod.metadata.uid else None


async def fail(name: str, cluster: ChangedCluster, *, recovers: bool = False) -> None:
    """The machine is off, or on again; then it is in service, too."""
    marks = {FAILED: None, GOES_DOWN: None} if recovers else {FAILED: "true"}
    patch: Obj = {"metadata": {"annotations": marks}}
    if cluster.node(name).is_out_of_service and recovers:
        patch["spec"] = {"taints": await _taints_but_out_of_service(name, cluster)}
    await cluster.patch(NODES, name, "", patch, PatchType.MERGE)


async def shut_down(name: str, cluster: ChangedCluster) -> None:
    """The machine goes down in order: its kubelet ends pods before, as far as its configuration gives them time."""
    cluster.node(name)
    await cluster.patch(NODES, name, "", {"metadata": {"annotations": {GOES_DOWN: "true"}}}, PatchType.MERGE)


async def declare_out_of_service(name: str, cluster: ChangedCluster) -> None:
    """Somebody vouches for it that the machine is off: its pods go, and its volumes are free."""
    cluster.node(name)
    declared = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    patch = {"spec": {"taints": [*await _taints_but_out_of_service(name, cluster), declared]}}
    await cluster.patch(NODES, name, "", patch, PatchType.MERGE)


async def _taints_but_out_of_service(name: str, cluster: ChangedCluster) -> list[Obj]:
    taints: list[Obj] = (await cluster.get(NODES, name, ""))["spec"].get("taints") or []
    return [taint for taint in taints if taint["key"] != OUT_OF_SERVICE]


async def tell_kubelet(name: str, document: str, cluster: ChangedCluster) -> None:
    """Give the node's kubelet that configuration. Raises NothingThere for one with which it would not start."""
    node = await cluster.get(NODES, name, "")
    try:
        resources = restated(node, document)
    except StartupError as problem:
        raise NothingThere(f"the kubelet of node {name!r} would not start: {problem}") from None
    await cluster.patch(NODES, name, "", {"metadata": {"annotations": {KUBELET_CONFIG: document}}}, PatchType.MERGE)
    if (node["metadata"].get("annotations") or {}).get(ALLOCATABLE) != COMPUTED:  # else it works that out by itself
        status = {"capacity": dict(resources.capacity), "allocatable": dict(resources.allocatable)}
        await cluster.patch(NODES, name, "", {"status": status}, PatchType.MERGE, subresource="status")


async def remove_node(name: str, cluster: ChangedCluster) -> None:
    cluster.node(name)
    await cluster.delete(NODES, name, "")


async def add_nodes(
    count: int, like: str, cluster: ChangedCluster, *, prefix: str = "", labels: Mapping[str, str] | None = None
) -> list[str]:
    """As many nodes as that one, empty, with those labels besides; returns their names."""
    model = await cluster.get(NODES, like, "")
    taken = {node.metadata.name for node in cluster.nodes}
    names: list[str] = []
    number = 0
    while len(names) < count:
        number += 1
        name = f"{prefix or like + '-copy'}-{number}"
        if name not in taken:
            names.append(name)
    for name in names:
        await cluster.apply(like_node(model, name, labels))
    return names


def like_node(model: Obj, name: str, labels: Mapping[str, str] | None = None) -> Obj:
    """A manifest of a new node of the same size, price and kubelet, with labels and taints that somebody gave it."""
    meta, spec, status = model["metadata"], model.get("spec") or {}, model["status"]
    labels = {**(meta.get("labels") or {}), "kubernetes.io/hostname": name, **(labels or {})}
    taints = [taint for taint in spec.get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
    given = meta.get("annotations") or {}
    annotations = {
        key: value for key, value in given.items() if key.startswith(PREFIX) and key not in (FAILED, GOES_DOWN)
    }
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": taints} if taints else {},
        "status": {key: status[key] for key in ("capacity", "allocatable") if key in status},
    }
    return made


async def upgrade(selector: str, share: float, seconds: float, cluster: ChangedCluster) -> None:
    """Replace the nodes in batches of that share of them: drained, gone for so long, back empty and schedulable."""
    nodes = sorted(cluster.nodes_of(selector), key=lambda node: natural(node.metadata.name))
    size = max(math.ceil(len(nodes) * share), 1)
    for start in range(0, len(nodes), size):
        async with asyncio.TaskGroup() as group:
            for node in nodes[start : start + size]:
                group.create_task(_replace(node, seconds, cluster))


async def _replace(node: Node, seconds: float, cluster: ChangedCluster) -> None:
    name = node.metadata.name
    model = await cluster.get(NODES, name, "")
    await drain(name, cluster)
    await remove_node(name, cluster)
    await asyncio.sleep(seconds)
    await cluster.apply(like_node(model, name))
    await cluster.ready(name)
