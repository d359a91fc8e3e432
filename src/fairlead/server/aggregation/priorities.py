"""In which order groups and versions stand in discovery, as APIServices say it.

A table, since no server could make the order up. Source: pkg/controlplane/apiserver/aggregator.go and
cmd/kube-apiserver/app/aggregator.go (1.36).
"""

from __future__ import annotations

from typing import Final

#: Group and version.
GroupVersion = tuple[str, str]

#: The group of APIServices themselves, which has none and comes first.
OWN_GROUP: Final = "apiregistration.k8s.io"

_GROUPS: Final = {
    "": 18_000,
    "apps": 17_800,
    "events.k8s.io": 17_750,
    "authentication.k8s.io": 17_700,
    "authorization.k8s.io": 17_600,
    "autoscaling": 17_500,
    "batch": 17_400,
    "certificates.k8s.io": 17_300,
    "networking.k8s.io": 17_200,
    "policy": 17_100,
    "rbac.authorization.k8s.io": 17_000,
    "storage.k8s.io": 16_800,
    "admissionregistration.k8s.io": 16_700,
    "apiextensions.k8s.io": 16_700,
    "scheduling.k8s.io": 16_600,
    "coordination.k8s.io": 16_500,
    "node.k8s.io": 16_300,
    "discovery.k8s.io": 16_200,
    "resource.k8s.io": 16_200,
    "flowcontrol.apiserver.k8s.io": 16_100,
    "metrics.k8s.io": 100,  # as the manifest of metrics-server says
}
_VERSION: Final = 15
#: Versions whose place in their group is another.
_VERSIONS: Final[dict[GroupVersion, int]] = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("metrics.k8s.io", "v1beta1"): 100,
    ("resource.k8s.io", "v1"): 20,
}
_FIRST: Final = (1 << 31, 0)
_CUSTOM: Final = (1_000, 100)


def priorities(group: str, version: str) -> tuple[int, int]:
    """`groupPriorityMinimum` and `versionPriority` of what this server answers for."""
    if group == OWN_GROUP:
        return _FIRST
    if group not in _GROUPS:
        return _CUSTOM
    return _GROUPS[group], _VERSIONS.get((group, version), _VERSION)
