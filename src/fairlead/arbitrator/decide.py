"""What every namespace deserves and may use now: a pure function of what is said, what is asked and what is held.

The tree is that of the ConsumerGroups. In a namespace, pods of different sizes are parts of their own, so that a
resource that is used up stops only those that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairlead.arbitrator.books import Books, Kind, total
from fairlead.arbitrator.granting import Granting
from fairlead.arbitrator.objects import Consumer, ConsumerGroup, PolicySpec, ShareSpec
from fairlead.arbitrator.outcomes import Amounts, Division, Outcome
from fairlead.arbitrator.said import Said
from fairlead.fairshare.claims import Claim, Share, Surplus
from fairlead.fairshare.tree import Zone, tree_shares
from fairlead.fairshare.whole import rounded

#: A namespace and a group may have the same name.
_ROOT, _NAMESPACE, _GROUP = "cluster", "namespace/", "group/"
_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}
_NOBODY: Final[Mapping[str, Mapping[Kind, int]]] = {}


def decide(
    consumers: Iterable[Consumer],
    groups: Iterable[ConsumerGroup],
    policy: PolicySpec,
    books: Books,
    quotas: Mapping[str, Mapping[str, str]] = _NOTHING,
    stuck: Mapping[str, Mapping[Kind, int]] = _NOBODY,
) -> Division:
    """The outcome of every namespace that has a Consumer, and of every group. `quotas`: what the ResourceQuotas of a
    namespace allow altogether; `stuck`: how many of its pods find no node, whoever goes.
    """
    line = sorted(consumers, key=lambda consumer: consumer.metadata.namespace)
    return _Cycle(Said(line, groups, policy, books.capacity, quotas), books, stuck).run()


class _Cycle:
    """One division."""

    def __init__(self, said: Said, books: Books, stuck: Mapping[str, Mapping[Kind, int]]) -> None:
        self._said, self._books, self._stuck = said, books, stuck
        self._is_apart = said.policy.policy == "proportion"

    def run(self) -> Division:
        said, found = self._said, self._shares()
        names = [consumer.metadata.namespace for consumer in said.consumers]
        shares = {name: found[_NAMESPACE + name] for name in names}
        whole = {resource: _whole(resource, shares) for resource in sorted(said.capacity)}
        deserved = {name: {resource: whole[resource][name] for resource in whole} for name in names}
        used = {name: said.counted(total(self._books.account(name).held)) for name in names}
        granted = Granting(said, self._books, deserved, used, self._stuck).run()
        namespaces = {
            name: self._outcome(name, shares[name], deserved[name], granted[name], used[name]) for name in names
        }
        return Division(said.capacity, namespaces, self._of_groups(namespaces))

    def _shares(self) -> Mapping[str, Share]:
        tree, capacity = self._tree(), self._said.capacity
        surplus = Surplus.REST if self._said.policy.surplus_mode == "Surplus" else Surplus.TOTAL
        if not self._is_apart:
            return tree_shares(tree, capacity, surplus)
        found = [tree_shares(tree, {name: amount}, surplus) for name, amount in capacity.items()]
        return {name: _together([amounts[name] for amounts in found]) for name in (found[0] if found else ())}

    # --- what is claimed --------------------------------------------------------------------------------------------

    def _tree(self) -> Zone:
        """Groups that name no parent, one that does not exist, or each other in a circle, stand at the top."""
        groups = self._said.groups
        parents = {name: group.spec.parent for name, group in groups.items()}
        members: dict[str, list[Zone | Claim]] = {name: [] for name in ("", *groups)}
        for consumer in self._said.consumers:
            members[self._said.parent(consumer)].append(self._claim(consumer))
        placed: set[str] = set()

        def grow(name: str) -> list[Zone | Claim]:
            placed.add(name)
            below = [child for child, parent in sorted(parents.items()) if parent == name and child not in placed]
            return members[name] + [self._zone(child, grow(child)) for child in below]

        top: list[Zone | Claim] = list(members[""])
        for name in sorted(groups, key=lambda name: (parents[name] in groups, name)):
            if name not in placed:
                top.append(self._zone(name, grow(name)))
        return Zone(_ROOT, top)

    def _zone(self, name: str, members: Sequence[Zone | Claim]) -> Zone:
        spec: ShareSpec = self._said.groups[name].spec
        reserved, hard = self._said.read(spec.reserved), self._said.read(spec.hard)
        return Zone(_GROUP + name, members, max(spec.weight, 0), reserved, hard, spec.reserved_policy != "Hold")

    def _claim(self, consumer: Consumer) -> Claim:
        """What a namespace asks for: pods of one size are a part of their own."""
        spec, namespace = consumer.spec, consumer.metadata.namespace
        asked = self._books.account(namespace).asked
        return Claim(
            _NAMESPACE + namespace,
            total(asked),
            max(spec.weight, 0),
            self._said.reserved[namespace],
            self._said.hard[namespace],
            is_unlimited=spec.unlimited,
            lends=spec.reserved_policy != "Hold",
            parts=()
            if self._is_apart
            else [{name: count * amount for name, amount in kind} for kind, count in sorted(asked.items())],
        )

    # --- what is told -----------------------------------------------------------------------------------------------

    def _outcome(self, name: str, share: Share, deserved: Amounts, granted: Amounts, used: Amounts) -> Outcome:
        account = self._books.account(name)
        leaving = total(account.leaving)
        return Outcome(
            request=self._said.counted(total(account.asked)),
            deserved=deserved,
            used=used,
            staying={resource: amount - leaving.get(resource, 0) for resource, amount in used.items()},
            granted=granted,
            reserved=self._said.reserved[name],
            dominant_share=f"{float(share.dominant_share):.4f}",
            bottleneck=share.bottleneck,
            is_reserved_met=share.is_reserved_met,
            clamped=self._said.clamped(name),
        )

    def _of_groups(self, namespaces: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """What their members have together."""
        members: dict[str, list[Outcome]] = {name: [] for name in self._said.groups}
        for consumer in self._said.consumers:
            for name in self._said.above(consumer):
                members[name].append(namespaces[consumer.metadata.namespace])
        return {
            name: Outcome(
                request=_sum(account.request for account in below),
                deserved=_sum(account.deserved for account in below),
                used=_sum(account.used for account in below),
                staying=_sum(account.staying for account in below),
            )
            for name, below in members.items()
        }


def _together(shares: Sequence[Share]) -> Share:
    """The shares of one consumer in each resource by itself as one."""
    largest = max(shares, key=lambda share: share.dominant_share)
    deserved = {name: amount for share in shares for name, amount in share.deserved.items()}
    is_reserved_met = all(share.is_reserved_met for share in shares)
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
