"""Whether a pod would fit on a node once others have left, who may then come back one by one (SelectVictimsOnNode)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

import msgspec

from fairlead.scheduler.decide import Decider
from fairlead.scheduler.dry_run import DryRun
from fairlead.scheduler.framework import Reads
from fairlead.scheduler.plugins.resources.fit import TOO_MANY_PODS, NodeResourcesFit
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot


class NodeTrial(AbstractContextManager["NodeTrial"], Protocol):
    """Of one node, as it is when the `with` block begins and again when it ends."""

    def leave(self, placed: Placed) -> None: ...

    def come(self, placed: Placed) -> None: ...

    def fits(self) -> bool:
        """Whether the pod does, as things are now."""
        ...

    def refused(self) -> Counter[str] | None:
        """Why it does not; None if it does."""
        ...


class NodeTrials(msgspec.Struct, frozen=True):
    """Of one pod, on any node."""

    of: Callable[[int, Sequence[Placed]], NodeTrial]  # on that row, to which these pods are nominated
    #: Whether every filter is asked, again and again.
    is_slow: bool


def node_trials(request: SchedulingRequest, decider: Decider) -> NodeTrials:
    """By arithmetic, where NodeResourcesFit alone looks at the pods of the node."""
    filters, snapshot = decider.filters_of(request.requirements), decider.snapshot
    readers = [plugin for plugin in filters if (Reads.PODS | Reads.CLUSTER | Reads.AMOUNTS) & plugin.reads]
    is_plain = not reads_others(request, decider) and not snapshot.device_offers.replaces(
        request.requirements.device_amounts
    )
    if is_plain and len(readers) == 1 and isinstance(fit := readers[0], NodeResourcesFit):
        wanted = fit.demands(request.requirements)
        return NodeTrials(lambda row, nominated: ByAmounts(snapshot, row, wanted, nominated), is_slow=False)
    dry_run = decider.dry_run(request)
    return NodeTrials(lambda row, nominated: ByAsking(dry_run, row, nominated), is_slow=True)


def reads_others(request: SchedulingRequest, decider: Decider) -> bool:
    """Whether pods on other nodes matter."""
    if any(Reads.CLUSTER in plugin.reads for plugin in decider.filters_of(request.requirements)):
        return True
    return any(plugin.filters(request, decider.snapshot) for plugin in decider.profile.relation_filters)


class ByAmounts:
    def __init__(self, snapshot: Snapshot, row: int, wanted: dict[str, int], nominated: Sequence[Placed]) -> None:
        self._wanted = wanted
        self._free = {name: int(snapshot.allocatable[name][row] - snapshot.requested[name][row]) for name in wanted}
        self._slots = int(snapshot.allowed_pods[row] - snapshot.pod_count[row])
        for placed in nominated:
            self.come(placed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It has touched nothing."""

    def leave(self, placed: Placed) -> None:
        self._add(placed.requirements, 1)

    def come(self, placed: Placed) -> None:
        self._add(placed.requirements, -1)

    def fits(self) -> bool:
        return self._slots >= 1 and all(self._free[name] >= amount for name, amount in self._wanted.items())

    def refused(self) -> Counter[str] | None:
        lacking = Counter({f"Insufficient {name}": 1 for name in self._wanted if self._free[name] < self._wanted[name]})
        if self._slots < 1:
            lacking[TOO_MANY_PODS] = 1
        return lacking or None

    def _add(self, requirements: PodRequirements, sign: int) -> None:
        self._slots += sign
        for name in self._wanted:
            self._free[name] += sign * requirements.requests.get(name, 0)


class ByAsking:
    """It must fit with the pods that are nominated to the node, and without them."""

    def __init__(self, dry_run: DryRun, row: int, nominated: Sequence[Placed]) -> None:
        self._dry_run, self._row, self._nominated = dry_run, row, nominated
        self.leave, self.come = dry_run.leave, dry_run.come

    def __enter__(self) -> Self:
        self._dry_run.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dry_run.__exit__(kind, error, trace)

    def fits(self) -> bool:
        return self._dry_run.fits(self._row, self._nominated)

    def refused(self) -> Counter[str] | None:
        refused = self._dry_run.refusal(self._row, self._nominated)
        return None if refused is None else refused[1].reasons
