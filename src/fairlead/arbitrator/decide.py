"""What every namespace deserves and may use now: a pure function of what is said, what is asked and what is held.

The tree is that of the ConsumerGroups. In a namespace, pods of different sizes are parts of their own, so that a
resource that is used up stops only those that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.api.meta import ObjectMeta
from fairlead.api.objects import Obj
from fairlead.api.quantity import QuantityError
from fairlead.arbitrator.amounts import read, written
from fairlead.arbitrator.books import Account, Books, Kind, total
from fairlead.arbitrator.objects import (
    SYSTEM_NAMESPACE,
    THE_NAME,
    Consumer,
    ConsumerGroup,
    ConsumerSpec,
    PolicySpec,
    ShareSpec,
)
from fairlead.fairshare.claims import Claim, Share, Surplus
from fairlead.fairshare.handoff import Holding, Queue, granted, startable
from fairlead.fairshare.tree import Zone, tree_shares
from fairlead.fairshare.whole import rounded

_EMPTY: Final = Account()
#: A namespace and a group may have the same name.
_ROOT, _NAMESPACE, _GROUP = "cluster", "namespace/", "group/"

#: By resource, in whole numbers; cpu in milli.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is answered to one namespace, or to a group of them."""

    request: Amounts
    deserved: Amounts
    used: Amounts
    #: What of it is not on its way out.
    staying: Amounts
    granted: Amounts = field(default_factory=dict)
    reserved: Amounts = field(default_factory=dict)
    dominant_share: str = ""
    bottleneck: str = ""
    is_reserved_met: bool = True
    #: The resources of which its quota allows less than its `hard` (S2-48).
    clamped: tuple[str, ...] = ()

    @property
    def borrowed(self) -> dict[str, int]:
        """What is used beyond what is reserved."""
        own = self.reserved
        return {name: amount - own.get(name, 0) for name, amount in self.used.items() if amount > own.get(name, 0)}

    @property
    def fair_or_lent(self) -> dict[str, int]:
        """What is deserved, or granted beyond it."""
        return {name: max(amount, self.granted.get(name, 0)) for name, amount in self.deserved.items()}

    @property
    def over(self) -> dict[str, int]:
        """By how much too much is used (S2-09)."""
        fair = self.deserved
        return {name: amount - fair.get(name, 0) for name, amount in self.staying.items() if amount > fair.get(name, 0)}


@dataclass(frozen=True, slots=True)
class Division:
    """The outcome of a cycle."""

    capacity: Amounts
    namespaces: Mapping[str, Outcome]
    groups: Mapping[str, Outcome]


def decide(
    consumers: Iterable[Consumer],
    groups: Iterable[ConsumerGroup],
    policy: PolicySpec,
    books: Books,
    quotas: Mapping[str, Mapping[str, str]] | None = None,
    stuck: Mapping[str, Mapping[Kind, int]] | None = None,
) -> Division:
    """The outcome of every namespace that has a Consumer, and of every group. `quotas`: what the ResourceQuotas of a
    namespace allow altogether; `stuck`: how many of its pods find no node, whoever goes.
    """
    line = sorted(consumers, key=lambda one: one.metadata.namespace)
    return _Cycle(line, groups, policy, books, quotas or {}, stuck or {}).run()


