"""A pod on a simulated machine: what runs of it, what that uses, and what the kernel and the kubelet know of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources
from fairlead.api.pods import Pod
from fairlead.api.qos import qos_class
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, DiskUsage, PodUsage, candidate
from fairlead.node.requests import stated_limit
from fairlead.sim.machine.load import ANONYMOUS, LOGS, ROOTFS, PodLoad, Read
from fairlead.sim.pod_manifest import manifest_of
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.measures import Measure

#: Byte sequences in a pod that has a limit of local storage; most have none.
_STORAGE: Final = (b'"ephemeral-storage"', b'"sizeLimit"')


class MachinePod:
    """One version of the pod: a changed pod is another object."""

    def __init__(
        self, pod: Pod, usage: PodUsageModels, started: Mapping[str, float], without_children: frozenset[str]
    ) -> None:
        self.pod, self.usage, self.started = pod, usage, started
        self.without_children = without_children
        self.load = PodLoad(usage, started, without_children)

    def is_like(
        self, pod: Pod, usage: PodUsageModels, started: Mapping[str, float], without_children: frozenset[str]
    ) -> bool:
        """Whether another object made of these would behave as this one."""
        is_same_run = self.started == started and self.without_children == without_children
        return is_same_run and self.usage is usage and self.pod.spec == pod.spec

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @cached_property
    def manifest(self) -> Obj:
        return manifest_of(self.pod)

    @cached_property
    def candidate(self) -> Candidate:
        return candidate(self.manifest)

    @cached_property
    def qos_class(self) -> str:
        return qos_class(self.manifest["spec"])

    @cached_property
    def pod_level_memory_limit(self) -> int | None:
        if not self.pod.spec.raw_resources or not has_pod_level_resources(self.manifest["spec"]):
            return None
        return stated_limit(self.manifest["spec"], "memory").units or None

    @cached_property
    def may_exceed_local_storage(self) -> bool:
        """Whether it has a limit of local storage at all."""
        spec = self.pod.spec
        parts = (spec.raw_containers, spec.raw_volumes, spec.raw_resources)
        has_limit = any(mark in bytes(part) for part in parts for mark in _STORAGE)
        return has_limit and self.candidate.has_storage_limits

    def amount(self, container: str, measure: Measure, read: Read) -> int:
        model = self.usage.model(container, measure)
        if model is None or (measure is Measure.CHILD_MEMORY and container in self.without_children):
            return 0
        return int(read(model, self.started[container]))

    def measured(self, read: Read, memory_room: int) -> PodUsage:
        """What a kubelet measures of it; its cache in use is at most what memory has room for."""
        containers = tuple(self._container(name, read, memory_room) for name in self.started)
        first = min(self.started.values(), default=0.0)
        volumes = {
            name: DiskUsage(int(read(declaration.model, first)), 1) for name, declaration in self.usage.volumes.items()
        }
        amounts = self.load.amounts(read)
        local = sum(volumes[name].used or 0 for name in self.candidate.local_volumes if name in volumes)
        return PodUsage(
            memory=sum(container.memory or 0 for container in containers),
            processes=sum(self.amount(name, Measure.PIDS, read) for name in self.started),
            containers=containers,
            volumes=volumes,
            ephemeral_storage=amounts[ROOTFS] + amounts[LOGS] + local,
        )

    def _container(self, name: str, read: Read, memory_room: int) -> ContainerUsage:
        anonymous = self.anonymous(name, read)
        active_file = min(self.amount(name, Measure.ACTIVE_FILE, read), memory_room)
        layer = DiskUsage(self.amount(name, Measure.ROOTFS, read), self.amount(name, Measure.INODES, read))
        return ContainerUsage(name, anonymous + active_file, layer, DiskUsage(self.amount(name, Measure.LOGS, read), 0))

    def anonymous(self, container: str, read: Read) -> int:
        return self.amount(container, Measure.MEMORY, read) + self.amount(container, Measure.CHILD_MEMORY, read)

    def anonymous_in_all(self, read: Read) -> int:
        return self.load.amounts(read)[ANONYMOUS]
