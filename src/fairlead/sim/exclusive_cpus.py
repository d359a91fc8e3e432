"""Which containers of simulated nodes have CPUs to themselves, where a kubelet has `cpuManagerPolicy: static`.

A kubelet that starts again with another reservation forgets who had what: pods that are there run on with what all
share.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.pods import Pod
from fairlead.node.admission import Refusal
from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.numa_hints import NumaNodes
from fairlead.node.placement import Held, Policies, placed
from fairlead.sim.node_settings import NodeSettings
from fairlead.sim.pod_manifest import manifest_of


class ExclusiveCpus:
    def __init__(self, settings: Callable[[str], NodeSettings]) -> None:
        self._settings = settings
        self._states: dict[str, tuple[StaticPolicy, CpuState]] = {}  # by node

    def allocate(self, pod: Pod) -> Refusal | None:
        """Why the node cannot give the pod's containers what they are to have to themselves; else they have it."""
        node = pod.spec.node_name
        settings = self._settings(node)
        if (policy := settings.cpus) is None:
            return None
        begun, state = self._states.get(node, (policy, policy.started(CpuState())))
        if begun != policy:
            state = policy.started(CpuState())
        policies = Policies(NumaNodes(policy.topology.ids("numa")), settings.hints, policy)
        result = placed(policies, Held(state), manifest_of(pod))
        self._states[node] = policy, result.held.cpus
        return result.refusal

    def release(self, pod: Pod) -> None:
        """It has ended, or is not taken."""
        if (known := self._states.get(pod.spec.node_name)) is not None:
            policy, state = known
            self._states[pod.spec.node_name] = policy, state.without_pod(pod.metadata.uid)

    def forget(self, node: str) -> None:
        self._states.pop(node, None)
