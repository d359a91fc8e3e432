"""The labels of Kubernetes' own that a node may give itself: with others it could draw pods to itself.

Sources: k8s.io/kubelet pkg/apis/well_known_labels.go, plugin/pkg/admission/noderestriction (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_KUBELET_LABELS: Final = frozenset(
    [
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]
)
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESTRICTED_DOMAIN: Final = ("node-restriction.kubernetes.io",)
_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def restricted_labels(keys: Iterable[str]) -> list[str]:
    """Those that are for others to set, sorted."""
    return sorted(key for key in keys if _is_restricted(key))


def _is_restricted(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash or key in _KUBELET_LABELS:
        return False
    if _is_within(domain, _RESTRICTED_DOMAIN):
        return True
    return _is_within(domain, _KUBERNETES_DOMAINS) and not _is_within(domain, _KUBELET_DOMAINS)


def _is_within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == known or domain.endswith(f".{known}") for known in domains)
