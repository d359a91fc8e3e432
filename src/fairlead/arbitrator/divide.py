"""What every namespace deserves and may use now, of the configuration, the requests and what is held alone.

The tree is that of the ConsumerGroups. Pods of different sizes are separate parts of a namespace's claim, so that a
resource that runs out stops only the pods that need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairlead.arbitrator.accounting import Accounting, RequestVector
from fairlead.arbitrator.amounts import KnownAmounts
from fairlead.arbitrator.granting import Granting
from fairlead.arbitrator.objects import Consumer, ConsumerGroup, PolicySpec, ShareSpec
from fairlead.arbitrator.outcomes import Amounts, Division, ShareOutcome
from fairlead.arbitrator.policy_inputs import PolicyInputs
from fairlead.fairshare.claims import Claim, Share, Surplus, dominant
from fairlead.fairshare.rounding import rounded
from fairlead.fairshare.tree import ShareGroup, tree_shares
from fairlead.runtime.offload import offload

#: A namespace and a group may have the same name.
_ROOT, _NAMESPACE, _GROUP = "cluster", "namespace/", "group/"
#: Shares of so many namespaces, groups and sizes of pods take some 50 ms.
_MANY: Final = 500
_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}
_NOBODY: Final[Mapping[str, Mapping[RequestVector, int]]] = {}


async def divide_cluster(
    consumers: Iterable[Consumer],
    groups: Iterable[ConsumerGroup],
    policy: PolicySpec,
    accounting: Accounting,
    quotas: Mapping[str, Mapping[str, str]] = _NOTHING,
    stuck: Mapping[str, Mapping[RequestVector, int]] = _NOBODY,
    amounts: KnownAmounts | None = None,
) -> Division:
    """The outcome of every namespace that has a Consumer, and of every group. `quotas`: what the ResourceQuotas of a
    namespace allow altogether; `stuck`: how many of its pods fit on no node whatever is evicted;
    `amounts`: those that were read before.

    Shares of many are worked out beside the loop; what is held is read again then.
    """
    line = sorted(consumers, key=lambda consumer: consumer.metadata.namespace)
    inputs = PolicyInputs(line, groups, policy, accounting.capacity, quotas, amounts or KnownAmounts())
    return await _Cycle(inputs, accounting, stuck).run()


class _Cycle:
    """One division."""

    def __init__(
        self, inputs: PolicyInputs, accounting: Accounting, stuck: Mapping[str, Mapping[RequestVector, int]]
    ) -> None:
        self._inputs, self._accounting, self._stuck = inputs, accounting, stuck
        self._is_apart = inputs.policy.policy == "proportion"

    async def run(self) -> Division:
        inputs, tree = self._inputs, self._tree()
        names = [consumer.metadata.namespace for consumer in inputs.consumers]
        parts = sum(len(self._accounting.account(name).asked) for name in names)
        is_long = len(names) + len(inputs.groups) + parts > _MANY
        found = await offload(lambda: self._shares(tree), is_long=is_long)
        shares = {name: found[_NAMESPACE + name] for name in names}
        whole = {resource: _whole(resource, shares) for resource in sorted(inputs.capacity)}
        deserved = {name: {resource: whole[resource][name] for resource in whole} for name in names}
        used = {name: inputs.counted(self._accounting.account(name).held.amounts) for name in names}
        granted = Granting(inputs, self._accounting, deserved, used, self._stuck).run()
        namespaces = {
            name: self._outcome(name, shares[name], deserved[name], granted[name], used[name]) for name in names
        }
        return Division(inputs.capacity, namespaces, self._of_groups(namespaces))

    def _shares(self, tree: ShareGroup) -> Mapping[str, Share]:
        capacity = self._inputs.capacity
        surplus = Surplus.REST if self._inputs.policy.surplus_mode == "Surplus" else Surplus.TOTAL
        if not (self._is_apart and capacity):
            return tree_shares(tree, capacity, surplus)
        found = [tree_shares(tree, {name: amount}, surplus) for name, amount in capacity.items()]
        return {name: _together([shares[name] for shares in found]) for name in found[0]}

    # --- claims ----------------------------------------------------------------------------------------------------

    def _tree(self) -> ShareGroup:
        """The tree of groups and their namespaces."""
        members: dict[str, list[ShareGroup | Claim]] = {name: [] for name in ("", *self._inputs.groups)}
        for consumer in self._inputs.consumers:
            members[self._inputs.parent(consumer)].append(self._claim(consumer))

        def grow(name: str) -> list[ShareGroup | Claim]:
            return members[name] + [self._share_group(child, grow(child)) for child in self._inputs.tree.below(name)]

        return ShareGroup(_ROOT, grow(""))

    def _share_group(self, name: str, members: Sequence[ShareGroup | Claim]) -> ShareGroup:
        spec: ShareSpec = self._inputs.groups[name].spec
        reserved, hard = self._inputs.parse(spec.reserved), self._inputs.parse(spec.hard)
        return ShareGroup(_GROUP + name, members, max(spec.weight, 0), reserved, hard, spec.reserved_policy != "Hold")

    def _claim(self, consumer: Consumer) -> Claim:
        """What a namespace asks for, with a part for each size of pod."""
        spec, namespace = consumer.spec, consumer.metadata.namespace
        asked = self._accounting.account(namespace).asked
        return Claim(
            _NAMESPACE + namespace,
            self._inputs.counted(asked.amounts),
            max(spec.weight, 0),
            self._inputs.reserved[namespace],
            self._inputs.hard[namespace],
            is_unlimited=spec.unlimited,
            lends=spec.reserved_policy != "Hold",
            parts=()
            if self._is_apart
            else [self._inputs.needed(vector, count) for vector, count in sorted(asked.items())],
        )

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def _outcome(self, name: str, share: Share, deserved: Amounts, granted: Amounts, used: Amounts) -> ShareOutcome:
        account = self._accounting.account(name)
        leaving = account.leaving.amounts
        return ShareOutcome(
            request=self._inputs.counted(account.asked.amounts),
            deserved=deserved,
            used=used,
            staying={resource: amount - leaving.get(resource, 0) for resource, amount in used.items()},
            granted=granted,
            reserved=self._inputs.reserved[name],
            dominant_share=f"{float(share.dominant_share):.4f}",
            cluster_share=f"{float(dominant(share.deserved, self._inputs.capacity)):.4f}",
            bottleneck=share.bottleneck,
            is_reserved_met=share.is_reserved_met,
            clamped=self._inputs.clamped(name),
        )

    def _of_groups(self, namespaces: Mapping[str, ShareOutcome]) -> dict[str, ShareOutcome]:
        """The outcomes of groups: the sums over their members."""
        members: dict[str, list[ShareOutcome]] = {name: [] for name in self._inputs.groups}
        for consumer in self._inputs.consumers:
            for name in self._inputs.above(consumer):
                members[name].append(namespaces[consumer.metadata.namespace])
        return {
            name: ShareOutcome(
                request=_sum(outcome.request for outcome in below),
                deserved=_sum(outcome.deserved for outcome in below),
                used=_sum(outcome.used for outcome in below),
                staying=_sum(outcome.staying for outcome in below),
            )
            for name, below in members.items()
        }


def _together(shares: Sequence[Share]) -> Share:
    """One share of a consumer's shares in each resource by itself."""
    largest = max(shares, key=lambda share: share.dominant_share)
    deserved = {name: amount for share in shares for name, amount in share.deserved.items()}
    is_reserved_met = all(share.is_reserved_met for share in shares)
    return Share(largest.name, deserved, largest.dominant_share, largest.bottleneck, is_reserved_met)


def _whole(resource: str, shares: Mapping[str, Share]) -> dict[str, int]:
    """What each namespace deserves of the resource, in whole numbers with the same sum."""
    exact = {namespace: share.deserved[resource] for namespace, share in shares.items()}
    return rounded(exact, int(sum(exact.values())))


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    together: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            together[name] = together.get(name, 0) + amount
    return together
