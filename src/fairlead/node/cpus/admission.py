"""Whether a pod can have the CPUs that its containers are to have to themselves, where its node would have them.

Sources: pkg/kubelet/cm/topologymanager (scope_container.go, scope_pod.go, scope_none.go), pkg/kubelet/cm/admission.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.admission import UNEXPECTED, Refusal
from fairlead.node.cpus.exclusive import containers_of, exclusive_cpus
from fairlead.node.cpus.policy import SMT_ALIGNMENT, NotAligned, StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.taking import NotEnoughCpus
from fairlead.node.numa_hints import HintPolicy, NumaNodes

NOT_LOCAL: Final = "TopologyAffinityError"
_NOT_LOCAL: Final = Refusal(NOT_LOCAL, "Resources cannot be allocated with Topology locality")


class PodCpus(msgspec.Struct, frozen=True):
    """What came of it. The state is the one from before where the pod is refused."""

    state: CpuState
    refusal: Refusal | None = None
    #: How many containers asked for CPUs of their own.
    requests: int = 0

    @property
    def is_misplaced(self) -> bool:
        """It was refused for where it would have to be."""
        return self.refusal == _NOT_LOCAL


def admit_with_cpus(
    policy: StaticPolicy | None, hints: HintPolicy, nodes: NumaNodes, state: CpuState, pod: Obj
) -> PodCpus:
    """`policy` None: nothing is handed out, and everything is everywhere."""
    if policy is None:
        return PodCpus(state)
    after, requests = state, 0
    of_pod = hints.best([policy.pod_hints(state, pod)], nodes) if hints.is_for_pods else None
    for container in containers_of(pod["spec"]):
        hint, is_taken = of_pod or hints.best([policy.hints(after, pod, container)], nodes)
        if not is_taken:
            return PodCpus(state, _NOT_LOCAL, requests)
        requests += exclusive_cpus(pod["spec"], container) > 0
        try:
            after = policy.allocated(after, pod, container, hint.nodes)
        except NotAligned as problem:
            return PodCpus(state, Refusal(SMT_ALIGNMENT, str(problem)), requests)
        except NotEnoughCpus as problem:
            text = f"Allocate failed due to {problem}, which is unexpected"
            return PodCpus(state, Refusal(UNEXPECTED, text), requests)
    return PodCpus(after, None, requests)
