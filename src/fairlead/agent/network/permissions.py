"""What the network of a node may do at the API server. It has an identity of its own, as the network of any cluster.

A node may not read what runs on others (the node authorizer), and policies are about just that.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

_READ: Final = ["list", "watch"]

RULES: Final[tuple[Obj, ...]] = (
    {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces", "services"], "verbs": _READ},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _READ},
    # the annotation with the subnet
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
)
