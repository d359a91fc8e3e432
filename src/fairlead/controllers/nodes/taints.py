"""Which taints a node should have, from its conditions (pkg/controller/nodelifecycle)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.taints import NO_EXECUTE, NO_SCHEDULE, TimedTaint

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

#: Condition and status -> the taint that keeps new pods away.
_TAINT_OF: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
#: The taints that follow from conditions and `spec.unschedulable`, and from nothing else.
_OURS: Final = frozenset({*_TAINT_OF.values(), UNSCHEDULABLE})

#: Status of Ready -> the taint that also drives pods away.
EVICTING: Final[Mapping[str, str]] = {"False": NOT_READY, "Unknown": UNREACHABLE}


def keeping_away(node: Node) -> Iterator[str]:
    """The taints against new pods."""
    for condition in node.status.conditions:
        if key := _TAINT_OF.get((condition.type, condition.status)):
            yield key
    if node.spec.unschedulable:
        yield UNSCHEDULABLE


def evicting(node: Node) -> str | None:
    """The taint that drives pods away from this node now."""
    return next((taint.key for taint in node.spec.taints if _is_evicting(taint)), None)


def wanted(node: Node, evicting_key: str | None, now: str) -> list[Obj] | None:
    """All taints that the node should have; None if it has them."""
    keys = list(dict.fromkeys(keeping_away(node)))
    kept = [taint for taint in node.spec.taints if _stays(taint, keys, evicting_key)]
    present = {(taint.key, taint.effect) for taint in kept}
    missing = [(key, NO_SCHEDULE) for key in keys] + ([(evicting_key, NO_EXECUTE)] if evicting_key else [])
    added = [
        {"key": key, "effect": effect, "timeAdded": now} for key, effect in missing if (key, effect) not in present
    ]
    if not added and len(kept) == len(node.spec.taints):
        return None
    return [*map(_written, kept), *added]


def _stays(taint: TimedTaint, keys: Iterable[str], evicting_key: str | None) -> bool:
    if _is_evicting(taint):
        return taint.key == evicting_key
    return not (taint.effect == NO_SCHEDULE and taint.key in _OURS) or taint.key in keys


def _is_evicting(taint: TimedTaint) -> bool:
    return taint.effect == NO_EXECUTE and taint.key in (NOT_READY, UNREACHABLE)


def _written(taint: TimedTaint) -> Obj:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in fields.items() if value}
