"""For controllers of a namespace's owner: its share, and the pods to be evicted, in time to free something else
instead.

    async for notice in notices(api, "batch"):
        await make_room(notice.too_much)      # before notice.deadline, and nobody is evicted (S2-36, S2-38)

It needs no more than to get, list and watch the Allocations of that namespace. `examples/tenant` uses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.quantity import Quantity, parse
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.arbitrator.objects import ALLOCATIONS, THE_NAME, Allocation, Victim
from fairlead.runtime import clock

_AGAIN_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class Notice(msgspec.Struct, frozen=True):
    """An eviction notice: the namespace uses more than it deserves while pods of others wait.

    `publishing.EvictionNotice` is the same on the arbitrator's side.
    """

    #: Seconds since the epoch; then the victims are evicted.
    deadline: float
    #: What the namespace uses beyond what it deserves, by quota name (`requests.cpu`).
    too_much: Mapping[str, Quantity]
    #: The pods to be evicted, unless enough is freed otherwise.
    victims: tuple[Victim, ...]
    #: The pods, `namespace/name`, that could start then.
    beneficiaries: tuple[str, ...]


async def allocations(api: Api, namespace: str) -> AsyncIterator[Allocation]:
    """The namespace's Allocation, now and whenever it changes; for ever."""
    while True:
        try:
            query = WatchQuery(fields=f"metadata.name={THE_NAME}")
            async for event in api.watch(ALLOCATIONS, namespace, query):
                if event.type in (EventType.ADDED, EventType.MODIFIED):
                    yield event.object.view(Allocation)
        except (ApiError, OSError) as error:
            log.warning("cannot watch the Allocation of %s: %s; trying again", namespace, error)
        await asyncio.sleep(_AGAIN_SECONDS)


async def notices(api: Api, namespace: str) -> AsyncIterator[Notice]:
    """Every notice, again when its victims change; for ever."""
    published = None
    async for allocation in allocations(api, namespace):
        status = allocation.status
        proposal, before = status.proposal, published
        published = proposal
        if proposal is None or proposal == before:
            continue
        yield Notice(
            clock.parse_timestamp(proposal.deadline),
            _beyond(status.used, status.deserved),
            proposal.victims,
            proposal.beneficiaries,
        )


def _beyond(used: Mapping[str, str], deserved: Mapping[str, str]) -> dict[str, Quantity]:
    found = {name: parse(amount) - parse(deserved.get(name, "0")) for name, amount in used.items()}
    return {name: amount for name, amount in found.items() if amount > parse("0")}
