"""Nodes with pods of several priorities, and whom preemption evicts there."""

from __future__ import annotations

from typing import Any

from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import Nominate
from tests.scheduler.scheduler_world import Cluster, Obj, node, pod

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Node → name → priority and cpu of each pod there; nodes have 4 cpu.
Layout = dict[str, dict[str, tuple[int, int]]]


def laid_out(layout: Layout, **more: Any) -> Cluster:
    cluster = Cluster(*(node(name, **more) for name in layout))
    for name, pods in layout.items():
        for key, (priority, cpu) in pods.items():
            cluster.place(pod(key, priority=priority, cpu=cpu), name)
    return cluster


def outcome(cluster: Cluster, preemptor: Pod) -> tuple[str, set[str]]:
    """The node, and who has to leave it; nothing if nobody has."""
    found = cluster.preempt(preemptor)
    return (found.node, names_of(found)) if isinstance(found, Nominate) else ("", set())


def names_of(found: Nominate) -> set[str]:
    return {victim.pod.metadata.name for victim in found.victims}


def budget(name: str, allowed: int, selector: Obj | None, disrupted: tuple[str, ...] = ()) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")},
    }


def minute(number: int) -> Obj:
    return {"startTime": f"2026-01-01T00:{number:02}:00Z"}


def app(name: str) -> Obj:
    return {"matchLabels": {"app": name}}


def apart(labels: Obj, key: str = HOST) -> Obj:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}}
