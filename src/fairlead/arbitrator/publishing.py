"""What the arbitrator writes: Allocations and the status of groups; only what says something new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead.api.conditions import with_condition
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.amounts import REQUESTS, written
from fairlead.arbitrator.books import Books, total
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMER_GROUPS, THE_NAME, Allocation, Consumer
from fairlead.arbitrator.outcomes import Outcome, told
from fairlead.client.informer import Informer
from fairlead.runtime import clock


@dataclass(frozen=True, slots=True)
class Notice:
    """That pods must go, and when."""

    deadline: float
    victims: Sequence[Pod]
    beneficiaries: Sequence[str]

    def encode(self) -> Obj:
        victims = [{"name": pod.metadata.name, "uid": pod.metadata.uid} for pod in self.victims]
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


class Publisher:
    """Keeps the Allocations and groups as the last cycle found them."""

    def __init__(self, api: Api, allocations: Informer[Allocation], books: Books) -> None:
        self._api, self._allocations, self._books = api, allocations, books
        self._written: dict[str, Obj] = {}
        self._groups: dict[str, Obj] = {}
        self._versions: dict[str, str] = {}
        self._overused_since: dict[str, str] = {}

    async def publish(self, report: Report, prefix: str = REQUESTS) -> None:
        """Write the Allocation, if it says something new."""
        consumer, namespace = report.consumer, report.consumer.metadata.namespace
        status = self._status(namespace, report, prefix)
        spec = {"hard": consumer.spec.hard, "reserved": consumer.spec.reserved, "deserved": status["deserved"]}
        now: Obj = {"spec": spec, "status": status}
        if self._written.get(namespace) == now:
            return
        try:
            await self._write(namespace, now)
        except NotFound:  # the namespace is going
            self._written.pop(namespace, None)
            return
        self._written[namespace] = now

    async def confirm(self, namespace: str) -> bool:
        """Whether the Allocation is still as it was written here. If not, another arbitrator is at work."""
        test = [{"op": "test", "path": "/metadata/resourceVersion", "value": self._versions.get(namespace, "")}]
        status = {"op": "add", "path": "/status", "value": self._written.get(namespace, {}).get("status", {})}
        try:
            await self._patch(namespace, [*test, status], "status")
        except ApiError:
            self._written.pop(namespace, None)
            return False
        return True

    async def publish_group(self, name: str, outcome: Outcome, prefix: str = REQUESTS) -> None:
        """Write the status of a group."""
        amounts = {"request": outcome.request, "deserved": outcome.deserved, "used": outcome.used}
        status = {key: written(value, prefix) for key, value in amounts.items()}
        if self._groups.get(name) == status:
            return
        patch = [{"op": "add", "path": "/status", "value": status}]
        try:
            await self._api.patch(CONSUMER_GROUPS, name, "", patch, PatchType.JSON, subresource="status")
        except NotFound:
            return
        self._groups[name] = status

    def forget(self) -> None:
        """Write everything anew: nobody knows what is there."""
        self._written.clear()
        self._groups.clear()

    def _status(self, namespace: str, report: Report, prefix: str) -> Obj:
        known = self._allocations.get(f"{namespace}/{THE_NAME}")
        stored = [msgspec.to_builtins(one) for one in known.status.conditions] if known is not None else []
        before = self._written.get(namespace, {}).get("status", {}).get("conditions", stored)
        status = told(report.outcome, prefix) | {
            "overusedSince": self._since(namespace, report.outcome, known),
            "reclaiming": written(self._reclaiming(namespace, report), prefix),
            "proposal": report.notice.encode() if report.notice else None,
        }
        conditions: list[Obj] = [one for one in before if one.get("type") in _TYPES]
        for condition in _conditions(report, prefix):
            conditions = with_condition(conditions, condition, clock.timestamp())
        return status | {"conditions": conditions}

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
        return self._overused_since.setdefault(namespace, before or clock.timestamp())

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
        self._versions[namespace] = found.view(Allocation).metadata.resource_version


_TYPES: Final = frozenset({"Overused", "ReservedUnsatisfiable", "ReclaimBlocked", "HardAboveQuota"})


def _conditions(report: Report, prefix: str) -> list[Obj]:
    outcome = report.outcome
    over = ", ".join(f"{name} by {amount}" for name, amount in written(outcome.over, prefix).items())
    short = "the cluster has less than is reserved; every guarantee is cut in proportion"
    clamped = f"the ResourceQuotas of the namespace allow less than hard of {', '.join(outcome.clamped)}"
    return [
        _condition("Overused", "UsesMoreThanDeserved" if outcome.over else "", f"uses too much of {over}"),
        _condition("ReservedUnsatisfiable", "" if outcome.is_reserved_met else "NotEnough", short),
        _condition("ReclaimBlocked", *(report.blocked or ("", ""))),
        _condition("HardAboveQuota", "QuotaIsLower" if outcome.clamped else "", clamped),
    ]


def _condition(type_: str, reason: str, message: str) -> Obj:
    """True for a reason, or False."""
    if reason:
        return {"type": type_, "status": "True", "reason": reason, "message": message}
    return {"type": type_, "status": "False", "reason": "AsItShouldBe", "message": ""}
