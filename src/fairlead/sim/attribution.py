"""Who is behind what happens to pods, and what was never created: read from the events that components tell.

Kept from a few watches of single reasons: events are many, and these are few.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Container
from typing import Final

from fairlead.api.builtin import EVENTS
from fairlead.api.meta import Object, View
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.client.events import COMBINED
from fairlead.sim.pod_workloads import Workloads

_QUOTA: Final = re.compile(r"exceeded quota: ([^,]+)(?:, requested: (\S+), used: )?|failed quota: ([^:]+):")
FAILED_CREATE: Final = "FailedCreate"
#: All that is read; the first two say who did it: the scheduler's, the arbitrator's.
READ_REASONS: Final = ("Preempted", "Reclaimed", FAILED_CREATE)


def quota_of(message: str) -> str | None:
    """The quota that has refused something, in these words."""
    found = _QUOTA.search(message)
    return found and (found[1] or found[3])


class Ref(View):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Event(Object):
    involved_object: Ref = Ref()
    related: Ref | None = None
    reason: str = ""
    message: str = ""
    count: int | None = None


class Attribution:
    def __init__(self, workloads: Workloads, past: Container[str] = ()) -> None:
        """`past` are the uids of events that a dump brought along: they tell of what came before the run."""
        self._workloads, self._past = workloads, past
        self.by: dict[str, tuple[str, str]] = {}  # by uid of a pod: whose doing its end was, and the message
        #: By namespace and owner: of which workload that is, and why pods of it were not created, last.
        self.not_created: dict[tuple[str, str], tuple[str, str]] = {}
        self._counts: dict[str, tuple[tuple[str, str], int]] = {}  # by event: quota, how often
        self.refusals: Counter[tuple[str, str]] = Counter()  # by namespace and quota
        #: The resources of which there was too little, likewise.
        self.refused_for: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    async def run(self, api: Api) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reason in READ_REASONS:
                group.create_task(self._listen(api, reason))

    async def _listen(self, api: Api, reason: str) -> None:
        async for event in api.watch(EVENTS, "", WatchQuery(fields=f"reason={reason}")):
            if event.type in (EventType.ADDED, EventType.MODIFIED):
                told = event.object.view(_Event)
                if told.metadata.uid not in self._past:
                    self._take(told)

    def _take(self, event: _Event) -> None:
        about = event.involved_object
        if event.reason != FAILED_CREATE:
            self.by[about.uid] = (event.related.key if event.related is not None else "", event.message)
            return
        owner = (about.namespace, f"{about.kind}/{about.name}")
        workload = self._workloads.of_owner(about.namespace, about.kind, about.name)
        self.not_created[owner] = (workload, event.message.removeprefix(COMBINED))
        found = _QUOTA.search(event.message)
        if found is None:
            return
        quota = (about.namespace, found[1] or found[3])
        self.refused_for[quota].update(amount.partition("=")[0] for amount in (found[2] or "").split(",") if amount)
        count, (known, before) = event.count or 1, self._counts.get(event.metadata.uid, (quota, 0))
        self._counts[event.metadata.uid] = (known, max(count, before))
        self.refusals[quota] += max(count - before, 0)
