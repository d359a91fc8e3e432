"""Evicting a pod, and the texts of the events about it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError, Conflict, NotFound, TooManyRequests
from fairlead.api.objects import Obj
from fairlead.api.references import Reference, reference
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.arbitrator.publishing import EvictionNotice
from fairlead.runtime import clock

#: Events are short: 1,024 characters.
_NAMED: Final = 5


class EvictionResult(Enum):
    EVICTED = auto()
    GONE = auto()  # before it was asked for
    REFUSED = auto()  # by a disruption budget, or otherwise


async def evict(api: Api, pod: Pod) -> EvictionResult:
    """Ask the Eviction API (S2-39), which asks the budgets. The uid guards against a new pod of the same name.

    Raises OSError if the server cannot be reached.
    """
    meta = pod.metadata
    eviction: Obj = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
    try:
        await api.create(builtin.PODS, eviction, meta.namespace, name=meta.name, subresource="eviction")
    except (NotFound, Conflict):
        return EvictionResult.GONE
    except (TooManyRequests, ApiError):
        return EvictionResult.REFUSED
    return EvictionResult.EVICTED


def about(regarding: Allocation | Pod) -> Reference:
    """The object that an event is about."""
    return reference(regarding, ALLOCATIONS if isinstance(regarding, Allocation) else builtin.PODS)


def warning(notice: EvictionNotice) -> str:
    """The event text of a notice."""
    victims, until = _some([pod.metadata.name for pod in notice.victims]), clock.timestamp(notice.deadline)
    return f"uses more than it deserves: {victims} will be evicted at {until} for {_some(notice.beneficiaries)}"


def explanation(beneficiary: str) -> str:
    """The event text of an evicted pod."""
    return f"evicted for {beneficiary}: the namespace used more than it deserves"


def _some(names: Sequence[str]) -> str:
    """The first few; the Allocation lists them all."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
