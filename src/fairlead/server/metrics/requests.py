"""Requests on their way and answered. Source: apiserver `endpoints/metrics/metrics.go`.

As upstream, a request counts once it is known what it asks for: nobody makes a series with a path or verb of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from fairlead.runtime.clock import stopwatch
from fairlead.runtime.metrics import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MOST_SERIES,
    Computed,
    Counter,
    Counts,
    Distribution,
    Family,
    Labels,
)

_SLI_SECONDS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
_SECONDS: Final = (0.005, 0.025, *_SLI_SECONDS)
_SIZES: Final = tuple(1000.0 * 10**power for power in range(7))
_LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope", "component")

READ_ONLY: Final = "readOnly"
MUTATING: Final = "mutating"

COMPONENT: Final = "apiserver"
WATCH: Final = "WATCH"
CONNECT: Final = "CONNECT"
_READING: Final = frozenset({"GET", "LIST"})
#: Whose requests go on for as long as the client likes.
_LONG_RUNNING: Final = frozenset({WATCH, CONNECT})
#: For how many seconds the request of this task has waited for others, each time.
_WAITS: Final[ContextVar[list[float]]] = ContextVar("waits")


def note_waits(waits: list[float]) -> None:
    """Note in this list for how long the request of the current task waits for others."""
    _WAITS.set(waits)


@contextmanager
def waiting() -> Iterator[None]:
    """The block waits for somebody who is no part of the server."""
    began = stopwatch()
    try:
        yield
    finally:
        if (waits := _WAITS.get(None)) is not None:
            waits.append(stopwatch() - began)


class Asked(NamedTuple):
    """What requests of one kind ask for. Values are of what is served, never of a client's making."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    component: str = COMPONENT
    dry_run: str = ""

    @property
    def labels(self) -> Labels:
        return self[:-1]


_OTHER: Final = Asked("other")


class Endpoint:
    """The requests of one kind."""

    __slots__ = ("asked", "codes", "crowd", "durations", "running", "sizes", "sli")

    def __init__(self, asked: Asked, crowd: Crowd | None) -> None:
        self.asked, self.crowd = asked, crowd
        self.codes: dict[int, int] = {}
        self.durations, self.sli = Distribution(_SECONDS), Distribution(_SLI_SECONDS)
        self.sizes = Distribution(_SIZES) if asked.verb in _READING else None
        #: Those under way, of requests that take long.
        self.running = 0

    @property
    def is_measured(self) -> bool:
        """Whether any was carried out."""
        return any(self.durations.counts)


class Crowd:
    """How many requests are under way, and how many were at most in about a second."""

    __slots__ = ("_before", "_most", "_until", "present")

    def __init__(self) -> None:
        self.present = self._most = self._before = 0
        self._until = 0.0

    def enter(self, at: float) -> None:
        if at >= self._until:
            self._turn(at)
        self.present += 1
        if self.present > self._most:
            self._most = self.present

    def _turn(self, at: float) -> None:
        """A second is over."""
        self._before = self._most if at < self._until + 1 else self.present
        self._most, self._until = self.present, at + 1

    def most(self, at: float) -> int:
        if at >= self._until:
            self._turn(at)
        return max(self._before, self._most)


