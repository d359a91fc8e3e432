"""Which devices there are, and which nodes reach them: classes and slices, as they were published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, NamedTuple

from fairlead.api.devices import CLASS_RESOURCE_PREFIX, DeviceClass, PoolId, ResourceSlice
from fairlead.api.scheduling import Node
from fairlead.caches import LruCache
from fairlead.scheduler.columns import Journal
from fairlead.scheduler.devices.effort import Effort
from fairlead.scheduler.devices.pools import PER_PLACE, Offered, Pool, are_for_one, is_seen
from fairlead.scheduler.requirements import DeviceAmount

#: Nodes of which is kept what they see of a pool.
_REMEMBERED: Final = 10_000


class Stamp(NamedTuple):
    """What an answer about a node rests on: what all nodes may reach, and what that node alone can."""

    common: int
    own: int


class DeviceOffers:
    """Classes by name, slices by their pools."""

    def __init__(self) -> None:
        self.classes: dict[str, DeviceClass] = {}
        #: The class that stands for an extended resource; None until somebody asks after classes have changed.
        self._class_of: dict[str, str] | None = {}
        #: Pools that have changed, and the node whose slice it was.
        self._journal = Journal[tuple[PoolId, str]]()
        self._slices: dict[PoolId, dict[str, Offered]] = {}
        self._pools: dict[PoolId, _Views] = {}  # as far as anybody has asked
        #: How many slices of a pool are for one node alone, by the node; and for others.
        self._of_node: dict[str, Counter[PoolId]] = {}
        self._nodes_of: dict[PoolId, Counter[str]] = {}
        self._shared: Counter[PoolId] = Counter()
        #: Counts all changes, so that no stamp of a node comes again.
        self._changes = 0
        #: Counts what may concern any node.
        self.common_version = 0
        self._for_all: list[Pool] | None = None
        self._for_all_version = -1
        self._node_versions: dict[str, int] = {}  # of which slices are for a node alone
        self._pool_versions: dict[PoolId, int] = {}  # of the devices in it

    def set_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self.common_version = self._next_change()
        if old is not None:
            self.classes.pop(old.metadata.name, None)
        if new is not None:
            self.classes[new.metadata.name] = new
        self._class_of = None

    def class_of(self, resource: str) -> str | None:
        """The class of devices that can be had in place of an extended resource; the newest of several."""
        if self._class_of is None:
            self._class_of = {
                resource: found.metadata.name
                for found in sorted(self.classes.values(), key=_newest_last)
                for resource in _resources_of(found)
            }
        return self._class_of.get(resource)

    def replaces(self, amounts: Iterable[DeviceAmount]) -> bool:
        """Whether any of these may be had as devices."""
        return bool(self.classes) and any(self.class_of(amount.resource) is not None for amount in amounts)

    def set_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)

    def _add(self, slice_: ResourceSlice) -> None:
        id_ = slice_.pool_id
        self._slices.setdefault(id_, {})[slice_.metadata.name] = Offered(slice_)
        node = slice_.spec.node_name
        reached = self._of_node.setdefault(node, Counter()) if node else self._shared
        reached[id_] += 1
        if node:
            self._nodes_of.setdefault(id_, Counter())[node] += 1
        self._changed(id_, node)

    def _remove(self, slice_: ResourceSlice) -> None:
        id_, node = slice_.pool_id, slice_.spec.node_name
        self._changed(id_, node)
        del self._slices[id_][slice_.metadata.name]
        if not self._slices[id_]:
            del self._slices[id_], self._pool_versions[id_]
        reached = self._of_node[node] if node else self._shared
        reached[id_] -= 1
        if not reached[id_]:
            del reached[id_]
        if node:
            self._nodes_of[id_][node] -= 1
            if not self._nodes_of[id_][node]:
                del self._nodes_of[id_][node]
            if not self._nodes_of[id_]:
                del self._nodes_of[id_]
        if node and not reached:
            del self._of_node[node]
            del self._node_versions[node]

    def _changed(self, pool: PoolId, node: str | None) -> None:
        self._pools.pop(pool, None)
        self.touch(pool)
        if node:
            self._node_versions[node] = self._changes
            self._mark(pool, node)

    def _mark(self, pool: PoolId, node: str) -> None:
        self._journal.mark((pool, node))
        self._journal.trim(_REMEMBERED)

    @property
    def position(self) -> int:
        """Where the changes of devices of single nodes are."""
        return self._journal.position

    def changed_since(self, position: int) -> Set[str] | None:
        """The nodes for which there is, or was, something else since then; None if that is forgotten."""
        changes = self._journal.since(position)
        if changes is None:
            return None
        nodes = {node for _, node in changes if node}
        for pool in {pool for pool, _ in changes}:
            nodes |= self._nodes_of.get(pool, {}).keys()
        return nodes

    # --- what a node reaches ------------------------------------------------------------------------------------------

    @property
    def has_shared(self) -> bool:
        """Whether there are devices that more than one node may reach, by its labels perhaps."""
        return bool(self._shared)

    def has_own(self, node: str) -> bool:
        """Whether there are devices for that node alone."""
        return node in self._of_node

    def pools_of(self, node: Node, effort: Effort) -> list[Pool]:
        """The pools that have something for the node: first those whose devices need no preparation."""
        own = self._of_node.get(node.metadata.name)
        if own is None and (everywhere := self._pools_for_all()) is not None:
            effort.look_at(len(self._shared))
            return everywhere
        ids = self._shared.keys() if own is None else own.keys() | self._shared.keys()
        effort.look_at(len(ids))
        pools = (self._views(id_).of(node, effort) for id_ in ids)
        return _in_order(pool for pool in pools if pool is not None)

    def _pools_for_all(self) -> list[Pool] | None:
        """What every node reaches that has no devices of its own; None if that is not the same for all of them."""
        if self._for_all_version != self.common_version:
            pools = [self._views(id_).common for id_ in self._shared]
            known = [pool for pool in pools if pool is not None]
            self._for_all = _in_order(known) if len(known) == len(pools) else None
            self._for_all_version = self.common_version
        return self._for_all

    def _views(self, id_: PoolId) -> _Views:
        if (views := self._pools.get(id_)) is None:
            views = self._pools[id_] = _Views(id_, list(self._slices[id_].values()))
        return views

    def stamp(self, node: str) -> Stamp:
        """It moves when an answer about the devices of the node may become another."""
        pools = self._of_node.get(node, ())
        own = max((self._pool_versions[pool] for pool in pools), default=0)
        return Stamp(self.common_version, max(own, self._node_versions.get(node, 0)))

    def touch(self, pool: PoolId) -> None:
        """Something happened to a device of the pool: whoever reaches it has to be looked at again."""
        change = self._next_change()
        self._mark(pool, "")
        if pool in self._shared:
            self.common_version, self._for_all = change, None
        if pool in self._slices:
            self._pool_versions[pool] = change

    def _next_change(self) -> int:
        self._changes += 1
        return self._changes


class _Views:
    """A pool as nodes see it, as far as anybody has asked."""

    def __init__(self, id_: PoolId, every: list[Offered]) -> None:
        self._id, self._every = id_, every
        #: If it is the same for all who see it.
        self.common = Pool.of(id_, every, every) if are_for_one(every) else None
        self._pools: dict[tuple[int, ...], Pool | None] = {}  # by the slices that are seen
        self._of_node: LruCache[str, tuple[Mapping[str, str], Pool | None]] = LruCache(_REMEMBERED)

    def of(self, node: Node, effort: Effort) -> Pool | None:
        if self.common is not None:
            return self.common
        name, labels = node.metadata.name, node.metadata.labels
        known = self._of_node.get(name)
        if known is None or known[0] != labels:
            effort.look_at(PER_PLACE * len(self._every))
            seen = (number for number, offered in enumerate(self._every) if is_seen(offered.slice.spec, node))
            known = labels, self._pool(tuple(seen))
            self._of_node.put(name, known)
        return known[1]

    def _pool(self, seen: tuple[int, ...]) -> Pool | None:
        if seen not in self._pools:
            slices = [self._every[number] for number in seen]
            self._pools[seen] = Pool.of(self._id, slices, self._every) if slices else None
        return self._pools[seen]


def _in_order(pools: Iterable[Pool]) -> list[Pool]:
    """First those whose devices need no preparation."""
    return sorted(pools, key=lambda pool: (pool.has_conditions, pool.id))


def _resources_of(found: DeviceClass) -> Iterator[str]:
    yield f"{CLASS_RESOURCE_PREFIX}{found.metadata.name}"
    if found.spec.extended_resource_name:
        yield found.spec.extended_resource_name


def _newest_last(found: DeviceClass) -> tuple[str, list[int]]:
    """Of those made in one second the first by name counts, so it is the last here."""
    return found.metadata.creation_timestamp, [-ord(letter) for letter in found.metadata.name]
