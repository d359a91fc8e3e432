"""What a node did to a pod, told from the pod's status and the events: evicted, killed for memory, refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.node.containers import OOM_KILLED
from fairlead.node.eviction.messages import EVICTED
from fairlead.node.eviction.signals import INODES, MEMORY, PIDS, STORAGE, amount
from fairlead.node.evidence import (
    OOM_SCORES,
    RANKING,
    STORAGE_USE,
    OomScores,
    RankedPod,
    Ranking,
    StorageUse,
    found_in,
)
from fairlead.node.explain_refusal import refusal_notes
from fairlead.node.requests import stated_limit
from fairlead.node.throttling import Throttling, throttling_notes

#: How the status message of a pod begins that its node did not take.
_REJECTED: Final = "Pod was rejected: "


class NodeStory(msgspec.Struct, frozen=True):
    headline: str
    notes: tuple[str, ...]


def node_story(
    pod: Obj,
    events: Sequence[Obj],
    node_events: Sequence[Obj],
    siblings: Iterable[Obj] = (),
    throttled: Mapping[str, Throttling] = {},
) -> NodeStory | None:
    """None if its node did nothing to it.

    Events are those of the pod and of its node, the oldest first; `siblings` are other pods of its namespace, of which
    those of the same controller count; `throttled` is what cpu limits did to its containers.
    """
    status = pod.get("status") or {}
    if _was_evicted(pod):
        return _evicted(pod, events, siblings)
    if status.get("phase") == "Failed" and status.get("message", "").startswith(_REJECTED):
        message = status["message"].removeprefix(_REJECTED)
        notes = tuple(refusal_notes(status.get("reason", ""), message, events))
        return NodeStory(f"{_name(pod)} was refused by {_node(pod)}: {message}", notes)
    killed = [note for container in _containers(pod) for note in _oom_notes(pod, container, [*events, *node_events])]
    waited = list(throttling_notes(pod, _containers(pod), throttled))
    if not killed and not waited:
        return None
    what = "lost containers to the kernel" if killed else f"is held back by cpu limits on {_node(pod)}"
    return NodeStory(f"{_name(pod)} {what}", (*killed, *waited))


def _was_evicted(pod: Obj) -> bool:
    """After it had run there: a refusal under pressure has the same reason."""
    status = pod.get("status") or {}
    return status.get("reason") == EVICTED and not status.get("message", "").startswith(_REJECTED)


def _evicted(pod: Obj, events: Sequence[Obj], siblings: Iterable[Obj]) -> NodeStory:
    notes = [pod["status"]["message"].strip()]
    ranking = found_in(events, RANKING, Ranking)
    if ranking is not None:
        notes += [_ranked(ranking, place, row) for place, row in enumerate(ranking.pods, 1)]
        if ranking.more:
            notes.append(f"and {ranking.more} more after these")
        notes += _remedies(ranking, _name(pod))
    if (storage := found_in(events, STORAGE_USE, StorageUse)) is not None:
        notes.append(_storage_note(storage))
    notes += _loop(pod, siblings)
    return NodeStory(f"{_name(pod)} was evicted from {_node(pod)}", tuple(notes))


def _storage_note(storage: StorageUse) -> str:
    used, excess = amount(STORAGE, storage.used), amount(STORAGE, storage.used - parse(storage.limit).units)
    return f"used {used}, limit {storage.limit} ({excess} above); a limit of {used} would have spared it"


def _loop(pod: Obj, siblings: Iterable[Obj]) -> Iterator[str]:
    """A controller makes another pod, the scheduler looks at requests alone, and the node evicts that one, too."""
    owner = _controller(pod)
    if owner is None:
        return
    same = [other for other in siblings if _controller(other) == owner and _node(other) == _node(pod)]
    evicted = sum(_was_evicted(other) for other in same if other["metadata"]["uid"] != pod["metadata"]["uid"])
    if evicted:
        pods = "1 more pod" if evicted == 1 else f"{evicted} more pods"
        yield (
            f"{_node(pod)} evicted {pods} of {owner[0]} {owner[1]}: each time it makes another, the scheduler looks at "
            "requests alone and brings that to the same node; request what it uses"
        )


def _controller(pod: Obj) -> tuple[str, str, str] | None:
    """Kind, name and uid."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next(((owner["kind"], owner["name"], owner["uid"]) for owner in owners if owner.get("controller")), None)