class _Cycle:
    """One division."""

    def __init__(
        self,
        consumers: Sequence[Consumer],
        groups: Iterable[ConsumerGroup],
        policy: PolicySpec,
        books: Books,
        quotas: Mapping[str, Mapping[str, str]],
        stuck: Mapping[str, Mapping[Kind, int]],
    ) -> None:
        self._consumers, self._books, self._policy, self._stuck = consumers, books, policy, stuck
        self._groups = {one.metadata.name: one for one in groups}
        self._prefix = policy.prefix
        self._is_apart = policy.policy == "proportion"
        self._capacity = {
            name: amount for name, amount in books.capacity.items() if not policy.resources or name in policy.resources
        }
        self._quotas = {namespace: self._read(hard) for namespace, hard in quotas.items()}
        self._reserved = {one.metadata.namespace: self._read(one.spec.reserved) for one in consumers}
        self._said = {one.metadata.namespace: self._read(one.spec.hard) for one in consumers}
        self._hard = {one.metadata.namespace: self._bound(one.metadata.namespace) for one in consumers}

    def run(self) -> Division:
        found = self._shares()
        names = [one.metadata.namespace for one in self._consumers]
        shares = {name: found[_NAMESPACE + name] for name in names}
        whole = {resource: _whole(resource, shares) for resource in sorted(self._capacity)}
        deserved = {name: {resource: whole[resource][name] for resource in whole} for name in names}
        used = {name: self._counted(total(self._account(name).held)) for name in names}
        allowed = self._allowed(deserved, used)
        namespaces = {
            name: self._outcome(name, shares[name], deserved[name], allowed[name], used[name]) for name in names
        }
        return Division(self._capacity, namespaces, self._of_groups(namespaces))

    def _shares(self) -> Mapping[str, Share]:
        tree, surplus = self._tree(), Surplus.REST if self._policy.surplus_mode == "Surplus" else Surplus.TOTAL
        if not self._is_apart:
            return tree_shares(tree, self._capacity, surplus)
        found = [tree_shares(tree, {name: amount}, surplus) for name, amount in self._capacity.items()]
        return {name: _together([one[name] for one in found]) for name in (found[0] if found else ())}

    # --- what is claimed --------------------------------------------------------------------------------------------

    def _tree(self) -> Zone:
        """Groups that name no parent, one that does not exist, or each other in a circle, stand at the top."""
        parents = {name: one.spec.parent for name, one in self._groups.items()}
        members: dict[str, list[Zone | Claim]] = {name: [] for name in ("", *self._groups)}
        for one in self._consumers:
            members[self._parent(one)].append(self._claim(one))
        placed: set[str] = set()

        def grow(name: str) -> list[Zone | Claim]:
            placed.add(name)
            below = [child for child, parent in sorted(parents.items()) if parent == name and child not in placed]
            return members[name] + [self._zone(child, grow(child)) for child in below]

        top: list[Zone | Claim] = list(members[""])
        for name in sorted(self._groups, key=lambda one: (parents[one] in self._groups, one)):
            if name not in placed:
                top.append(self._zone(name, grow(name)))
        return Zone(_ROOT, top)

    def _parent(self, consumer: Consumer) -> str:
        return consumer.spec.parent if consumer.spec.parent in self._groups else ""

    def _zone(self, name: str, members: Sequence[Zone | Claim]) -> Zone:
        spec: ShareSpec = self._groups[name].spec
        reserved, hard = self._read(spec.reserved), self._read(spec.hard)
        return Zone(_GROUP + name, members, max(spec.weight, 0), reserved, hard, spec.reserved_policy != "Hold")

    def _claim(self, consumer: Consumer) -> Claim:
        """What a namespace asks for: pods of one size are a part of their own."""
        spec, namespace = consumer.spec, consumer.metadata.namespace
        asked = self._account(namespace).asked
        return Claim(
            _NAMESPACE + namespace,
            total(asked),
            max(spec.weight, 0),
            self._reserved[namespace],
            self._hard[namespace],
            is_unlimited=spec.unlimited,
            lends=spec.reserved_policy != "Hold",
            parts=()
            if self._is_apart
            else [{name: count * amount for name, amount in kind} for kind, count in sorted(asked.items())],
        )

    def _account(self, namespace: str) -> Account:
        return self._books.accounts.get(namespace, _EMPTY)

    def _bound(self, namespace: str) -> dict[str, int]:
        """Neither the Consumer nor the quota allows more (S2-21)."""
        said, quota = self._said[namespace], self._quotas.get(namespace, {})
        return {name: min(said.get(name, amount), amount) for name, amount in (said | quota).items()}

    def _read(self, amounts: Mapping[str, str | int] | None) -> dict[str, int]:
        """Amounts that make no sense count for nothing: whoever wrote them is told elsewhere."""
        try:
            return read(amounts, self._capacity, self._prefix)
        except QuantityError:
            return {}

    def _counted(self, amounts: Amounts) -> dict[str, int]:
        return {name: amount for name, amount in amounts.items() if name in self._capacity}

    # --- what may be used now ---------------------------------------------------------------------------------------

    def _allowed(self, deserved: Mapping[str, Amounts], used: Mapping[str, Amounts]) -> dict[str, dict[str, int]]:
        """Never more than is free or held already, and in whole pods."""
        free = {name: max(amount - self._books.occupied.get(name, 0), 0) for name, amount in self._capacity.items()}
        fluid = {name: self._hand_over(name, deserved, used, free[name]) for name in self._capacity}
        allowed = {name: {resource: fluid[resource][name] for resource in fluid} for name in deserved}
        queues = [self._queue(one, allowed, deserved, used) for one in self._consumers]
        more = startable(queues, free, self._capacity)
        for queue in queues:
            name, mine = queue.name, allowed[queue.name]
            for resource in mine:
                enough = queue.used.get(resource, 0) + more[name].get(resource, 0)
                if more[name].get(resource) or queue.used.get(resource, 0) < deserved[name][resource]:
                    mine[resource] = max(enough, min(mine[resource], queue.held.get(resource, 0)))
        return allowed

    def _hand_over(
        self, resource: str, deserved: Mapping[str, Amounts], used: Mapping[str, Amounts], free: int
    ) -> dict[str, int]:
        held = {name: amounts.get(resource, 0) for name, amounts in used.items()}
        holdings = {}
        for one in self._consumers:
            name, weight = one.metadata.namespace, max(one.spec.weight, 0)
            holdings[name] = Holding(deserved[name][resource], held[name], weight, one.spec.unlimited)
        available = free + sum(held.values())
        return {name: int(amount) for name, amount in granted(holdings, available).items()}

    def _queue(
        self,
        consumer: Consumer,
        allowed: Mapping[str, Amounts],
        deserved: Mapping[str, Amounts],
        used: Mapping[str, Amounts],
    ) -> Queue:
        name = consumer.metadata.namespace
        waiting, stuck = list[tuple[Amounts, int]](), list[tuple[Amounts, int]]()
        for kind, count in self._account(name).waiting().items():
            without_node = min(self._stuck.get(name, {}).get(kind, 0), count)
            need = self._counted(dict(kind))
            waiting.append((need, count - without_node))
            stuck.append((need, without_node))
        most = deserved[name] if self._is_capped_above(consumer) else self._hard[name]
        held = self._counted(self._reserved[name]) if consumer.spec.reserved_policy == "Hold" else {}
        weight = max(consumer.spec.weight, 0)
        is_unlimited = consumer.spec.unlimited
        return Queue(name, used[name], allowed[name], deserved[name], most, waiting, stuck, weight, held, is_unlimited)

    def _is_capped_above(self, consumer: Consumer) -> bool:
        """Whether a group over it has a bound: then nothing is lent to it, for it could break that."""
        return any(self._groups[name].spec.hard for name in self._above(consumer))

    def _above(self, consumer: Consumer) -> list[str]:
        """The groups that it is in, from the inside out."""
        found, name = list[str](), self._parent(consumer)
        while name in self._groups and name not in found:
            found.append(name)
            name = self._groups[name].spec.parent
        return found

    # --- what is told -----------------------------------------------------------------------------------------------

    def _outcome(self, name: str, share: Share, deserved: Amounts, allowed: Amounts, used: Amounts) -> Outcome:
        account = self._account(name)
        leaving = total(account.leaving)
        said = self._said[name]
        return Outcome(
            request=self._counted(total(account.asked)),
            deserved=deserved,
            used=used,
            staying={resource: amount - leaving.get(resource, 0) for resource, amount in used.items()},
            granted=allowed,
            reserved=self._reserved[name],
            dominant_share=f"{float(share.dominant_share):.4f}",
            bottleneck=share.bottleneck,
            is_reserved_met=share.is_reserved_met,
            clamped=tuple(sorted(resource for resource in said if self._hard[name].get(resource, 0) < said[resource])),
        )

    def _of_groups(self, namespaces: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """What their members have together."""
        members: dict[str, list[Outcome]] = {name: [] for name in self._groups}
        for one in self._consumers:
            for name in self._above(one):
                members[name].append(namespaces[one.metadata.namespace])
        return {
            name: Outcome(
                request=_sum(one.request for one in below),
                deserved=_sum(one.deserved for one in below),
                used=_sum(one.used for one in below),
                staying=_sum(one.staying for one in below),
            )
            for name, below in members.items()
        }


def _together(shares: Sequence[Share]) -> Share:
    """The shares of one consumer in each resource by itself as one."""
    largest = max(shares, key=lambda one: one.dominant_share)
    deserved = {name: amount for one in shares for name, amount in one.deserved.items()}
    is_reserved_met = all(one.is_reserved_met for one in shares)
    return Share(largest.name, deserved, largest.dominant_share, largest.bottleneck, is_reserved_met)


def _whole(resource: str, shares: Mapping[str, Share]) -> dict[str, int]:
    """What they deserve of one resource, in whole numbers that add up."""
    exact = {namespace: share.deserved[resource] for namespace, share in shares.items()}
    return rounded(exact, int(sum(exact.values())))


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    together: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            together[name] = together.get(name, 0) + amount
    return together


def default_consumer(namespace: str) -> Consumer:
    """Of a namespace that has none: no bound, no guarantee (S2-17); the system's own gets what it asks for (S2-28)."""
    spec = ConsumerSpec(unlimited=namespace == SYSTEM_NAMESPACE)
    return Consumer(metadata=ObjectMeta(name=THE_NAME, namespace=namespace), spec=spec)


def new_consumer(consumer: Consumer) -> Obj:
    """As it is created; the schema fills in the rest."""
    meta = consumer.metadata
    spec: Obj = {"unlimited": True} if consumer.spec.unlimited else {}
    return {"metadata": {"name": meta.name, "namespace": meta.namespace}, "spec": spec}


def told(outcome: Outcome, prefix: str) -> Obj:
    """The amounts as an Allocation shows them."""
    return {
        "request": written(outcome.request, prefix),
        "deserved": written(outcome.deserved, prefix),
        "granted": written(outcome.granted, prefix),
        "used": written(outcome.used, prefix),
        "borrowed": written(outcome.borrowed, prefix),
        "dominantShare": outcome.dominant_share,
        "bottleneck": outcome.bottleneck,
    }
