"""Manifests as the scenarios abbreviate them: `POD name cpu=… mem=… lim-cpu=… lim-mem=… node=…`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fairlead.api.objects import Obj

IMAGE = "registry.k8s.io/pause:3.10"


Amounts = Mapping[str, str]


def container(name: str = "c", *, requests: Amounts | None = None, limits: Amounts | None = None) -> Obj:
    """A container with these resources."""
    given = {"requests": requests, "limits": limits}
    resources = {kind: amounts for kind, amounts in given.items() if amounts}
    return {"name": name, "image": IMAGE} | ({"resources": resources} if resources else {})


def pod(name: str, *containers: Obj, requests: Amounts | None = None, **spec: object) -> str:
    """A pod as JSON, for `kubectl create -f -`: of one container with these requests, or of the containers given."""
    chosen: Sequence[Obj] = containers or [container(requests=requests)]
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [*chosen], **spec}}
    )


def replication_controller(
    name: str,
    replicas: int,
    *,
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    **spec: object,
) -> str:
    """A replication controller of one-container pods as JSON."""
    labels = {"name": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container(requests=requests, limits=limits)], **spec},
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": labels, "template": template},
        }
    )
