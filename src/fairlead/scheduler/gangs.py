"""Gangs: pods of a group start all together or not at all.

A group is a `PodGroup` of the scheduler-plugins project, its pods carry the group's label. The whole group is decided
in one go, over a snapshot in which every decided pod counts at once; where too few fit, all of it is taken back before
anybody else is tried. Nothing is held while a group waits, so two groups cannot wait for what the other one holds.

Off unless a profile enables the plugin `Coscheduling`. https://sigs.k8s.io/scheduler-plugins
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead.api.meta import Object, View
from fairlead.api.resources import Resource
from fairlead.api.scheduling import GROUP_LABEL, Pod
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.framework import Plugin

POD_GROUPS: Final = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", singular="podgroup", short_names=("pg", "pgs")
)


class PodGroupSpec(View):
    min_member: int = 1


class PodGroup(Object):
    spec: PodGroupSpec = PodGroupSpec()


class GangArguments(Arguments):
    """Of scheduler-plugins; nothing is held here while a group waits, so there is no waiting to limit."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0


class Coscheduling(Plugin):
    """Switches gangs on; it has no say about single nodes."""

    name = "Coscheduling"
    arguments = GangArguments


class Gang(msgspec.Struct):
    """What is known of a group: its object, if there is one, and the pods that carry its label."""

    key: str
    least: int | None = None
    waiting: dict[str, None] = msgspec.field(default_factory=dict)
    placed: set[str] = msgspec.field(default_factory=set)

    def missing(self, count: int) -> str:
        """Why the group cannot even be tried with so many that have started or may; empty if it can."""
        if self.least is None:
            return f"PodGroup {self.key} not found"
        if count < self.least:
            return f"cannot find enough sibling pods, current pods number: {count}, minMember of group: {self.least}"
        return ""

    def needed(self, started: int) -> int:
        """How many of those that wait must get a node when so many have one."""
        return max((self.least or 1) - started, 0)


class Gangs:
    """All groups, by `namespace/name`."""

    def __init__(self) -> None:
        self._gangs: dict[str, Gang] = {}
        self._listeners: list[Callable[[Iterable[str]], None]] = []

    def subscribe(self, listener: Callable[[Iterable[str]], None]) -> None:
        """Call it with the pods of a group that are worth another try."""
        self._listeners.append(listener)

    def of(self, pod: Pod) -> Gang | None:
        """The pod's group, if it is in one."""
        key = _group_of(pod)
        return self._gangs.setdefault(key, Gang(key)) if key else None

    def group_event(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A group came, changed or went."""
        either = new or old
        assert either is not None
        gang = self._gangs.setdefault(either.metadata.key, Gang(either.metadata.key))
        gang.least = new.spec.min_member if new else None
        self._notify(gang)
        self._forget_if_empty(gang)

    def waits(self, old: Pod | None, pod: Pod) -> None:
        """A pod came or changed that has no node; those that wait for more of them may go on."""
        if old is not None and _group_of(old) != _group_of(pod):
            self.gone(old)
        gang = self.of(pod)
        if gang is not None and pod.metadata.key not in gang.waiting:
            gang.placed.discard(pod.metadata.key)
            gang.waiting[pod.metadata.key] = None
            self._notify(gang)

    def placed(self, pod: Pod) -> None:
        gang = self.of(pod)
        if gang is not None:
            gang.waiting.pop(pod.metadata.key, None)
            gang.placed.add(pod.metadata.key)

    def gone(self, pod: Pod) -> None:
        gang = self.of(pod)
        if gang is not None:
            gang.waiting.pop(pod.metadata.key, None)
            gang.placed.discard(pod.metadata.key)
            self._forget_if_empty(gang)

    def _notify(self, gang: Gang) -> None:
        for listener in self._listeners:
            listener(tuple(gang.waiting))

    def _forget_if_empty(self, gang: Gang) -> None:
        if gang.least is None and not gang.waiting and not gang.placed:
            self._gangs.pop(gang.key, None)


def _group_of(pod: Pod) -> str:
    name = pod.metadata.labels.get(GROUP_LABEL, "")
    return f"{pod.metadata.namespace}/{name}" if name else ""
