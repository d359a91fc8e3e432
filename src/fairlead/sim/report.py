"""The report of a simulated run: how many pods ran, how long they waited, how full the cluster was."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Pod
from fairlead.client.informer import Informers
from fairlead.node.allocation import amounts
from fairlead.runtime.clock import now, parse_timestamp, timestamp
from fairlead.sim.admission import wants
from fairlead.sim.machine.machines import Machines
from fairlead.sim.node_troubles import NodeTroubles
from fairlead.sim.usage_record import UsageRecord

#: How many of the longest waits are listed.
LONGEST_WAITS = 10
#: How many equal parts of the run utilisation is averaged over.
UTILISATION_SLOTS = 24


class Usage(msgspec.Struct):
    """Capacity and requests of one resource over time."""

    capacity: int = 0
    requested: int = 0
    #: (moment, requested, capacity) from each change on.
    samples: list[tuple[float, int, int]] = msgspec.field(default_factory=list)

    def change(self, moment: float, *, requested: int = 0, capacity: int = 0) -> None:
        self.requested += requested
        self.capacity += capacity
        if self.samples and self.samples[-1][0] == moment:
            self.samples.pop()
        self.samples.append((moment, self.requested, self.capacity))

    @property
    def peak(self) -> float:
        """The largest requested fraction of the capacity."""
        return max((requested / capacity for _, requested, capacity in self.samples if capacity), default=0.0)

    def over_time(self, began: float, end: float) -> tuple[list[float], list[float]]:
        """The means of requests and of capacity over equal parts of the run; for a run of length 0, their last
        values.
        """
        if end <= began:
            return [float(self.requested)], [float(self.capacity)]
        return (
            _averages([(moment, requested) for moment, requested, _ in self.samples], began, end),
            _averages([(moment, capacity) for moment, _, capacity in self.samples], began, end),
        )


class NamespaceUsage(msgspec.Struct):
    """The pods of one namespace: how many were placed and evicted, and what they held over time."""

    placed: int = 0
    evicted: int = 0
    held: dict[str, int] = msgspec.field(default_factory=dict)
    area: dict[str, float] = msgspec.field(default_factory=dict)
    changed_at: float = 0.0

    def hold(self, amounts_: Mapping[str, int], sign: int, moment: float) -> None:
        self.until(moment)
        for name, amount in amounts_.items():
            self.held[name] = self.held.get(name, 0) + sign * amount

    def until(self, moment: float) -> None:
        """Add what was held until that moment to the area."""
        for name, amount in self.held.items():
            self.area[name] = self.area.get(name, 0.0) + amount * (moment - self.changed_at)
        self.changed_at = moment


class RunObserver:
    """Watches a run through informers and collects its statistics. `summary` may be called at any time."""

    def __init__(self, informers: Informers, machines: Machines | None = None) -> None:
        """With machines it can tell what was used, too; `record` is then to be run."""
        self.record = UsageRecord(machines, self._requested) if machines is not None else None
        self.began = self.last_event = now()
        self._digest = hashlib.sha256()
        self._usage: dict[str, Usage] = {}
        self._seen = 0  # pods, those included that are gone
        self._created: dict[str, float] = {}  # when, by key
        self._waits: dict[str, float] = {}
        self._held: dict[str, Mapping[str, int]] = {}
        self._nodes: set[str] = set()  # those that exist
        self._all_nodes: set[str] = set()  # those, too, that are gone
        self._on_node: dict[str, dict[str, int]] = {}  # requests by node, whether it exists or not
        self._placed = 0
        self._namespace_usage: dict[str, NamespaceUsage] = {}
        self._troubles = NodeTroubles()
        self._finished: dict[str, int] = dict.fromkeys(FINISHED, 0)
        informers.of(NODES, Node).subscribe(self._node)
        informers.of(PODS, Pod).subscribe(self._pod)

    def _node(self, old: Node | None, new: Node | None) -> None:
        """A node brings capacity and takes it away, and the requests of its pods with it."""
        moment = now()
        for node, sign in ((old, -1), (new, 1)):
            if node is None:
                continue
            allocatable = amounts(node.status.allocatable)
            for name in allocatable.keys() - {"pods"}:
                self._usage.setdefault(name, Usage()).change(moment, capacity=sign * allocatable[name])
            if (old is None) != (new is None):
                self._request(self._on_node.get(node.metadata.name, {}), sign, moment)
        self._troubles.node(old, new, moment)
        if new is None:
            assert old is not None
            self._nodes.discard(old.metadata.name)
        else:
            self._nodes.add(new.metadata.name)
            self._all_nodes.add(new.metadata.name)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key, moment = pod.metadata.key, now()
        self.last_event = moment
        if old is None:
            self._seen += 1
            self._created[key] = moment
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            self._bound(key, new, moment)
        if new is None or (new.is_finished and not (old and old.is_finished)):
            self._ended(key, pod, moment, is_gone=new is None, is_past=old is None)
        self._troubles.pod(old, new)
        phase = new.status.phase if new else "gone"
        self._digest.update(f"{moment:.3f} {key} {pod.spec.node_name} {phase}\n".encode())

    def _bound(self, key: str, pod: Pod, moment: float) -> None:
        self._placed += 1
        self._waits[key] = moment - self._created.get(key, moment)
        self._held[key] = wants(pod)
        totals = self._namespace_usage.setdefault(pod.metadata.namespace, NamespaceUsage(changed_at=moment))
        totals.placed += 1
        totals.hold(self._held[key], 1, moment)
        self._hold(pod.spec.node_name, self._held[key], 1, moment)

    def _ended(self, key: str, pod: Pod, moment: float, *, is_gone: bool, is_past: bool) -> None:
        if (held := self._held.pop(key, None)) is not None:
            self._hold(pod.spec.node_name, held, -1, moment)
            totals = self._namespace_usage[pod.metadata.namespace]
            totals.hold(held, -1, moment)
            totals.evicted += not is_past and _was_evicted(pod)
        if not is_gone:
            self._finished[pod.status.phase] += 1
        else:
            self._created.pop(key, None)

    def _hold(self, node: str, amounts_: Mapping[str, int], sign: int, moment: float) -> None:
        on_node = self._on_node.setdefault(node, {})
        for name, amount in amounts_.items():
            on_node[name] = on_node.get(name, 0) + sign * amount
        if node in self._nodes:
            self._request(amounts_, sign, moment)

    def _request(self, amounts_: Mapping[str, int], sign: int, moment: float) -> None:
        for name, amount in amounts_.items():
            self._usage.setdefault(name, Usage()).change(moment, requested=sign * amount)

    def capacity(self) -> Mapping[str, int]:
        """What all nodes together may give, by resource."""
        return {name: usage.capacity for name, usage in self._usage.items()}

    @property
    def digest(self) -> str:
        """Of everything that happened to every pod, in order: equal runs have equal digests."""
        return self._digest.hexdigest()

    def summary(self, informers: Informers, end: float) -> Obj:
        """The whole run as data, up to `end` (seconds since the epoch)."""
        pods = list(informers.of(PODS, Pod))
        waiting = [pod for pod in pods if not pod.spec.node_name and not pod.is_finished]
        waits = dict(self._waits)
        for pod in waiting:
            waits[pod.metadata.key] = end - parse_timestamp(pod.metadata.creation_timestamp)
        longest = sorted(waits.items(), key=lambda wait: (-wait[1], wait[0]))[:LONGEST_WAITS]
        return {
            "began": timestamp(self.began),
            "ended": timestamp(end),
            "seconds": round(end - self.began, 3),
            "nodes": len(informers.of(NODES, Node)),
            "nodesInAll": len(self._all_nodes),
            "created": self._seen,
            "placed": self._placed,
            "succeeded": self._finished["Succeeded"],
            "failed": self._finished["Failed"],
            "waiting": len(waiting),
            "nodeTroubles": self._troubles.summary(end) | self._throttled(),
            "waitingPods": [_waiting(pod, end) for pod in sorted(waiting, key=lambda pod: pod.metadata.key)],
            "namespaces": self._namespaces(waiting, end),
            "longestWaits": [{"pod": key, "seconds": round(wait, 3)} for key, wait in longest if wait > 0],
            "utilisation": {name: self._utilisation(usage, end) for name, usage in sorted(self._usage.items())},
            "used": self._used(end),
            "digest": self.digest,
        }

    def _requested(self) -> Mapping[str, Mapping[str, int]]:
        return {name: self._on_node.get(name, {}) for name in self._nodes}

    def _throttled(self) -> Obj:
        return {"throttledSeconds": round(self.record.throttled_seconds, 3)} if self.record is not None else {}

    def _used(self, end: float) -> Obj:
        """What was used of the capacity; nothing where nobody declared any usage."""
        looks = self.record.looks if self.record is not None and self.record.is_declared else []
        found: Obj = {}
        for name in ("cpu", "memory") if looks else ():
            usage = self._usage.get(name, Usage())
            _, capacity = usage.over_time(self.began, end)
            used = _averages([(look.moment, look.used[name]) for look in looks], self.began, end)
            parts = [round(part / of, 4) if of else 0.0 for part, of in zip(used, capacity, strict=False)]
            whole = sum(capacity)
            found[name] = {
                "mean": round(sum(used) / whole, 4) if whole else 0.0,
                "peak": round(max(look.used[name] for look in looks) / usage.capacity, 4) if usage.capacity else 0.0,
                "overTime": parts,
            }
        return found

    def _namespaces(self, waiting: Iterable[Pod], end: float) -> Obj:
        """By namespace: how many pods were placed, wait and were evicted, and the mean part of the cluster held."""
        left = Counter(pod.metadata.namespace for pod in waiting)
        found: Obj = {}
        for name in sorted(self._namespace_usage.keys() | left.keys()):
            totals = self._namespace_usage.get(name, NamespaceUsage())
            totals.until(end)
            mean = {
                resource: round(area / (end - self.began) / usage.capacity, 4)
                for resource, area in sorted(totals.area.items())
                if (usage := self._usage.get(resource)) and usage.capacity and end > self.began
            }
            found[name] = {
                "placed": totals.placed,
                "waiting": left[name],
                "evicted": totals.evicted,
                "mean": mean,
            }
        return found

    def _utilisation(self, usage: Usage, end: float) -> Obj:
        requested, capacity = usage.over_time(self.began, end)
        whole = sum(capacity)
        return {
            "capacity": usage.capacity,
            "mean": round(sum(requested) / whole, 4) if whole else 0.0,
            "peak": round(usage.peak, 4),
            "overTime": [round(part / of, 4) if of else 0.0 for part, of in zip(requested, capacity, strict=True)],
        }


def _waiting(pod: Pod, end: float) -> Obj:
    """A pod that waits at the end, for how long, and the scheduler's last message."""
    scheduled = pod.condition("PodScheduled")
    condition = scheduled if scheduled is not None and scheduled.status == "False" else None
    return {
        "pod": pod.metadata.key,
        "since": pod.metadata.creation_timestamp,
        "seconds": round(end - parse_timestamp(pod.metadata.creation_timestamp), 3),
        "reason": condition.reason if condition else "",
        "message": condition.message if condition else "",
    }


def _was_evicted(pod: Pod) -> bool:
    """By an eviction or by preemption, not by its own end."""
    condition = pod.condition("DisruptionTarget")
    return condition is not None and condition.status == "True"


def _averages(samples: Sequence[tuple[float, float]], began: float, end: float) -> list[float]:
    """The time-weighted mean of a step function in each of the equal parts of [began, end).

    Slots are walked by index, in seconds since the beginning: seconds since the epoch are too large to be told apart
    near the boundary of a slot.
    """
    if end <= began:
        return []
    length = end - began
    width = length / UTILISATION_SLOTS
    bounds = [width * (slot + 1) for slot in range(UTILISATION_SLOTS - 1)] + [length]
    areas = [0.0] * UTILISATION_SLOTS
    slot, at, level = 0, 0.0, 0.0
    for moment, value in [*samples, (end, 0)]:
        until = min(max(moment - began, 0.0), length)
        while slot < UTILISATION_SLOTS - 1 and bounds[slot] < until:
            areas[slot] += level * (bounds[slot] - at)
            at = bounds[slot]
            slot += 1
        areas[slot] += level * (until - at)
        at, level = until, value
    return [area / width for area in areas]
