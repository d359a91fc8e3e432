"""`/metrics` of a kubelet: what runs, what was evicted, and how full the volumes of claims are.

Sources: pkg/kubelet/metrics/metrics.go, collectors/{volume_stats,log_metrics}.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fairlead.node.stats.exposition import COUNTER, GAUGE, Family, Sample, text_of
from fairlead.node.stats.measurements import FilesystemMeasurements, NodeMeasurements

_NODE: Final = Family("kubelet_node_name", GAUGE, "[ALPHA] The node's name. The count is always 1.")
_PODS: Final = Family("kubelet_running_pods", GAUGE, "[ALPHA] Number of pods that have a running pod sandbox")
_CONTAINERS: Final = Family("kubelet_running_containers", GAUGE, "[ALPHA] Number of containers currently running")
_EVICTIONS: Final = Family(
    "kubelet_evictions", COUNTER, "[ALPHA] Cumulative number of pod evictions by eviction signal"
)
_LOGS: Final = Family(
    "kubelet_container_log_filesystem_used_bytes",
    GAUGE,
    "[ALPHA] Bytes used by the container's logs on the filesystem.",
)
_VOLUMES: Final[tuple[tuple[str, str, Callable[[FilesystemMeasurements], int | None]], ...]] = (
    ("capacity_bytes", "Capacity in bytes of the volume", lambda it: it.capacity),
    ("available_bytes", "Number of available bytes in the volume", lambda it: it.available),
    ("used_bytes", "Number of used bytes in the volume", lambda it: it.used),
    ("inodes", "Maximum number of inodes in the volume", lambda it: it.inodes),
    ("inodes_free", "Number of free inodes in the volume", lambda it: it.inodes_free),
    ("inodes_used", "Number of used inodes in the volume", lambda it: it.inodes_used),
)


def exposition(node: NodeMeasurements, evictions: Mapping[str, int]) -> bytes:
    """`evictions`: how many there were, by signal."""
    return text_of(families(node, evictions))


def families(node: NodeMeasurements, evictions: Mapping[str, int]) -> Iterator[tuple[Family, Iterable[Sample]]]:
    yield _NODE, [Sample({"node": node.name}, 1)]
    yield _PODS, [Sample({}, len(node.pods))]
    yield _CONTAINERS, [Sample({"container_state": "running"}, sum(len(pod.containers) for pod in node.pods))]
    yield _EVICTIONS, [Sample({"eviction_signal": signal}, count) for signal, count in evictions.items()]
    yield _LOGS, list(_logs(node))
    claims = _claims(node)
    for name, help_, value in _VOLUMES:
        found = [(labels, value(filesystem)) for labels, filesystem in claims]
        family = Family(f"kubelet_volume_stats_{name}", GAUGE, f"[ALPHA] {help_}")
        yield family, [Sample(labels, amount) for labels, amount in found if amount is not None]


def _logs(node: NodeMeasurements) -> Iterator[Sample]:
    for pod in node.pods:
        for container in pod.containers:
            if container.logs is not None:
                labels = {"uid": pod.uid, "namespace": pod.namespace, "pod": pod.name, "container": container.name}
                yield Sample(labels, container.logs.used)


def _claims(node: NodeMeasurements) -> list[tuple[dict[str, str], FilesystemMeasurements]]:
    """Each once, though several pods may use one."""
    found = {
        (pod.namespace, volume.claim): volume.filesystem for pod in node.pods for volume in pod.volumes if volume.claim
    }
    return [
        ({"namespace": namespace, "persistentvolumeclaim": claim}, filesystem)
        for (namespace, claim), filesystem in found.items()
    ]
