"""Who goes first on each of many nodes, found in one go over columns of numbers.

The same order as that of `ranking.ranked`, for whoever simulates thousands of nodes: a row is a pod, and only victims
are ever looked at as pods. Amounts are kept in thousandths, finer than which no API server keeps a request, so every
comparison is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairlead.api.quantity import MAX_INT64
from fairlead.node.eviction.candidates import Candidate
from fairlead.node.eviction.signals import INODES, MEMORY, PIDS, STORAGE

_MILLI: Final = 1000

_Integers: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
#: The least of the first column goes first, among equals the least of the next.
_Keys: TypeAlias = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class PodColumns:
    """The pods of a node, in their order. Nothing here changes while they run; what they use is a column of its own."""

    priority: _Integers
    is_critical: _Flags
    memory_request_milli: _Integers
    storage_request_milli: _Integers

    @classmethod
    def of(cls, candidates: Iterable[Candidate]) -> PodColumns:
        pods = list(candidates)
        return cls(
            np.array([pod.priority for pod in pods], dtype=np.int64),
            np.array([pod.is_critical for pod in pods], dtype=np.bool_),
            np.array([pod.memory_request.milli for pod in pods], dtype=np.int64),
            np.array([pod.storage_request.milli for pod in pods], dtype=np.int64),
        )


def column_victims(
    resource: str,
    nodes: Sequence[PodColumns],
    used: Sequence[Sequence[float] | npt.NDArray[np.float64]],
    overuse: Sequence[Sequence[float]] | None = None,
) -> list[int]:
    """By node: the place of the pod that goes first when the resource is short, or -1 if all are critical.

    `used` is by node and pod: bytes of memory or of the disk in question, inodes, or processes; NaN where nothing was
    measured. `overuse` is how far each pod's namespace is above what it deserves, if those pods go first (S2-51).
    Ask with all nodes at once that are short: a call costs as much as hundreds of pods.
    """
    sizes = np.array([len(node.priority) for node in nodes], dtype=np.int64)
    if not sizes.sum():
        return [-1] * len(nodes)
    pods = PodColumns(
        np.concatenate([node.priority for node in nodes]),
        np.concatenate([node.is_critical for node in nodes]),
        np.concatenate([node.memory_request_milli for node in nodes]),
        np.concatenate([node.storage_request_milli for node in nodes]),
    )
    amounts = np.concatenate([np.asarray(column, dtype=np.float64) for column in used])
    is_measured = ~np.isnan(amounts)
    keys = _KEYS[resource](pods, is_measured, _milli(np.where(is_measured, amounts, 0.0)))
    if overuse is not None:
        keys = (-np.concatenate([np.asarray(column, dtype=np.float64) for column in overuse]), *keys)
    owners = np.repeat(np.arange(len(nodes)), sizes)
    rows = _least(owners, np.flatnonzero(~pods.is_critical), keys)
    victims = np.full(len(nodes), -1)
    victims[owners[rows]] = rows - (np.cumsum(sizes) - sizes)[owners[rows]]
    return [int(victim) for victim in victims]


def _milli(amounts: npt.NDArray[np.float64]) -> _Integers:
    """Whole units in thousandths; nothing real is more than fits."""
    return np.minimum(amounts, MAX_INT64 // _MILLI - _MILLI).astype(np.int64) * _MILLI


def _least(owners: _Integers, rows: _Integers, keys: _Keys) -> _Integers:
    """Of each owner the first of its rows that have the least keys. The rows of an owner stand together."""
    for key in keys:
        starts = _starts(owners[rows])
        if len(starts) == len(rows):
            return rows
        values = key[rows]
        least = np.minimum.reduceat(values, starts)
        rows = rows[values == np.repeat(least, np.diff(starts, append=len(rows)))]
    return rows[_starts(owners[rows])]


def _starts(owners: _Integers) -> _Integers:
    return np.flatnonzero(np.diff(owners, prepend=-1))


def _by_memory(pods: PodColumns, is_measured: _Flags, used: _Integers) -> _Keys:
    return _over_request(pods, is_measured, used - pods.memory_request_milli)


def _by_storage(pods: PodColumns, is_measured: _Flags, used: _Integers) -> _Keys:
    return _over_request(pods, is_measured, used - pods.storage_request_milli)


def _over_request(pods: PodColumns, is_measured: _Flags, excess: _Integers) -> _Keys:
    place = np.where(is_measured, np.where(excess > 0, 1, 2), 0)
    return (place, pods.priority, np.where(is_measured, -excess, 0))


def _by_inodes(pods: PodColumns, is_measured: _Flags, used: _Integers) -> _Keys:
    place = np.where(is_measured, np.where(used > 0, 1, 2), 0)
    return (place, pods.priority, np.where(is_measured, pods.storage_request_milli - used, 0))


def _by_processes(pods: PodColumns, is_measured: _Flags, used: _Integers) -> _Keys:
    return (pods.priority, is_measured, -used)


_KEYS: Final[Mapping[str, Callable[[PodColumns, _Flags, _Integers], _Keys]]] = {
    MEMORY: _by_memory,
    STORAGE: _by_storage,
    INODES: _by_inodes,
    PIDS: _by_processes,
}
