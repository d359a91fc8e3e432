"""What the page is told: rows of nodes, pods and shares, and batches of them, in whole numbers.

Whatever a stranger wrote (names, messages) goes in as text, cut where it is long; the page shows it as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.meta import Condition, Object, View
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts, pod_requests
from fairlead.api.pods import ABSENT, FINISHED
from fairlead.api.quantity import Quantity, parse
from fairlead.arbitrator.amounts import LIMITS, parse_amounts
from fairlead.arbitrator.objects import Allocation

#: So much of a message is shown in lists; the why-panel has all of it.
_MOST_TEXT: Final = 300
_ZERO: Final = Quantity(0)
#: A change of what is used is seen if it is at least so much of the node, one part of a hundred.
_VISIBLE_PARTS: Final = 100


class _PodSpec(View):
    node_name: str = ""
    priority: int | None = None
    containers: msgspec.Raw = ABSENT
    init_containers: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT


class _PodStatus(View):
    phase: str = ""
    reason: str = ""
    message: str = ""
    qos_class: str = ""
    conditions: tuple[Condition, ...] | None = ()


class ShownPod(Object):
    """As little of a pod as its row takes. What it requests is decoded when the row is made."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class NodeRow(msgspec.Struct, omit_defaults=True):
    """cpu in thousandths, memory in bytes; what is used is left out where nobody measures."""

    name: str
    ready: bool = True
    open: bool = True
    cpu: int = 0
    memory: int = 0
    pods: int = 0
    used_cpu: int | None = msgspec.field(default=None, name="usedCpu")
    used_memory: int | None = msgspec.field(default=None, name="usedMemory")


class PodRow(msgspec.Struct, omit_defaults=True):
    key: str  # namespace/name
    node: str = ""
    phase: str = ""
    qos: str = ""
    priority: int = 0
    cpu: int = 0
    memory: int = 0
    #: Why it waits, or what was done to it.
    note: str = ""


class ShareRow(msgspec.Struct, omit_defaults=True):
    namespace: str
    #: Of the cluster, divided by its weight.
    share: float
    deserved: dict[str, int]
    used: dict[str, int]
    overused: bool = False


class Batch(msgspec.Struct, omit_defaults=True):
    """What changed by then. `gone` has names and keys; shares are always all of them."""

    at: float  # seconds since the epoch
    nodes: list[NodeRow] = []
    pods: list[PodRow] = []
    gone: list[str] = []
    shares: list[ShareRow] | None = None
    #: From here on everything that was there has been told: what follows are changes.
    is_whole: bool = msgspec.field(default=False, name="isWhole")


def pod_row(pod: ShownPod) -> PodRow:
    spec, status = pod.spec, pod.status
    requests = _requests(spec)
    waits = "" if spec.node_name or status.phase in FINISHED else _why_unscheduled(status)
    return PodRow(
        pod.metadata.key,
        spec.node_name,
        "Terminating" if pod.metadata.is_terminating and status.phase not in FINISHED else status.phase,
        status.qos_class,
        spec.priority or 0,
        requests.get("cpu", _ZERO).milli,
        requests.get("memory", _ZERO).units,
        (waits or status.message or status.reason)[:_MOST_TEXT],
    )


def _requests(spec: _PodSpec) -> Amounts:
    parts: Obj = {}
    for name, raw in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("overhead", spec.overhead),
        ("resources", spec.resources),
    ):
        if raw:
            parts[name] = msgspec.json.decode(raw)
    return pod_requests(parts)


def _why_unscheduled(status: _PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return ""


def node_row(node: Node, used: Mapping[str, str] | None) -> NodeRow:
    """With what it uses, if that was measured."""
    offered = node.status.allocatable
    cpu, memory, pods = (parse(offered.get(name, "0")) for name in ("cpu", "memory", "pods"))
    row = NodeRow(node.metadata.name, node.is_ready, node.is_open, cpu.milli, memory.units, pods.units)
    if used is not None:
        row.used_cpu, row.used_memory = parse(used.get("cpu", "0")).milli, parse(used.get("memory", "0")).units
    return row


def has_moved(node: Node, before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> bool:
    """Whether what a node uses differs by so much that somebody could see it: pages remember every change."""
    if before is None or after is None:
        return before is not after
    return any(
        abs(parse(after.get(name, "0")).nanos - parse(before.get(name, "0")).nanos) * _VISIBLE_PARTS
        >= parse(node.status.allocatable.get(name, "0")).nanos
        for name in ("cpu", "memory")
    )


def share_row(allocation: Allocation) -> ShareRow:
    status = allocation.status
    deserved, used = _amounts(status.deserved), _amounts(status.used)
    share, is_overused = float(status.dominant_share or 0), status.overused_since is not None
    return ShareRow(allocation.metadata.namespace, share, deserved, used, is_overused)


def _amounts(known: Mapping[str, str]) -> dict[str, int]:
    """Whichever of requests and limits the arbitrator divides."""
    return parse_amounts(known, {}) or parse_amounts(known, {}, LIMITS)
