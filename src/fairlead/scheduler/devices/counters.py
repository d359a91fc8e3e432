"""Counters that the devices of a pool share: parts of one piece of hardware, not all of which can be given away.

Source: KEP-4815, `checkAvailableCounters` of structured/internal/incubating/allocator_incubating.go (1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TypeAlias

from fairlead.api.devices import Device, DeviceId, PoolId
from fairlead.api.quantity import parse
from fairlead.scheduler.devices.pools import Pool

#: Set and counter.
_Name: TypeAlias = tuple[str, str]


class Counters:
    """What is left of the counters of each pool, in billionths, beside the devices that are allocated."""

    def __init__(self, *allocated: Container[DeviceId]) -> None:
        """`allocated`: the devices that are given away, whole or in shares."""
        self._allocated = allocated
        self._left: dict[PoolId, Counter[_Name]] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Take what the device consumes, if there is enough of everything."""
        left, wanted = self._of(pool), _consumed(device)
        if any(left[name] < amount for name, amount in wanted.items()):
            return False
        left.subtract(wanted)
        return True

    def give_back(self, pool: Pool, device: Device) -> None:
        self._of(pool).update(_consumed(device))

    def _of(self, pool: Pool) -> Counter[_Name]:
        if (left := self._left.get(pool.id)) is None:
            left = self._left[pool.id] = Counter(
                {
                    (found.name, name): parse(counter.value).nanos
                    for found in pool.counter_sets.values()
                    for name, counter in found.counters.items()
                }
            )
            for id_, device in pool.consumers:
                if any(id_ in devices for devices in self._allocated):
                    left.subtract(_consumed(device))
        return left


def number_of_counters(device: Device) -> int:
    """From how many the device takes something."""
    return sum(len(found.counters) for found in device.consumes_counters or ())


def _consumed(device: Device) -> Counter[_Name]:
    return Counter(
        {
            (found.counter_set, name): parse(counter.value).nanos
            for found in device.consumes_counters or ()
            for name, counter in found.counters.items()
        }
    )
