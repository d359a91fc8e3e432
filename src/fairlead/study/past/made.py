"""Who is made again by a controller of the dump when it is played on, and so must not be played as an arrival, too.

Of what is still there its owner tells; of what is gone the Events of who made it, and else its name, which controllers
make of their own and an ending: digits, a hash, five letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fairlead.api.objects import Obj, metadata
from fairlead.study.past.events import Said
from fairlead.study.reading import controller_of

#: Makers whose pods are services and no arrivals: they come when somebody scales them, or where one was lost.
_LASTING: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Node"})
_MAKERS: Final = _LASTING | {"CronJob"}
#: An ending that something has made up: five letters of Kubernetes' alphabet, a number, a hash.
_MADE_UP: Final = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d+|[0-9a-f]{8,64})\Z")
#: How many endings a name may have: `CronJob-minutes-xxxxx` has two.
_MOST_ENDINGS: Final = 3


def stems(name: str) -> list[str]:
    """The name without one of its made up endings, without two, …"""
    found: list[str] = []
    while len(found) < _MOST_ENDINGS and (ending := _MADE_UP.search(name)) is not None and ending.start():
        name = name[: ending.start()]
        found.append(name)
    return found


def stem(name: str) -> str:
    """What all of a kind have in common."""
    return (stems(name) or [name])[-1]


class Makers:
    """The controllers that there are or were, and what they have made."""

    def __init__(self, objects: Iterable[Obj], said: Sequence[Said]) -> None:
        self._names: set[tuple[str, str]] = set()  # of what makes pods or Jobs again
        self._jobs: set[tuple[str, str]] = set()
        self._made: set[tuple[str, str]] = set()  # pods, by whomever, and Jobs of CronJobs
        for obj in objects:
            meta = metadata(obj)
            self._add(obj["kind"], str(meta.get("namespace", "default")), str(meta.get("name")))
        for event in said:
            self._add(event.kind, event.namespace, event.name)
            if event.created:
                self._made.add((event.namespace, event.created))

    def _add(self, kind: str, namespace: str, name: str) -> None:
        if kind in _MAKERS:
            self._names.add((namespace, name))
        elif kind == "Job":
            self._jobs.add((namespace, name))

    def makes(self, obj: Obj) -> bool:
        """Whether this pod or Job of the dump is made again, or counts with the Job that has made it."""
        meta, owner = metadata(obj), controller_of(obj)
        namespace, kind = str(meta.get("namespace", "default")), str(owner.get("kind"))
        if kind == "Job":
            job = str(owner.get("name"))
            return (namespace, job) in self._jobs or self.has_made_job(namespace, job)
        if kind == "CronJob":
            return (namespace, str(owner.get("name"))) in self._names
        return kind in _LASTING

    def has_made_job(self, namespace: str, name: str) -> bool:
        """Whether a Job that is gone was one of a CronJob."""
        return (namespace, name) in self._made or self._is_of((namespace, each) for each in stems(name)[:1])

    def has_made_pod(self, namespace: str, name: str) -> bool:
        """Whether a pod that is gone was anybody's, also a Job's."""
        names = [(namespace, each) for each in stems(name)]
        return (namespace, name) in self._made or self._is_of(names) or not self._jobs.isdisjoint(names)

    def _is_of(self, names: Iterable[tuple[str, str]]) -> bool:
        return not self._names.isdisjoint(names)
