"""Quotas are recounted: admission only ever adds, so somebody has to notice what is gone.

A recount follows a new or changed quota, an object that is gone, one that counts for less, or to other quotas, than it
did, and, five minutes later, a charge by admission that nothing came of. What a pod counts for is remembered by its
bytes: a recount looks only at what changed.
Sources: pkg/controller/resourcequota, pkg/quota/v1/install/update_filter.go.
"""

from __future__ import annotations

import math
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.claims import PersistentVolumeClaim
from fairlead.api.devices import DeviceClass
from fairlead.api.encoded import Encoded
from fairlead.api.meta import Object
from fairlead.api.objects import Obj, metadata
from fairlead.api.podresources import Amounts
from fairlead.api.pods import ContainerStatus, Pod
from fairlead.api.quantity import ZERO, Quantity
from fairlead.api.quota import DeviceFacts, counted_kinds, is_alive, is_of_extended_resources, limited, texts, usage
from fairlead.api.quota_scopes import (
    CLAIMS,
    DEVICE_CLAIMS,
    PODS,
    SERVICES,
    QuotaSpec,
    QuotaStatus,
    ResourceQuota,
    ScopeCondition,
    in_scope,
)
from fairlead.api.resources import Resource
from fairlead.controllers import kinds
from fairlead.controllers.actions import Action, Actions, GiveWay, Kind, ListAll, Patch, Requeue, difference
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.dynamic_informers import deletable
from fairlead.controllers.kinds import RESOURCE_QUOTAS
from fairlead.runtime.clock import parse_timestamp

RESYNC_SECONDS: Final = 300.0

#: So many objects are looked at in one turn, or names in each half of a recount.
TURN_OBJECTS: Final = 500
#: To look at an object by so many conditions takes about as long as to look at it at all.
_FEW_CONDITIONS: Final = 20

#: Kinds whose objects count for more than one each.
_MEASURED: Final = frozenset({PODS, SERVICES, CLAIMS, DEVICE_CLAIMS})


class _Count(msgspec.Struct):
    """The last recount of a quota, and when the next one is due."""

    due: float = 0.0
    used: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: What each object counts for, by its bytes, to the quota as it is.
    known: dict[bytes, Amounts] = msgspec.field(default_factory=dict)
    spec: QuotaSpec | None = None


