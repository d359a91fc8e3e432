"""What is counted of the PodResources API: by the names of pkg/kubelet/metrics (1.36)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.runtime.metrics import Counter, Family

_ENDPOINTS: Final = {"list": "List", "get_allocatable": "GetAllocatableResources", "get": "Get"}
_PREFIX: Final = "kubelet_pod_resources_endpoint"
_BY_VERSION: Final = "Broken down by server api version."
_VERSION: Final = ("v1",)
_OLD_VERSION: Final = ("v1alpha1",)


class PodResourcesMetrics:
    def __init__(self) -> None:
        self._total = self._counter("requests_total", "Cumulative number of requests to the PodResource endpoint.")
        self._requests = {
            name: self._counter(f"requests_{name}", f"Number of requests to the PodResource {method} endpoint.")
            for name, method in _ENDPOINTS.items()
        }
        self._errors = {
            name: self._counter(
                f"errors_{name}", f"Number of requests to the PodResource {method} endpoint which returned error."
            )
            for name, method in _ENDPOINTS.items()
        }

    @property
    def families(self) -> Iterable[Family]:
        return self._total, *self._requests.values(), *self._errors.values()

    def asked(self, endpoint: str) -> None:
        """Nothing: one of the older version, of which no more is counted than that."""
        self._total.add(_VERSION if endpoint else _OLD_VERSION)
        if endpoint:
            self._requests[endpoint].add(_VERSION)

    def failed(self, endpoint: str) -> None:
        self._errors[endpoint].add(_VERSION)

    @staticmethod
    def _counter(name: str, text: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", f"[ALPHA] {text} {_BY_VERSION}", "server_api_version")
