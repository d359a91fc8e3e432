"""What is counted of CPUs that are given away, and of pods on NUMA nodes: by the names of pkg/kubelet/metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.node.numa_hints import POD_SCOPE
from fairlead.node.placement import Placement
from fairlead.runtime.metrics import Counter, Family, Gauge, Histogram, exponential

#: Labels of what is aligned.
CONTAINER_SCOPE: Final = "container"
NUMA_NODE: Final = "numa_node"
PHYSICAL_CPU: Final = "physical_cpu"
_OF_ALIGNED: Final = ("scope", "boundary")
_BOUNDS: Final = exponential(0.05, 2, 15)


class TopologyMetrics:
    def __init__(self) -> None:
        self._requests = Counter(
            "kubelet_cpu_manager_pinning_requests_total", "[ALPHA] Containers that asked for CPUs of their own."
        )
        self._errors = Counter(
            "kubelet_cpu_manager_pinning_errors_total", "[ALPHA] Containers that could not have CPUs of their own."
        )
        self._shared = Gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores",
            "[ALPHA] How much CPU is nobody's own and not reserved, in millicores.",
        )
        self._exclusive = Gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count", "[ALPHA] How many CPUs are containers' own."
        )
        self._of_nodes = Gauge(
            "kubelet_cpu_manager_allocation_per_numa",
            "[ALPHA] How many CPUs of each NUMA node are containers' own.",
            "numa_node",
        )
        self._memory_requests = Counter(
            "kubelet_memory_manager_pinning_requests_total", "[ALPHA] Containers that asked for memory of their own."
        )
        self._memory_errors = Counter(
            "kubelet_memory_manager_pinning_errors_total", "[ALPHA] Containers that could not have memory of their own."
        )
        self._admissions = Counter(
            "kubelet_topology_manager_admission_requests_total", "[ALPHA] Pods that had to be placed on NUMA nodes."
        )
        self._refusals = Counter(
            "kubelet_topology_manager_admission_errors_total", "[ALPHA] Pods that could not be placed as they have to."
        )
        self._durations = Histogram(
            "kubelet_topology_manager_admission_duration_ms",
            "[ALPHA] How long it took to place a pod, in milliseconds.",
            _BOUNDS,
        )

        aligned = "kubelet_container_aligned_compute_resources"
        self._aligned = Counter(
            f"{aligned}_count", "[ALPHA] What is certain to have all of its resources together.", *_OF_ALIGNED
        )
        self._not_aligned = Counter(
            f"{aligned}_failure_count", "[ALPHA] What could not have its resources together.", *_OF_ALIGNED
        )
        for scope in (CONTAINER_SCOPE, POD_SCOPE):
            self.aligned(scope, NUMA_NODE, 0, 0)

    @property
    def families(self) -> Iterable[Family]:
        of_cpus = (self._requests, self._errors, self._shared, self._exclusive, self._of_nodes)
        of_memory = (self._memory_requests, self._memory_errors)
        of_pods = (self._admissions, self._refusals, self._durations, self._aligned, self._not_aligned)
        return *of_cpus, *of_memory, *of_pods

    def holds(self, shared: int, exclusive: Mapping[int, int]) -> None:
        """So many CPUs are nobody's own, and so many of each NUMA node are."""
        self._shared.set(shared * 1000)
        self._exclusive.set(sum(exclusive.values()))
        for node, count in exclusive.items():
            self._of_nodes.set(count, (str(node),))

    def aligned(self, scope: str, boundary: str, successes: int, failures: int) -> None:
        self._aligned.add((scope, boundary), successes)
        self._not_aligned.add((scope, boundary), failures)

    def admitted(self, result: Placement, seconds: float, *, is_placing: bool) -> None:
        """A pod was, or was not; `is_placing`: by a policy that looks at NUMA nodes."""
        self._admissions.add()
        self._durations.observe(seconds * 1000)
        self._requests.add(amount=result.requests["cpu"])
        self._memory_requests.add(amount=result.requests["memory"])
        self._errors.add(amount=result.missing == "cpu")
        self._memory_errors.add(amount=result.missing == "memory")
        self._refusals.add(amount=is_placing and result.refusal is not None)
