"""How fast nodes may be given up.

One silent node is a broken node; a silent zone is a broken network, behind which the pods are probably fine. So the
nodes of a zone are given up one every ten seconds, much more slowly or not at all once most of the zone is silent, and
none at all while the whole cluster is. Source: pkg/controller/nodelifecycle (handleDisruption, ComputeZoneState).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final

import msgspec

from fairlead.api.nodes import Node
from fairlead.runtime.metrics import COUNTER, GAUGE, Computed, Family, Labels

#: --node-eviction-rate, --secondary-node-eviction-rate, --large-cluster-size-threshold, --unhealthy-zone-threshold.
EVICTIONS_PER_SECOND: Final = 0.1
SECONDARY_EVICTIONS_PER_SECOND: Final = 0.01
LARGE_ZONE: Final = 50
UNHEALTHY_PART: Final = 0.55

_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"


class ZoneState(Enum):
    NORMAL = auto()
    PARTIAL = auto()
    FULL = auto()


class Zone(msgspec.Struct):
    """The nodes of one zone that count, and the budget for giving them up."""

    ready: int = 0
    unready: int = 0
    rate: float = EVICTIONS_PER_SECOND
    allowed_at: float = 0.0
    #: How many nodes were given up so far.
    given_up: int = 0

    @property
    def size(self) -> int:
        return self.ready + self.unready

    @property
    def state(self) -> ZoneState:
        if self.unready and not self.ready:
            return ZoneState.FULL
        is_unhealthy = self.unready > 2 and self.unready >= UNHEALTHY_PART * (self.ready + self.unready)
        return ZoneState.PARTIAL if is_unhealthy else ZoneState.NORMAL

    def wait_seconds(self, now: float) -> float | None:
        """How long until the next node may be given up; None while none may."""
        rate = self._rate()
        if rate != self.rate:
            if now < self.allowed_at and rate:
                self.allowed_at = now + 1 / rate
            self.rate = rate
        return max(self.allowed_at - now, 0.0) if rate else None

    def give_up(self, now: float) -> None:
        """A node is being given up."""
        self.given_up += 1
        self.allowed_at = now + 1 / self.rate

    def _rate(self) -> float:
        if self.state is not ZoneState.PARTIAL:
            return EVICTIONS_PER_SECOND
        return SECONDARY_EVICTIONS_PER_SECOND if self.ready + self.unready > LARGE_ZONE else 0.0


class Zones(msgspec.Struct):
    """All zones, kept current by every change of a node."""

    _zones: dict[str, Zone] = msgspec.field(default_factory=dict)

    @property
    def families(self) -> list[Family]:
        """The same as metrics, by kube-controller-manager's names (pkg/controller/nodelifecycle)."""

        def of_zones(kind: str, name: str, text: str, value: Callable[[Zone], float]) -> Family:
            def read() -> Iterable[tuple[Labels, float]]:
                return [((key,), value(zone)) for key, zone in self._zones.items()]

            return Computed(kind, f"node_collector_{name}", text, ("zone",), read)

        return [
            of_zones(GAUGE, "zone_size", "[ALPHA] Nodes of the zone.", lambda zone: zone.size),
            of_zones(GAUGE, "unhealthy_nodes_in_zone", "[ALPHA] Those that are not ready.", lambda zone: zone.unready),
            of_zones(
                GAUGE,
                "zone_health",
                "[ALPHA] How many of them are ready, in percent.",
                lambda zone: 100 * zone.ready / zone.size if zone.size else 100.0,
            ),
            of_zones(COUNTER, "evictions_total", "[STABLE] Nodes that were given up.", lambda zone: zone.given_up),
        ]

    def change(self, old: Node | None, new: Node | None) -> bool:
        """Count a change; tells whether it may change how fast nodes are given up."""
        before = _part(old)
        after = _part(new)
        if before == after:
            return False
        if after is not None:
            self._count(*after, 1)
        if before is not None:
            self._count(*before, -1)
            if not self._zones[before[0]].size:
                del self._zones[before[0]]
        return True

    def of(self, node: Node) -> Zone:
        return self._zones.setdefault(node.zone, Zone())

    @property
    def are_all_silent(self) -> bool:
        """No node of the cluster is ready: it is us who are cut off."""
        counted = [zone for zone in self._zones.values() if zone.ready or zone.unready]
        return bool(counted) and all(zone.state is ZoneState.FULL for zone in counted)

    def _count(self, name: str, is_ready: bool, step: int) -> None:
        zone = self._zones.setdefault(name, Zone())
        if is_ready:
            zone.ready += step
        else:
            zone.unready += step


def _part(node: Node | None) -> tuple[str, bool] | None:
    """What a node is counted as."""
    if node is None or _EXCLUDED in node.metadata.labels:
        return None
    return node.zone, node.ready_status == "True"
