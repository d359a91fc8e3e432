"""How many ids of the machine pods with users of their own have, and whether there are enough.

The first range stays with the machine. Sources: pkg/kubelet/userns, getKubeletMappings of pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from typing import Final

from fairlead.node.configuration.settings import KubeletConfiguration

#: Of a pod, if the configuration does not say how many (`userNamespaces.idsPerPod`).
IDS_PER_POD: Final = 1 << 16
_MOST_IDS: Final = 1 << 32


def ids_per_pod(config: KubeletConfiguration) -> int:
    return config.user_namespace_ids_per_pod or IDS_PER_POD


def shortage_of_ids(config: KubeletConfiguration) -> str:
    """Why a node does not start with so many ids for so many pods; empty if they are enough."""
    each = ids_per_pod(config)
    left, problem = _MOST_IDS - each, ""
    if left % each:
        problem = f"kubelet user assigned IDs length {left} is not a multiple of {each}"
    elif left // each < config.max_pods:
        problem = f"kubelet user assigned IDs are not enough to support {config.max_pods} pods"
    return problem and f"create user namespace manager: {problem}"
