"""What a node has, and what of it the scheduler may give to pods.

Allocatable is capacity without the reservations for daemons and without the hard eviction thresholds (S1-24). The
limit of all pods together leaves the thresholds in: pods may touch them, and are evicted then (S1-17).
Sources: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/cm/node_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead.api.podresources import HUGEPAGES, Amounts, is_hugepages, is_native
from fairlead.api.quantity import ZERO, Format, Quantity, parse
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.cpus.topology import Shape
from fairlead.node.eviction.signals import Signal
from fairlead.node.eviction.thresholds import Threshold
from fairlead.node.reservations import PID, Reservations

EPHEMERAL_STORAGE: Final = "ephemeral-storage"
#: The thresholds that the scheduler hears of; the others have no resource.
_RESERVED_BY: Final[Mapping[Signal, str]] = {Signal.MEMORY: "memory", Signal.NODEFS: EPHEMERAL_STORAGE}


class Machine(msgspec.Struct, frozen=True):
    cpus: int
    memory_bytes: int
    ephemeral_storage_bytes: int
    max_pid: int
    #: How many pages there are, by size: `2Mi`.
    huge_pages: Mapping[str, int] = msgspec.field(default_factory=dict)
    #: How its CPUs belong together, where nobody looks at the machine itself.
    shape: Shape = Shape()


def numa_memory(machine: Machine) -> Mapping[int, Mapping[str, int]]:
    """By NUMA node and type, in bytes: each has as much as the others."""
    sizes = {size: parse(size).units for size in machine.huge_pages}
    pages = {f"{HUGEPAGES}{_bytes(sizes[size])}": sizes[size] * count for size, count in machine.huge_pages.items()}
    whole, nodes = {"memory": machine.memory_bytes, **pages}, machine.shape.numa
    return {node: {name: amount // nodes for name, amount in whole.items()} for node in range(nodes)}


def capacity(machine: Machine, config: KubeletConfiguration) -> Amounts:
    """As the node's status shows it."""
    found = {
        "cpu": Quantity.of_units(machine.cpus),
        "memory": _bytes(machine.memory_bytes),
        "pods": Quantity.of_units(_most_pods(machine, config)),
    }
    if config.local_storage_capacity_isolation:
        found[EPHEMERAL_STORAGE] = _bytes(machine.ephemeral_storage_bytes)
    for size, count in machine.huge_pages.items():
        page = parse(size)
        found[f"{HUGEPAGES}{_bytes(page.units)}"] = _bytes(page.units * count)
    return found


def reserved(capacity: Amounts, reservations: Reservations, hard: Iterable[Threshold]) -> Amounts:
    """What pods do not get, by resource."""
    of_eviction = {
        _RESERVED_BY[threshold.signal]: threshold.value.of(capacity.get(_RESERVED_BY[threshold.signal], ZERO))
        for threshold in hard
        if threshold.is_hard and threshold.signal in _RESERVED_BY
    }
    parts = (reservations.system or {}, reservations.kube or {}, of_eviction)
    totals = {name: sum((part[name] for part in parts if name in part), ZERO) for name in capacity}
    return {name: total for name, total in totals.items() if total}


def allocatable(capacity: Amounts, reserved: Amounts) -> Amounts:
    """What is left, never below nothing; memory that is set aside as huge pages cannot be given away as memory."""
    left = {name: _not_negative(amount - reserved.get(name, ZERO)) for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if is_hugepages(name):
            left["memory"] = _not_negative(left["memory"] - amount)
    return left


def extended_changes(capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> dict[str, str | None]:
    """How allocatable amounts follow the capacity: extended resources that others put there may all be given away,
    those that they took out of it (None) no longer.
    """
    given = {name: amount for name, amount in capacity.items() if not is_native(name)}
    taken = dict.fromkeys(name for name in allocatable if not is_native(name) and name not in capacity)
    return taken | {name: amount for name, amount in given.items() if allocatable.get(name) != amount}


def over_reserved(capacity: Amounts, reserved: Amounts) -> str:
    """Which resources are promised away beyond what there is; empty if none is (S1-26)."""
    return " ".join(
        f'Resource "{name}" has a reservation of {amount} but capacity of {capacity[name]}. '
        "Expected capacity >= reservation."
        for name, amount in sorted(reserved.items())
        if amount > capacity[name]
    )


def all_pods(machine: Machine, config: KubeletConfiguration, reservations: Reservations, *, in_full: bool) -> Amounts:
    """What all pods may use together, processes included: all that there is, or that without the reservations."""
    everything = {**capacity(machine, config), PID: Quantity.of_units(machine.max_pid)}
    if in_full:
        return everything
    system, kube = reservations.system or {}, reservations.kube or {}
    return {
        name: _not_negative(amount - system.get(name, ZERO) - kube.get(name, ZERO))
        for name, amount in everything.items()
    }


def _most_pods(machine: Machine, config: KubeletConfiguration) -> int:
    per_core = machine.cpus * config.pods_per_core
    return min(per_core, config.max_pods) if per_core > 0 else config.max_pods


def _bytes(amount: int) -> Quantity:
    return Quantity.of_units(amount, Format.BINARY_SI)


def _not_negative(amount: Quantity) -> Quantity:
    return amount if amount.nanos > 0 else Quantity(0, amount.format)
