"""What people say of shares, as a cycle reads it: bounds, guarantees, and who is in which group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairlead.api.quantity import QuantityError
from fairlead.arbitrator.amounts import read
from fairlead.arbitrator.objects import Consumer, ConsumerGroup, PolicySpec
from fairlead.arbitrator.outcomes import Amounts


class Said:
    """Everything that is said, in whole numbers of what the policy divides."""

    def __init__(
        self,
        consumers: Sequence[Consumer],
        groups: Iterable[ConsumerGroup],
        policy: PolicySpec,
        capacity: Amounts,
        quotas: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`quotas`: what the ResourceQuotas of a namespace allow altogether."""
        self.consumers, self.policy = consumers, policy
        self.groups = {group.metadata.name: group for group in groups}
        self.capacity = {
            name: amount for name, amount in capacity.items() if not policy.resources or name in policy.resources
        }
        self._quotas = {namespace: self.read(hard) for namespace, hard in quotas.items()}
        self.reserved = {consumer.metadata.namespace: self.read(consumer.spec.reserved) for consumer in consumers}
        self._hard = {consumer.metadata.namespace: self.read(consumer.spec.hard) for consumer in consumers}
        #: Neither the Consumer nor the quota allows more (S2-21).
        self.hard = {consumer.metadata.namespace: self._bound(consumer.metadata.namespace) for consumer in consumers}

    def read(self, amounts: Mapping[str, str | int] | None) -> dict[str, int]:
        """Amounts that make no sense count for nothing: whoever wrote them is told elsewhere."""
        try:
            return read(amounts, self.capacity, self.policy.prefix)
        except QuantityError:
            return {}

    def counted(self, amounts: Amounts) -> dict[str, int]:
        """Those that are divided."""
        return {name: amount for name, amount in amounts.items() if name in self.capacity}

    def clamped(self, namespace: str) -> tuple[str, ...]:
        """The resources of which its quota allows less than its `hard` (S2-48)."""
        said, hard = self._hard[namespace], self.hard[namespace]
        return tuple(sorted(resource for resource in said if hard.get(resource, 0) < said[resource]))

    def parent(self, consumer: Consumer) -> str:
        """The group that it is in; empty: the cluster itself."""
        return consumer.spec.parent if consumer.spec.parent in self.groups else ""

    def above(self, consumer: Consumer) -> list[str]:
        """The groups that it is in, from the inside out."""
        found, name = list[str](), self.parent(consumer)
        while name in self.groups and name not in found:
            found.append(name)
            name = self.groups[name].spec.parent
        return found

    def _bound(self, namespace: str) -> dict[str, int]:
        said, quota = self._hard[namespace], self._quotas.get(namespace, {})
        return {name: min(said.get(name, amount), amount) for name, amount in (said | quota).items()}
