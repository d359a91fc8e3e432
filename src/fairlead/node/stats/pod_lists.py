"""`/pods` and `/runningpods` of a kubelet: what it was told to run, and what it found to run."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements

_LIST: Obj = {"kind": "PodList", "apiVersion": "v1", "metadata": {}}


def pod_list(pods: Iterable[Obj]) -> Obj:
    """Of pods as the API server has them; the items of a kubelet's list do not say their kind."""
    return _LIST | {"items": [_without_kind(pod) for pod in pods]}


def _without_kind(pod: Obj) -> Obj:
    return {name: value for name, value in pod.items() if name not in ("kind", "apiVersion")}


def running_pods(node: NodeMeasurements) -> Obj:
    """A runtime knows names and images alone."""
    items = [
        {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "spec": {
                "containers": [
                    {"name": container.name, "image": container.image, "resources": {}} for container in pod.containers
                ]
            },
            "status": {},
        }
        for pod in node.pods
    ]
    return _LIST | {"items": items}
