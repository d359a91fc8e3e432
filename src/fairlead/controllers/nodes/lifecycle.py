"""What a node says of itself becomes taints; when it says nothing any more, that is said for it.

    heartbeat (lease or status) ──50 s of silence──▶ Ready=Unknown, its pods not ready ──▶ taint unreachable

Upstream looks at every node each five seconds; here each node has a timer for the moment at which it would have been
silent for too long, and a lease that is renewed costs a dictionary write. Source: pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object
from fairlead.api.nodes import LEASE_NAMESPACE, Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.references import Reference, reference
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Actions, Emit, Patch, Requeue, Together
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import LEASES, NODES, PODS
from fairlead.controllers.nodes.lifetime import Lifetimes
from fairlead.controllers.nodes.taints import EVICTING, evicting, wanted
from fairlead.controllers.nodes.zones import Zones
from fairlead.controllers.pods import pods_on
from fairlead.runtime.clock import parse_timestamp, timestamp

#: --node-monitor-grace-period, --node-startup-grace-period.
GRACE_SECONDS: Final = 50.0
STARTUP_GRACE_SECONDS: Final = 60.0
#: Upstream would notice at its next round, up to this much later.
MARGIN_SECONDS: Final = 0.1


#: The conditions that only the node itself can know.
_TOLD_BY_NODE: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
#: Old names of labels, which follow the new ones.
_BETA_LABELS: Final = {
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
}


class _Health(msgspec.Struct):
    """When a node was last heard of, on our clock, and the heartbeat by which."""

    uid: str
    heard_at: float
    heartbeat: str | None


class NodeLifecycle(Controller[Node]):
    """With `heartbeats=False` every node is believed to be as its status says, for fleets that send none, except those
    of which `is_silent` says that they would send none."""

    name = "node-controller"
    queue_name = "node_lifecycle_controller"
    account = "node-controller"
    kind = NODES

    def __init__(self, *, heartbeats: bool = True, is_silent: Callable[[Node], bool] = lambda node: False) -> None:
        self._heartbeats, self._is_silent = heartbeats, is_silent
        self._silent_since: dict[str, float] = {}  # by node, where none sends heartbeats
        self._health: dict[str, _Health] = {}
        self._renewed: dict[str, float] = {}
        self._zones = Zones()
        self.families = self._zones.families
        self._lifetimes = Lifetimes()
        self._were_all_silent = False
        self._waiting: dict[str, None] = {}  # nodes that are to be given up
        self.watches = (Watch(NODES, self._counted), Watch(LEASES, self._heard), Watch(PODS))

    def _counted(self, world: World, old: Node | None, new: Node | None) -> Iterator[str]:
        """A zone that recovers or fails changes what happens to others that wait to be given up."""
        self._lifetimes.change(old, new)
        if not self._zones.change(old, new):
            return
        yield from self._waiting
        silent = self._zones.are_all_silent
        if silent != self._were_all_silent:
            self._were_all_silent = silent
            for health in self._health.values() if not silent else ():
                health.heard_at = world.monotonic  # we were cut off, and could not have heard of anybody
            yield from sorted(node.metadata.name for node in world.of(NODES))

    def _heard(self, world: World, old: Object | None, new: Object | None) -> Iterator[str]:
        if new is not None and new.metadata.namespace == LEASE_NAMESPACE:
            self._renewed[new.metadata.name] = world.monotonic
        yield from ()

    def gone(self, key: str, world: World) -> Actions:
        self._waiting.pop(key, None)
        self._renewed.pop(key, None)
        self._silent_since.pop(key, None)
        health = self._health.pop(key, None)
        if health is not None:
            yield _event_about_node(
                "RemovingNode", f"Node {key} event: Removing Node {key} from Controller", key, health.uid
            )

    def reconcile(self, obj: Node, world: World) -> Actions:
        name, now = obj.metadata.name, world.monotonic
        health = self._health.get(name)
        if health is None or health.uid != obj.metadata.uid:
            text = f"Node {name} event: Registered Node {name} in Controller"
            yield _event_about_node("RegisteredNode", text, name, obj.metadata.uid)
        health = self._health[name] = self._health_of(obj, health, world)
        if not self._heartbeats:
            health.heard_at = self._last_sign(obj, world.monotonic)
        is_expected = self._heartbeats or name in self._silent_since
        silent_at = health.heard_at + (STARTUP_GRACE_SECONDS if obj.ready_status is None else GRACE_SECONDS)
        if is_expected and now > silent_at:
            yield from _fall_silent(obj, world)
        elif is_expected:
            yield Requeue(silent_at - now + MARGIN_SECONDS)
        yield from self._taint(obj, world)

    def _last_sign(self, node: Node, now: float) -> float:
        """Of a node that sends no heartbeats: now, or when it fell silent."""
        if self._is_silent(node):
            return self._silent_since.setdefault(node.metadata.name, now)
        self._silent_since.pop(node.metadata.name, None)
        return now

    def _health_of(self, node: Node, known: _Health | None, world: World) -> _Health:
        ready, uid, now = node.condition("Ready"), node.metadata.uid, world.monotonic
        heartbeat = None if ready is None else ready.last_heartbeat_time or ""
        if known is None or known.uid != uid:
            created = node.metadata.creation_timestamp
            age = max(world.now - parse_timestamp(created), 0.0) if ready is None and created else 0.0
            known = _Health(uid, now - age, heartbeat)
        elif known.heartbeat != heartbeat:
            known = _Health(uid, now, heartbeat)
        known.heard_at = max(known.heard_at, self._renewed.get(node.metadata.name, known.heard_at))
        return known

    def _taint(self, node: Node, world: World) -> Actions:
        """Bring taints, old labels and annotations up to date; to drive pods away, the zone has to agree."""
        name, now, current = node.metadata.name, world.monotonic, evicting(node)
        target = EVICTING.get(node.ready_status or "") if not self._zones.are_all_silent else None
        self._waiting.pop(name, None)
        if target is not None and current is None:
            zone = self._zones.of(node)
            wait = zone.wait_seconds(now)
            if wait == 0:
                zone.give_up(now)
            else:
                self._waiting[name] = None
                target = None
                if wait is not None:
                    yield Requeue(wait)
        taints = wanted(node, target, timestamp(world.now))
        patch: Obj = {"spec": {"taints": taints or None}} if taints is not None else {}
        labels = node.metadata.labels
        followed = {old: labels[new] for old, new in _BETA_LABELS.items() if new in labels}
        followed = {old: value for old, value in followed.items() if labels.get(old) != value}
        wanted_metadata = {"labels": followed, "annotations": self._lifetimes.annotations(node)}
        if metadata := {name: changes for name, changes in wanted_metadata.items() if changes}:
            patch["metadata"] = metadata
        if patch:
            yield Patch(NODES, node, patch, unchanged=True)


def _fall_silent(node: Node, world: World) -> Actions:
    """Say for the node that nothing is known of it, and of its pods that they are not ready."""
    now = timestamp(world.now)
    unknown = [condition for type_ in _TOLD_BY_NODE if (condition := _unknown(node, type_, now)) is not None]
    if not unknown:
        return
    yield Patch(NODES, node, {"status": {"conditions": unknown}}, PatchType.STRATEGIC, subresource="status")
    if node.ready_status == "True":
        name = node.metadata.name
        yield _event_about_node("NodeNotReady", f"Node {name} status is now: NodeNotReady", name, node.metadata.uid)
        yield from _mark_unready([pod for pod in pods_on(world, name) if pod.is_ready], now)


def _unknown(node: Node, type_: str, now: str) -> Obj | None:
    current = node.condition(type_)
    if current is None:
        return {
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": now,
        }
    if current.status == "Unknown":
        return None
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": now,
    }


def _mark_unready(pods: list[Pod], now: str) -> Actions:
    if not pods:
        return
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}}
    patches = [Patch(PODS, pod, unready, PatchType.STRATEGIC, subresource="status") for pod in pods]
    outcomes: list[Any] = yield Together(patches)
    for pod, outcome in zip(pods, outcomes, strict=True):
        if not isinstance(outcome, Exception):
            yield Emit("NodeNotReady", "Node is not ready", WARNING, reference(pod, PODS.resource))


def _event_about_node(reason: str, message: str, name: str, uid: str) -> Emit:
    return Emit(reason, message, about=Reference(api_version="v1", kind="Node", name=name, uid=uid))
