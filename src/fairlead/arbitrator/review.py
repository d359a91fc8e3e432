"""Validates objects of the arbitrator's kinds against the rest of the cluster.

Pure: an object and a context in, field errors and warnings out. Our own server calls it in its admission chain, a real
one through a validating webhook. A value that this write does not change is accepted: quotas may have been lowered and
nodes removed since (S2-48), and the Consumer must still be editable then.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from fairlead.api.fields import Errors, quoted
from fairlead.api.names import qualified_name
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj, name_of, namespace_of
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.arbitrator.amount_rules import Amount, checked, full_name, node_resource
from fairlead.arbitrator.group_tree import MOST_LEVELS, GroupTree, circle_of
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    POLICIES,
    THE_NAME,
    AllocationSpec,
    Consumer,
    ConsumerGroup,
    ConsumerSpec,
    PolicySpec,
    ShareSpec,
)
from fairlead.golang.durations import non_negative_seconds

#: The ArbitratorPolicy that counts, of all that there may be.
POLICY_NAME: Final = "default"
NOT_THE_ARBITRATOR: Final = "only the arbitrator writes Allocations: say what you want in the namespace's Consumer"
_NOT_SHARED: Final = "pods"

Spec = TypeVar("Spec", ShareSpec, ConsumerSpec, PolicySpec, AllocationSpec)


@dataclass(frozen=True)
class ReviewContext:
    """The rest of the cluster, as functions: a review reads only what it needs."""

    nodes: Callable[[], Iterable[Node]]
    consumers: Callable[[], Iterable[Consumer]]
    groups: Callable[[], Iterable[ConsumerGroup]]
    #: Those of one namespace.
    quotas: Callable[[str], Iterable[ResourceQuota]]
    #: Whether ResourceQuota admission is on, so that guarantees together must exist (S2-15).
    counts_quotas: bool = True

    def capacity(self) -> dict[str, Quantity]:
        """What the nodes that take pods have together."""
        total: dict[str, Quantity] = {}
        for node in self.nodes():
            if node.is_open:
                for name, text in node.status.allocatable.items():
                    if name != _NOT_SHARED:
                        total[name] = total.get(name, ZERO) + parse(text)
        return total


class Review(msgspec.Struct, frozen=True):
    """The findings of one review."""

    errors: Errors = msgspec.field(default_factory=Errors)
    warnings: list[str] = msgspec.field(default_factory=list)


def review(obj: Obj, old: Obj | None, context: ReviewContext) -> Review:
    """Reviews an object of one of our kinds; `old` is the object that it replaces."""
    found = Review()
    if old is not None and obj.get("spec") == old.get("spec"):
        return found
    rules = _RULES.get(obj.get("kind", ""))
    if rules is not None:
        try:
            rules(_Subject(obj, old, context, found))
        except msgspec.ValidationError as error:  # only where the schema does not check first
            found.errors.invalid_omitted("spec", str(error))
    return found


@dataclass(frozen=True)
class _Subject:
    """What is being reviewed."""

    obj: Obj
    old: Obj | None
    context: ReviewContext
    found: Review

    @property
    def errors(self) -> Errors:
        return self.found.errors

    @cached_property
    def capacity(self) -> dict[str, Quantity]:
        return self.context.capacity()

    def spec(self, type_: type[Spec]) -> Spec:
        return msgspec.convert(self.obj.get("spec") or {}, type_)

    def new_names(self, field_: str) -> set[str]:
        """The full names of the amounts that this write sets or changes."""
        before, after = _texts(self.old, field_), _texts(self.obj, field_)
        return {name for name, text in after.items() if before.get(name) != text}

    def amounts(self, amounts: Mapping[str, str | int] | None, field_: str) -> dict[str, Amount]:
        return checked(amounts, f"spec.{field_}", (), self.errors)

    def whole(self, name: str, *amounts: Amount) -> Quantity | None:
        """The cluster's capacity of that resource; looked up only if one of the amounts is a percentage."""
        return self.capacity.get(node_resource(name)) if any(amount.is_percentage for amount in amounts) else None


