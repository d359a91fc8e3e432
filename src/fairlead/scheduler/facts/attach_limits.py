"""How many volumes of which driver nodes can have, and which are attached to them: the facts of NodeVolumeLimits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fairlead.api.attachments import CSINode, VolumeAttachment

NO_LIMITS: Mapping[str, int] = {}


class AttachLimits:
    """As the drivers of the nodes say it, by the names of nodes."""

    def __init__(self) -> None:
        self._of_node: dict[str, Mapping[str, int]] = {}
        self._nodes_of: Counter[str] = Counter()
        self._attached: dict[str, dict[str, VolumeAttachment]] = {}

    def set_node(self, old: CSINode | None, new: CSINode | None) -> bool:
        """The drivers of a node came, changed or went. Whether that may make room for anybody."""
        either = new or old
        assert either is not None
        name = either.metadata.name
        before, after = self._of_node.pop(name, NO_LIMITS), new.limits if new is not None else NO_LIMITS
        if after:
            self._of_node[name] = after
        self._nodes_of.update(after.keys())
        self._nodes_of.subtract(before.keys())
        for driver in before:
            if not self._nodes_of[driver]:
                del self._nodes_of[driver]
        return any(driver not in after or after[driver] > most for driver, most in before.items())

    def set_attachment(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> bool:
        """A volume is to be attached to a node, or is not any more. Whether that makes room."""
        if old is not None:
            of_node = self._attached[old.spec.node_name]
            del of_node[old.metadata.name]
            if not of_node:
                del self._attached[old.spec.node_name]
        if new is not None:
            self._attached.setdefault(new.spec.node_name, {})[new.metadata.name] = new
        return new is None

    def is_limited(self, driver: str) -> bool:
        """Whether any node limits the volumes of that driver."""
        return driver in self._nodes_of

    def of_node(self, name: str) -> Mapping[str, int]:
        """How many volumes the node can have, by driver."""
        return self._of_node.get(name, NO_LIMITS)

    def of_volume(self, name: str) -> list[VolumeAttachment]:
        """Where the volume is attached, or about to be: a look at all, for who explains."""
        return [each for of_node in self._attached.values() for each in of_node.values() if each.volume_name == name]

    def attached(self, name: str) -> Iterable[VolumeAttachment]:
        """What is attached to the node, or about to be."""
        return self._attached.get(name, {}).values()
