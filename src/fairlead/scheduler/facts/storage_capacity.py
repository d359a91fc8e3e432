"""Where drivers have room for volumes that are yet to be made (KEP-1472)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.api.attachments import CSIDriver, CSIStorageCapacity
from fairlead.api.labels import LabelSelector
from fairlead.api.quantity import Quantity


class Room(NamedTuple):
    """On which nodes, and how big a volume may be there."""

    topology: LabelSelector
    limit: Quantity
    #: The labels that the topology consists of, and their values; none if there is more to it.
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @classmethod
    def of(cls, topology: LabelSelector, limit: Quantity) -> Room:
        labels = {} if topology.match_expressions else topology.match_labels
        return cls(topology, limit, tuple(labels), tuple(labels.values()))


class StorageCapacities:
    """What there is for each class, of the drivers that want it to be looked at."""

    def __init__(self) -> None:
        self._reporting = set[str]()
        self._of_class: dict[str, dict[str, Room]] = {}

    def set_driver(self, old: CSIDriver | None, new: CSIDriver | None) -> bool:
        """Whether nobody looks any more where it has room."""
        before = set(self._reporting)
        if old is not None:
            self._reporting.discard(old.metadata.name)
        if new is not None and new.spec.storage_capacity:
            self._reporting.add(new.metadata.name)
        return not before <= self._reporting

    def set_capacity(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> bool:
        """Whether there is more room than before, for anybody."""
        if old is not None and (of_class := self._of_class.get(old.storage_class_name)) is not None:
            of_class.pop(old.metadata.key, None)
            if not of_class:
                del self._of_class[old.storage_class_name]
        if new is None:
            return False
        limit, before = new.limit, old.limit if old is not None else None
        if new.node_topology is not None and limit is not None:
            room = Room.of(new.node_topology, limit)
            self._of_class.setdefault(new.storage_class_name, {})[new.metadata.key] = room
        return old is None or (limit is not None and (before is None or limit > before))

    def is_reported_by(self, driver: str) -> bool:
        """Whether the driver makes volumes only where it says that it has room."""
        return driver in self._reporting

    def of_class(self, name: str) -> Iterable[Room]:
        """Where there is how much room for volumes of the class."""
        return self._of_class.get(name, {}).values()