def _texts(obj: Obj | None, field_: str) -> dict[str, str]:
    """The amounts of a field as they are written, by full name."""
    amounts = ((obj or {}).get("spec") or {}).get(field_) or {}
    return {full_name(name): str(text) for name, text in amounts.items()}


def _review_consumer(subject: _Subject) -> None:
    spec = subject.spec(ConsumerSpec)
    _check_name(subject)
    hard, reserved = _check_share(subject, spec)
    _check_quotas(subject, hard)
    _check_sum(subject, reserved)
    _check_duration("evictionGrace", spec.eviction_grace, subject.errors)
    _check_duration("minRuntime", spec.min_runtime, subject.errors)
    _warn_of_parent(subject, spec.parent)


def _review_group(subject: _Subject) -> None:
    spec = subject.spec(ShareSpec)
    _check_share(subject, spec)
    _check_place(subject, spec.parent)
    if spec.parent != name_of(subject.obj):
        _warn_of_parent(subject, spec.parent)


def _review_policy(subject: _Subject) -> None:
    spec, errors = subject.spec(PolicySpec), subject.errors
    if _check_duration("cycle", spec.cycle, errors) == 0:
        errors.invalid("spec.cycle", spec.cycle, "must be greater than 0")
    if spec.max_evictions_per_cycle < 0:
        errors.invalid("spec.maxEvictionsPerCycle", spec.max_evictions_per_cycle, "must be greater than or equal to 0")
    before = set[str]()
    for number, name in enumerate(spec.resources):
        _check_counted(f"spec.resources[{number}]", name, before, errors)
        before.add(name)
    for key in sorted(spec.node_selector):
        for text in qualified_name(key):
            errors.invalid("spec.nodeSelector", key, text)
    if (name := name_of(subject.obj)) != POLICY_NAME:
        subject.found.warnings.append(f"ArbitratorPolicy {quoted(name)} has no effect: only {POLICY_NAME!r} counts")


def _review_allocation(subject: _Subject) -> None:
    """Only fixed amounts are compared: the capacity that percentages refer to may just have changed."""
    spec = subject.spec(AllocationSpec)
    _check_name(subject)
    hard = checked(spec.hard, "spec.hard", (), Errors())  # a copy: the Consumer answers for it
    deserved = checked(spec.deserved, "spec.deserved", _Offered(subject), subject.errors)
    for name, amount in deserved.items():
        if name in hard and amount.exceeds(hard[name], None):
            subject.errors.invalid(amount.path, amount.text, f"must be less than or equal to hard ({hard[name].text})")


class _Offered:
    """The resources of the nodes; looked up only for names that quotas do not know."""

    def __init__(self, subject: _Subject) -> None:
        self._subject = subject

    def __contains__(self, name: object) -> bool:
        return name in self._subject.capacity


_RULES: Mapping[str, Callable[[_Subject], None]] = {
    CONSUMERS.kind: _review_consumer,
    CONSUMER_GROUPS.kind: _review_group,
    POLICIES.kind: _review_policy,
    ALLOCATIONS.kind: _review_allocation,
}


def _check_name(subject: _Subject) -> None:
    if (name := name_of(subject.obj)) != THE_NAME:
        kind = subject.obj["kind"]
        subject.errors.invalid("metadata.name", name, f"must be {THE_NAME!r}: a namespace has one {kind}")


def _check_share(subject: _Subject, spec: ShareSpec) -> tuple[dict[str, Amount], dict[str, Amount]]:
    """Checks what Consumers and ConsumerGroups have in common; returns the valid `hard` and `reserved`."""
    hard, reserved = subject.amounts(spec.hard, "hard"), subject.amounts(spec.reserved, "reserved")
    for name, amount in reserved.items():
        if name in hard and amount.exceeds(hard[name], subject.whole(name, amount, hard[name])):
            subject.errors.invalid(amount.path, amount.text, f"must be less than or equal to hard ({hard[name].text})")
    if spec.weight < 0:
        subject.errors.invalid("spec.weight", spec.weight, "must be greater than or equal to 0")
    return hard, reserved


