"""Clusters as dumps have them, for studies: nodes, and deployments with pods that run on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.api.objects import Obj

TIME = "2026-03-01T12:00:00Z"


def node(name: str, cpu: str = "4", **labels: str) -> Obj:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": TIME}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": TIME, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "creationTimestamp": TIME}}


def quota(name: str, namespace_: str, **hard: str) -> Obj:
    bounds = {key.replace("_", "."): value for key, value in hard.items()}
    metadata = {"name": name, "namespace": namespace_, "creationTimestamp": TIME}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": bounds}}


def deployment(name: str, nodes: Iterable[str], namespace_: str = "default", cpu: str = "1", **spec: Any) -> list[Obj]:
    """A deployment with a pod on each of the nodes, its replica set and the pods, all settled."""
    places = list(nodes)
    labels, count = {"app": name}, len(places)
    hashed = {**labels, "pod-template-hash": "5f6d7c8b9"}
    pod_spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}
    status = {"observedGeneration": 1, "replicas": count, "readyReplicas": count, "availableReplicas": count}
    owner = _meta(name, namespace_, f"d-{namespace_}-{name}") | {
        "annotations": {"deployment.kubernetes.io/revision": "1"}
    }
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    body = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    found: list[Obj] = [_of("Deployment", owner, body, status | {"updatedReplicas": count})]
    replica_set = f"{name}-5f6d7c8b9"
    annotations = {"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": str(count)}
    meta = _meta(replica_set, namespace_, f"r-{namespace_}-{name}") | {"labels": hashed, "annotations": annotations}
    meta["ownerReferences"] = [_owner("Deployment", name, f"d-{namespace_}-{name}")]
    body = {
        "replicas": count,
        "selector": {"matchLabels": hashed},
        "template": {**template, "metadata": {"labels": hashed}},
    }
    found.append(_of("ReplicaSet", meta, body, status | {"fullyLabeledReplicas": count}))
    owned = _owner("ReplicaSet", replica_set, f"r-{namespace_}-{name}")
    for number, place in enumerate(places):
        meta = _meta(f"{replica_set}-{number:05d}", namespace_, f"p-{namespace_}-{name}-{number}") | {"labels": hashed}
        meta |= {"generateName": f"{replica_set}-", "ownerReferences": [owned]}
        found.append(running(meta, {**pod_spec, "nodeName": place}))
    return found


def running(meta: Obj, spec: Mapping[str, Any]) -> Obj:
    types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    state = {"running": {"startedAt": TIME}}
    container = {
        "name": "c",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": state,
    }
    status = {
        "phase": "Running",
        "startTime": TIME,
        "conditions": [{"type": type_, "status": "True", "lastTransitionTime": TIME} for type_ in types],
        "containerStatuses": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": dict(spec), "status": status}


def _of(kind: str, meta: Obj, spec: Obj, status: Obj) -> Obj:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta | {"generation": 1}, "spec": spec, "status": status}


def _meta(name: str, namespace_: str, uid: str) -> Obj:
    return {"name": name, "namespace": namespace_, "uid": uid, "creationTimestamp": TIME}


def _owner(kind: str, name: str, uid: str) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
