"""Pods that nobody else will ever remove: of nodes that are gone, never scheduled, or finished long ago.

Upstream looks every twenty seconds; here a pod whose node vanishes gets a timer. Source: pkg/controller/podgc.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from fairlead.api.errors import NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import DeleteOptions, PatchType
from fairlead.controllers.actions import Actions, Delete, Patch, Read, Requeue, Together
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import NODES, PODS
from fairlead.controllers.pods import pods_on
from fairlead.runtime.clock import timestamp

#: A node may have been deleted only to be registered again.
QUARANTINE_SECONDS: Final = 40.0
#: --terminated-pod-gc-threshold, and how often it is looked at.
MOST_FINISHED: Final = 12_500
SWEEP_SECONDS: Final = 20.0

_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


def _pods_on(world: World, old: Node | None, new: Node | None) -> Iterator[str]:
    either = new or old
    assert either is not None
    if old is None or new is None or _is_lost(old) != _is_lost(new):
        yield from (pod.metadata.key for pod in pods_on(world, either.metadata.name))


def _is_lost(node: Node) -> bool:
    """Somebody has vouched for it that nothing runs there any more."""
    return node.ready_status != "True" and any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints)


class PodGarbage(Controller[Pod]):
    name = "pod-garbage-collector"
    kind = PODS
    watches = (Watch(NODES, _pods_on),)

    def __init__(self, most_finished: int = MOST_FINISHED) -> None:
        self._most_finished = most_finished
        self._missing: dict[str, float] = {}  # nodes that are not there, and since when
        self._swept_at = -math.inf

    def concerns(self, old: Pod | None, new: Pod | None) -> bool:
        if new is None:
            return False
        if old is None:
            return bool(new.spec.node_name) or new.is_finished or new.metadata.is_terminating
        return (old.spec.node_name, old.is_finished, old.metadata.is_terminating) != (
            new.spec.node_name,
            new.is_finished,
            new.metadata.is_terminating,
        )

    def reconcile(self, obj: Pod, world: World) -> Actions:
        if obj.is_finished:
            yield from self._sweep(world)
        name = obj.spec.node_name
        if not name:
            if obj.metadata.is_terminating:
                yield from _remove(obj, None, world.now)
            return
        node = world.get(NODES, name)
        if node is not None:
            self._missing.pop(name, None)
            if obj.metadata.is_terminating and _is_lost(node):
                yield from _remove(obj, "PodGC: node out-of-service", world.now)
            return
        remaining = self._missing.setdefault(name, world.monotonic) + QUARANTINE_SECONDS - world.monotonic
        if remaining > 0:
            yield Requeue(remaining)
            return
        try:
            yield Read(NODES, name)
        except NotFound:
            yield from _remove(obj, "PodGC: node no longer exists", world.now)

    def _sweep(self, world: World) -> Actions:
        """Remove what finished longest ago, if there is too much of it."""
        index = world.of(PODS).index("finished", lambda pod: ("",) if pod.is_finished else ())
        surplus = index.count("") - self._most_finished
        if surplus <= 0:
            return
        since = world.monotonic - self._swept_at
        if since < SWEEP_SECONDS:
            yield Requeue(SWEEP_SECONDS - since)
            return
        self._swept_at = world.monotonic
        oldest = sorted((pod for pod in index[""] if not pod.metadata.is_terminating), key=_first_to_go)[:surplus]
        yield Together([Delete(PODS, pod, DeleteOptions(grace_period_seconds=0)) for pod in oldest])


def _first_to_go(pod: Pod) -> tuple[bool, str, str]:
    is_evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return not is_evicted, pod.metadata.creation_timestamp, pod.metadata.key


def _remove(pod: Pod, why: str | None, now: float) -> Actions:
    """Say that it has failed, so that its owner counts it, and take it away."""
    status: Obj = {}
    if not pod.is_finished:
        status["phase"] = "Failed"
    if why is not None and not pod.is_finished:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": why,
            "observedGeneration": pod.metadata.generation or None,
            "lastTransitionTime": timestamp(now),
        }
        status["conditions"] = [condition]
    if status:
        yield Patch(PODS, pod, {"status": status}, PatchType.STRATEGIC, subresource="status")
    yield Delete(PODS, pod, DeleteOptions(grace_period_seconds=0))
