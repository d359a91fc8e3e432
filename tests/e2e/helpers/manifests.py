"""Manifests as the scenarios abbreviate them: `POD name cpu=… mem=… lim-cpu=… lim-mem=… node=…`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fairlead.api.objects import Obj

IMAGE = "registry.k8s.io/pause:3.10"


def container(name: str = "c", **resources: Mapping[str, str]) -> Obj:
    """A container; `requests=` and `limits=` are its resources."""
    return {"name": name, "image": IMAGE} | ({"resources": resources} if resources else {})


def pod(name: str, *containers: Obj, requests: Mapping[str, str] | None = None, **spec: object) -> str:
    """A pod as JSON, for `kubectl create -f -`: of one container with these requests, or of the containers given."""
    chosen: Sequence[Obj] = containers or [container(requests=requests) if requests else container()]
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [*chosen], **spec}}
    )


def replication_controller(name: str, replicas: int, **resources: Mapping[str, str]) -> str:
    """A replication controller of one-container pods as JSON."""
    labels = {"name": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(**resources)]}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": labels, "template": template},
        }
    )
