"""What the audit log tells, and what it loses. Source: apiserver `audit/metrics.go`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from fairlead.runtime.metrics import COUNTER, Computed, Family, Labels

_PREFIX: Final = "apiserver_audit_"


class _Writer(Protocol):
    #: How many events it has taken; how many it had no room for, and how many it could not write.
    taken: int
    dropped: int
    failed: int


class AuditMetrics:
    """Of the one audit log that there may be."""

    def __init__(self) -> None:
        #: By level, how many requests a policy has it for.
        self.levels: dict[str, int] = {}
        self._writer: _Writer | None = None
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
                "[ALPHA] Requests that were refused because the log failed: none ever is.",
                (),
                lambda: [((), 0.0)],
            ),
        )

    def watch_writer(self, writer: _Writer) -> None:
        """Where the events are counted."""
        self._writer = writer

    def _events(self) -> Iterable[tuple[Labels, float]]:
        return [((), self._writer.taken + self._writer.dropped if self._writer else 0)]

    def _errors(self) -> Iterable[tuple[Labels, float]]:
        if self._writer is not None:
            found = (("buffered", self._writer.dropped), ("log", self._writer.failed))
            return [((plugin,), count) for plugin, count in found if count]
        return []

    def _by_level(self) -> Iterable[tuple[Labels, float]]:
        return [((level,), count) for level, count in self.levels.items()]
