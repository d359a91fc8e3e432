"""Kueue: cohorts and cluster queues become groups, namespaces with local queues their members.

Cohort ──────▶ ConsumerGroup (weight, parent): what its queues have together is all there is
ClusterQueue ▶ ConsumerGroup: nominal quotas of all flavours are reserved, what may be borrowed bounds it
LocalQueue ──▶ its namespace belongs to that group
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.study.queues.mapped import Mapped, amounts, group_name
from fairlead.study.reading import mapping_at, mappings

GROUP: Final = "kueue.x-k8s.io"
#: Who has this label waits for Kueue: a Job suspended, a pod behind gates of Kueue's.
_QUEUE_LABEL: Final = f"{GROUP}/queue-name"
#: What a cluster queue says that the arbitrator has no word for.
_UNMAPPED: Final = (
    "preemption",
    "flavorFungibility",
    "namespaceSelector",
    "admissionChecks",
    "admissionChecksStrategy",
    "queueingStrategy",
    "stopPolicy",
)
#: What Kueue fills in of that where nobody has said anything; `namespaceSelector: {}` are all namespaces.
_SAYS_NOTHING: Final = {
    "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    "namespaceSelector": {},
    "admissionChecks": [],
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
}


def mapped(objects: Sequence[Obj]) -> Mapped:
    found = Mapped()
    of_kind = {
        kind: [obj for obj in objects if obj["kind"] == kind] for kind in ("Cohort", "ClusterQueue", "LocalQueue")
    }
    _cohorts(of_kind["Cohort"], of_kind["ClusterQueue"], found)
    for queue in of_kind["ClusterQueue"]:
        _cluster_queue(queue, found)
    for queue in of_kind["LocalQueue"]:
        _local_queue(queue, found)
    flavours = sum(obj["kind"] == "ResourceFlavor" for obj in objects)
    if flavours > 1:
        found.notes.append(f"Kueue: {flavours} ResourceFlavors are taken together, as one pool of each resource")
    workloads = sum(obj["kind"] == "Workload" for obj in objects)
    if workloads:
        found.notes.append(f"Kueue: {workloads} Workloads are left out: their pods are what is scheduled")
    return found


class _Cohort(msgspec.Struct):
    spec: Mapping[str, Any]
    #: What it, its queues and the cohorts in it have together.
    total: dict[str, Quantity] = msgspec.field(default_factory=dict)

    @property
    def parent(self) -> str:
        return str(self.spec.get("parentName") or self.spec.get("parent") or "")


def _cohorts(given: Sequence[Obj], queues: Sequence[Obj], found: Mapped) -> None:
    """Those that are named alone are there, too. Of a cohort nobody has more than all have together, and as much as it
    may borrow.
    """
    cohorts = {_name(cohort): _Cohort(mapping_at(cohort, "spec")) for cohort in given}
    for name in [*(cohort.parent for cohort in cohorts.values()), *map(_cohort_of, queues)]:
        if name:
            cohorts.setdefault(name, _Cohort({}))
    for name, cohort in cohorts.items():
        _add_quotas(cohort.spec, name, cohorts)
    for queue in queues:
        _add_quotas(mapping_at(queue, "spec"), _cohort_of(queue), cohorts)
    for name, cohort in sorted(cohorts.items()):
        own, most = _nominal(cohort.spec), dict(cohort.total)
        for resource, _, limit in _quotas(cohort.spec) if cohort.parent else ():
            if limit is not None and resource in most:
                most[resource] += limit
        bounded = {key for key, _, limit in _quotas(cohort.spec) if limit is not None} if cohort.parent else set(most)
        found.group(
            f"cohort-{name}",
            weight=_weight(cohort.spec),
            parent=group_name(f"cohort-{cohort.parent}") if cohort.parent else "",
            reserved=amounts(cohort.total) if own else {},
            hard=amounts({key: amount for key, amount in most.items() if key in bounded}),
        )
        found.lacks(f"Cohort {name}", _unmapped(cohort.spec))


def _add_quotas(spec: Mapping[str, Any], name: str, cohorts: Mapping[str, _Cohort]) -> None:
    """To that cohort and those around it."""
    around: set[str] = set()
    while name in cohorts and name not in around:
        around.add(name)
        for resource, quota in _nominal(spec).items():
            total = cohorts[name].total
            total[resource] = total[resource] + quota if resource in total else quota
        name = cohorts[name].parent


def _nominal(spec: Mapping[str, Any]) -> dict[str, Quantity]:
    """Of all flavours together."""
    nominal: dict[str, Quantity] = {}
    for name, quota, _ in _quotas(spec):
        nominal[name] = nominal[name] + quota if name in nominal else quota
    return nominal


def _cluster_queue(queue: Obj, found: Mapped) -> None:
    spec = mapping_at(queue, "spec")
    nominal = _nominal(spec)
    most: dict[str, Quantity | None] = {}
    for name, quota, limit in _quotas(spec):
        known = most.get(name, parse("0"))
        most[name] = None if limit is None or known is None else known + quota + limit
    cohort = _cohort_of(queue)
    bounded = {name: amount for name, amount in most.items() if amount is not None} if cohort else nominal
    found.group(
        f"queue-{_name(queue)}",
        weight=_weight(spec),
        parent=group_name(f"cohort-{cohort}") if cohort else "",
        reserved=amounts(nominal),
        hard=amounts(bounded),
    )
    found.lacks(f"ClusterQueue {_name(queue)}", _unmapped(spec))


def _unmapped(spec: Mapping[str, Any]) -> list[str]:
    lacking = [name for name in _UNMAPPED if name in spec and spec[name] != _SAYS_NOTHING.get(name)]
    resources = list(_resources(spec))
    lacking += ["lendingLimit"] if any("lendingLimit" in resource for resource in resources) else []
    return lacking + (["the quota of pods"] if any(resource.get("name") == "pods" for resource in resources) else [])


def _quotas(spec: Mapping[str, Any]) -> Iterator[tuple[str, Quantity, Quantity | None]]:
    """Resource, nominal quota, and how much may be borrowed (None: any amount)."""
    for resource in _resources(spec):
        try:
            limit = resource.get("borrowingLimit")
            quota = parse(str(resource.get("nominalQuota", "0")))
            yield str(resource.get("name")), quota, None if limit is None else parse(str(limit))
        except QuantityError:
            continue


def _resources(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in mappings(spec.get("resourceGroups")):
        for flavour in mappings(group.get("flavors")):
            yield from mappings(flavour.get("resources"))


def _local_queue(queue: Obj, found: Mapped) -> None:
    namespace = _namespace(queue)
    target = group_name(f"queue-{mapping_at(queue, 'spec').get('clusterQueue', '')}")
    if target not in found.groups:
        found.notes.append(f"LocalQueue {namespace}/{_name(queue)}: its ClusterQueue is not in the dump")
    elif namespace in found.consumers and found.consumers[namespace]["spec"]["parent"] != target:
        found.notes.append(
            f"LocalQueue {namespace}/{_name(queue)}: a namespace is in one queue, and this is its second"
        )
    else:
        found.consumer(namespace, parent=target)


def _cohort_of(queue: Obj) -> str:
    spec = mapping_at(queue, "spec")
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _weight(spec: Mapping[str, Any]) -> int:
    """Kueue's weights are quantities about 1; ours are whole numbers, so they are taken a hundredfold."""
    text = mapping_at(spec, "fairSharing").get("weight")
    try:
        return max((parse(str(text)).milli + 5) // 10, 0) if text is not None else 100
    except QuantityError:
        return 100


def _name(obj: Obj) -> str:
    return str(mapping_at(obj, "metadata").get("name", ""))


def held_back(objects: Sequence[Obj]) -> list[Obj]:
    """The Jobs and pods that wait for Kueue to admit them, without those that somebody has deactivated."""
    inactive = {
        (_namespace(workload), str(owner.get("kind")), str(owner.get("name")))
        for workload in objects
        if workload["kind"] == "Workload" and mapping_at(workload, "spec").get("active") is False
        for owner in mappings(mapping_at(workload, "metadata").get("ownerReferences"))
    }
    return [
        obj
        for obj in objects
        if obj["kind"] in ("Job", "Pod")
        and _QUEUE_LABEL in mapping_at(obj, "metadata", "labels")
        and _is_held_back(obj)
        and (_namespace(obj), obj["kind"], _name(obj)) not in inactive
    ]


def release(obj: Obj) -> None:
    """Let a Job or pod go on that waits for Kueue."""
    spec = mapping_at(obj, "spec")
    if obj["kind"] == "Job":
        spec["suspend"] = False
    else:
        spec["schedulingGates"] = [gate for gate in mappings(spec.get("schedulingGates")) if not _is_ours(gate)]


def _is_held_back(obj: Obj) -> bool:
    spec = mapping_at(obj, "spec")
    if obj["kind"] == "Job":
        return spec.get("suspend") is True
    return any(map(_is_ours, mappings(spec.get("schedulingGates"))))


def _is_ours(gate: Mapping[str, Any]) -> bool:
    return str(gate.get("name")).startswith(f"{GROUP}/")


def _namespace(obj: Obj) -> str:
    return str(mapping_at(obj, "metadata").get("namespace") or "default")
