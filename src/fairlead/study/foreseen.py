"""What is known of a study before it is played: a rule about nothing is refused before a run that takes long."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.builtin import NAMESPACES, PRIORITY_CLASSES
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.scheduling import SYSTEM_CLASSES
from fairlead.sim.costs import PRICE
from fairlead.study.changes.actions import Action, Apply, Patch, Set
from fairlead.study.changes.pools import NodePool
from fairlead.study.changes.settings import split


class Foreseen(msgspec.Struct, frozen=True):
    """What there may be; nothing else can come."""

    #: Those in which pods may be: nobody makes any where no object is, and none is applied.
    namespaces: frozenset[str]
    #: Those that pods may have.
    priorities: frozenset[int]
    #: Whether a node may have a price.
    has_prices: bool


def foresee(objects: Iterable[Obj], actions: Iterable[Action]) -> Foreseen:
    """`objects`: nodes, what the cluster contains at the start, and what arrives."""
    namespaces, priorities, has_prices = set[str](), {0, *SYSTEM_CLASSES.values()}, False
    actions = list(actions)
    applied = [manifest for action in actions if isinstance(action, Apply) for manifest in action.manifests]
    for obj in [*objects, *applied]:
        meta = metadata(obj)
        namespaces.add(str(meta.get("namespace") or "default"))
        if obj.get("kind") == NAMESPACES.kind:
            namespaces.add(str(meta.get("name")))
        priorities |= _priorities(obj)
        has_prices = has_prices or PRICE in (meta.get("annotations") or {})
    for action in actions:
        if isinstance(action, Set):
            priorities |= _set_priorities(action)
        has_prices = has_prices or isinstance(action, NodePool) or _may_price(action)
    return Foreseen(frozenset(namespaces), frozenset(priorities), has_prices)


def _priorities(obj: Obj) -> set[int]:
    """Of a class, and of a pod whose class is not in the dump."""
    if obj.get("kind") == PRIORITY_CLASSES.kind:
        found = obj.get("value")
    else:
        spec = obj.get("spec")
        found = spec.get("priority") if isinstance(spec, dict) else None
    return {found} if isinstance(found, int) else set()


def _set_priorities(action: Set) -> set[int]:
    """Of `priorityclass/NAME/value=100`."""
    what, value = split(action.value)
    try:
        return {int(value)} if what.endswith("/value") else set()
    except ValueError:
        return set()


def _may_price(action: Action) -> bool:
    """A patch or field that has to do with prices; `Apply` was looked at whole."""
    return (isinstance(action, Patch) and PRICE in str(action.patch)) or (
        isinstance(action, Set) and PRICE in action.value
    )
