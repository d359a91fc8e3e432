"""What every namespace deserves and may use now: a pure function of what is said, what is asked and what is held.

The tree is that of the ConsumerGroups. In a namespace, pods of different sizes are parts of their own, so that a
resource that is used up stops only those that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.quantity import QuantityError
from fairlead.arbitrator.amounts import read, written
from fairlead.arbitrator.books import Account, Books, total
from fairlead.arbitrator.objects import THE_NAME, Consumer, ConsumerGroup, PolicySpec, ShareSpec
from fairlead.fairshare.claims import Claim, Share, Surplus
from fairlead.fairshare.handoff import Holding, granted
from fairlead.fairshare.tree import Zone, tree_shares
from fairlead.fairshare.whole import rounded

_EMPTY: Final = Account()
#: A namespace and a group may have the same name.
_ROOT, _NAMESPACE, _GROUP = "cluster", "namespace/", "group/"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is answered to one namespace, in whole numbers by resource."""

    request: dict[str, int]
    deserved: dict[str, int]
    granted: dict[str, int]
    used: dict[str, int]
    borrowed: dict[str, int]
    dominant_share: str
    bottleneck: str
    is_reserved_met: bool

    @property
    def is_overused(self) -> bool:
        return any(amount > self.deserved.get(name, 0) for name, amount in self.used.items())

    def status(self) -> Obj:
        """As an Allocation tells it."""
        return {
            "request": written(self.request),
            "deserved": written(self.deserved),
            "granted": written(self.granted),
            "used": written(self.used),
            "borrowed": written(self.borrowed),
            "dominantShare": self.dominant_share,
            "bottleneck": self.bottleneck,
        }


def decide(
    consumers: Iterable[Consumer], groups: Iterable[ConsumerGroup], policy: PolicySpec, books: Books
) -> dict[str, Outcome]:
    """The outcome of every namespace that has a Consumer."""
    ordered = sorted(consumers, key=lambda one: one.metadata.namespace)
    capacity = {
        name: amount for name, amount in books.capacity.items() if not policy.resources or name in policy.resources
    }
    surplus = Surplus.REST if policy.surplus_mode == "Surplus" else Surplus.TOTAL
    found = tree_shares(_tree(ordered, list(groups), books, capacity), capacity, surplus)
    shares = {one.metadata.namespace: found[_NAMESPACE + one.metadata.namespace] for one in ordered}
    deserved = {name: _whole(name, shares) for name in sorted(capacity)}
    used = {one.metadata.namespace: total(books.accounts.get(one.metadata.namespace, _EMPTY).held) for one in ordered}
    allowed = {name: _granted(name, ordered, deserved[name], used, capacity[name]) for name in sorted(capacity)}
    return {
        one.metadata.namespace: _outcome(one, shares[one.metadata.namespace], deserved, allowed, used, books, capacity)
        for one in ordered
    }


def _tree(
    consumers: Sequence[Consumer], groups: Sequence[ConsumerGroup], books: Books, capacity: Mapping[str, int]
) -> Zone:
    """Groups that name no parent, one that does not exist, or each other in a circle, stand at the top."""
    by_name = {one.metadata.name: one for one in groups}
    parents = {name: one.spec.parent for name, one in by_name.items()}
    members: dict[str, list[Zone | Claim]] = {name: [] for name in ("", *by_name)}
    for one in consumers:
        parent = one.spec.parent if one.spec.parent in by_name else ""
        members[parent].append(_claim(one, books, capacity))
    placed: set[str] = set()

    def grow(name: str) -> list[Zone | Claim]:
        placed.add(name)
        below = [child for child, parent in sorted(parents.items()) if parent == name and child not in placed]
        return members[name] + [_zone(_GROUP + child, by_name[child].spec, grow(child), capacity) for child in below]

    top: list[Zone | Claim] = list(members[""])
    for name in sorted(by_name, key=lambda one: (parents[one] in by_name, one)):
        if name not in placed:
            top.append(_zone(_GROUP + name, by_name[name].spec, grow(name), capacity))
    return Zone(_ROOT, top)


def _zone(name: str, spec: ShareSpec, members: Sequence[Zone | Claim], capacity: Mapping[str, int]) -> Zone:
    reserved, hard = _read(spec.reserved, capacity), _read(spec.hard, capacity)
    return Zone(name, members, max(spec.weight, 0), reserved, hard, spec.reserved_policy != "Hold")


def _claim(consumer: Consumer, books: Books, capacity: Mapping[str, int]) -> Claim:
    """What a namespace asks for: pods of one size are a part of their own."""
    spec, namespace = consumer.spec, consumer.metadata.namespace
    asked = books.accounts.get(namespace, _EMPTY).asked
    return Claim(
        _NAMESPACE + namespace,
        total(asked),
        max(spec.weight, 0),
        _read(spec.reserved, capacity),
        _read(spec.hard, capacity),
        is_unlimited=spec.unlimited,
        lends=spec.reserved_policy != "Hold",
        parts=[{name: count * amount for name, amount in kind} for kind, count in sorted(asked.items())],
    )


def _read(amounts: Mapping[str, str | int] | None, capacity: Mapping[str, int]) -> dict[str, int]:
    """Amounts that make no sense count for nothing: whoever wrote them is told elsewhere."""
    try:
        return read(amounts, capacity)
    except QuantityError:
        return {}


def _whole(resource: str, shares: Mapping[str, Share]) -> dict[str, int]:
    """What they deserve of one resource, in whole numbers that add up."""
    exact = {namespace: share.deserved[resource] for namespace, share in shares.items()}
    return rounded(exact, int(sum(exact.values())))


def _granted(
    resource: str,
    consumers: Sequence[Consumer],
    deserved: Mapping[str, int],
    used: Mapping[str, Mapping[str, int]],
    capacity: int,
) -> dict[str, int]:
    holdings = {
        one.metadata.namespace: Holding(
            deserved[one.metadata.namespace], used[one.metadata.namespace].get(resource, 0), max(one.spec.weight, 0)
        )
        for one in consumers
    }
    return {namespace: int(amount) for namespace, amount in granted(holdings, capacity).items()}


def _outcome(
    consumer: Consumer,
    share: Share,
    deserved: Mapping[str, Mapping[str, int]],
    allowed: Mapping[str, Mapping[str, int]],
    used: Mapping[str, Mapping[str, int]],
    books: Books,
    capacity: Mapping[str, int],
) -> Outcome:
    namespace = consumer.metadata.namespace
    held = {name: amount for name, amount in used[namespace].items() if name in capacity}
    reserved = _read(consumer.spec.reserved, capacity)
    return Outcome(
        request={
            name: amount
            for name, amount in total(books.accounts.get(namespace, _EMPTY).asked).items()
            if name in capacity
        },
        deserved={name: deserved[name][namespace] for name in deserved},
        granted={name: allowed[name][namespace] for name in allowed},
        used=held,
        borrowed={
            name: amount - reserved.get(name, 0) for name, amount in held.items() if amount > reserved.get(name, 0)
        },
        dominant_share=f"{float(share.dominant_share):.4f}",
        bottleneck=share.bottleneck,
        is_reserved_met=share.is_reserved_met,
    )


def new_consumer(namespace: str, *, unlimited: bool) -> Obj:
    """For a namespace that has none: no bound, no guarantee (S2-17); the system's own gets what it asks for (S2-28)."""
    spec: Obj = {"unlimited": True} if unlimited else {}
    return {"metadata": {"name": THE_NAME, "namespace": namespace}, "spec": spec}
