"""How large what a receiver of audit events is told may be (`--audit-log-truncate-…`, `--audit-webhook-truncate-…`).

An event that is too large loses its objects; one that is still too large is lost itself. kube-apiserver splits only
what it is given at once, which is a single event; here batches for a service keep to their size too.
Source: k8s.io/apiserver, plugin/pkg/audit/truncate (1.36).
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.runtime.clock import stopwatch
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.server.audit.event import TRUNCATED, Event

#: The shortest time between two complaints.
_REPORT_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class Truncation(msgspec.Struct, frozen=True):
    """In bytes; the defaults are kube-apiserver's."""

    most_of_batch: int = 10 << 20
    most_of_event: int = 100 << 10


class Truncating:
    """What one receiver is told; a thread asks. Without a truncation everything."""

    def __init__(self, truncation: Truncation | None) -> None:
        self._truncation = truncation
        #: Events that are lost, since they are too large without objects.
        self.dropped = 0
        self._complaints = TokenBucket(1 / _REPORT_SECONDS, 1, stopwatch())

    def line_of(self, event: Event, line: bytes) -> bytes | None:
        """What is told of an event whose line this is; None: nothing."""
        if self._fits(line):
            return line
        if event.request_object is not None or event.response_object is not None:
            annotations = event.annotations | {TRUNCATED: "true"}
            event = msgspec.structs.replace(event, request_object=None, response_object=None, annotations=annotations)
            line = encode(event)
            if self._fits(line):
                return line
        self.dropped += 1
        if self._complaints.take(stopwatch()):
            log.error("audit: event is too large even after truncating: %d events lost so far", self.dropped)
        return None

    def _fits(self, line: bytes) -> bool:
        return self._truncation is None or len(line) < self._truncation.most_of_event  # with the end of the line
