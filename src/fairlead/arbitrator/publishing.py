"""Writes Allocations and the status of groups, if they changed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.api.conditions import with_condition
from fairlead.api.errors import ApiError, Forbidden, NotFound, is_namespace_terminating
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.amounts import REQUESTS, format_amounts
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    THE_NAME,
    Allocation,
    Consumer,
    ConsumerGroup,
)
from fairlead.arbitrator.outcomes import ShareOutcome, encode_amounts
from fairlead.arbitrator.trials import ReclaimBackOff
from fairlead.client.informer import Informer
from fairlead.runtime import clock


class EvictionNotice(msgspec.Struct, frozen=True):
    """Which pods of a namespace will be evicted, when, and for whom."""

    #: Of each victim, by uid.
    deadlines: Mapping[str, float]
    victims: Sequence[Pod]
    beneficiaries: Sequence[str]

    @property
    def deadline(self) -> float:
        """When the first of them is evicted."""
        return min(self.deadlines.values())

    def encode(self) -> Obj:
        victims = [
            {
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
                "deadline": clock.timestamp(self.deadlines[pod.metadata.uid]),
            }
            for pod in self.victims
        ]
        return {
            "deadline": clock.timestamp(self.deadline),
            "victims": victims,
            "beneficiaries": list(self.beneficiaries),
        }


class AllocationReport(msgspec.Struct, frozen=True):
    """What the Allocation of one namespace shows."""

    consumer: Consumer
    outcome: ShareOutcome
    notice: EvictionNotice | None = None
    #: Why nothing can be taken back: reason and message.
    blocked: tuple[str, str] | None = None
    #: Set if what was taken back for it did not help.
    back_off: ReclaimBackOff | None = None


class _PublishedObjects:
    """What we wrote to the objects of one kind, by key, and whether somebody else changed it since."""

    def __init__(self, informer: Informer[Allocation] | Informer[ConsumerGroup]) -> None:
        self._informer = informer
        self.bodies: dict[str, Obj] = {}
        self.versions: dict[str, str] = {}
        #: The keys of those that somebody else has written or deleted since.
        self.edited: set[str] = set()
        self._changed: set[str] = set()
        informer.subscribe(self._on_event)

    def _on_event(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self._changed.add(obj.metadata.key)

    def has_been_edited(self) -> bool:
        """Whether somebody else has written or deleted any since."""
        changed, self._changed = self._changed, set()
        edited = [key for key in changed if key in self.bodies and self._is_edited(key)]
        self.edited.update(edited)
        return bool(edited)

    def is_current(self, key: str, body: Obj) -> bool:
        """Whether the server has that body already."""
        return key not in self.edited and self.bodies.get(key) == body

    def record(self, key: str, body: Obj) -> None:
        """That body was written."""
        self.bodies[key] = body
        self.edited.discard(key)

    def forget(self, key: str) -> None:
        """What the server has is unknown: write it next time."""
        self.bodies.pop(key, None)
        self.edited.discard(key)

    def retain(self, keys: Container[str]) -> None:
        """Forget all other keys."""
        for key in [key for key in self.versions if key not in keys]:
            self.forget(key)
            del self.versions[key]

    def _is_edited(self, key: str) -> bool:
        """The event may be older than our last write, so the versions are compared."""
        known = self._informer.get(key)
        return known is None or int(known.metadata.resource_version) > int(self.versions[key])


class Publisher:
    """Keeps Allocations and the status of groups as the last cycle decided them."""

    def __init__(
        self, api: Api, allocations: Informer[Allocation], groups: Informer[ConsumerGroup], accounting: Accounting
    ) -> None:
        self._api, self._allocations, self._accounting = api, allocations, accounting
        self._written, self._groups = _PublishedObjects(allocations), _PublishedObjects(groups)
        self._overused_since: dict[str, str] = {}

    async def publish(self, report: AllocationReport, prefix: str = REQUESTS) -> None:
        """Write the Allocation, if it changed."""
        consumer, namespace = report.consumer, report.consumer.metadata.namespace
        status = self._status(namespace, report, prefix)
        spec = {"hard": consumer.spec.hard, "reserved": consumer.spec.reserved, "deserved": status["deserved"]}
        now: Obj = {"spec": spec, "status": status}
        key = _key(namespace)
        if self._written.is_current(key, now):
            return
        try:
            await self._write(namespace, now)
        except (NotFound, Forbidden) as error:
            if isinstance(error, NotFound) or is_namespace_terminating(error):
                self._written.forget(key)
                return
            raise
        self._written.record(key, now)

    async def confirm(self, namespace: str) -> bool:
        """Whether the Allocation is still as it was written here. If not, another arbitrator is at work."""
        published, key = self._written, _key(namespace)
        test = [{"op": "test", "path": "/metadata/resourceVersion", "value": published.versions.get(key, "")}]
        status = {"op": "add", "path": "/status", "value": published.bodies.get(key, {}).get("status", {})}
        try:
            await self._patch(namespace, [*test, status], "status")
        except ApiError:
            published.forget(key)
            return False
        return True

    async def publish_group(self, name: str, outcome: ShareOutcome, prefix: str = REQUESTS) -> None:
        """Write the status of a group."""
        amounts = {"request": outcome.request, "deserved": outcome.deserved, "used": outcome.used}
        status = {key: format_amounts(value, prefix) for key, value in amounts.items()}
        if self._groups.is_current(name, status):
            return
        patch = [{"op": "add", "path": "/status", "value": status}]
        try:
            found = await self._api.patch(CONSUMER_GROUPS, name, "", patch, PatchType.JSON, subresource="status")
        except NotFound:
            self._groups.forget(name)
            return
        self._groups.record(name, status)
        self._groups.versions[name] = found.view(ConsumerGroup).metadata.resource_version

    def forget(self) -> None:
        """Write everything anew in the next cycle: what the server has is unknown."""
        self._written.bodies.clear()
        self._groups.bodies.clear()

    def has_been_edited(self) -> bool:
        """Whether somebody else changed what was published; the next `publish` puts it right (S2-18)."""
        has_edited_group = self._groups.has_been_edited()
        return self._written.has_been_edited() or has_edited_group

    def retain(self, namespaces: Iterable[str], groups: Container[str]) -> None:
        """Forget all other namespaces and groups."""
        self._written.retain(frozenset(map(_key, namespaces)))
        self._groups.retain(groups)

    def _status(self, namespace: str, report: AllocationReport, prefix: str) -> Obj:
        known = self._allocations.get(_key(namespace))
        status = encode_amounts(report.outcome, prefix) | {
            "overusedSince": self._since(namespace, report.outcome, known),
            "reclaiming": format_amounts(self._reclaiming(namespace, report), prefix),
            "proposal": report.notice.encode() if report.notice else None,
            "backOff": report.back_off.encode() if report.back_off and report.back_off.failures else None,
        }
        conditions = self._conditions_before(_key(namespace), known)
        for condition in _conditions(report, prefix):
            conditions = with_condition(conditions, condition, clock.timestamp())
        return status | {"conditions": conditions}

    def _conditions_before(self, key: str, known: Allocation | None) -> list[Obj]:
        """The conditions as we wrote them last, with the earlier of the transition times where another arbitrator wrote
        the same condition since: otherwise two active arbitrators would overwrite each other for ever.
        """
        stored = {
            condition.type: msgspec.to_builtins(condition)
            for condition in (known.status.conditions if known is not None else ())
            if condition.type in _TYPES
        }
        own: list[Obj] | None = self._written.bodies.get(key, {}).get("status", {}).get("conditions")
        if own is None or key not in self._written.edited:
            return own if own is not None else list(stored.values())
        return [
            condition | {"lastTransitionTime": min(condition["lastTransitionTime"], there["lastTransitionTime"])}
            if (there := stored.get(condition["type"]))
            and there["status"] == condition["status"]
            and there.get("lastTransitionTime")
            else condition
            for condition in own
        ]

    def _reclaiming(self, namespace: str, report: AllocationReport) -> Mapping[str, int]:
        """What victims on notice and terminating pods hold."""
        amounts = dict(self._accounting.account(namespace).leaving.amounts)
        for pod in report.notice.victims if report.notice else ():
            for name, amount in self._accounting.vector(pod):
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if name in report.outcome.deserved}

    def _since(self, namespace: str, outcome: ShareOutcome, known: Allocation | None) -> str | None:
        if not outcome.over:
            self._overused_since.pop(namespace, None)
            return None
        before = known.status.overused_since if known is not None else None
        since = min(self._overused_since.get(namespace) or clock.timestamp(), before or clock.timestamp())
        self._overused_since[namespace] = since
        return since

    async def _write(self, namespace: str, now: Obj) -> None:
        try:
            await self._patch(namespace, [{"op": "add", "path": "/spec", "value": now["spec"]}])
        except NotFound:
            metadata = {"name": THE_NAME, "namespace": namespace}
            await self._api.create(ALLOCATIONS, {"metadata": metadata, "spec": now["spec"]}, namespace)
        await self._patch(namespace, [{"op": "add", "path": "/status", "value": now["status"]}], "status")

    async def _patch(self, namespace: str, patch: list[Obj], subresource: str = "") -> None:
        """Replaces spec or status as a whole, so that fields that are gone do not stay."""
        found = await self._api.patch(ALLOCATIONS, THE_NAME, namespace, patch, PatchType.JSON, subresource=subresource)
        self._written.versions[_key(namespace)] = found.view(Allocation).metadata.resource_version


def _key(namespace: str) -> str:
    return f"{namespace}/{THE_NAME}"


_TYPES: Final = frozenset({"Overused", "ReservedUnsatisfiable", "ReclaimBlocked", "ReclaimFutile", "HardAboveQuota"})


def _conditions(report: AllocationReport, prefix: str) -> list[Obj]:
    outcome = report.outcome
    over = ", ".join(f"{name} by {amount}" for name, amount in format_amounts(outcome.over, prefix).items())
    short = "the cluster has less than is reserved; every guarantee is cut in proportion"
    clamped = f"the ResourceQuotas of the namespace allow less than hard of {', '.join(outcome.clamped)}"
    return [
        _condition("Overused", "UsesMoreThanDeserved" if outcome.over else "", f"uses too much of {over}"),
        _condition("ReservedUnsatisfiable", "" if outcome.is_reserved_met else "NotEnough", short),
        _condition("ReclaimBlocked", *(report.blocked or ("", ""))),
        _condition("ReclaimFutile", *_futile(report.back_off)),
        _condition("HardAboveQuota", "QuotaIsLower" if outcome.clamped else "", clamped),
    ]


def _futile(back_off: ReclaimBackOff | None) -> tuple[str, str]:
    return ("OthersTookTheRoom", futility(back_off)) if back_off is not None and back_off.failures else ("", "")


def futility(back_off: ReclaimBackOff) -> str:
    """The message that reclaiming for a namespace does not help, and what would."""
    times = "" if back_off.failures == 1 else f", {back_off.failures} times in a row"
    return (
        f"room was made for {back_off.beneficiary}, and others took it{times}; nothing more is taken back for its "
        f"namespace before {clock.timestamp(back_off.until)}. Do all schedulers ask the arbitrator, or are pods gated?"
    )


def _condition(type_: str, reason: str, message: str) -> Obj:
    """A condition that is True if there is a reason, else False."""
    if reason:
        return {"type": type_, "status": "True", "reason": reason, "message": message}
    return {"type": type_, "status": "False", "reason": "AsItShouldBe", "message": ""}
