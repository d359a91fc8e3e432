"""PodDisruptionBudgets as their controller sees them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.workloads import shown


class BudgetSpec(View):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetCondition(Condition, omit_defaults=True):
    message: str = msgspec.field(default_factory=str)  # written even when it is empty


class BudgetStatus(WrittenView):
    observed_generation: int = 0
    #: Pods whose eviction was granted, and when; they count as gone before they are.
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = shown()
    current_healthy: int = shown()
    desired_healthy: int = shown()
    expected_pods: int = shown()
    conditions: tuple[BudgetCondition, ...] = ()


class PodDisruptionBudget(Object):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def guards(self, labels: Mapping[str, str]) -> bool:
        """Whether pods of its namespace with these labels count. Without a selector none do, with an empty one all."""
        return self.spec.selector is not None and self.spec.selector.matches(labels)
