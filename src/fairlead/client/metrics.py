"""What a client of an API server counts, by client-go's names (component-base `restclient`, `leaderelection`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead.runtime.metrics import GAUGE, Computed, Counter, Family, Histogram

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
#: The code of requests that nobody has answered.
_NO_ANSWER: Final = "<error>"


class RestClientMetrics:
    """The requests of one client."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._seconds = Histogram(
            "rest_client_request_duration_seconds", "[ALPHA] How long requests took.", _SECONDS, "verb", "host"
        )
        self._requests = Counter(
            "rest_client_requests_total", "[ALPHA] Requests, by the code of the answer.", "code", "method", "host"
        )
        self.families: tuple[Family, ...] = (self._seconds, self._requests)

    def asked(self, method: str, code: int | None, seconds: float) -> None:
        """A request was answered, or not at all."""
        self._seconds.observe(seconds, (method, self._host))
        self._requests.add((_NO_ANSWER if code is None else str(code), method, self._host))


def leader_family(name: str, is_leading: Callable[[], bool]) -> Family:
    """Whether this process leads, by the name of the lease."""
    return Computed(
        GAUGE,
        "leader_election_master_status",
        "[ALPHA] Whether this process holds the lease: 1 if it does.",
        ("name",),
        lambda: [((name,), float(is_leading()))],
    )
