"""The conditions that a node shows in its status, and the events when they change (S3-60).

They are written with every heartbeat; a condition keeps the time of its last transition until its status changes.
Pressures come first and `Ready` last. Source: pkg/kubelet/nodestatus/setters.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.eviction.signals import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE

READY: Final = "Ready"
#: A node without these does not know yet what it has.
REQUIRED_CAPACITY: Final = ("cpu", "memory", "pods", "ephemeral-storage")


class _Text(NamedTuple):
    """What a condition says in one of its states: its reason, its message, and the reason of the event."""

    reason: str
    message: str
    event: str


#: By condition: the texts under pressure, and without.
_PRESSURES: Final[Mapping[str, tuple[_Text, _Text]]] = {
    MEMORY_PRESSURE: (
        _Text("KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"),
        _Text("KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"),
    ),
    DISK_PRESSURE: (
        _Text("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
        _Text("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    ),
    PID_PRESSURE: (
        _Text("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"),
        _Text("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
    ),
}


class NodeHealth(msgspec.Struct, frozen=True):
    """What the parts of a node agent report."""

    #: Conditions that the eviction loop reports.
    pressures: Sequence[str] = ()
    #: Why the node is not ready: of the runtime, the network, the storage, a shutdown, in this order.
    errors: Sequence[str] = ()
    #: Resources whose capacity is known.
    capacity: Iterable[str] = REQUIRED_CAPACITY
    #: What the node does without, ready or not.
    warnings: Sequence[str] = ()


class NodeConditions(NamedTuple):
    conditions: list[Obj]
    #: Reasons of the events, all of them `Normal`.
    events: list[str]


def node_conditions(before: Sequence[Obj], health: NodeHealth, moment: str) -> NodeConditions:
    """The conditions from now on; those of other writers stay as they are. `moment` is RFC 3339."""
    conditions = {condition["type"]: condition for condition in before}
    events: list[str] = []
    for kind, (under_pressure, without) in _PRESSURES.items():
        is_pressed = kind in health.pressures
        known = conditions.get(kind)
        if known is not None and known["status"] == str(is_pressed):
            conditions[kind] = known | {"lastHeartbeatTime": moment}
            continue
        reason, message, event = under_pressure if is_pressed else without
        conditions[kind] = _condition(kind, is_pressed, reason, message, moment)
        events.append(event)
    known, conditions[READY] = conditions.get(READY), _condition(READY, *_readiness(health), moment)
    if known is not None and known["status"] == conditions[READY]["status"]:
        conditions[READY]["lastTransitionTime"] = known["lastTransitionTime"]
    elif known is not None:  # that a node which has just appeared is ready is no news to anybody
        events.append("NodeReady" if conditions[READY]["status"] == "True" else "NodeNotReady")
    return NodeConditions(list(conditions.values()), events)


def _condition(kind: str, is_true: bool, reason: str, message: str, moment: str) -> Obj:
    return {
        "type": kind,
        "status": str(is_true),
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def _readiness(health: NodeHealth) -> tuple[bool, str, str]:
    errors = list(health.errors)
    if missing := [name for name in REQUIRED_CAPACITY if name not in health.capacity]:
        errors.append(f"missing node capacity for resources: {', '.join(missing)}")
    if errors:
        reason, message = "KubeletNotReady", aggregate(errors)
    else:
        reason, message = "KubeletReady", "kubelet is posting ready status"
    if health.warnings:
        message += f". WARNING: {aggregate(health.warnings)}"
    return not errors, reason, message


def aggregate(errors: Iterable[str]) -> str:
    """Several errors as one text, as apimachinery's aggregates print: each once, in brackets if there are several."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
