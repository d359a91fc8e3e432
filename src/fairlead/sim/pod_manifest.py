"""The part of a pod's manifest that a kubelet's decisions read, from the view that the fleet holds."""

from __future__ import annotations

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import Pod


def manifest_of(pod: Pod) -> Obj:
    spec = pod.spec
    parts = {
        "containers": spec.raw_containers,
        "initContainers": spec.raw_init_containers,
        "overhead": spec.raw_overhead,
        "resources": spec.raw_resources,
        "affinity": spec.raw_affinity,
        "tolerations": spec.raw_tolerations,
        "nodeSelector": spec.raw_node_selector,
        "os": spec.raw_os,
        "volumes": spec.raw_volumes,
    }
    of_pod = pod.metadata
    metadata = {"name": of_pod.name, "namespace": of_pod.namespace, "uid": of_pod.uid}
    fields = {
        "priority": spec.priority,
        "priorityClassName": spec.priority_class_name,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
    }
    return {
        "metadata": metadata | {"labels": of_pod.labels, "annotations": of_pod.annotations},
        "spec": {name: msgspec.json.decode(part) for name, part in parts.items() if part} | fields,
    }
