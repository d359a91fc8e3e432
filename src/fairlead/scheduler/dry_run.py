"""What would be said of one node if pods came or went: nothing is written to the journals, and all of it is undone.

In the words of upstream: NodeInfo.AddPod and RemovePod on a copy of the node, with the PreFilter extensions of plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import numpy as np
from msgspec.structs import replace

from fairlead.api.host_ports import HostPort
from fairlead.scheduler.framework import Plugin, PodRelationPlugin, Refusals
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot


class DryRun:
    """For one pod; in a `with` block, at whose end everything is as before."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: SchedulingRequest,
        filters: Sequence[Plugin],
        relations: Sequence[PodRelationPlugin],
    ) -> None:
        """The plugins are those that filter the pod as things are, and stay the same whoever comes or goes, as upstream
        has it: one that had nothing to say at first is not asked again.
        """
        self._snapshot, self._request = snapshot, request
        self._filters, self._relations = filters, relations
        self._done: list[tuple[Placed, int, Sequence[HostPort]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo(0)

    def come(self, placed: Placed) -> None:
        self._change(placed, 1)

    def leave(self, placed: Placed) -> None:
        self._change(placed, -1)

    @contextmanager
    def beside(self, others: Iterable[Placed]) -> Iterator[None]:
        """These have come as well, for that long."""
        begun = len(self._done)
        for placed in others:
            self.come(placed)
        try:
            yield
        finally:
            self._undo(begun)

    def refusal(self, row: int, nominated: Sequence[Placed] = ()) -> tuple[str, Refusals] | None:
        """Who refuses that node now, and why: beside the pods that are nominated to it, or without them."""
        if nominated:
            with self.beside(nominated):
                if (refused := self.refusal(row)) is not None:
                    return refused
        rows, snapshot, request = np.array([row], dtype=np.intp), self._snapshot, self._request
        for plugin in self._filters:
            if not plugin.filter(request.requirements, snapshot, rows)[0]:
                return plugin.name, plugin.refusals(request.requirements, snapshot, rows)
        for relation_plugin in self._relations:
            if not relation_plugin.filter(request, snapshot, rows)[0]:
                return relation_plugin.name, relation_plugin.refusals(request, snapshot, rows)
        return None

    def fits(self, row: int, nominated: Sequence[Placed] = ()) -> bool:
        """Whether nobody refuses it."""
        if nominated:
            with self.beside(nominated):
                if not self.fits(row):
                    return False
        rows, snapshot, request = np.array([row], dtype=np.intp), self._snapshot, self._request
        return all(plugin.filter(request.requirements, snapshot, rows)[0] for plugin in self._filters) and all(
            plugin.filter(request, snapshot, rows)[0] for plugin in self._relations
        )

    def _change(self, placed: Placed, sign: int) -> None:
        placed = self._hypothetical(placed)
        self._done.append((placed, sign, self._snapshot.try_out(placed, sign)))

    def _undo(self, begun: int) -> None:
        while len(self._done) > begun:
            self._snapshot.take_back(*self._done.pop())

    def _hypothetical(self, placed: Placed) -> Placed:
        """As upstream counts it. PodTopologySpread does not count pods that are going away, nor anybody by an empty
        selector; but when it is told that one is gone or there, it does not ask, and counts one less or more all the
        same (updateWithPod).
        """
        is_other = self._request.relations.spreads_among_all or placed.relations.is_terminating
        return replace(placed, relations=placed.relations.hypothetical) if is_other else placed
