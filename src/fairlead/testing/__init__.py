"""A Kubernetes for tests: `with cluster(nodes=3) as c:`, and the fixtures of the pytest plugin (docs/testing.md).

pytest imports this package in every run on a machine where Fairlead is installed, so nothing is imported before it is
asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead.api.errors import ApiError
    from fairlead.runtime.loops import run_virtual
    from fairlead.simulation.objects import ClusterStopped
    from fairlead.simulation.virtual import VirtualCluster, virtual_cluster
    from fairlead.testing.live import ClientMissing, Cluster, KubectlFailed, cluster

__all__ = [
    "ApiError",
    "ClientMissing",
    "Cluster",
    "ClusterStopped",
    "KubectlFailed",
    "VirtualCluster",
    "cluster",
    "run_virtual",
    "virtual_cluster",
]

_HOMES: Final = {
    "ApiError": "fairlead.api.errors",
    "ClientMissing": "fairlead.testing.live",
    "Cluster": "fairlead.testing.live",
    "ClusterStopped": "fairlead.simulation.objects",
    "KubectlFailed": "fairlead.testing.live",
    "VirtualCluster": "fairlead.simulation.virtual",
    "cluster": "fairlead.testing.live",
    "run_virtual": "fairlead.runtime.loops",
    "virtual_cluster": "fairlead.simulation.virtual",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
