"""Which pod of a set goes first when there are too many (pkg/controller's ActivePodsWithRanks).

What costs least goes first: pods that run nowhere or are not ready, then those that their owner calls cheap, then
those that crowd a node, then the youngest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key

import msgspec

from fairlead.api.pods import Pod
from fairlead.golang.numbers import known_int
from fairlead.runtime.clock import parse_timestamp

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES: Mapping[str, int] = {"Pending": 0, "Unknown": 1, "Running": 2}


class _Rank(msgspec.Struct, frozen=True):
    pod: Pod
    worth: tuple[bool, int, bool, int, int]
    ready_at: float
    restarts: tuple[int, int]
    created_at: float


def first_to_go(pods: Sequence[Pod], related: Iterable[Pod], count: int, now: float) -> list[Pod]:
    """The `count` pods to delete; `related` are those that should be spread with them over nodes."""
    if count >= len(pods):
        return list(pods)
    crowd = Counter(pod.spec.node_name for pod in related if pod.is_active)
    ranks = [_rank(pod, crowd) for pod in pods]
    ranks.sort(key=cmp_to_key(lambda a, b: _compare(a, b, now)))
    return [rank.pod for rank in ranks[:count]]


def least_advanced(pods: Sequence[Pod], count: int) -> list[Pod]:
    """The `count` pods of a job to delete: neither costs nor nodes matter there, and the youngest goes first."""
    ranks = [_rank(pod, {}) for pod in pods]
    ranks.sort(key=_progress)
    return [rank.pod for rank in ranks[:count]]


def _progress(rank: _Rank) -> tuple[object, ...]:
    is_assigned, phase, is_ready, _, _ = rank.worth
    regular, sidecars = rank.restarts
    return is_assigned, phase, is_ready, bool(rank.ready_at), -rank.ready_at, -regular, -sidecars, -rank.created_at


def _rank(pod: Pod, crowd: Mapping[str, int]) -> _Rank:
    condition = pod.ready_condition
    is_ready = condition is not None and condition.status == "True"
    node = pod.spec.node_name
    return _Rank(
        pod=pod,
        worth=(bool(node), _PHASES.get(pod.status.phase, 0), is_ready, deletion_cost(pod), -crowd.get(node, 0)),
        ready_at=_seconds(condition.last_transition_time) if condition is not None and is_ready else 0.0,
        restarts=_restarts(pod),
        created_at=_seconds(pod.metadata.creation_timestamp),
    )


def _restarts(pod: Pod) -> tuple[int, int]:
    """Of the container that restarted most, and of the sidecar that did."""
    regular = max((status.restart_count for status in pod.status.container_statuses), default=0)
    if not pod.status.init_container_statuses:
        return regular, 0
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    counts = (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars)
    return regular, max(counts, default=0)


def deletion_cost(pod: Pod) -> int:
    return known_int(pod.metadata.annotations.get(DELETION_COST, "0")) or 0


def _compare(a: _Rank, b: _Rank, now: float) -> int:
    """Negative if `a` goes before `b`."""
    if a.worth != b.worth:
        return -1 if a.worth < b.worth else 1
    if a.ready_at != b.ready_at:
        return _younger(a, b, a.ready_at, b.ready_at, now)
    if a.restarts != b.restarts:
        return -1 if a.restarts > b.restarts else 1
    if a.created_at != b.created_at:
        return _younger(a, b, a.created_at, b.created_at, now)
    return 0


def _younger(a: _Rank, b: _Rank, since_a: float, since_b: float, now: float) -> int:
    """The younger one first; ages of one order of magnitude are equal, and the uid decides (KEP-2185)."""
    if not since_a or not since_b:
        return -1 if not since_a else 1
    difference = _magnitude(now - since_a) - _magnitude(now - since_b)
    if difference:
        return difference
    return -1 if a.pod.metadata.uid < b.pod.metadata.uid else 1


def _magnitude(age_seconds: float) -> int:
    return int(math.log2(age_seconds * 1e9)) if age_seconds > 0 else -1


def _seconds(text: str | None) -> float:
    return parse_timestamp(text) if text else 0.0
