"""The pending resizes of this node's pods: who waits for room, and in which order. `node/resize.py` decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.agent.pods.real_pod import RealPod
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.node.configuration.load import Configured
from fairlead.node.container_sync import Note
from fairlead.node.pod_lifecycle import PodRun
from fairlead.node.preemption import PREEMPTING
from fairlead.node.resize import NodePods, ResizeSettings, queued, retried


class Sized(NamedTuple):
    """One of the pods that the node has taken."""

    real: RealPod
    run: PodRun


class Decided(NamedTuple):
    #: The uids of pods about which something new was decided.
    changed: Sequence[str]
    preempted: Sequence[Obj]


class PendingResizes:
    def __init__(self, settings: ResizeSettings) -> None:
        self._settings = settings
        self._waiting: tuple[str, ...] = ()

    @property
    def first(self) -> str | None:
        """The pod to look at when there is room again: all that wait are looked at with it."""
        return next(iter(self._waiting), None)

    def decide(self, uid: str, node: Node, pods: Mapping[str, Sized], pressures: Sequence[str], now: float) -> Decided:
        """Decide about a pod that wants another size, and about those that wait; events tell of it."""
        sizes = {each: pod.run.size(pod.real.pod) for each, pod in pods.items()}
        manifests = {each: pod.real.manifest for each, pod in pods.items()}
        before = NodePods(msgspec.to_builtins(node), manifests, sizes, self._waiting)
        result = retried(queued(before, uid), self._settings, pressures, now)
        self._waiting = result.state.waiting
        changed = [each for each, size in result.state.sizes.items() if size != sizes[each]]
        for each in changed:
            pods[each].run.resized(result.state.sizes[each], now)
        for event in result.events:
            if event.reason != PREEMPTING:  # told when it happens
                pods[event.pod["metadata"]["uid"]].real.tell(Note(event.type, event.reason, event.message))
        return Decided(changed, result.preempted)


def resize_settings(configured: Configured) -> ResizeSettings:
    config = configured.configuration
    return ResizeSettings(config.cpu_manager_policy, config.memory_manager_policy)
