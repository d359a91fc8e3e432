"""How the kernel divides cpu down a tree of cgroups: by weight among those who want some, up to their quotas.

What one does not use goes to the others, so cpu is idle only if nobody may have more (S0-108, S0-110, S0-111). Weights
compare neighbours alone: the same number means less cpu in a smaller part of the tree (S1-12).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

UNLIMITED: Final = math.inf


class CpuGroup(msgspec.Struct, frozen=True):
    """A cgroup with those in it, or one container, which wants some cpu. In milli-cores."""

    weight: int
    quota_milli: float = UNLIMITED
    wanted_milli: float = 0.0
    members: Mapping[str, CpuGroup] = msgspec.field(default_factory=dict)

    @property
    def usable_milli(self) -> float:
        """What it takes if nobody else wants any."""
        wanted = sum(member.usable_milli for member in self.members.values()) if self.members else self.wanted_milli
        return min(wanted, self.quota_milli)


def divide(group: CpuGroup, available_milli: float) -> Mapping[tuple[str, ...], float]:
    """What each container gets, by its path."""
    if not group.members:
        return {(): min(group.usable_milli, available_milli)}
    given: dict[tuple[str, ...], float] = {}
    for name, share in _shares(group.members, min(group.usable_milli, available_milli)).items():
        for path, amount in divide(group.members[name], share).items():
            given[(name, *path)] = amount
    return given


def _shares(members: Mapping[str, CpuGroup], available: float) -> Mapping[str, float]:
    """Those who want least for their weight are served first, so the rest of their share goes to the others."""
    usable = {name: member.usable_milli for name, member in members.items()}
    shares: dict[str, float] = {}
    weight = sum(member.weight for member in members.values())
    for name in sorted(members, key=lambda name: usable[name] / members[name].weight):
        shares[name] = min(usable[name], available * members[name].weight / weight)
        available -= shares[name]
        weight -= members[name].weight
    return shares
