"""The claims of the cluster and the volumes behind them: the facts behind VolumeBinding."""

from __future__ import annotations

from typing import TypeVar

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.meta import Object

T = TypeVar("T", bound=Object)


class Volumes:
    """Claims by `namespace/name`, volumes and classes by name."""

    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}

    def waits_for_first_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Its volume is chosen after the node, not before."""
        found = self.classes.get(claim.spec.storage_class_name or "")
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"


def replace(objects: dict[str, T], old: T | None, new: T | None) -> None:
    """Something came, changed or went."""
    if old is not None:
        objects.pop(old.metadata.key, None)
    if new is not None:
        objects[new.metadata.key] = new
