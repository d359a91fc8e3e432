"""What the dashboard may do: read what it shows, and what decides about a pod that it is asked about."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.arbitrator.objects import GROUP

_READ: Final = ["get", "list", "watch"]

RULES: Final[tuple[Obj, ...]] = (
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": _READ},
    # what they use, and who deserves what
    {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]},
    {"apiGroups": [GROUP], "resources": ["allocations"], "verbs": ["list"]},
    # why a pod waits: what the scheduler looks at, and what the events say
    {
        "apiGroups": [""],
        "resources": [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "replicationcontrollers",
            "services",
        ],
        "verbs": _READ,
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": _READ},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _READ},
    {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": _READ},
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        "verbs": _READ,
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["deviceclasses", "resourceclaims", "resourceslices"],
        "verbs": _READ,
    },
)
