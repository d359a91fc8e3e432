"""Evictions, and what is said of them."""

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
from fairlead.arbitrator.publishing import Notice
from fairlead.runtime import clock

#: Events are short: 1,024 characters.
_NAMED: Final = 5


class Result(Enum):
    EVICTED = auto()
    GONE = auto()  # before it was asked for
    REFUSED = auto()  # by a disruption budget, or otherwise


async def evict(api: Api, pod: Pod) -> Result:
    """Ask the Eviction API (S2-39), which asks the budgets; of that pod alone, should another have taken its name.

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
        return Result.GONE
    except (TooManyRequests, ApiError):
        return Result.REFUSED
    return Result.EVICTED


def about(obj: Allocation | Pod) -> Reference:
    """What an event is about."""
    return reference(obj, ALLOCATIONS if isinstance(obj, Allocation) else builtin.PODS)


def warning(notice: Notice) -> str:
    """What the owner of a namespace is told before anything happens."""
    victims, until = _some([pod.metadata.name for pod in notice.victims]), clock.timestamp(notice.deadline)
    return f"uses more than it deserves: {victims} will be evicted at {until} for {_some(notice.beneficiaries)}"


def explanation(beneficiary: str) -> str:
    """What is said of a pod that was evicted."""
    return f"evicted for {beneficiary}: the namespace used more than it deserves"


def _some(names: Sequence[str]) -> str:
    """As many as people read; the Allocation has them all."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
