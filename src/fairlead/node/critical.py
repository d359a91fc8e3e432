"""Which pods a node must not lose: static pods, their mirrors, and those of a system priority.

Source: pkg/kubelet/types/pod_update.go.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.pods import MIRROR

#: Where a kubelet has a pod from; the API server's pods say `api` or nothing.
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
NODE_CRITICAL_CLASS: Final = "system-node-critical"
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000


def is_static(pod: Obj) -> bool:
    """It comes from a file or URL of the node, not from the API server."""
    return _annotations(pod).get(CONFIG_SOURCE, "api") != "api"


def is_mirror(pod: Obj) -> bool:
    """It only shows a static pod to the API server."""
    return MIRROR in _annotations(pod)


def is_critical(pod: Obj) -> bool:
    priority = (pod.get("spec") or {}).get("priority")
    return is_static(pod) or is_mirror(pod) or (priority is not None and priority >= SYSTEM_CRITICAL_PRIORITY)


def is_node_critical(pod: Obj) -> bool:
    """Critical, and of the class `system-node-critical` by name: the number alone does not make it so (S3-86)."""
    return is_critical(pod) and (pod.get("spec") or {}).get("priorityClassName") == NODE_CRITICAL_CLASS


def _annotations(pod: Obj) -> dict[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}
