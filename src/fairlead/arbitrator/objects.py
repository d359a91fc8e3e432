"""The arbitrator's kinds: what an administrator says (Consumer, ConsumerGroup, ArbitratorPolicy), and what is answered
(Allocation).

Amounts are texts as they were written: quantities by quota names (`requests.cpu`; plain `cpu` means the same, S2-20),
or percentages of the cluster.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Object, View
from fairlead.api.resources import Resource, Subresource

GROUP: Final = "kube-arbitrator.incubator.k8s.io"
VERSION: Final = "v1"
#: There is one Consumer and one Allocation in a namespace, of this name.
THE_NAME: Final = "defaults"
SYSTEM_NAMESPACE: Final = "kube-system"


def _row(plural: str, kind: str, short: str, *, namespaced: bool) -> Resource:
    status = {"status": Subresource("status", kind, ("get", "patch", "update"))}
    return Resource(GROUP, VERSION, plural, kind, namespaced, kind.lower(), (short,), subresources=status)


CONSUMERS: Final = _row("consumers", "Consumer", "csm", namespaced=True)
CONSUMER_GROUPS: Final = _row("consumergroups", "ConsumerGroup", "csg", namespaced=False)
ALLOCATIONS: Final = _row("allocations", "Allocation", "alloc", namespaced=True)
POLICIES: Final = _row("arbitratorpolicies", "ArbitratorPolicy", "apol", namespaced=False)


class ShareSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    """What Consumers and ConsumerGroups have in common."""

    hard: dict[str, str | int] | None = None
    reserved: dict[str, str | int] | None = None
    parent: str = ""
    weight: int = 1
    reserved_policy: str = "Lend"


class ConsumerSpec(ShareSpec, frozen=True, rename="camel", gc=False, kw_only=True):
    unlimited: bool = False


class Consumer(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: ConsumerSpec = ConsumerSpec()


class ConsumerGroup(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: ShareSpec = ShareSpec()


class PolicySpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    surplus_mode: str = "Total"
    cycle_seconds: float = 1.0
    resources: tuple[str, ...] = ()


class ArbitratorPolicy(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: PolicySpec = PolicySpec()


class AllocationSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    hard: dict[str, str | int] | None = None
    reserved: dict[str, str | int] | None = None
    deserved: dict[str, str | int] | None = None


class AllocationStatus(View, frozen=True, rename="camel", gc=False, kw_only=True):
    request: dict[str, str] = {}
    deserved: dict[str, str] = {}
    granted: dict[str, str] = {}
    used: dict[str, str] = {}
    borrowed: dict[str, str] = {}
    dominant_share: str = ""
    bottleneck: str = ""
    overused_since: str | None = None


class Allocation(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: AllocationSpec = AllocationSpec()
    status: AllocationStatus = AllocationStatus()


class NodeSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    unschedulable: bool = False


class NodeCondition(View, frozen=True, rename="camel", gc=False, kw_only=True):
    type: str
    status: str


class NodeStatus(View, frozen=True, rename="camel", gc=False, kw_only=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[NodeCondition, ...] | None = ()


class Node(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    """A node as far as it adds to what can be divided."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_open(self) -> bool:
        """Ready and not cordoned."""
        is_ready = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions or ())
        return is_ready and not self.spec.unschedulable
