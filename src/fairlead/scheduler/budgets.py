"""The PodDisruptionBudgets of the cluster: the facts behind whom preemption spares."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.budgets import PodDisruptionBudget


class Budgets:
    """Every budget by `namespace/name`; `version` grows with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._budgets: dict[str, PodDisruptionBudget] = {}

    def __len__(self) -> int:
        return len(self._budgets)

    def items(self) -> Iterable[tuple[str, PodDisruptionBudget]]:
        return self._budgets.items()

    def set(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        """A budget came, changed or went."""
        either = new or old
        assert either is not None
        self._budgets.pop(either.metadata.key, None)
        if new is not None:
            self._budgets[either.metadata.key] = new
        self.version += 1
