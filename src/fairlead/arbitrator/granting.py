"""What each namespace may use now: its deserved share, and idle amounts that are lent. Never more than is free or held
already, and in whole pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.arbitrator.accounting import Accounting, RequestVector
from fairlead.arbitrator.objects import Consumer
from fairlead.arbitrator.outcomes import Amounts
from fairlead.arbitrator.policy_inputs import PolicyInputs
from fairlead.fairshare.grants import ConsumerQueue, Holding, granted, startable


class Granting:
    """Works out the grants of one cycle; amounts by namespace and resource."""

    def __init__(
        self,
        inputs: PolicyInputs,
        accounting: Accounting,
        deserved: Mapping[str, Amounts],
        used: Mapping[str, Amounts],
        stuck: Mapping[str, Mapping[RequestVector, int]],
    ) -> None:
        """`stuck`: by namespace, how many pods fit on no node whatever is evicted."""
        self._inputs, self._accounting, self._deserved, self._used, self._stuck = (
            inputs,
            accounting,
            deserved,
            used,
            stuck,
        )

    def run(self) -> dict[str, dict[str, int]]:
        deserved, capacity = self._deserved, self._inputs.capacity
        free = {name: max(amount - self._accounting.occupied.get(name, 0), 0) for name, amount in capacity.items()}
        fluid = {name: self._hand_over(name, free[name]) for name in capacity}
        allowed = {name: {resource: fluid[resource][name] for resource in fluid} for name in deserved}
        queues = [self._queue(consumer, allowed[consumer.metadata.namespace]) for consumer in self._inputs.consumers]
        more = startable(queues, free, capacity)
        for queue in queues:
            name, mine = queue.name, allowed[queue.name]
            for resource in mine:
                enough = queue.used.get(resource, 0) + more[name].get(resource, 0)
                if more[name].get(resource) or queue.used.get(resource, 0) < deserved[name][resource]:
                    mine[resource] = max(enough, min(mine[resource], queue.held.get(resource, 0)))
        return allowed

    def _hand_over(self, resource: str, free: int) -> dict[str, int]:
        held = {name: amounts.get(resource, 0) for name, amounts in self._used.items()}
        holdings = {}
        for consumer in self._inputs.consumers:
            name, weight = consumer.metadata.namespace, max(consumer.spec.weight, 0)
            holdings[name] = Holding(self._deserved[name][resource], held[name], weight, consumer.spec.unlimited)
        available = free + sum(held.values())
        return {name: int(amount) for name, amount in granted(holdings, available).items()}

    def _queue(self, consumer: Consumer, allowed: Amounts) -> ConsumerQueue:
        inputs, spec, name = self._inputs, consumer.spec, consumer.metadata.namespace
        account, without = self._accounting.account(name), self._stuck.get(name, {})
        waiting, stuck = list[tuple[Amounts, int]](), list[tuple[Amounts, int]]()
        for vector, count in account.waiting().items():
            without_node = min(without.get(vector, 0), count)
            need = inputs.needed(vector)
            waiting.append((need, count - without_node))
            stuck.append((need, without_node))
        return ConsumerQueue(
            name,
            self._used[name],
            allowed,
            self._deserved[name],
            self._deserved[name] if self._is_capped_above(consumer) else inputs.hard[name],
            waiting,
            stuck,
            max(spec.weight, 0),
            inputs.counted(inputs.reserved[name]) if spec.reserved_policy == "Hold" else {},
            spec.unlimited,
        )

    def _is_capped_above(self, consumer: Consumer) -> bool:
        """Whether a group above it has `hard`: then nothing is lent to it, because that could exceed the bound."""
        return any(self._inputs.groups[name].spec.hard for name in self._inputs.above(consumer))
