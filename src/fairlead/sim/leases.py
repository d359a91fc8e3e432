"""The leases of simulated nodes: a heartbeat every ten seconds, as a kubelet's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from fairlead.api.builtin import LEASES
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.verbs import Api
from fairlead.runtime.clock import micro_timestamp, monotonic

#: A lease of 40 s, renewed every 10 s.
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
#: How many leases are renewed together; and who is late catches up with so many.
RENEWING, MOST_RENEWING = 16, 256

log = logging.getLogger(__name__)


class Leases:
    """Renews the lease of every node that `names` says is there."""

    def __init__(self, as_node: Callable[[str], Api], names: Callable[[], Collection[str]]) -> None:
        self._as_node, self._names = as_node, names
        self._trouble = ""  # the last logged reason why leases cannot be renewed

    async def run(self) -> None:
        """Renew every lease once in ten seconds, several at a time: they share one commit."""
        while True:
            began, trouble, names, number = monotonic(), "", list(self._names()), 0
            rounds = max(len(names) // RENEWING, 1)
            while number < rounds:
                count = self._due(number, rounds, monotonic() - began)
                current = self._names()
                due = (name for first in range(number, number + count) for name in names[first::rounds])
                results = await asyncio.gather(*(self._renewed(name) for name in due if name in current))
                trouble = max([trouble, *results])
                number += count
                await asyncio.sleep(max(began + RENEW_SECONDS * number / rounds - monotonic(), 0.0))
            self._log_trouble(trouble)

    @staticmethod
    def _due(number: int, rounds: int, elapsed: float) -> int:
        """How many rounds are to be made up for in one: where writes take long, each by itself would come too late."""
        late = int(elapsed / RENEW_SECONDS * rounds) - number
        return min(max(late, 1), MOST_RENEWING // RENEWING, rounds - number)

    async def start(self, name: str) -> None:
        """Renew the lease of a node that has just come."""
        self._log_trouble(await self._renewed(name))

    async def _renewed(self, name: str) -> str:
        """Renew a lease, or create it; returns the error, if any. The next round tries again."""
        try:
            try:
                await self._as_node(name).patch(
                    LEASES, name, LEASE_NAMESPACE, {"spec": {"renewTime": micro_timestamp()}}
                )
            except NotFound:
                await self._create(name)
        except ApiError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _create(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_timestamp()}
        lease = {"metadata": {"name": name}, "spec": spec}
        await self._as_node(name).create(LEASES, lease, LEASE_NAMESPACE)

    def _log_trouble(self, trouble: str) -> None:
        """Log once when leases cannot be renewed, and once when they can again; not for every node in every round."""
        kind, known = trouble.partition(":")[0], self._trouble
        self._trouble = kind
        if kind and kind != known:
            log.warning("leases of nodes cannot be renewed, trying again: %s", trouble)
        elif known and not kind:
            log.warning("leases of nodes are renewed again")
