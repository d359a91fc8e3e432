"""What Events of a dump say, whichever of their two APIs they were read by.

An Event is all that is left of a pod or a Job that is gone: that it was made, and by whom, when it started and ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from fairlead.api.objects import Obj, metadata
from fairlead.study.reading import mapping_at, moment

#: What is told of pods and Jobs that says when they came and went: `fairlead capture` keeps these.
SCHEDULED: Final = "Scheduled"
STARTED: Final = "Started"
KILLING: Final = "Killing"
CREATED: Final = "SuccessfulCreate"
#: The ends of a Job.
COMPLETED: Final = "Completed"
JOB_FAILED: Final = frozenset({"BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes"})
REASONS: Final = frozenset({SCHEDULED, STARTED, KILLING, CREATED, COMPLETED}) | JOB_FAILED

#: Said by the controllers of ReplicaSets, DaemonSets and Jobs; of StatefulSets; of CronJobs.
_CREATED: Final = re.compile(r"(?:Created pod: |create Pod |Created job )(\S+)")


class Said(msgspec.Struct, frozen=True):
    """An Event: about whom, what, and from when to when."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    first: float
    last: float

    @property
    def created(self) -> str:
        """The name of what was created, if that is what it says."""
        found = _CREATED.search(self.message) if self.reason == CREATED else None
        return found[1] if found else ""


def said_in(objects: Iterable[Obj]) -> Iterator[Said]:
    """The Events that say when something came or went; those without a time are left out."""
    for obj in objects:
        if obj["kind"] == "Event" and (reason := str(obj.get("reason"))) in REASONS:
            about = mapping_at(obj, "involvedObject") or mapping_at(obj, "regarding")
            first = moment(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"))
            last = moment(obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")) or first
            if first and about.get("name"):
                namespace = str(about.get("namespace") or metadata(obj).get("namespace") or "default")
                text = str(obj.get("message") or obj.get("note") or "")
                yield Said(str(about.get("kind")), namespace, str(about["name"]), reason, text, first, last)
