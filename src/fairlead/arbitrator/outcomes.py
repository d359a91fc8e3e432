"""What a cycle finds for each namespace and group, and how an Allocation shows it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from gmpy2 import mpq

from fairlead.api.objects import Obj
from fairlead.arbitrator.amounts import format_amounts
from fairlead.fairshare.claims import dominant

#: By resource, in whole numbers; cpu in milli.
Amounts = Mapping[str, int]


class ShareOutcome(msgspec.Struct, frozen=True):
    """The outcome of a namespace, or of a group."""

    request: Amounts
    deserved: Amounts
    used: Amounts
    #: The part of `used` that is not leaving.
    staying: Amounts
    granted: Amounts = msgspec.field(default_factory=dict)
    reserved: Amounts = msgspec.field(default_factory=dict)
    dominant_share: str = ""
    #: The same without the weight.
    cluster_share: str = ""
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


class Division(msgspec.Struct, frozen=True):
    """What a cycle decides for all namespaces and groups."""

    capacity: Amounts
    namespaces: Mapping[str, ShareOutcome]
    groups: Mapping[str, ShareOutcome]

    def overuse(self, namespace: str) -> mpq:
        """By how much the namespace uses too much, as a dominant share; 0 where it does not."""
        outcome = self.namespaces.get(namespace)
        over = {} if outcome is None else outcome.over
        return dominant(over, self.capacity)


def encode_amounts(outcome: ShareOutcome, prefix: str) -> Obj:
    """The amounts as an Allocation shows them."""
    return {
        "request": format_amounts(outcome.request, prefix),
        "deserved": format_amounts(outcome.deserved, prefix),
        "granted": format_amounts(outcome.granted, prefix),
        "used": format_amounts(outcome.used, prefix),
        "borrowed": format_amounts(outcome.borrowed, prefix),
        "dominantShare": outcome.dominant_share,
        "clusterShare": outcome.cluster_share,
        "bottleneck": outcome.bottleneck,
    }
