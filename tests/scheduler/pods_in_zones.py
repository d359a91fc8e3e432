"""Pods with affinity, and nodes in zones, in short form."""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from tests.scheduler.scheduler_world import Cluster, Obj, node, pod_obj

ZONE = "topology.kubernetes.io/zone"
WEB = {"app": "web"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def zoned(*names: str) -> Cluster:
    """`a1` and `a2` are in zone a; what begins with `-` is in none."""
    return Cluster(*(node(name, labels={} if name[0] == "-" else {ZONE: name[0]}) for name in names))


def term(labels: Obj | None = None, key: str = ZONE, **more: Any) -> Obj:
    return {"topologyKey": key, "labelSelector": {"matchLabels": WEB if labels is None else labels}} | more


def near(*terms: Obj) -> Obj:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Obj) -> Obj:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def prefers(kind: str, *weighted: tuple[int, Obj]) -> Obj:
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]}}


def in_namespace(namespace: str, name: str, **more: Any) -> Pod:
    obj = pod_obj(name, **more)
    obj["metadata"]["namespace"] = namespace
    return encoded(obj).view(Pod)


def terminating(name: str, **more: Any) -> Pod:
    obj = pod_obj(name, **more)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return encoded(obj).view(Pod)
