"""The end of a namespace: its content is removed kind by kind, then the namespace lets go of itself.

    Active ──DELETE──▶ Terminating: pods, then everything else, then `finalize` ──▶ removed

What is still there, and which finalizers keep it, is told in five conditions. Upstream looks again every few seconds;
here the last object of a kind that goes, or a finalizer that does, wakes the namespace, so one that is stuck for a week
costs nothing. Source: pkg/controller/namespace/deletion (1.36, with OrderedNamespaceDeletion).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

import msgspec

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError
from fairlead.api.meta import Object, View
from fairlead.api.namespaces import Namespace, NamespaceCondition
from fairlead.api.pods import FINISHED
from fairlead.api.resources import Resource
from fairlead.api.verbs import BACKGROUND
from fairlead.controllers.actions import Action, Actions, DeleteAll, Kind, ListAll, Requeue, Update, update_status
from fairlead.controllers.base import Controller, World
from fairlead.controllers.dynamic_informers import deletable
from fairlead.controllers.kinds import NAMESPACES
from fairlead.runtime.clock import parse_timestamp, timestamp

FINALIZER: Final = "kubernetes"

#: Type, reason and message of each condition while there is nothing to complain about; in the order of the status.
_FINE: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class _Remaining(View):
    """The part of any object, and of pods, that says for how long it may stay."""

    class Spec(View):
        termination_grace_period_seconds: int | None = None

    class Status(View):
        phase: str = ""

    class Meta(View):
        finalizers: tuple[str, ...] = ()

    metadata: Meta


class _RemainingPod(_Remaining):
    spec: _Remaining.Spec = _Remaining.Spec()
    status: _Remaining.Status = _Remaining.Status()


class _Found(msgspec.Struct):
    """What was still there after everything had been deleted."""

    instances: dict[Resource, int] = msgspec.field(default_factory=dict)
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    errors: list[str] = msgspec.field(default_factory=list)
    #: For how many seconds pods may still take their time.
    grace_seconds: float = 0.0


class Namespaces(Controller[Namespace]):
    name = "namespace-controller"
    queue_name = "namespace"
    account = "namespace-controller"
    kind = NAMESPACES
    workers = 10
    follows_everything = True

    def concerns(self, old: Namespace | None, new: Namespace | None, world: World) -> bool:
        return new is not None and new.metadata.is_terminating

    def woken_by(self, world: World, resource: Resource, old: Object | None, new: Object | None) -> Iterable[str]:
        if old is None or not old.metadata.namespace:
            return ()
        namespace = world.get(NAMESPACES, old.metadata.namespace)
        if namespace is None or not namespace.metadata.is_terminating:
            return ()
        is_last = new is None and not world.count(Kind(resource, Object), old.metadata.namespace)
        has_changed = new is not None and new.metadata.finalizers != old.metadata.finalizers
        return (old.metadata.namespace,) if is_last or has_changed else ()

    def reconcile(self, obj: Namespace, world: World) -> Actions:
        if not obj.metadata.is_terminating or not obj.spec.finalizers:
            return
        found = yield from _remove_content(obj, world)
        conditions = tuple(_conditions(obj.status.conditions, found, timestamp(world.now)))
        new = msgspec.structs.replace(obj.status, phase="Terminating", conditions=conditions)
        stored = yield from _write_status(obj, new)
        if found.errors:
            raise ApiError(", ".join(found.errors))
        if found.grace_seconds:
            yield Requeue(found.grace_seconds // 2 + 1)
        if not found.instances and FINALIZER in stored.spec.finalizers:
            yield Update(NAMESPACES, _finalized(stored), "finalize")


def _write_status(obj: Namespace, new: Any) -> Generator[Action, Any, Namespace]:
    """The namespace as it is after its status has been brought up to date."""
    outcome: Namespace = obj
    actions = update_status(NAMESPACES, obj, obj.status, new)
    for action in actions:
        stored: Encoded = yield action
        outcome = stored.view(Namespace)
    return outcome


def _finalized(obj: Namespace) -> dict[str, Any]:
    kept = [finalizer for finalizer in obj.spec.finalizers if finalizer != FINALIZER]
    fields = msgspec.json.decode(msgspec.json.encode(obj.metadata))
    meta = {name: value for name, value in fields.items() if value}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": kept}}


def _remove_content(obj: Namespace, world: World) -> Generator[Action, Any, _Found]:
    """Delete everything in the namespace; other kinds wait until its pods are gone."""
    found = _Found()
    yield from _remove(builtin.PODS, obj, world.now, found)
    if not found.instances:
        for resource in deletable(world):
            if resource.namespaced and resource.qualified != builtin.PODS.qualified:
                yield from _remove(resource, obj, world.now, found)
    return found


def _remove(resource: Resource, obj: Namespace, now: float, found: _Found) -> Generator[Action, Any, None]:
    kind, namespace = Kind(resource, Object), obj.metadata.name
    try:
        items: list[Encoded] = yield ListAll(kind, namespace)
        if items:
            yield DeleteAll(kind, namespace, BACKGROUND)
            items = yield ListAll(kind, namespace)
    except ApiError as error:
        found.errors.append(str(error))
        return
    if not items:
        return
    found.instances[resource] = len(items)
    held = [finalizer for item in items for finalizer in item.view(_Remaining).metadata.finalizers]
    found.finalizers.update(held)
    grace_seconds = _grace_seconds(items, obj, now) if resource.qualified == builtin.PODS.qualified else 0.0
    found.grace_seconds = max(found.grace_seconds, grace_seconds)
    if not held and not grace_seconds:
        shown = f"{resource.group}/{resource.version}, Resource={resource.plural}"
        found.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {shown}")


def _grace_seconds(items: Iterable[Encoded], obj: Namespace, now: float) -> float:
    """The longest that running pods may take to end; 0 once that time is over."""
    pods = (item.view(_RemainingPod) for item in items)
    grace = max((pod.spec.termination_grace_period_seconds or 0 for pod in pods if _is_running(pod)), default=0)
    deleted_at = parse_timestamp(obj.metadata.deletion_timestamp or "")
    return float(grace) if now - deleted_at < grace else 0.0


def _is_running(pod: _RemainingPod) -> bool:
    return pod.status.phase not in FINISHED


def _conditions(old: Iterable[NamespaceCondition], found: _Found, now: str) -> Iterator[NamespaceCondition]:
    """The five conditions; one that says what it said before keeps its time."""
    known = {condition.type: condition for condition in old}
    complaints = dict(_complaints(found))
    for type_, fine_reason, fine_message in _FINE:
        reason, message = complaints.get(type_, (fine_reason, fine_message))
        status = "True" if type_ in complaints else "False"
        before = known.pop(type_, None)
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            yield before
        else:
            yield NamespaceCondition(
                type=type_, status=status, reason=reason, message=message, last_transition_time=now
            )
    yield from known.values()


def _complaints(found: _Found) -> Iterator[tuple[str, tuple[str, str]]]:
    if found.errors:
        listed = ", ".join(sorted(found.errors))
        text = f"Failed to delete all resource types, {len(found.errors)} remaining: {listed}"
        yield "NamespaceDeletionContentFailure", ("ContentDeletionFailed", text)
    if found.instances:
        remaining = (
            f"{resource.plural}.{resource.group} has {count} resource instances"
            for resource, count in found.instances.items()
        )
        text = f"Some resources are remaining: {', '.join(sorted(remaining))}"
        yield "NamespaceContentRemaining", ("SomeResourcesRemain", text)
    if found.finalizers:
        remaining = (f"{name} in {count} resource instances" for name, count in sorted(found.finalizers.items()))
        text = f"Some content in the namespace has finalizers remaining: {', '.join(remaining)}"
        yield "NamespaceFinalizersRemaining", ("SomeFinalizersRemain", text)
