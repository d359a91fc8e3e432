"""Who came in, and who was let through. Source: apiserver `endpoints/filters/metrics.go`, `authorization/metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.runtime.metrics import COUNTER, Computed, Counter, Family, Histogram, Labels, exponential

_SECONDS: Final = exponential(0.001, 2, 15)
#: The names of users that are told apart; others may be anything.
_KNOWN_USERS: Final = frozenset(
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"]
)

SUCCESS: Final = "success"
FAILURE: Final = "failure"
ERROR: Final = "error"
ALLOWED: Final = "allowed"
DENIED: Final = "denied"
NO_OPINION: Final = "no-opinion"


class AccessMetrics:
    """Authentication and authorization of requests over HTTP; decisions of every authorizer, whoever asks."""

    def __init__(self) -> None:
        self._authentication = Histogram(
            "authentication_duration_seconds", "[ALPHA] How long authentication took, by result.", _SECONDS, "result"
        )
        self._authorization = Histogram(
            "authorization_duration_seconds", "[ALPHA] How long authorization took, by result.", _SECONDS, "result"
        )
        self._results = {result: self._authentication.of((result,)) for result in (SUCCESS, FAILURE, ERROR)}
        self._users = Counter("authenticated_user_requests", "[ALPHA] Authenticated requests, by user.", "username")
        self._decisions = Counter(
            "apiserver_authorization_decisions_total",
            "[ALPHA] Decisions that no other authorizer could change, by who made them.",
            "type",
            "name",
            "decision",
        )
        self.families: tuple[Family, ...] = (
            self._authentication,
            _counted("authentication_attempts", "[ALPHA] Authentications that were tried.", self._authentication),
            self._users,
            self._authorization,
            _counted("authorization_attempts_total", "[ALPHA] Authorizations, by result.", self._authorization),
            self._decisions,
        )

    def authenticated(self, username: str, seconds: float) -> None:
        """A client has shown who it is."""
        self._results[SUCCESS].observe(seconds)
        known = username if username in _KNOWN_USERS else "email_id" if "@" in username else "other"
        self._users.add((known,))

    def refused(self, seconds: float, *, has_credentials: bool) -> None:
        """A client has shown nothing, or something that will not do."""
        self._results[ERROR if has_credentials else FAILURE].observe(seconds)

    def authorized(self, result: str, seconds: float) -> None:
        self._authorization.of((result,)).observe(seconds)

    def decided(self, kind: str, decision: str) -> None:
        """An authorizer of this kind (`RBAC`) allowed or denied something."""
        self._decisions.add((kind, kind.lower(), decision))


def _counted(name: str, text: str, histogram: Histogram) -> Computed:
    """How many values a histogram has seen: the same as counting them beside it."""

    def read() -> Iterable[tuple[Labels, float]]:
        return [(labels, series.count) for labels, series in histogram.series.items() if series.count]

    return Computed(COUNTER, name, text, histogram.labels, read)