class ResourceQuotas(Controller[ResourceQuota]):
    name = "resourcequota-controller"
    queue_name = "resourcequota_primary"
    account = "resourcequota-controller"
    kind = RESOURCE_QUOTAS
    is_patient = True
    follows_everything = True

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self.watches = (
            Watch(kinds.PODS, self._pod_changed, wakes_known=True),
            Watch(kinds.SERVICES, self._service_changed, wakes_known=True),
            Watch(kinds.CLAIMS, self._claim_changed, wakes_known=True),
            Watch(kinds.DEVICE_CLASSES, self._class_changed, wakes_known=True),
        )

    def woken_by(self, world: World, resource: Resource, old: Object | None, new: Object | None) -> Iterable[str]:
        if old is None or new is not None or not old.metadata.namespace:
            return ()
        return self._recount(world, old.metadata.namespace, resource.qualified)

    def _pod_changed(self, world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
        if (
            old is not None
            and new is not None
            and (_has_ended(old, new) or _is_resized(old, new) or _has_deadline(old) != _has_deadline(new))
        ):
            yield from self._recount(world, new.metadata.namespace, PODS)

    def _service_changed(self, world: World, old: Any, new: Any) -> Iterator[str]:
        if old is not None and new is not None and old.spec.type != new.spec.type:
            yield from self._recount(world, new.metadata.namespace, SERVICES)

    def _claim_changed(
        self, world: World, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> Iterator[str]:
        if old is not None and new is not None and _sizes_and_classes(old) != _sizes_and_classes(new):
            yield from self._recount(world, new.metadata.namespace, CLAIMS)

    def _class_changed(self, world: World, old: DeviceClass | None, new: DeviceClass | None) -> Iterator[str]:
        """What claims count for by the name of an extended resource depends on who has that name."""
        if _extended_name(old) != _extended_name(new):
            for quota in world.of(RESOURCE_QUOTAS):
                if any(DEVICE_CLAIMS in counted_kinds(name) for name in quota.spec.hard):
                    self._counts[quota.metadata.key] = _Count()
                    yield quota.metadata.key

    def _recount(self, world: World, namespace: str, resource: str) -> Iterator[str]:
        for quota in world.within(RESOURCE_QUOTAS, namespace):
            if any(resource in counted_kinds(name) for name in quota.spec.hard):
                self._counts.setdefault(quota.metadata.key, _Count()).due = 0.0
                yield quota.metadata.key

    def gone(self, key: str, world: World) -> Actions:
        self._counts.pop(key, None)
        yield from ()

    def reconcile(self, obj: ResourceQuota, world: World) -> Actions:
        now = world.now
        count = self._counts.setdefault(obj.metadata.key, _Count())
        if obj.spec.hard != obj.status.hard or count.due <= now:
            count.due = math.inf
            try:
                yield from _count(obj, count, world)
            except Exception:
                count.due = 0.0
                raise
        elif obj.status.used != count.used:
            count.due = min(count.due, now + RESYNC_SECONDS)
        if count.due < math.inf:
            yield Requeue(count.due - now)


def _count(obj: ResourceQuota, count: _Count, world: World) -> Actions:
    counted = yield from _total(obj, count, world)
    if len(obj.spec.hard) > TURN_OBJECTS:
        yield GiveWay()
    left_alone = {name: obj.status.used[name] for name in obj.spec.hard if name in obj.status.used}
    count.used = left_alone | texts(counted)
    new = QuotaStatus(hard=obj.spec.hard, used=dict(count.used))
    if new != obj.status:
        yield Patch(RESOURCE_QUOTAS, obj, {"status": difference(obj.status, new)}, subresource="status", unchanged=True)


def _total(obj: ResourceQuota, count: _Count, world: World) -> Generator[Action, Any, Amounts]:
    """What the namespace uses of everything that the quota limits; notes when a pod's time will be up."""
    rows = {resource.qualified: resource for resource in deletable(world)}
    names_on: dict[str, list[str]] = {}
    for name in obj.spec.hard:
        for on in counted_kinds(name):
            if on in rows:
                names_on.setdefault(on, []).append(name)
    known = count.known if count.spec == obj.spec else {}
    count.spec, count.known = obj.spec, {}
    selectors = obj.spec.selectors
    turn_objects = max(1, TURN_OBJECTS // (1 + len(selectors) // _FEW_CONDITIONS))
    used: Amounts = {}
    facts = DeviceFacts(
        lambda name: _extended_name(world.get(kinds.DEVICE_CLASSES, name)),
        lambda name: _pod(world.get(kinds.PODS, f"{obj.metadata.namespace}/{name}")),
    )
    for resource, names in names_on.items():
        used = dict.fromkeys(names, ZERO) | used
        items: list[Encoded] = yield ListAll(Kind(rows[resource], Object), obj.metadata.namespace)
        if resource in _MEASURED:
            wanted = frozenset(names)
            for number, item in enumerate(items, 1):
                if number % turn_objects == 0:
                    yield GiveWay()
                amounts = known.get(item.raw)
                if amounts is None:
                    amounts = _measured(selectors, resource, wanted, item, count, world.now, facts)
                else:
                    count.known[item.raw] = amounts
                for name, amount in amounts.items():
                    used[name] = used[name] + amount
        elif not obj.spec.selectors:
            used |= dict.fromkeys(names, Quantity.of_units(len(items)))
    return used


def _measured(
    selectors: Iterable[ScopeCondition],
    resource: str,
    names: Container[str],
    item: Encoded,
    count: _Count,
    now: float,
    facts: DeviceFacts,
) -> Amounts:
    obj = item.obj()
    amounts: Amounts = {}
    if in_scope(selectors, resource, obj):
        amounts = limited(usage(resource, obj, now, facts), names)
    if resource == PODS and is_alive(obj, now) and (ends_at := _ends_at(obj)) is not None:
        count.due = min(count.due, ends_at)  # and until then it is measured each time
    elif resource != DEVICE_CLAIMS or not is_of_extended_resources(obj):  # what its pod asks for counts, too
        count.known[item.raw] = amounts
    return amounts


def _extended_name(found: DeviceClass | None) -> str:
    return (found.spec.extended_resource_name or "") if found is not None else ""


def _pod(found: Pod | None) -> Obj | None:
    """As much of it as counts for a claim of its extended resources."""
    if found is None:
        return None
    spec, status = found.spec, found.status
    raws = {"containers": spec.raw_containers, "initContainers": spec.raw_init_containers}
    told = status.raw_extended_resource_claim_status
    return {
        "metadata": {"uid": found.metadata.uid},
        "spec": {name: msgspec.json.decode(raw) for name, raw in raws.items() if raw},
        "status": {"extendedResourceClaimStatus": msgspec.json.decode(told)} if told else {},
    }


def _ends_at(pod: Obj) -> float | None:
    """From when on a pod that is being deleted does not count any more."""
    meta = metadata(pod)
    since, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    return None if since is None or grace is None else parse_timestamp(since) + float(grace) + 1


def _has_ended(old: Pod, new: Pod) -> bool:
    return new.is_finished and not old.is_finished


def _has_deadline(pod: Pod) -> bool:
    """Pods that have one are counted by other quotas than those that have none."""
    return pod.spec.active_deadline_seconds is not None


def _sizes_and_classes(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
    return claim.spec.resources, claim.status.allocated_resources, claim.attributes_classes


def _is_resized(old: Pod, new: Pod) -> bool:
    """A change of its size was begun, given up or completed by its node."""
    if _resizing(old) != _resizing(new):
        return True
    before = {status.name: status.raw_resources for status in _statuses(old)}
    return any(before.get(status.name, status.raw_resources) != status.raw_resources for status in _statuses(new))


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.container_statuses, *pod.status.init_container_statuses)


def _resizing(pod: Pod) -> tuple[str, ...]:
    return tuple(condition.type for condition in pod.status.conditions if condition.type.startswith("PodResize"))
