"""Waiting after failures: 10 s, doubling up to 10 minutes, and from the start again after a success.

The record is a memory of this process alone; a restart forgets it, as it does upstream. Source:
pkg/controller/job/backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.api.pods import Pod
from fairlead.runtime.clock import parse_timestamp

FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 600.0


class Backoff(msgspec.Struct, frozen=True):
    """The failures since the last success."""

    failures: int = 0
    last_failure: float = 0.0

    def after(self, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> Backoff:
        """The record with pods that have ended since."""
        times = sorted(finished_at(pod) for pod in failed)
        if succeeded:
            last_success = max(finished_at(pod) for pod in succeeded)
            times = [time for time in times if time > last_success]
            return Backoff(len(times), times[-1] if times else 0.0)
        return Backoff(self.failures + len(times), times[-1]) if times else self

    def remaining_seconds(self, now: float) -> float:
        return remaining_seconds(self.failures, self.last_failure, now)


def remaining_seconds(failures: int, last_failure: float, now: float) -> float:
    """How long to wait before the next pod."""
    if not failures:
        return 0.0
    wait = min(FIRST_SECONDS * float(1 << min(failures - 1, 30)), LONGEST_SECONDS)
    return max(last_failure + wait - now, 0.0)


def finished_at(pod: Pod) -> float:
    """When the pod ended, as well as it can be told."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ended = [status.state.terminated.finished_at for status in statuses if status.state.terminated is not None]
    if ended and len(ended) == len(statuses) and all(ended):
        return max(parse_timestamp(time) for time in ended if time)
    ready = pod.ready_condition
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return parse_timestamp(ready.last_transition_time)
    meta = pod.metadata
    if meta.deletion_timestamp:
        return parse_timestamp(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)
    return parse_timestamp(meta.creation_timestamp) if meta.creation_timestamp else 0.0
