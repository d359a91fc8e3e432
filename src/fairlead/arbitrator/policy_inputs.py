"""Consumers, groups, quotas and the policy as a cycle reads them: bounds, guarantees and group membership in
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairlead.api.quantity import QuantityError
from fairlead.arbitrator.accounting import RequestVector
from fairlead.arbitrator.amounts import KnownAmounts
from fairlead.arbitrator.group_tree import GroupTree
from fairlead.arbitrator.objects import Consumer, ConsumerGroup, PolicySpec
from fairlead.arbitrator.outcomes import Amounts


class PolicyInputs:
    """The configuration of one cycle, in whole numbers of the resources that the policy divides."""

    def __init__(
        self,
        consumers: Sequence[Consumer],
        groups: Iterable[ConsumerGroup],
        policy: PolicySpec,
        capacity: Amounts,
        quotas: Mapping[str, Mapping[str, str]],
        amounts: KnownAmounts,
    ) -> None:
        """`quotas`: what the ResourceQuotas of a namespace allow altogether."""
        self.consumers, self.policy, self._amounts = consumers, policy, amounts
        self.groups = {group.metadata.name: group for group in groups}
        self.tree = GroupTree({name: group.spec.parent for name, group in self.groups.items()})
        counted = frozenset(policy.resources or capacity)
        self.capacity = {name: amount for name, amount in capacity.items() if name in counted}
        self._quotas = {namespace: self.parse(hard) for namespace, hard in quotas.items()}
        self.reserved = {consumer.metadata.namespace: self.parse(consumer.spec.reserved) for consumer in consumers}
        self._hard = {consumer.metadata.namespace: self.parse(consumer.spec.hard) for consumer in consumers}
        #: The lower of the Consumer's `hard` and the quota (S2-21).
        self.hard = {consumer.metadata.namespace: self._bound(consumer.metadata.namespace) for consumer in consumers}

    def parse(self, amounts: Mapping[str, str | int] | None) -> dict[str, int]:
        """In whole numbers. Invalid amounts count for nothing here: the review at admission reports them."""
        try:
            return self._amounts.parse(amounts, self.capacity, self.policy.prefix)
        except QuantityError:
            return {}

    def counted(self, amounts: Amounts) -> dict[str, int]:
        """The amounts of resources that are divided."""
        fewer = amounts if len(amounts) < len(self.capacity) else self.capacity
        return {name: amounts[name] for name in fewer if name in amounts and name in self.capacity}

    def needed(self, vector: RequestVector, count: int = 1) -> dict[str, int]:
        """The same of so many pods; a pod may ask for tens of thousands of resources that no node has."""
        return {name: count * amount for name, amount in vector if name in self.capacity}

    def clamped(self, namespace: str) -> tuple[str, ...]:
        """The resources of which its quota allows less than its `hard` (S2-48)."""
        own, hard = self._hard[namespace], self.hard[namespace]
        if own is hard:
            return ()
        return tuple(sorted(resource for resource in own if hard.get(resource, 0) < own[resource]))

    def parent(self, consumer: Consumer) -> str:
        """The group that it is a member of; empty for the cluster itself."""
        return consumer.spec.parent if consumer.spec.parent in self.groups else ""

    def above(self, consumer: Consumer) -> list[str]:
        """Its group, the group of that group, and so on."""
        return self.tree.above(self.parent(consumer))

    def _bound(self, namespace: str) -> dict[str, int]:
        own, quota = self._hard[namespace], self._quotas.get(namespace)
        if not quota:
            return own
        return {name: min(own.get(name, amount), amount) for name, amount in (own | quota).items()}