def _ranked(ranking: Ranking, place: int, row: RankedPod) -> str:
    used, requested = amount(ranking.resource, row.used), amount(ranking.resource, row.requested)
    overuse = f", namespace {row.overuse:.1%} of the cluster above what it deserves" if row.overuse else ""
    if ranking.resource in (PIDS, INODES):
        return f"{place}. {row.pod}: priority {row.priority}, {used} {ranking.resource}{overuse}"
    excess = f"{amount(ranking.resource, row.excess)} above" if row.excess > 0 else "within it"
    return f"{place}. {row.pod}: priority {row.priority}, used {used}, requested {requested} ({excess}){overuse}"


def _remedies(ranking: Ranking, victim: str) -> Iterator[str]:
    """What would have made another pod go first."""
    row = next((row for row in ranking.pods if row.pod == victim), None)
    if row is None:
        return
    others = [other for other in ranking.pods if other.pod != victim]
    if not others:
        return
    higher = max(other.priority for other in others) + 1
    by_request, by_priority = replace(row, requested=row.used), replace(row, priority=higher)
    request, priority = (
        f"a {ranking.resource} request of {amount(ranking.resource, row.used)}",
        f"a priority of {higher}",
    )
    candidates = [(priority, by_priority)]
    if has_request := ranking.resource in (MEMORY, STORAGE) and row.excess > 0:
        candidates.insert(0, (request, by_request))
    spared = [(remedy, first) for remedy, changed in candidates if (first := _spared_for(changed, others))]
    if has_request and not spared:
        both = replace(by_request, priority=higher)
        spared = [(f"{request} and {priority} together", first) for first in [_spared_for(both, others)] if first]
    if row.overuse and (first := _spared_for(replace(row, overuse=0.0), others)):
        spared.insert(0, ("a namespace within what it deserves", first))
    for remedy, first in spared:
        yield f"would have spared it: {remedy}; {first} would have gone first"


def _spared_for(row: RankedPod, others: Sequence[RankedPod]) -> str:
    """The pod that would go before this one; none if this one goes first."""
    first = _first([row, *others])
    return "" if first is row else first.pod


def _first(rows: Sequence[RankedPod]) -> RankedPod:
    return min(rows, key=lambda row: (-row.overuse, row.excess <= 0, row.priority, -row.excess))


def _oom_notes(pod: Obj, container: Obj, events: Sequence[Obj]) -> Iterator[str]:
    status = next((each for each in _statuses(pod) if each["name"] == container["name"]), {})
    ended = [(status.get(field) or {}).get("terminated") or {} for field in ("state", "lastState")]
    last = next((each for each in ended if each.get("reason") == OOM_KILLED), None)
    if last is None:
        return
    name, restarts = container["name"], status.get("restartCount", 0)
    yield f"container {name} was {OOM_KILLED} at {last.get('finishedAt')} (exit code 137), restarted {restarts} times"
    if (scores := _scores(pod, name, events)) is not None:
        whose = f"all memory {scores.cgroup} was used" if scores.cgroup else "it had no memory left"
        yield f"{_node(pod)}: {whose}, and the kernel chose by score: usage beside the request counts"
        for row in scores.processes:
            memory = amount(MEMORY, row.memory)
            yield f"score {row.oom_score}: {row.pod}/{row.container} with {memory} (oom_score_adj {row.oom_score_adj})"
        return
    if limit := stated_limit(container, MEMORY) or stated_limit(pod["spec"], MEMORY):
        yield f"it wanted more memory than its limit of {limit}; a greater limit would have spared it"


def _scores(pod: Obj, container: str, events: Sequence[Obj]) -> OomScores | None:
    """Those of the last time when the kernel chose this container."""
    for event in reversed(events):
        scores = found_in([event], OOM_SCORES, OomScores)
        if scores is not None and scores.processes:
            worst = scores.processes[0]
            if (worst.pod, worst.container) == (_name(pod), container):
                return scores
    return None


def _statuses(pod: Obj) -> list[Obj]:
    status = pod["status"]
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _containers(pod: Obj) -> list[Obj]:
    spec = pod["spec"]
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _name(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _node(pod: Obj) -> str:
    name: str = pod["spec"].get("nodeName", "its node")
    return name
