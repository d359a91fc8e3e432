"""What the devices of a claim must have in common, or must not: `matchAttribute` and `distinctAttribute`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fairlead.api.devices import Device, DeviceConstraint, value_of


class AttributeConstraint:
    """Counts the values of one attribute among the devices that are chosen so far."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._requests = frozenset(constraint.requests or ())
        self._is_distinct = constraint.match_attribute is None
        self._attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        self._values: Counter[tuple[str, Any]] = Counter()

    def add(self, names: Sequence[str], driver: str, device: Device) -> bool:
        """Count a device in, if it may be; `names` are those of its request."""
        if not self._is_about(names):
            return True
        value = attribute_of(self._attribute, driver, device)
        if value is None:
            return False
        if value in self._values if self._is_distinct else (self._values and value not in self._values):
            return False
        self._values[value] += 1
        return True

    def remove(self, names: Sequence[str], driver: str, device: Device) -> None:
        """Take back what was added."""
        if self._is_about(names) and (value := attribute_of(self._attribute, driver, device)) is not None:
            self._values[value] -= 1
            if not self._values[value]:
                del self._values[value]

    def _is_about(self, names: Sequence[str]) -> bool:
        return not self._requests or any(name in self._requests for name in names)


def attribute_of(name: str, driver: str, device: Device) -> tuple[str, Any] | None:
    """The type and the value of an attribute with its domain, which the driver may have left out if it is its own."""
    attributes = device.attributes or {}
    domain, _, own = name.partition("/")
    found = attributes.get(name) or (attributes.get(own) if domain == driver else None)
    return value_of(found) if found else None