class RequestMetrics:
    """The requests of all listeners of a server."""

    def __init__(self) -> None:
        self._endpoints: dict[tuple[str, ...], Endpoint] = {}
        self._crowds = {READ_ONLY: Crowd(), MUTATING: Crowd()}
        self.handshake_errors = Counter(
            "apiserver_tls_handshake_errors_total", "[ALPHA] Connections that ended in their TLS handshake."
        )
        self._terminations = Counter(
            "apiserver_request_terminations_total",
            "[ALPHA] Requests that the server would not carry out, to defend itself.",
            *_LABELS,
            "code",
        )
        self.families: tuple[Family, ...] = (*self._computed(), self.handshake_errors, self._terminations)

    def endpoint(self, fields: tuple[str, ...]) -> Endpoint:
        """The requests that ask for this, in the order of the fields of `Asked`, which is slow to make."""
        found = self._endpoints.get(fields)
        if found is None:
            asked = Asked(*fields)
            if len(self._endpoints) >= MOST_SERIES:
                asked = _OTHER
            crowd = None if asked.verb in _LONG_RUNNING else self._crowds[_kind_of(asked.verb)]
            found = self._endpoints.setdefault(asked, Endpoint(asked, crowd))
        return found

    def begin(self, endpoint: Endpoint, at: float) -> None:
        """A request came at this time of the stopwatch; `end` is to follow."""
        if endpoint.crowd is not None:
            endpoint.crowd.enter(at)
        else:
            endpoint.running += 1

    def end(self, endpoint: Endpoint, code: int, size: int, seconds: float, aside: float = 0.0) -> None:
        """It has been answered with so many bytes. For `aside` seconds it was not the server that it waited for."""
        self.abandon(endpoint)
        endpoint.codes[code] = endpoint.codes.get(code, 0) + 1
        endpoint.durations.observe(seconds)
        endpoint.sli.observe(seconds - aside)
        if endpoint.sizes is not None:
            endpoint.sizes.observe(size)

    def refuse(self, endpoint: Endpoint, code: int) -> None:
        """One was answered at once, without being looked at, for there is too much to do."""
        endpoint.codes[code] = endpoint.codes.get(code, 0) + 1
        self._terminations.add((*endpoint.asked.labels, str(code)))

    def abandon(self, endpoint: Endpoint) -> None:
        """It ends without an answer."""
        if endpoint.crowd is not None:
            endpoint.crowd.present -= 1
        else:
            endpoint.running -= 1

    def _computed(self) -> Iterator[Family]:
        yield Computed(
            COUNTER,
            "apiserver_request_total",
            "[STABLE] Requests that were answered.",
            (*_LABELS, "dry_run", "code"),
            lambda: [
                ((*each.asked, str(code)), count) for each in self._all() for code, count in each.codes.copy().items()
            ],
        )
        yield Computed(
            HISTOGRAM,
            "apiserver_request_duration_seconds",
            "[STABLE] How long requests took, from their arrival to the end of the answer.",
            (*_LABELS, "dry_run"),
            lambda: [(each.asked, each.durations.read()) for each in self._all() if each.is_measured],
            _SECONDS,
        )
        yield self._histogram(
            "apiserver_request_sli_duration_seconds",
            "[ALPHA] The same without the time that webhooks took and that was spent in queues, dry runs aside.",
            _SLI_SECONDS,
            lambda each: each.sli if each.is_measured and not each.asked.dry_run else None,
        )
        yield self._histogram(
            "apiserver_response_sizes",
            "[STABLE] How many bytes the answers to reading requests had.",
            _SIZES,
            lambda each: each.sizes if each.is_measured else None,
        )
        yield Computed(
            GAUGE,
            "apiserver_longrunning_requests",
            "[STABLE] Long-running requests under way.",
            _LABELS,
            lambda: [(each.asked.labels, each.running) for each in self._all() if each.crowd is None],
        )
        yield Computed(
            GAUGE,
            "apiserver_current_inflight_requests",
            "[STABLE] How many requests were carried out at once, at most, in the last second.",
            ("request_kind",),
            lambda: [((kind,), crowd.most(stopwatch())) for kind, crowd in self._crowds.items()],
        )

    def _histogram(
        self, name: str, text: str, bounds: tuple[float, ...], series: Callable[[Endpoint], Distribution | None]
    ) -> Family:
        def read() -> Iterable[tuple[Labels, Counts]]:
            found = ((each.asked.labels, series(each)) for each in self._all())
            return [(labels, distribution.read()) for labels, distribution in found if distribution is not None]

        return Computed(HISTOGRAM, name, text, _LABELS, read, bounds)

    def _all(self) -> list[Endpoint]:
        return list(self._endpoints.values())


def _kind_of(verb: str) -> str:
    return READ_ONLY if verb in _READING else MUTATING
