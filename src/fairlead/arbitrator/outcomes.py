"""What a cycle finds for each namespace and group, and how an Allocation shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.api.objects import Obj
from fairlead.arbitrator.amounts import written

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
