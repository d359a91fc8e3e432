"""Kueue: cohorts and cluster queues become groups, namespaces with local queues their members.

Cohort ──────▶ ConsumerGroup (weight, parent)
ClusterQueue ▶ ConsumerGroup: nominal quotas of all flavours are reserved, what may be borrowed bounds it
LocalQueue ──▶ its namespace belongs to that group
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, QuantityError, parse
from fairlead.study.queues.mapped import Mapped, amounts, group_name
from fairlead.study.reading import mapping_at, mappings

GROUP: Final = "kueue.x-k8s.io"
#: Who has this label waits for Kueue: a Job suspended, a pod behind gates of Kueue's.
_QUEUE_LABEL: Final = f"{GROUP}/queue-name"
#: What a cluster queue says that the arbitrator has no word for.
_UNMAPPED: Final = ("preemption", "flavorFungibility", "namespaceSelector", "admissionChecks", "stopPolicy")
#: What Kueue fills in of that where nobody has said anything; `namespaceSelector: {}` are all namespaces.
_SAYS_NOTHING: Final = {
    "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    "namespaceSelector": {},
    "admissionChecks": [],
    "stopPolicy": "None",
}


def mapped(objects: Sequence[Obj]) -> Mapped:
    found = Mapped()
    of_kind = {
        kind: [obj for obj in objects if obj["kind"] == kind] for kind in ("Cohort", "ClusterQueue", "LocalQueue")
    }
    cohorts = {_name(cohort): mapping_at(cohort, "spec") for cohort in of_kind["Cohort"]}
    for queue in of_kind["ClusterQueue"]:
        if cohort := _cohort_of(queue):
            cohorts.setdefault(cohort, {})
    for name, spec in sorted(cohorts.items()):
        parent = str(spec.get("parentName") or spec.get("parent") or "")
        found.group(f"cohort-{name}", weight=_weight(spec), parent=group_name(f"cohort-{parent}") if parent else "")
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


def _cluster_queue(queue: Obj, found: Mapped) -> None:
    spec = mapping_at(queue, "spec")
    nominal: dict[str, Quantity] = {}
    most: dict[str, Quantity | None] = {}
    for name, quota, limit in _quotas(spec):
        nominal[name] = nominal[name] + quota if name in nominal else quota
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
    return [field for field in _UNMAPPED if field in spec and spec[field] != _SAYS_NOTHING.get(field)]


def _quotas(spec: Mapping[str, Any]) -> Iterator[tuple[str, Quantity, Quantity | None]]:
    """Resource, nominal quota, and how much may be borrowed (None: any amount)."""
    for group in mappings(spec.get("resourceGroups")):
        for flavour in mappings(group.get("flavors")):
            for resource in mappings(flavour.get("resources")):
                try:
                    limit = resource.get("borrowingLimit")
                    quota = parse(str(resource.get("nominalQuota", "0")))
                    yield str(resource.get("name")), quota, None if limit is None else parse(str(limit))
                except QuantityError:
                    continue


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
