"""Autoscalers at rest: their next looks would find what the last one found, so they sleep until something stirs.

Whoever simulates the nodes knows when what is measured there stands still; no metrics server does, so that elsewhere
an autoscaler looks every 15 seconds. A day of fifty that rest would else be 288,000 looks at what nobody has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

import msgspec

from fairlead.api.meta import Object
from fairlead.api.pods import Pod
from fairlead.controllers.base import Watch, World
from fairlead.controllers.horizontal.ambiguity import TargetSelectors
from fairlead.controllers.horizontal.pod_groups import CPU_INITIALIZATION_SECONDS
from fairlead.controllers.kinds import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from fairlead.runtime.clock import parse_timestamp

_TARGETS: Final = (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
_NODE, _NAMESPACE = "node", "namespace"


class Measured(Protocol):
    """What a simulation knows of that which is measured on its nodes."""

    def stands_still(self, node: str, /) -> bool:
        """Whether it stays the same until followers are told of a change there."""
        ...

    def follow(self, changed: Callable[[str], None], /) -> None:
        """`changed` is called with the name of a node where something comes, goes or is set anew."""
        ...


class Rest(msgspec.Struct, frozen=True):
    """An autoscaler that sleeps since its look at that time, in seconds on the monotonic clock."""

    key: str
    looked_at: float
    target: tuple[str, str]  # the qualified name of its kind, and its key
    nodes: frozenset[str]

    @property
    def places(self) -> Iterator[tuple[str, str]]:
        """Where something stirs that concerns it."""
        yield self.target
        yield _NAMESPACE, self.key.partition("/")[0]
        for node in self.nodes:
            yield _NODE, node


class Rests:
    """Who rests, and what wakes whom."""

    def __init__(self, measured: Measured, selectors: TargetSelectors) -> None:
        self._measured, self._selectors = measured, selectors
        self._rests: dict[str, Rest] = {}
        self._at: dict[tuple[str, str], set[str]] = {}  # keys by place
        self._wake: Callable[[str], None] = lambda key: None
        self.watches = (
            Watch(PODS, self._of_pod),
            *(Watch(kind, self._of_target(kind.resource.qualified)) for kind in _TARGETS),
        )

    def follow(self, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._measured.follow(partial(self._stir, _NODE))
        self._selectors.follow(partial(self._stir, _NAMESPACE))  # two that select the same pods are in each other's way

    def _stir(self, kind: str, name: str) -> None:
        for key in sorted(self._at.pop((kind, name), ())):  # once: a hundred pods may start there at one moment
            self._wake(key)

    def may_rest(self, target: str, pods: Iterable[Pod], nodes: Iterable[str], now: float) -> bool:
        """Whether time alone changes nothing of what is known about these pods, on these nodes, of such a target."""
        if all(target != kind.resource.qualified for kind in _TARGETS):
            return False
        is_settled = all(_is_waiting(pod) or _is_settled(pod, now) for pod in pods)
        return is_settled and all(map(self._measured.stands_still, nodes))

    def begin(self, rest: Rest) -> None:
        self._rests[rest.key] = rest
        for place in rest.places:
            self._at.setdefault(place, set()).add(rest.key)

    def end(self, key: str) -> Rest | None:
        """It is awake; returns what it did until now."""
        rest = self._rests.pop(key, None)
        if rest is not None:
            for place in rest.places:
                keys = self._at.get(place, set())
                keys.discard(key)
                if not keys:
                    self._at.pop(place, None)
        return rest

    def _of_pod(self, world: World, old: Pod | None, new: Pod | None) -> Iterable[str]:
        if not self._rests:
            return
        found = set[str]()
        for pod in filter(None, (old, new)):
            names = self._selectors.matching(pod.metadata.namespace, tuple(pod.metadata.labels.items()))
            found.update(f"{pod.metadata.namespace}/{name}" for name in names)
        yield from sorted(found & self._rests.keys())

    def _of_target(self, kind: str) -> Callable[[World, Object | None, Object | None], Iterable[str]]:
        def woken(world: World, old: Object | None, new: Object | None) -> Iterable[str]:
            either = new or old
            return sorted(self._at.get((kind, either.metadata.key), ())) if either is not None else ()

        return woken


def _is_settled(pod: Pod, now: float) -> bool:
    """Whether it has been ready for so long that its sample counts from now on."""
    ready = pod.ready_condition
    if pod.metadata.is_terminating or pod.status.phase != "Running" or ready is None or ready.status != "True":
        return False
    since = max(map(parse_timestamp, filter(None, (pod.status.start_time, ready.last_transition_time))), default=now)
    return since + CPU_INITIALIZATION_SECONDS <= now


def _is_waiting(pod: Pod) -> bool:
    """Whether it waits for a node: nothing is measured of it."""
    return not pod.spec.node_name and pod.status.phase == "Pending" and not pod.metadata.is_terminating
