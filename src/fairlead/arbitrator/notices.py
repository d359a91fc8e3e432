"""Who was told that pods must go, and until when nothing happens (S2-38)."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import Proposal
from fairlead.arbitrator.publishing import Notice
from fairlead.arbitrator.reclaim import Taking
from fairlead.runtime import clock


class Notices:
    """By namespace. A notice runs for as long as something is wanted of a namespace, whoever the victims are then."""

    def __init__(self) -> None:
        self._notices: dict[str, Notice] = {}
        self._known: dict[str, frozenset[str]] = {}  # uids that had been published before this cycle

    def get(self, namespace: str) -> Notice | None:
        return self._notices.get(namespace)

    def all(self) -> Iterable[Notice]:
        return self._notices.values()

    def give(self, namespace: str, taking: Taking, grace_seconds: float, earlier: Proposal | None) -> bool:
        """Tell whom is wanted now; whether the notice is a new one. `earlier` is what another arbitrator has told."""
        before = self._notices.get(namespace)
        if before is not None:
            deadline, published = before.deadline, frozenset(_uids(before.victims))
        elif earlier is not None and earlier.deadline:
            deadline = clock.parse_timestamp(earlier.deadline)
            published = frozenset(victim.uid for victim in earlier.victims)
        else:
            deadline, published = clock.now() + grace_seconds, frozenset()
        self._notices[namespace] = Notice(deadline, tuple(taking.victims), tuple(taking.beneficiaries))
        self._known[namespace] = published
        return before is None and earlier is None

    def withdraw(self, wanted: frozenset[str]) -> None:
        """Nothing is wanted of the others any more."""
        for namespace in [name for name in self._notices if name not in wanted]:
            del self._notices[namespace]
            self._known.pop(namespace, None)

    def due(self, now: float) -> list[tuple[str, Notice]]:
        """Those that have run out, with the victims that were told before: nobody goes unannounced."""
        found = []
        for namespace, notice in self._notices.items():
            told = self._known.get(namespace, frozenset())
            victims = tuple(pod for pod in notice.victims if pod.metadata.uid in told)
            if victims and now >= notice.deadline:
                found.append((namespace, Notice(notice.deadline, victims, notice.beneficiaries)))
        return found


def _uids(pods: Iterable[Pod]) -> list[str]:
    return [pod.metadata.uid for pod in pods]