def _check_quotas(subject: _Subject, hard: Mapping[str, Amount]) -> None:
    """`hard` above the namespace's ResourceQuota would promise what the quota refuses (S2-13)."""
    fresh = subject.new_names("hard")
    for quota in subject.context.quotas(namespace_of(subject.obj)) if hard else ():
        if quota.spec.selectors:
            continue  # it is about some pods only
        for short, text in sorted(quota.spec.hard.items()):
            for name, limit in checked({short: text}, "", (), Errors()).items():
                amount = hard.get(name)
                if amount is None or name not in fresh:
                    continue
                if amount.exceeds(limit, subject.whole(name, amount)):
                    why = f"must be less than or equal to {text}, of ResourceQuota {quota.metadata.name}"
                    subject.errors.invalid(amount.path, amount.text, why)


def _check_sum(subject: _Subject, reserved: Mapping[str, Amount]) -> None:
    """All guarantees together must fit into the cluster (S2-15). Not checked while it has no nodes."""
    names = subject.new_names("reserved")
    fresh = {name: amount for name, amount in reserved.items() if node_resource(name) and name in names}
    if not fresh or not subject.context.counts_quotas or not subject.capacity:
        return
    reserved_elsewhere = _reserved_by_others(subject)
    for name, amount in fresh.items():
        whole = subject.capacity.get(node_resource(name), ZERO)
        total = reserved_elsewhere.get(name, ZERO) + (amount.of(whole) or ZERO)
        if total > whole and amount.number:
            why = f"all Consumers together would have {total} reserved, the cluster has {whole}"
            subject.errors.invalid(amount.path, amount.text, why)


def _reserved_by_others(subject: _Subject) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for consumer in subject.context.consumers():
        if consumer.metadata.namespace == namespace_of(subject.obj) or not consumer.spec.reserved:
            continue
        for name, amount in checked(consumer.spec.reserved, "", (), Errors()).items():
            total[name] = total.get(name, ZERO) + (amount.of(subject.capacity.get(node_resource(name))) or ZERO)
    return total


def _check_place(subject: _Subject, parent: str) -> None:
    """A group is in no circle, and not too deep, nor are those below it."""
    name = name_of(subject.obj)
    if not parent:
        return
    if parent == name:
        subject.errors.invalid("spec.parent", parent, "must not be the group itself")
        return
    named = {group.metadata.name: group.spec.parent for group in subject.context.groups()}
    circle = circle_of(name, named | {name: parent})
    if name in circle:
        subject.errors.invalid("spec.parent", parent, f"makes a circle: {' in '.join([*circle, name])}")
        return
    tree = GroupTree(named | {name: ""})
    levels = tree.level(parent) + tree.height(name)
    if levels > MOST_LEVELS:
        subject.errors.invalid("spec.parent", parent, f"makes {levels} levels of groups: at most {MOST_LEVELS} may be")


def _warn_of_parent(subject: _Subject, parent: str) -> None:
    """A missing parent is no error: it may be created later, and the cluster takes its place until then."""
    if parent and all(group.metadata.name != parent for group in subject.context.groups()):
        subject.found.warnings.append(f"spec.parent: there is no ConsumerGroup {quoted(parent)} yet")


def _check_duration(field_: str, text: str, errors: Errors) -> float | None:
    try:
        return non_negative_seconds(text)
    except ValueError:
        errors.invalid(f"spec.{field_}", text, "must be a duration such as 30s or 1m30s")
        return None


def _check_counted(path: str, name: str, before: Container[str], errors: Errors) -> None:
    """Checks the name of a resource that counts towards shares."""
    if name == _NOT_SHARED:
        errors.invalid(path, name, "pods are no resource to share")
    elif name in before:
        errors.duplicate(path, name)
    elif name.startswith(("requests.", "limits.")) or qualified_name(name):
        errors.invalid(path, name, "must be a resource as nodes name it, such as cpu")
