"""What the arbitrator writes: Allocations and the status of groups; only what says something new."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead.api.conditions import with_condition
from fairlead.api.errors import ApiError, Forbidden, NotFound, is_namespace_terminating
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.amounts import REQUESTS, written
from fairlead.arbitrator.books import Books, total
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    THE_NAME,
    Allocation,
    Consumer,
    ConsumerGroup,
)
from fairlead.arbitrator.outcomes import Outcome, told
from fairlead.arbitrator.trials import Caution
from fairlead.client.informer import Informer
from fairlead.runtime import clock


@dataclass(frozen=True, slots=True)
class Notice:
    """That pods must go, and when."""

    #: Of each victim, by uid.
    deadlines: Mapping[str, float]
    victims: Sequence[Pod]
    beneficiaries: Sequence[str]

    @property
    def deadline(self) -> float:
        """When the first of them goes."""
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


@dataclass(frozen=True, slots=True)
class Report:
    """All that is said of one namespace."""

    consumer: Consumer
    outcome: Outcome
    notice: Notice | None = None
    #: Why nothing can be taken back: reason and message.
    blocked: tuple[str, str] | None = None
    #: What was taken back for it did not help.
    caution: Caution | None = None


class _Written:
    """What was written to the objects of one kind, by key, and whether that is still there."""

    def __init__(self, informer: Informer[Allocation] | Informer[ConsumerGroup]) -> None:
        self._informer = informer
        self.said: dict[str, Obj] = {}
        self.versions: dict[str, str] = {}
        #: The keys of those that somebody else has written or deleted since.
        self.edited: set[str] = set()
        self._heard: set[str] = set()
        informer.subscribe(self._hear)

    def _hear(self, old: Object | None, new: Object | None) -> None:
        either = new or old
        assert either is not None
        self._heard.add(either.metadata.key)

    def has_been_edited(self) -> bool:
        """Whether somebody else has written or deleted any since."""
        heard, self._heard = self._heard, set()
        edited = [key for key in heard if key in self.said and self._is_edited(key)]
        self.edited.update(edited)
        return bool(edited)

    def says(self, key: str, now: Obj) -> bool:
        """Whether that is there already."""
        return key not in self.edited and self.said.get(key) == now

    def wrote(self, key: str, now: Obj) -> None:
        self.said[key] = now
        self.edited.discard(key)

    def forget(self, key: str) -> None:
        """It is not known what is there."""
        self.said.pop(key, None)
        self.edited.discard(key)

    def retain(self, keys: Container[str]) -> None:
        """The others are gone."""
        for key in [key for key in self.versions if key not in keys]:
            self.forget(key)
            del self.versions[key]

    def _is_edited(self, key: str) -> bool:
        """What is heard may be older than what was written last."""
        known = self._informer.get(key)
        return known is None or int(known.metadata.resource_version) > int(self.versions[key])


class Publisher:
    """Keeps the Allocations and groups as the last cycle found them."""

    def __init__(
        self, api: Api, allocations: Informer[Allocation], groups: Informer[ConsumerGroup], books: Books
    ) -> None:
        self._api, self._allocations, self._books = api, allocations, books
        self._written, self._groups = _Written(allocations), _Written(groups)
        self._overused_since: dict[str, str] = {}

    async def publish(self, report: Report, prefix: str = REQUESTS) -> None:
        """Write the Allocation, if it says something new."""
        consumer, namespace = report.consumer, report.consumer.metadata.namespace
        status = self._status(namespace, report, prefix)
        spec = {"hard": consumer.spec.hard, "reserved": consumer.spec.reserved, "deserved": status["deserved"]}
        now: Obj = {"spec": spec, "status": status}
        key = _key(namespace)
        if self._written.says(key, now):
            return
        try:
            await self._write(namespace, now)
        except (NotFound, Forbidden) as error:
            if isinstance(error, NotFound) or is_namespace_terminating(error):
                self._written.forget(key)
                return
            raise
        self._written.wrote(key, now)

    async def confirm(self, namespace: str) -> bool:
        """Whether the Allocation is still as it was written here. If not, another arbitrator is at work."""
        written, key = self._written, _key(namespace)
        test = [{"op": "test", "path": "/metadata/resourceVersion", "value": written.versions.get(key, "")}]
        status = {"op": "add", "path": "/status", "value": written.said.get(key, {}).get("status", {})}
        try:
            await self._patch(namespace, [*test, status], "status")
        except ApiError:
            written.forget(key)
            return False
        return True

    async def publish_group(self, name: str, outcome: Outcome, prefix: str = REQUESTS) -> None:
        """Write the status of a group."""
        amounts = {"request": outcome.request, "deserved": outcome.deserved, "used": outcome.used}
        status = {key: written(value, prefix) for key, value in amounts.items()}
        if self._groups.says(name, status):
            return
        patch = [{"op": "add", "path": "/status", "value": status}]
        try:
            found = await self._api.patch(CONSUMER_GROUPS, name, "", patch, PatchType.JSON, subresource="status")
        except NotFound:
            self._groups.forget(name)
            return
        self._groups.wrote(name, status)
        self._groups.versions[name] = found.view(ConsumerGroup).metadata.resource_version

    def forget(self) -> None:
        """Write everything anew: nobody knows what is there."""
        self._written.said.clear()
        self._groups.said.clear()

    def has_been_edited(self) -> bool:
        """Whether what was published is not there any more; the next to publish puts that right (S2-18)."""
        has_edited_group = self._groups.has_been_edited()
        return self._written.has_been_edited() or has_edited_group

    def retain(self, namespaces: Iterable[str], groups: Container[str]) -> None:
        """Nothing is published about others any more."""
        self._written.retain(frozenset(map(_key, namespaces)))
        self._groups.retain(groups)

    def _status(self, namespace: str, report: Report, prefix: str) -> Obj:
        known = self._allocations.get(_key(namespace))
        status = told(report.outcome, prefix) | {
            "overusedSince": self._since(namespace, report.outcome, known),
            "reclaiming": written(self._reclaiming(namespace, report), prefix),
            "proposal": report.notice.encode() if report.notice else None,
            "backOff": report.caution.encode() if report.caution and report.caution.failures else None,
        }
        conditions = self._conditions_before(_key(namespace), known)
        for condition in _conditions(report, prefix):
            conditions = with_condition(conditions, condition, clock.timestamp())
        return status | {"conditions": conditions}

    def _conditions_before(self, key: str, known: Allocation | None) -> list[Obj]:
        """Those that were written here. Of what another arbitrator has written since, the earlier times count: two that
        are at work would put each other right for ever.
        """
        stored = {
            condition.type: msgspec.to_builtins(condition)
            for condition in (known.status.conditions if known is not None else ())
            if condition.type in _TYPES
        }
        own: list[Obj] | None = self._written.said.get(key, {}).get("status", {}).get("conditions")
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

    def _reclaiming(self, namespace: str, report: Report) -> Mapping[str, int]:
        """What the victims hold, and those that are on their way out."""
        amounts = total(self._books.account(namespace).leaving)
        for pod in report.notice.victims if report.notice else ():
            for name, amount in self._books.kind(pod):
                amounts[name] = amounts.get(name, 0) + amount
        return {name: amount for name, amount in amounts.items() if name in report.outcome.deserved}

    def _since(self, namespace: str, outcome: Outcome, known: Allocation | None) -> str | None:
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
        """As a whole: what is not said any more must not stay."""
        found = await self._api.patch(ALLOCATIONS, THE_NAME, namespace, patch, PatchType.JSON, subresource=subresource)
        self._written.versions[_key(namespace)] = found.view(Allocation).metadata.resource_version


def _key(namespace: str) -> str:
    return f"{namespace}/{THE_NAME}"


_TYPES: Final = frozenset({"Overused", "ReservedUnsatisfiable", "ReclaimBlocked", "ReclaimFutile", "HardAboveQuota"})


def _conditions(report: Report, prefix: str) -> list[Obj]:
    outcome = report.outcome
    over = ", ".join(f"{name} by {amount}" for name, amount in written(outcome.over, prefix).items())
    short = "the cluster has less than is reserved; every guarantee is cut in proportion"
    clamped = f"the ResourceQuotas of the namespace allow less than hard of {', '.join(outcome.clamped)}"
    return [
        _condition("Overused", "UsesMoreThanDeserved" if outcome.over else "", f"uses too much of {over}"),
        _condition("ReservedUnsatisfiable", "" if outcome.is_reserved_met else "NotEnough", short),
        _condition("ReclaimBlocked", *(report.blocked or ("", ""))),
        _condition("ReclaimFutile", *_futile(report.caution)),
        _condition("HardAboveQuota", "QuotaIsLower" if outcome.clamped else "", clamped),
    ]


def _futile(caution: Caution | None) -> tuple[str, str]:
    return ("OthersTookTheRoom", futility(caution)) if caution is not None and caution.failures else ("", "")


def futility(caution: Caution) -> str:
    """That it does not help to take anything back for a namespace, and what would."""
    times = "" if caution.failures == 1 else f", {caution.failures} times in a row"
    return (
        f"room was made for {caution.beneficiary}, and others took it{times}; nothing more is taken back for its "
        f"namespace before {clock.timestamp(caution.until)}. Do all schedulers ask the arbitrator, or are pods gated?"
    )


def _condition(type_: str, reason: str, message: str) -> Obj:
    """True for a reason, or False."""
    if reason:
        return {"type": type_, "status": "True", "reason": reason, "message": message}
    return {"type": type_, "status": "False", "reason": "AsItShouldBe", "message": ""}
