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
from fairlead.client.informer import Index
from fairlead.controllers.actions import Actions, Delete, Patch, Read, Requeue, Together
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import NODES, PODS
from fairlead.controllers.pods import has_pods, pods_on
from fairlead.runtime.clock import timestamp

#: A node may have been deleted only to be registered again.
QUARANTINE_SECONDS: Final = 40.0
#: --terminated-pod-gc-threshold, and how often it is looked at.
MOST_FINISHED: Final = 12_500
SWEEP_SECONDS: Final = 20.0

#: All finished pods, in their index; and so much of a timestamp says its hour.
_ALL: Final = ""
_TO_THE_HOUR: Final = len("2026-01-01T00")


def _pods_on(world: World, old: Node | None, new: Node | None) -> Iterator[str]:
    either = new or old
    assert either is not None
    if old is None or new is None or _is_lost(old) != _is_lost(new):
        yield from (pod.metadata.key for pod in pods_on(world, either.metadata.name))


def _is_lost(node: Node) -> bool:
    return not node.is_ready and node.is_out_of_service


def _finished(world: World) -> Index[Pod]:
    """All of them, and by the hour in which they were created: to sort all whenever one has finished would
    cost more than everything else in a cluster of jobs.
    """
    return world.of(PODS).index("finished", lambda pod: (_ALL, _hour_to_go(pod)) if pod.is_finished else ())


def _hour_to_go(pod: Pod) -> str:
    is_last, created, _ = _first_to_go(pod)
    return f"{is_last:d} {created[:_TO_THE_HOUR]}"


def _oldest(world: World, count: int) -> list[Pod]:
    """So many of the finished pods, those first that go first."""
    finished, found = _finished(world), list[Pod]()
    for hour in sorted(hour for hour in finished if hour != _ALL):
        found += sorted((pod for pod in finished[hour] if not pod.metadata.is_terminating), key=_first_to_go)
        if len(found) >= count:
            break
    return found[:count]


def _relevant(pod: Pod) -> tuple[str, bool, bool]:
    return pod.spec.node_name, pod.is_finished, pod.metadata.is_terminating


class PodGarbage(Controller[Pod]):
    name = "pod-garbage-collector"
    queue_name = "orphaned_pods_nodes"
    account = "pod-garbage-collector"
    kind = PODS

    def __init__(self, most_finished: int = MOST_FINISHED) -> None:
        self.watches = (Watch(NODES, _pods_on), Watch(PODS, self._successor))
        self._most_finished = most_finished
        self._missing: dict[str, float] = {}  # nodes that are not there, and since when
        self._swept_at = -math.inf
        self._next_sweeper = ""  # the pod whose turn looks next: one timer is enough for all

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        if new is None or (old is not None and _relevant(old) == _relevant(new)):
            return False
        name, is_terminating = new.spec.node_name, new.metadata.is_terminating
        if new.is_finished and self._surplus(world) > 0:
            return True
        return is_terminating or (bool(name) and world.get(NODES, name) is None)

    def reconcile(self, obj: Pod, world: World) -> Actions:
        if obj.is_finished:
            yield from self._sweep(obj.metadata.key, world)
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

    def _successor(self, world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
        """Who looks instead of a pod that has gone, or is another one by that name."""
        if old is not None and new is None and not has_pods(world, old.spec.node_name):
            self._missing.pop(old.spec.node_name, None)
        if old is None or old.metadata.key != self._next_sweeper or (new is not None and new.is_finished):
            return
        self._next_sweeper = ""
        if self._surplus(world) > 0:
            self._next_sweeper = _finished(world)[_ALL][0].metadata.key
            yield self._next_sweeper

    def _surplus(self, world: World) -> int:
        return _finished(world).count(_ALL) - self._most_finished

    def _sweep(self, key: str, world: World) -> Actions:
        """Remove what finished longest ago, if there is too much of it, in the turn of one of them."""
        if self._next_sweeper == key:
            self._next_sweeper = ""
        surplus = self._surplus(world)
        if surplus <= 0:
            return
        since = world.monotonic - self._swept_at
        if since < SWEEP_SECONDS:
            if not self._next_sweeper:
                self._next_sweeper = key
                yield Requeue(SWEEP_SECONDS - since)
            return
        self._swept_at = world.monotonic
        oldest = _oldest(world, surplus)
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
