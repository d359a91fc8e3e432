"""The arbitrator's kinds: Consumer, ConsumerGroup and ArbitratorPolicy are its input, Allocation is its output.

Amounts are kept as they were written: quantities by quota name (`requests.cpu`; plain `cpu` means the same, S2-20), or
percentages of the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fairlead.api.meta import Condition, Object, ObjectMeta, View
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource, Subresource
from fairlead.arbitrator.amounts import LIMITS, REQUESTS
from fairlead.golang.durations import non_negative_seconds

GROUP: Final = "kube-arbitrator.incubator.k8s.io"
#: How the documents' manifests spell it (S2-11).
MISSPELT_GROUP: Final = "kuabe-arbitrator.incubator.k8s.io"
VERSION: Final = "v1"
#: The name of the only Consumer and the only Allocation of a namespace.
THE_NAME: Final = "defaults"
SYSTEM_NAMESPACE: Final = "kube-system"
#: The scheduling gate that the arbitrator lifts where the scheduler does not ask it; and the annotation that it leaves.
GATE: Final = f"{GROUP}/allocation"
GRANTED: Final = f"{GROUP}/granted"
_SHORTEST_CYCLE: Final = 0.1


def _row(plural: str, kind: str, short: str, *, namespaced: bool) -> Resource:
    status = {"status": Subresource("status", kind, ("get", "patch", "update"))}
    return Resource(GROUP, VERSION, plural, kind, namespaced, kind.lower(), (short,), subresources=status)


CONSUMERS: Final = _row("consumers", "Consumer", "csm", namespaced=True)
CONSUMER_GROUPS: Final = _row("consumergroups", "ConsumerGroup", "csg", namespaced=False)
ALLOCATIONS: Final = _row("allocations", "Allocation", "alloc", namespaced=True)
POLICIES: Final = _row("arbitratorpolicies", "ArbitratorPolicy", "apol", namespaced=False)
#: Of the documents' manifests, see `legacy_group`.
MISSPELT_CONSUMERS: Final = replace(
    CONSUMERS, group=MISSPELT_GROUP, plural="kuabeconsumers", singular="kuabeconsumer", short_names=()
)
MISSPELT_ALLOCATIONS: Final = replace(
    ALLOCATIONS, group=MISSPELT_GROUP, plural="kuabeallocations", singular="kuabeallocation", short_names=()
)


class ShareSpec(View):
    """What Consumers and ConsumerGroups have in common."""

    hard: dict[str, str | int] | None = None
    reserved: dict[str, str | int] | None = None
    parent: str = ""
    weight: int = 1
    reserved_policy: str = "Lend"


class ConsumerSpec(ShareSpec):
    unlimited: bool = False
    #: Between the eviction notice and the eviction.
    eviction_grace: str = "30s"
    #: Pods that have run for less are not evicted.
    min_runtime: str = "0s"


class Consumer(Object):
    spec: ConsumerSpec = ConsumerSpec()


def default_consumer(namespace: str) -> Consumer:
    """The Consumer of a namespace without one: no bound, no guarantee (S2-17); kube-system is unlimited (S2-28)."""
    spec = ConsumerSpec(unlimited=namespace == SYSTEM_NAMESPACE)
    return Consumer(metadata=ObjectMeta(name=THE_NAME, namespace=namespace), spec=spec)


def new_consumer(consumer: Consumer) -> Obj:
    """The body to create it with; the schema's defaults fill in the rest."""
    meta = consumer.metadata
    spec: Obj = {"unlimited": True} if consumer.spec.unlimited else {}
    return {"metadata": {"name": meta.name, "namespace": meta.namespace}, "spec": spec}


class ConsumerGroup(Object):
    spec: ShareSpec = ShareSpec()


class PolicySpec(View):
    #: `drf`, `proportion` (every resource by itself) or `limits` (drf over the pods' limits).
    policy: str = "drf"
    surplus_mode: str = "Total"
    cycle: str = "1s"
    #: Labels of the nodes that are divided; none: all.
    node_selector: dict[str, str] = {}
    #: Those that count towards a share; none: all.
    resources: tuple[str, ...] = ()
    max_evictions_per_cycle: int = 10
    #: `YoungestFirst` or `Random`, among pods of one priority (S2-37).
    victim_order: str = "YoungestFirst"

    @property
    def cycle_seconds(self) -> float:
        return max(non_negative_seconds(self.cycle), _SHORTEST_CYCLE)

    @property
    def prefix(self) -> str:
        """How the names of what is divided begin."""
        return LIMITS if self.policy == "limits" else REQUESTS


class ArbitratorPolicy(Object):
    spec: PolicySpec = PolicySpec()


class AllocationSpec(View):
    hard: dict[str, str | int] | None = None
    reserved: dict[str, str | int] | None = None
    deserved: dict[str, str | int] | None = None


class Victim(View):
    name: str
    uid: str
    #: When it is evicted.
    deadline: str = ""


class Proposal(View):
    """What will be taken back unless the owner makes room in another way."""

    #: When the first of the victims is evicted.
    deadline: str = ""
    victims: tuple[Victim, ...] = ()
    #: The pods, `namespace/name`, that could start then.
    beneficiaries: tuple[str, ...] = ()


class BackOffStatus(View):
    """Room that was made went to others, `failures` times in a row; nothing is reclaimed before `until`."""

    failures: int = 0
    until: str = ""
    #: The pod, `namespace/name`, that was not helped.
    beneficiary: str = ""


class AllocationStatus(View):
    request: dict[str, str] = {}
    deserved: dict[str, str] = {}
    granted: dict[str, str] = {}
    used: dict[str, str] = {}
    reclaiming: dict[str, str] = {}
    borrowed: dict[str, str] = {}
    dominant_share: str = ""
    cluster_share: str = ""
    bottleneck: str = ""
    overused_since: str | None = None
    proposal: Proposal | None = None
    back_off: BackOffStatus | None = None
    conditions: tuple[Condition, ...] = ()


class Allocation(Object):
    spec: AllocationSpec = AllocationSpec()
    status: AllocationStatus = AllocationStatus()
