"""What steps do to nodes: cordon, drain, fail, remove, add, and replace a pool batch by batch."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError, NotFound, TooManyRequests
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import MIRROR, Pod
from fairlead.api.verbs import PatchType
from fairlead.runtime.clock import monotonic
from fairlead.sim.nodes import FAILED
from fairlead.study.changes.world import NothingThere, World, natural

#: As `kubectl drain` tries again what a disruption budget forbids.
_RETRY_SECONDS: Final = 5.0


async def cordon(name: str, world: World, *, is_unschedulable: bool = True) -> None:
    world.node(name)
    patch = {"spec": {"unschedulable": True if is_unschedulable else None}}
    await world.patch(NODES, name, "", patch, PatchType.MERGE)


async def drain(name: str, world: World, patience: float = math.inf) -> None:
    """As `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, which waits until the pods are gone."""
    await cordon(name, world)
    give_up_at = monotonic() + patience
    waiting = [pod for pod in world.pods_on(name) if _is_to_go(pod)]
    while waiting:
        for pod in waiting:
            if not pod.metadata.is_terminating:
                await _evict(pod, world)
        if monotonic() >= give_up_at:
            return
        await asyncio.sleep(_RETRY_SECONDS)
        waiting = [found for pod in waiting if (found := _same(world.pods.get(pod.metadata.key), pod)) is not None]


async def _evict(pod: Pod, world: World) -> None:
    """It stays for now where a disruption budget is in the way."""
    meta = pod.metadata
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta.name}}
    try:
        await world.api.create(PODS, body, meta.namespace, name=meta.name, subresource="eviction")
    except (NotFound, TooManyRequests):
        pass
    except ApiError as error:
        raise NothingThere(f"pod {meta.key} cannot be evicted: {error}") from None


def _is_to_go(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return not (MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet"))


def _same(found: Pod | None, pod: Pod) -> Pod | None:
    return found if found is not None and found.metadata.uid == pod.metadata.uid else None


async def fail(name: str, world: World, *, recovers: bool = False) -> None:
    """The machine is off, or on again."""
    world.node(name)
    patch = {"metadata": {"annotations": {FAILED: None if recovers else "true"}}}
    await world.patch(NODES, name, "", patch, PatchType.MERGE)


async def remove_node(name: str, world: World) -> None:
    world.node(name)
    await world.delete(NODES, name, "")


async def add_nodes(count: int, like: str, world: World, *, prefix: str = "") -> list[str]:
    """As many nodes as that one, empty; returns their names."""
    model = await world.get(NODES, like, "")
    taken = {node.metadata.name for node in world.nodes}
    names: list[str] = []
    number = 0
    while len(names) < count:
        number += 1
        name = f"{prefix or like + '-copy'}-{number}"
        if name not in taken:
            names.append(name)
    for name in names:
        await world.apply(like_node(model, name))
    return names


def like_node(model: Obj, name: str) -> Obj:
    """A manifest of a new node of the same size, labels and taints that somebody gave it."""
    meta, spec, status = model["metadata"], model.get("spec") or {}, model["status"]
    labels = {**(meta.get("labels") or {}), "kubernetes.io/hostname": name}
    taints = [taint for taint in spec.get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {key: status[key] for key in ("capacity", "allocatable") if key in status},
    }
    return made


async def upgrade(selector: str, share: float, seconds: float, world: World) -> None:
    """Replace the nodes in batches of that share of them: drained, gone for so long, back empty and schedulable."""
    nodes = sorted(world.nodes_of(selector), key=lambda node: natural(node.metadata.name))
    size = max(math.ceil(len(nodes) * share), 1)
    for start in range(0, len(nodes), size):
        async with asyncio.TaskGroup() as group:
            for node in nodes[start : start + size]:
                group.create_task(_replace(node, seconds, world))


async def _replace(node: Node, seconds: float, world: World) -> None:
    name = node.metadata.name
    model = await world.get(NODES, name, "")
    await drain(name, world)
    await remove_node(name, world)
    await asyncio.sleep(seconds)
    await world.apply(like_node(model, name))
    await world.ready(name)
