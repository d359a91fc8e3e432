"""The pending resizes of a fleet's pods, node by node: who waits for room on a node, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.pods import Pod
from fairlead.node.allocation import whole_amounts
from fairlead.node.pod_lifecycle import PodRun
from fairlead.node.preemption import PREEMPTING
from fairlead.node.resize import NodePods, PodSize, ResizeSettings, queued, retried, with_allocation
from fairlead.node.resize_messages import ResizeEvent
from fairlead.sim.pod_manifest import manifest_of


class Terms(NamedTuple):
    """What of a node besides its room decides about resizes: its settings, and the pressures that it is under."""

    settings: ResizeSettings
    conditions: Sequence[str] = ()


class Decided(NamedTuple):
    """What came of the pending resizes of a node."""

    #: The pods about which something new was decided, and what each of them holds now.
    held: Mapping[str, Mapping[str, int]]
    events: Sequence[ResizeEvent]
    preempted: Sequence[Obj]


class PendingResizes:
    """Which pods of a node wait to be resized."""

    def __init__(self, terms: Callable[[str], Terms]) -> None:
        self._waiting: dict[str, tuple[str, ...]] = {}  # uids by node
        self._terms = terms

    def first(self, node: str) -> str | None:
        """The pod to look at when there is new room on the node: all that wait there are looked at with it."""
        return next(iter(self._waiting.get(node, ())), None)

    def decide(self, uid: str, node: Node, pods: Mapping[str, tuple[Pod, PodRun]], now: float) -> Decided:
        """Decide about a pod that wants another size, and about those that wait; `pods` are all of the node, by uid."""
        name = node.metadata.name
        manifests = {each: _with_generation(pod) for each, (pod, _) in pods.items()}
        sizes = {each: run.size(pod) for each, (pod, run) in pods.items()}
        before = NodePods(msgspec.to_builtins(node), manifests, sizes, self._waiting.pop(name, ()))
        result = retried(queued(before, uid), *self._terms(name), now)
        if result.state.waiting:
            self._waiting[name] = result.state.waiting
        changed = {each: size for each, size in result.state.sizes.items() if size != sizes[each]}
        for each, size in changed.items():
            pods[each][1].resized(size, now)
        held = {each: _amounts(manifests[each], size) for each, size in changed.items()}
        events = [event for event in result.events if event.reason != PREEMPTING]
        return Decided(held, events, result.preempted)

    def forget(self, node: str) -> None:
        self._waiting.pop(node, None)


def allocated_amounts(pod: Pod, run: PodRun) -> Mapping[str, int]:
    """What a pod holds that is allocated something else than it desires."""
    return _amounts(manifest_of(pod), run.size(pod))


def _amounts(manifest: Obj, size: PodSize) -> Mapping[str, int]:
    return whole_amounts(pod_requests(with_allocation(manifest, size.allocated)["spec"]))


def _with_generation(pod: Pod) -> Obj:
    manifest = manifest_of(pod)
    return manifest | {"metadata": manifest["metadata"] | {"generation": pod.metadata.generation}}
