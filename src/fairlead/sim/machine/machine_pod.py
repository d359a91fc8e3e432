"""A pod on a simulated machine: what runs of it, what that uses, and what the kernel and the kubelet know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources
from fairlead.api.pods import Pod
from fairlead.api.qos import qos_class
from fairlead.node.cgroups.qos_tree import ClassRequests, class_requests
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, DiskUsage, PodUsage, candidate
from fairlead.node.eviction.signals import MEMORY, PIDS
from fairlead.node.log_rotation import LogPolicy
from fairlead.node.oom import oom_score_adjustments
from fairlead.node.requests import stated_limit
from fairlead.sim.machine.limited_cache import within_limits
from fairlead.sim.machine.load import ACTIVE_FILE, ANONYMOUS, LOGS, MOST_PROCESSES, PROCESSES, ROOTFS, PodLoad, Read
from fairlead.sim.machine.rotated_logs import with_rotation
from fairlead.sim.pod_manifest import manifest_of
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.measures import Measure

#: Byte sequences in a pod that has a limit of local storage; most have none.
_STORAGE: Final = (b'"ephemeral-storage"', b'"sizeLimit"')


class MachinePod:
    """What runs of a pod. The pod itself is looked up where the fleet keeps it: most are never asked for.

    Kept here, tens of thousands of pods would be in memory twice, as they were when they started and as they are.
    """

    def __init__(
        self,
        pod: Pod,
        usage: PodUsageModels,
        started: Mapping[str, float],
        without_children: frozenset[str],
        find: Callable[[str], Pod | None],
        logs: LogPolicy,
        most_processes: int = MOST_PROCESSES,
    ) -> None:
        """`find` finds the pod by its key as long as it is on the machine; `most_processes` is `podPidsLimit`."""
        self.uid, self.key = pod.metadata.uid, pod.metadata.key
        self.started, self.without_children = started, without_children
        #: As declared, as far as it fits in the limits of memory, and with what is left of logs.
        self.usage = with_rotation(within_limits(usage, pod, without_children), logs)
        self._declared, self._logs = usage, logs
        self.images = tuple(container.image for container in pod.spec.containers)
        self.load = PodLoad(self.usage, started, without_children, most_processes)
        self._most_processes = most_processes
        fixed = self.load.fixed
        #: Whether its figures never change: cache in use does with the room that memory has for it.
        self.is_steady = self.load.is_steady and not fixed[ACTIVE_FILE]
        self._generation = pod.metadata.generation
        self._pod_resources = pod.spec.raw_resources  # those of its cgroup, which may be resized later than desired
        self._find = find
        self._oom_scores: tuple[int, Mapping[str, int]] | None = None
        self.may_exceed_local_storage = _has_storage_limit(pod) and self.candidate.has_storage_limits
        self.pod_level_memory_limit = _pod_level_memory_limit(pod)

    def is_like(
        self, pod: Pod, usage: PodUsageModels, started: Mapping[str, float], without_children: frozenset[str]
    ) -> bool:
        """Whether another object made of these would behave as this one."""
        is_same_run = self.started == started and self.without_children == without_children
        is_same_size = self._generation == pod.metadata.generation and self._pod_resources == pod.spec.raw_resources
        return is_same_run and self._declared is usage and is_same_size

    def running(self, started: Mapping[str, float], without_children: frozenset[str]) -> MachinePod:
        """The same pod with something else running."""
        most = self._most_processes
        return MachinePod(self.pod, self._declared, started, without_children, self._find, self._logs, most)

    @property
    def pod(self) -> Pod:
        pod = self._find(self.key)
        assert pod is not None, self.key
        return pod

    @property
    def manifest(self) -> Obj:
        return manifest_of(self.pod)

    @cached_property
    def candidate(self) -> Candidate:
        return candidate(self.manifest)

    @cached_property
    def requests(self) -> ClassRequests:
        """What it adds to the requests of its class: sums over a node are made often, and specs decoded once."""
        return class_requests([self.manifest["spec"]])

    @cached_property
    def qos_class(self) -> str:
        return qos_class(self.manifest["spec"])

    def oom_score_adjustments(self, memory_capacity: int) -> Mapping[str, int]:
        """By container, on a machine of so many bytes, which seldom changes."""
        if self._oom_scores is None or self._oom_scores[0] != memory_capacity:
            self._oom_scores = memory_capacity, oom_score_adjustments(self.manifest, max(memory_capacity, 1))
        return self._oom_scores[1]

    def amount(self, container: str, measure: Measure, read: Read) -> int:
        model = self.usage.model(container, measure)
        if model is None or (measure is Measure.CHILD_MEMORY and container in self.without_children):
            return 0
        return int(read(model, self.started[container]))

    def processes(self, read: Read) -> Mapping[str, int]:
        """By container; together no more than the pod may have."""
        found, left = {}, self._most_processes
        for container in self.started:
            found[container] = min(self.amount(container, Measure.PIDS, read), left)
            left -= found[container]
        return found

    def working_set(self, read: Read, memory_room: int) -> int:
        amounts = self.load.amounts(read)
        return amounts[ANONYMOUS] + min(amounts[ACTIVE_FILE], memory_room)

    def ranked_by(self, resource: str, read: Read, memory_room: int) -> PodUsage:
        """What the order of eviction looks at when that is short."""
        if resource == MEMORY:
            return PodUsage(memory=self.working_set(read, memory_room))
        if resource == PIDS:
            return PodUsage(processes=self.load.amounts(read)[PROCESSES])
        return self.measured(read, memory_room)

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
            memory=self.working_set(read, memory_room),
            processes=amounts[PROCESSES],
            containers=containers,
            volumes=volumes,
            ephemeral_storage=amounts[ROOTFS] + amounts[LOGS] + local,
        )

    def in_memory_volumes(self, container: str, read: Read) -> int:
        """What volumes in memory count as that container's; killing it frees none of them."""
        return sum(int(read(model, self.started[container])) for model in self.usage.in_memory(container))

    def _container(self, name: str, read: Read, memory_room: int) -> ContainerUsage:
        anonymous = self.anonymous(name, read) + self.in_memory_volumes(name, read)
        active_file = min(self.amount(name, Measure.ACTIVE_FILE, read), memory_room)
        layer = DiskUsage(self.amount(name, Measure.ROOTFS, read), self.amount(name, Measure.INODES, read))
        return ContainerUsage(name, anonymous + active_file, layer, DiskUsage(self.amount(name, Measure.LOGS, read), 0))

    def anonymous(self, container: str, read: Read) -> int:
        return self.amount(container, Measure.MEMORY, read) + self.amount(container, Measure.CHILD_MEMORY, read)

    def anonymous_in_all(self, read: Read) -> int:
        return self.load.amounts(read)[ANONYMOUS]


def _has_storage_limit(pod: Pod) -> bool:
    """Whether it may have a limit of local storage."""
    spec = pod.spec
    parts = (spec.raw_containers, spec.raw_volumes, spec.raw_resources)
    return any(mark in bytes(part) for part in parts for mark in _STORAGE)


def _pod_level_memory_limit(pod: Pod) -> int | None:
    if not pod.spec.raw_resources:
        return None
    spec = manifest_of(pod)["spec"]
    return (stated_limit(spec, "memory").units or None) if has_pod_level_resources(spec) else None
