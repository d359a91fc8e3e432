"""What the audit log tells, and what it loses. Source: apiserver `audit/metrics.go`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from fairlead.runtime.metrics import COUNTER, Computed, Family, Labels

_PREFIX: Final = "apiserver_audit_"


class _Writer(Protocol):
    #: How many events it has taken; how many it had no room for, and how many it could not write.
    taken: int
    dropped: int
    failed: int


class _Webhook(Protocol):
    #: How many events it had no room for, and how many it could not deliver.
    dropped: int
    failed: int


class _Truncating(Protocol):
    #: How many events were too large.
    dropped: int


class AuditMetrics:
    """Of the one audit that there may be."""

    def __init__(self) -> None:
        #: By level, how many requests a policy has it for.
        self.levels: dict[str, int] = {}
        #: Requests that could not go on because the service was not told of them.
        self.rejected = 0
        self._writer: _Writer | None = None
        self._webhook: _Webhook | None = None
        self._truncating: Sequence[_Truncating] = ()
        self.families: tuple[Family, ...] = (
            Computed(COUNTER, f"{_PREFIX}event_total", "[ALPHA] Events for the audit log.", (), self._events),
            Computed(COUNTER, f"{_PREFIX}error_total", "[ALPHA] Events that were lost.", ("plugin",), self._errors),
            Computed(
                COUNTER,
                f"{_PREFIX}level_total",
                "[ALPHA] Requests by level.",
                ("level",),
                self._by_level,
            ),
            Computed(
                COUNTER,
                f"{_PREFIX}requests_rejected_total",
                "[ALPHA] Requests that were refused because nobody could be told of them.",
                (),
                lambda: [((), self.rejected)],
            ),
        )

    def watch(self, writer: _Writer, webhook: _Webhook | None, truncating: Sequence[_Truncating]) -> None:
        """Where the events are counted."""
        self._writer, self._webhook, self._truncating = writer, webhook, truncating

    def _events(self) -> Iterable[tuple[Labels, float]]:
        return [((), self._writer.taken + self._writer.dropped if self._writer else 0)]

    def _errors(self) -> Iterable[tuple[Labels, float]]:
        if self._writer is None:
            return []
        buffered, webhook = self._writer.dropped, 0
        if self._webhook is not None:
            buffered, webhook = buffered + self._webhook.dropped, self._webhook.failed
        truncated = sum(each.dropped for each in self._truncating)
        found = (
            ("buffered", buffered),
            ("log", self._writer.failed),
            ("truncate", truncated),
            ("webhook", webhook),
        )
        return [((plugin,), count) for plugin, count in found if count]

    def _by_level(self) -> Iterable[tuple[Labels, float]]:
        return [((level,), count) for level, count in self.levels.items()]
