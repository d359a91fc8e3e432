"""The CPUs that the containers of one pod get to themselves, one container after the other.

Source: pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.topology import CpuIds
from fairlead.node.exclusive_requests import ExclusiveRequests
from fairlead.node.numa_hints import Hint, Hints

CPU: Final = "cpu"


class PodCpus:
    """`state`: who has which before. Containers are asked about, and given theirs, in their order in the pod."""

    def __init__(self, policy: StaticPolicy, state: CpuState, pod: ExclusiveRequests) -> None:
        self._policy, self._before, self._pod = policy, state, pod
        self._shared, self._own = state.shared, dict(state.exclusive.get(pod.uid, {}))
        self._reusable: CpuIds = frozenset()  # of containers that have ended when the next begins

    @property
    def state(self) -> CpuState:
        """Who has which now."""
        if self._own == self._before.exclusive.get(self._pod.uid, {}):
            return self._before
        return CpuState(self._shared, {**self._before.exclusive, self._pod.uid: self._own})

    def of_container(self, container: Obj) -> Hints:
        """Which NUMA nodes would do for it."""
        name = container["name"]
        if not (count := self._pod.cpus.get(name, 0)):
            return {}
        held = self._own.get(name)
        if held is not None:
            return {CPU: self._policy.hints(held, frozenset(), count) if len(held) == count else ()}
        return {CPU: self._policy.hints(self._policy.available(self._shared), self._reusable, count)}

    def of_pod(self) -> Hints:
        """Which would do for all of its containers together."""
        count = self._pod.cpus_at_once
        if not count:
            return {}
        if any(len(self._own[name]) != self._pod.cpus.get(name, 0) for name in self._pod.names if name in self._own):
            return {CPU: ()}
        own = frozenset[int]().union(*self._own.values())
        if len(own) == count:
            return {CPU: self._policy.hints(own, frozenset(), count)}
        return {CPU: self._policy.hints(self._policy.available(self._shared), own, count)}

    def take(self, container: Obj, hint: Hint) -> None:
        """The container gets its own for good, if it has any to itself. NotAligned or NotEnoughCpus."""
        name = container["name"]
        count = self._pod.cpus.get(name, 0)
        if count and name not in self._own:
            self._policy.check_alignment(self._shared, count)
            free = self._policy.available(self._shared) | self._reusable
            self._own[name] = self._policy.taken(free, count, hint.nodes)
            self._shared -= self._own[name]
        cpus = self._own.get(name, frozenset())
        self._reusable = self._reusable | cpus if name in self._pod.ending else self._reusable - cpus
