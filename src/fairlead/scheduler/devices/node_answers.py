"""What nodes have for claims that ask for the same, kept until something about a node or its devices changes.

A search goes on from where it was, so that it can be done in turns of the event loop; whoever asks without a loop has
all of it done at once. What is searched for anew is the same in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from fairlead.api.devices import ResourceClaim
from fairlead.api.scheduling import Node
from fairlead.runtime.offload import offload
from fairlead.runtime.turns import Turn
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.devices.allocator import Allocator, ClaimDevices, Job, NodeError, Search, drained
from fairlead.scheduler.devices.effort import Effort, TooMuchEffort
from fairlead.scheduler.devices.pools import Pool
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.snapshot import Snapshot

NO_DEVICES: Final = "cannot allocate all claims"
TOO_LONG: Final = "timed out trying to allocate devices"

#: How often nodes are gone through in turns, where others change while that is done; then the rest is done at once.
_PASSES: Final = 3


class Answer(msgspec.Struct, frozen=True):
    """What a node has; or why it has nothing."""

    devices: list[ClaimDevices] | None
    reason: str
    preference: int = 0


class NodeAnswers:
    """Of all nodes, by their rows, as far as anybody has asked."""

    def __init__(self, selectors: Selectors) -> None:
        self._selectors = selectors
        self._answers: dict[int, Answer] = {}
        #: The same in columns: of which rows there are answers, which of them have devices, and how good these are.
        self._known: Mask = np.zeros(0, dtype=np.bool_)
        self._fits: Mask = np.zeros(0, dtype=np.bool_)
        self._preferences: Ints = np.zeros(0, dtype=np.int64)
        #: Of nodes that have no devices of their own and see the same pools.
        self._alike: dict[tuple[Pool, ...], Answer] = {}
        self._unfinished: list[int] = []
        #: How far the journals were, and which version what all nodes reach had.
        self._seen: tuple[int, int, int] | None = None

    def of(self, row: int) -> Answer:
        """What was found for a node."""
        return self._answers[row]

    def fits(self, rows: Rows) -> Mask:
        """Which of these nodes have devices."""
        return self._fits[rows]

    def preferences(self, rows: Rows) -> Ints:
        """How good these are."""
        return self._preferences[rows]

    def find(self, claims: Sequence[ResourceClaim], snapshot: Snapshot, rows: Rows, effort: Effort) -> None:
        """Have an answer for these nodes. Raises AllocationError."""
        self._catch_up(snapshot)
        for row in rows[~self._known[rows]].tolist():
            self._keep(row, drained(self._searched(claims, snapshot, row, effort)))

    async def find_in_turns(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        rows: Rows,
        effort: Effort,
        timeout_seconds: float,
    ) -> None:
        """The same, while others have turns: for all but those that change all the time. No node takes longer than the
        timeout, if there is one.
        """
        turn = Turn()
        for _ in range(_PASSES):
            self._catch_up(snapshot)
            missing = rows[~self._known[rows]].tolist()
            if not missing:
                return
            for row in missing:
                if row in self._answers or (node := snapshot.nodes[row]) is None:
                    continue
                if turn.is_over:
                    await asyncio.sleep(0)
                    turn = Turn()
                    self._catch_up(snapshot)
                search = self._searched(claims, snapshot, row, effort)
                try:
                    job = next(search)
                except StopIteration as end:
                    self._keep(row, end.value)
                else:
                    turn = await self._gone_through(search, job, snapshot, node, row, turn, timeout_seconds)

    async def _gone_through(
        self,
        search: Search[Answer],
        job: Job | None,
        snapshot: Snapshot,
        node: Node,
        row: int,
        turn: Turn,
        timeout_seconds: float,
    ) -> Turn:
        """Keep what comes of the search, unless it is overtaken; returns the turn that it ends in."""
        offers, name, limit = snapshot.device_offers, node.metadata.name, Turn(timeout_seconds)
        stamp = offers.stamp(name)
        while not limit.is_over:
            if job is not None or turn.is_over:
                await (asyncio.sleep(0) if job is None else offload(job, is_long=True))
                turn = Turn()
                self._catch_up(snapshot)
                if snapshot.nodes[row] is not node or offers.stamp(name) != stamp:
                    return turn
            try:
                job = next(search)
            except StopIteration as end:
                self._keep(row, end.value)
                return turn
        self._keep(row, Answer(None, TOO_LONG))
        return turn

    def decision_over(self) -> None:
        """What took too long goes on with the next, by what was found out about devices."""
        for row in self._unfinished:
            if (answer := self._answers.get(row)) is not None and answer.reason == TOO_LONG:
                self._forget(row)
        self._unfinished.clear()

    def _keep(self, row: int, answer: Answer) -> None:
        self._answers[row], self._known[row] = answer, True
        self._fits[row], self._preferences[row] = answer.devices is not None, answer.preference
        if answer.reason == TOO_LONG:
            self._unfinished.append(row)

    def _forget(self, row: int) -> None:
        if self._answers.pop(row, None) is not None:
            self._known[row] = False

    def _catch_up(self, snapshot: Snapshot) -> None:
        """Forget the answers that rest on what has changed since."""
        offers = snapshot.device_offers
        before, now = self._seen, (snapshot.node_changes.position, offers.position, offers.common_version)
        if before == now:
            return
        self._seen = now
        nodes = snapshot.node_changes.since(before[0]) if before is not None else None
        changed = offers.changed_since(before[1]) if before is not None else None
        is_grown = len(self._known) != snapshot.size
        if before is None or before[2] != now[2] or nodes is None or changed is None or is_grown:
            self._answers, self._alike, self._unfinished = {}, {}, []
            self._known, self._fits = np.zeros((2, snapshot.size), dtype=np.bool_)
            self._preferences = np.zeros(snapshot.size, dtype=np.int64)
            return
        for row in (*nodes, *(snapshot.row_of(name) for name in changed)):
            if row is not None:
                self._forget(row)

    # --- one node -----------------------------------------------------------------------------------------------------

    def _searched(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, row: int, effort: Effort
    ) -> Search[Answer]:
        """What the node has; or what its equals have, if that is known."""
        node, offers = snapshot.nodes[row], snapshot.device_offers
        if node is None:
            return Answer(None, NO_DEVICES)
        try:
            effort.check()
            pools = offers.pools_of(node, effort)
            if offers.has_own(node.metadata.name) or any(pool.is_per_device for pool in pools):
                return (yield from self._allocated(claims, snapshot, node, pools, effort))
            view = tuple(pools)
            if (found := self._alike.get(view)) is None:
                found = self._alike[view] = yield from self._allocated(claims, snapshot, node, pools, effort)
            return found
        except TooMuchEffort:
            return Answer(None, TOO_LONG)

    def _allocated(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, node: Node, pools: Sequence[Pool], effort: Effort
    ) -> Search[Answer]:
        taken, classes = snapshot.device_claims.taken, snapshot.device_offers.classes
        try:
            devices = yield from Allocator(node, pools, taken, classes, self._selectors, effort).search(claims)
        except NodeError as error:
            return Answer(None, str(error))
        if devices is None:
            return Answer(None, NO_DEVICES)
        return Answer(devices, "", sum(claim.preference for claim in devices))
