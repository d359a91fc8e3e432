"""Flows of UDP that the rules would lead elsewhere by now are forgotten, or they would go on to nobody.

Only the first packet of a flow meets the rules, and a client of UDP may keep its port for ever: a resolver, a game. The
kernel forgets a flow only when it was silent for a while. `conntrack` is a program of its own; without it that is said,
once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead.agent.network.commands import CommandFailed, run
from fairlead.agent.network.services.endpoints import Place, backends
from fairlead.agent.network.views import EndpointSlice, Service

log = logging.getLogger(__name__)


class Flow(NamedTuple):
    """Flows by one of their properties, in the words of `conntrack`."""

    option: str
    value: str


class Flows:
    """Who served datagrams of which service."""

    def __init__(self) -> None:
        self._served: dict[str, frozenset[str]] = {}
        self._can_forget = True

    def outdated(self, key: str, service: Service | None, slices: Sequence[EndpointSlice], place: Place) -> set[Flow]:
        """Those to endpoints that are gone; and those to a node port that nobody served, which ended at the node."""
        ports = [port for port in service.spec.ports if port.protocol == "UDP"] if service is not None else []
        found = [backends(slices, port.name, "UDP", place) for port in ports]
        current = frozenset(backend.address for part in found for backend in (*part.everywhere, *part.local))
        before = self._served.pop(key, frozenset())
        if current:
            self._served[key] = current
        flows = {Flow("--reply-src", address) for address in before - current}
        if current and not before:
            flows |= {Flow("--orig-port-dst", str(port.node_port)) for port in ports if port.node_port}
        return flows

    async def forget(self, flows: Iterable[Flow]) -> None:
        """Whoever sends on begins a new flow, which meets the rules as they are now."""
        for flow in sorted(flows):
            try:
                await run("conntrack", "-D", "-p", "udp", *flow)
            except CommandFailed as failure:
                if "0 flow entries" not in str(failure) and self._can_forget:
                    log.warning("clients of UDP may stay with endpoints that are gone: %s", failure)
                    self._can_forget = False
