"""Pods leave a node with a NoExecute taint: at once, or after as long as they tolerate it.

Source: pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairlead.api.nodes import Node
from fairlead.api.pods import ABSENT, Pod
from fairlead.api.references import Reference
from fairlead.api.taints import NO_EXECUTE, Taint, TimedToleration, is_tolerated, tolerates
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Actions, Delete, Emit, Patch, Requeue
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import NODES, PODS
from fairlead.controllers.pods import pods_on
from fairlead.runtime.clock import timestamp
from fairlead.runtime.metrics import COUNTER, Computed, Histogram

#: The buckets of how late pods go.
DELETION_SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)


def _evicting(node: Node | None) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE] if node is not None else []


def _pods_on(world: World, old: Node | None, new: Node | None) -> Iterator[str]:
    either = new or old
    assert either is not None
    if _evicting(old) != _evicting(new):
        yield from (pod.metadata.key for pod in pods_on(world, either.metadata.name))


def tolerated_seconds(taints: Iterable[Taint], tolerations: Sequence[TimedToleration]) -> float | None:
    """For how long all the taints are tolerated; None means for ever, 0 not at all."""
    shortest: float | None = None
    for taint in taints:
        used = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            seconds = max(float(used.toleration_seconds), 0.0)
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


class TaintEviction(Controller[Pod]):
    name = "taint-eviction-controller"
    queue_name = "noexec_taint_pod"
    account = "node-controller"
    kind = PODS
    watches = (Watch(NODES, _pods_on),)

    def __init__(self) -> None:
        self._deletions = Histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] How long pods stayed after they had to go.",
            DELETION_SECONDS,
        )
        self.families = (
            self._deletions,
            Computed(
                COUNTER,
                "taint_eviction_controller_pod_deletions_total",
                "[ALPHA] Pods that were deleted because of taints.",
                (),
                lambda: [((), self._deletions.of().count)],
            ),
        )
        self._due: dict[str, tuple[str, float]] = {}  # the uids of pods that are to go, and when

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        if new is None:
            return old is not None and old.metadata.key in self._due
        before = (old.spec.node_name, old.spec.raw_tolerations) if old is not None else ("", ABSENT)
        if before == (new.spec.node_name, new.spec.raw_tolerations):
            return False
        return new.metadata.key in self._due or bool(_evicting(world.get(NODES, new.spec.node_name)))

    def gone(self, key: str, world: World) -> Actions:
        """Somebody else deleted the pod in time."""
        _, due = self._due.pop(key, ("", 0.0))
        if due > world.monotonic:
            yield _cancelled(key)

    def reconcile(self, obj: Pod, world: World) -> Actions:
        key, uid, now = obj.metadata.key, obj.metadata.uid, world.monotonic
        if obj.metadata.is_terminating:
            return
        taints = _evicting(world.get(NODES, obj.spec.node_name)) if obj.spec.node_name else []
        seconds = tolerated_seconds(taints, obj.spec.tolerations)
        waits = seconds is not None and all(is_tolerated(taint, obj.spec.tolerations) for taint in taints)
        known = self._due.get(key)
        if known is not None and (not waits or known[0] != uid):
            del self._due[key]
            yield _cancelled(key)
        if seconds is None:
            return
        if waits:
            _, due = self._due.setdefault(key, (uid, now + seconds))  # what is set is not moved, as upstream
            if due > now:
                yield Requeue(due - now)
                return
        yield _event_about_pod(key, f"Marking for deletion Pod {key}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "observedGeneration": obj.metadata.generation or None,
            "lastTransitionTime": timestamp(world.now),
        }
        yield Patch(PODS, obj, {"status": {"conditions": [condition]}}, PatchType.STRATEGIC, subresource="status")
        yield Delete(PODS, obj)
        _, due = self._due.pop(key, ("", now))
        self._deletions.observe(world.monotonic - due)


def _cancelled(key: str) -> Emit:
    return _event_about_pod(key, f"Cancelling deletion of Pod {key}")


def _event_about_pod(key: str, message: str) -> Emit:
    """About the pod of that name, whichever it is."""
    namespace, _, name = key.partition("/")
    about = Reference(api_version="v1", kind="Pod", namespace=namespace, name=name)
    return Emit("TaintManagerEviction", message, about=about)
