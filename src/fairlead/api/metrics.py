"""`metrics.k8s.io/v1beta1`: what pods and nodes use, as metrics-server serves it.

Read it through `Api` as any kind: `api.list(POD_METRICS, namespace, ListQuery(labels=…))`, `item.view(PodMetrics)`.
Nothing is stored, and nothing can be watched. A cluster without a source of metrics does not know the kinds and answers
`NotFound`, in this process as over HTTP. A pod that has just started has no metrics yet and is left out of lists.

A built-in kind is not the place for these rows: in a real cluster an aggregated API server brings them.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Object, View
from fairlead.api.resources import Resource

_GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_VERBS: Final = ("get", "list")

POD_METRICS: Final = Resource(_GROUP, _VERSION, "pods", "PodMetrics", verbs=_VERBS)
NODE_METRICS: Final = Resource(_GROUP, _VERSION, "nodes", "NodeMetrics", namespaced=False, verbs=_VERBS)


class ContainerMetrics(View):
    name: str
    #: Quantities by resource: `cpu` as a rate over the window, `memory` the working set.
    usage: dict[str, str] = {}


class PodMetrics(Object):
    """The metadata has the labels of the pod, so that selectors mean the same here as there."""

    timestamp: str
    window: str
    containers: tuple[ContainerMetrics, ...] = ()


class NodeMetrics(Object):
    timestamp: str
    window: str
    usage: dict[str, str] = {}
