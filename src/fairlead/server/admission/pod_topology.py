"""PodTopologyLabels: copies the zone and region labels of its node to a pod when it is bound.

So the downward API can tell an application where it runs, without the right to read nodes (KEP-4742, on since 1.35).
A Binding carries the labels to the pod: whoever executes it copies the binding's labels into the pod.
Source: plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.objects import metadata
from fairlead.server.admission.base import CREATE_ONLY, AdmissionPlugin, Attributes

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(AdmissionPlugin):
    name = "PodTopologyLabels"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "binding"})
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        node = self._reader.find("nodes", name) if (name := _node_name(attributes)) else None
        if node is None:
            return
        known = node.kept_view(Object).metadata.labels
        topology = {label: known[label] for label in LABELS if label in known}
        if topology:
            meta = metadata(attributes.obj)
            meta["labels"] = topology | (meta.get("labels") or {})


def _node_name(attributes: Attributes) -> str:
    if not attributes.subresource:
        return str(attributes.spec.get("nodeName", ""))
    target = attributes.obj.get("target") or {}
    return str(target.get("name", "")) if target.get("kind") == "Node" else ""
