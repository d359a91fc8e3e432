"""Who waits and who is carried out. Source: apiserver `util/flowcontrol/metrics/metrics.go`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from fairlead.runtime.metrics import GAUGE, Computed, Counter, Family, Gauge, Histogram, Labels, Reading

_LEVEL: Final = ("priority_level",)
_FLOW: Final = ("priority_level", "flow_schema")
_SECONDS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)


class _Allotment(Protocol):
    nominal: int
    reserved: int
    most: int
    in_use: int


#: The seats of each level, by its name.
Seats: TypeAlias = Callable[[], Iterable[tuple[str, _Allotment]]]


class FairnessMetrics:
    """Requests by priority level and flow schema."""

    def __init__(self) -> None:
        prefix = "apiserver_flowcontrol_"
        self._dispatched = Counter(f"{prefix}dispatched_requests_total", "[BETA] Requests that had their turn.", *_FLOW)
        self._rejected = Counter(
            f"{prefix}rejected_requests_total", "[BETA] Requests that had to come again later.", *_FLOW, "reason"
        )
        self._waiting = Gauge(f"{prefix}current_inqueue_requests", "[BETA] Requests that wait for their turn.", *_FLOW)
        self._executing = Gauge(f"{prefix}current_executing_requests", "[BETA] Requests that have their turn.", *_FLOW)
        self._waited = Histogram(
            f"{prefix}request_wait_duration_seconds", "[BETA] How long requests waited.", _SECONDS, *_FLOW, "execute"
        )
        self._seats: Seats = tuple
        self.families: tuple[Family, ...] = (
            self._dispatched,
            self._rejected,
            self._waiting,
            self._executing,
            self._waited,
            self._of_seats(f"{prefix}current_executing_seats", "[BETA] Seats that are taken.", lambda it: it.in_use),
            self._of_seats(f"{prefix}nominal_limit_seats", "[BETA] Seats by shares.", lambda it: it.nominal),
            self._of_seats(f"{prefix}lower_limit_seats", "[ALPHA] Seats kept free for it.", lambda it: it.reserved),
            self._of_seats(f"{prefix}upper_limit_seats", "[ALPHA] Seats with all it may borrow.", lambda it: it.most),
        )

    def watch_seats(self, seats: Seats) -> None:
        """Where the seats of the levels are asked for."""
        self._seats = seats

    def queued(self, flow: Labels) -> None:
        """A request waits from now on. `flow`: the names of level and schema."""
        self._waiting.add(flow)

    def left(self, flow: Labels) -> None:
        """It waits no longer, however that came."""
        self._waiting.add(flow, -1)

    def began(self, flow: Labels, waited: float) -> None:
        """It has its turn, after so many seconds."""
        self._dispatched.add(flow)
        self._executing.add(flow)
        self._waited.observe(waited, (*flow, "true"))

    def ended(self, flow: Labels) -> None:
        self._executing.add(flow, -1)

    def rejected(self, flow: Labels, reason: str, waited: float) -> None:
        """It is refused, after so many seconds."""
        self._rejected.add((*flow, reason))
        self._waited.observe(waited, (*flow, "false"))

    def _of_seats(self, name: str, text: str, which: Callable[[_Allotment], int]) -> Computed:
        def read() -> list[tuple[Labels, Reading]]:
            return [((level,), which(allotment)) for level, allotment in self._seats()]

        return Computed(GAUGE, name, text, _LEVEL, read)
