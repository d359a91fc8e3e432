"""Whether a pod can have what its containers are to have to themselves (CPUs, memory), where its node would have it.

Sources: pkg/kubelet/cm/topologymanager (scope_container.go, scope_pod.go, scope_none.go), pkg/kubelet/cm/admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.admission import UNEXPECTED, Refusal
from fairlead.node.cpus.exclusive import containers_of
from fairlead.node.cpus.pod_cpus import CPU, PodCpus
from fairlead.node.cpus.policy import SMT_ALIGNMENT, NotAligned, StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.taking import NotEnoughCpus
from fairlead.node.exclusive_requests import exclusive_requests
from fairlead.node.numa_hints import NONE, Hint, HintPolicy, Hints, NumaNodes
from fairlead.node.numa_memory.pod_memory import PodMemory
from fairlead.node.numa_memory.policy import NoMemory, StaticMemory
from fairlead.node.numa_memory.state import Assigned

NOT_LOCAL: Final = "TopologyAffinityError"
_NOT_LOCAL: Final = Refusal(NOT_LOCAL, "Resources cannot be allocated with Topology locality")
_MEMORY: Final = "memory"


class DeviceHints(Protocol):
    """Where one pod could have devices that plugins of the node have."""

    def of_container(self, container: Obj) -> Hints: ...

    def of_pod(self) -> Hints: ...

    def take(self, container: Obj, hint: Hint) -> None:
        """The container gets its devices, near to where it says; those that are asked about next come after it."""
        ...


class _NoDevices:
    def of_container(self, container: Obj) -> Hints:
        return {}

    def of_pod(self) -> Hints:
        return {}

    def take(self, container: Obj, hint: Hint) -> None:
        pass


class Policies(msgspec.Struct, frozen=True):
    """What a node sets aside, and where that has to be; None: nothing of it."""

    nodes: NumaNodes
    hints: HintPolicy = HintPolicy()
    cpus: StaticPolicy | None = None
    memory: StaticMemory | None = None


class Held(NamedTuple):
    """By whom it is held."""

    cpus: CpuState = CpuState()
    memory: Assigned = {}

    def without_pod(self, uid: str) -> Held:
        memory = {each: of for each, of in self.memory.items() if each != uid}
        return Held(self.cpus.without_pod(uid), memory if uid in self.memory else self.memory)


class Placement(msgspec.Struct, frozen=True):
    """What came of it. What is held is as before where the pod is refused."""

    held: Held
    refusal: Refusal | None = None
    #: How many containers asked for what of their own: `cpu`, `memory`; and of what there was too little.
    requests: Mapping[str, int] = {}
    missing: str = ""
    #: By container, the NUMA nodes of what it gets; None: any of them.
    affinity: Mapping[str, frozenset[int] | None] = {}


def placed(policies: Policies, held: Held, manifest: Obj, devices: DeviceHints | None = None) -> Placement:
    devices, pod = devices or _NoDevices(), exclusive_requests(manifest)
    cpus = PodCpus(policies.cpus, held.cpus, pod) if policies.cpus is not None else None
    memory = PodMemory(policies.memory, held.memory, pod) if policies.memory is not None else None
    providers = [each for each in (devices, cpus, memory) if each is not None]
    requests, affinity = {CPU: 0, _MEMORY: 0}, dict[str, frozenset[int] | None]()
    for_pod: tuple[Hint, bool] | None = None
    if policies.hints.name == NONE:  # there may be more sets of NUMA nodes than anybody could look at
        for_pod = policies.hints.best((), policies.nodes)
    elif policies.hints.is_for_pods:
        for_pod = policies.hints.best([each.of_pod() for each in providers], policies.nodes)
    for container in containers_of(manifest["spec"]):
        name = container["name"]
        hint, is_taken = for_pod or policies.hints.best(
            [each.of_container(container) for each in providers], policies.nodes
        )
        if not is_taken:
            return Placement(held, _NOT_LOCAL, requests, "", affinity)
        try:
            if cpus is not None:
                requests[CPU] += name in pod.cpus
                cpus.take(container, hint)
        except NotAligned as problem:
            return Placement(held, Refusal(SMT_ALIGNMENT, str(problem)), requests, CPU, affinity)
        except NotEnoughCpus as problem:
            return Placement(held, _unexpected(problem), requests, CPU, affinity)
        try:
            if memory is not None:
                requests[_MEMORY] += name in pod.memory
                memory.take(container, hint)
        except NoMemory as problem:
            return Placement(held, _unexpected(problem), requests, _MEMORY, affinity)
        devices.take(container, hint)
        affinity[name] = hint.nodes
    after = Held(cpus.state if cpus is not None else held.cpus, memory.assigned if memory is not None else held.memory)
    return Placement(after, None, requests, "", affinity)


def _unexpected(problem: Exception) -> Refusal:
    return Refusal(UNEXPECTED, f"Allocate failed due to {problem}, which is unexpected")
