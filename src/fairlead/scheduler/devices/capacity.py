"""How much of a device that several claims may share each of them takes (KEP-5075).

Source: structured/internal/incubating/consumable_capacity.go of k8s.io/dynamic-resource-allocation (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fairlead.api.devices import AskedDevices, CapacityPolicy, Device, DeviceCapacity
from fairlead.api.quantity import MAX_INT64, Quantity, parse

#: By the names of capacities, as the device has them.
Amounts: TypeAlias = dict[str, Quantity]


def taken_by(asked: AskedDevices, device: Device, in_use: Mapping[str, Quantity]) -> Amounts | None:
    """What a share of the device would take for this request, if there is enough beside what is `in_use`.

    None if there is not, or the device has no such capacity, or allows no such amount. Of a device that is given away
    whole nothing is taken, but it must have as much as is asked for.
    """
    offered = device.capacity or {}
    wanted = {name: parse(text) for name, text in _requested(asked).items()}
    if any(name not in offered for name in wanted):
        return None
    taken: Amounts = {}
    for name, capacity in offered.items():
        amount = _rounded(wanted.get(name), capacity)
        used = in_use.get(name)
        total = amount if used is None else used + amount
        if _breaks(amount, capacity.request_policy) or total > parse(capacity.value):
            return None
        taken[name] = amount
    return taken if device.allow_multiple_allocations else {}


def _requested(asked: AskedDevices) -> Mapping[str, str]:
    return (asked.capacity.requests or {}) if asked.capacity is not None else {}


def _rounded(wanted: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    """As much as is asked for, rounded up to what the policy of the device allows; all of it where nothing is said."""
    policy = capacity.request_policy
    if wanted is None:
        return parse(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return wanted
    if (valid := policy.valid_range) is not None and valid.min is not None:
        return _on_step(wanted, parse(valid.min), None if valid.step is None else parse(valid.step))
    return next((value for value in map(parse, policy.valid_values or ()) if wanted <= value), wanted)


def _on_step(wanted: Quantity, least: Quantity, step: Quantity | None) -> Quantity:
    if wanted < least:
        return least
    if step is None:
        return wanted
    steps = -(-(wanted.units - least.units) // step.units)
    return Quantity.of_units(min(least.units + steps * step.units, MAX_INT64), step.format)


def _breaks(amount: Quantity, policy: CapacityPolicy | None) -> bool:
    """Whether the policy of the device does not allow that amount, even after rounding."""
    if policy is None or (policy.default is not None and parse(policy.default) == amount):
        return False
    if (valid := policy.valid_range) is not None:
        if valid.max is not None and amount > parse(valid.max):
            return True
        if valid.step is None or valid.min is None:
            return False
        return (amount.units - parse(valid.min).units) % parse(valid.step).units != 0
    values = policy.valid_values or ()
    return bool(values) and all(parse(value) != amount for value in values)
