"""Devices that are shared by claims (dynamic resource allocation): who offers them, who asks, and who has which.

Source: k8s.io/api/resource/v1/types.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.node_affinity import NodeSelector
from fairlead.api.taints import TimedTaint, TimedToleration

#: Keeps a claim that has devices until they are given back.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: On the claim that stands for the extended resources of a pod.
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
#: `deviceclass.resource.kubernetes.io/NAME` asks for devices of a class as if they were an extended resource.
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: Later ones may have lists (DRAListTypeAttributes).
ATTRIBUTE_TYPES: Final = frozenset({"int", "bool", "string", "version"})

ALL: Final = "All"
MOST_ALTERNATIVES: Final = 8
MOST_RESULTS: Final = 32
MOST_CONSUMERS: Final = 256

#: Driver, pool and device.
DeviceId: TypeAlias = tuple[str, str, str]
#: Driver and pool.
PoolId: TypeAlias = tuple[str, str]


# --- what is offered ------------------------------------------------------------------------------------------------


class PoolReference(View):
    """Of several generations of a pool the newest counts, once all of its slices are there."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class CapacityRange(View):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class CapacityPolicy(View):
    """How much of a capacity one share of a device takes."""

    default: str | None = None
    valid_values: tuple[str, ...] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(View):
    value: str = "0"
    request_policy: CapacityPolicy | None = None


class Counter(View):
    value: str = "0"


class CounterSet(View):
    """Counters that devices of one pool share: who takes a part of a device takes from them."""

    name: str = ""
    counters: dict[str, Counter] = {}


class ConsumedCounters(View):
    counter_set: str = ""
    counters: dict[str, Counter] = {}


def value_of(attribute: Mapping[str, Any]) -> tuple[str, Any] | None:
    """The type and the value of an attribute of a device; None where it has no type of Kubernetes 1.36."""
    return next((typed for typed in attribute.items() if typed[0] in ATTRIBUTE_TYPES), None)


class Device(View):
    name: str = ""
    #: Each has one of ATTRIBUTE_TYPES.
    attributes: dict[str, dict[str, Any]] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: tuple[ConsumedCounters, ...] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[TimedTaint, ...] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class SliceSpec(View):
    driver: str = ""
    pool: PoolReference = PoolReference()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(Object):
    spec: SliceSpec = SliceSpec()

    @property
    def pool_id(self) -> PoolId:
        return self.spec.driver, self.spec.pool.name


# --- what is asked for ----------------------------------------------------------------------------------------------


class CelSelector(View):
    expression: str = ""


class DeviceSelector(View):
    cel: CelSelector | None = None


class ClassConfiguration(View):
    opaque: dict[str, Any] | None = None


class ClassSpec(View):
    selectors: tuple[DeviceSelector, ...] | None = None
    config: tuple[ClassConfiguration, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object):
    spec: ClassSpec = ClassSpec()


class CapacityRequirements(View):
    requests: dict[str, str] | None = None


class AskedDevices(View):
    """How many devices of a class: all that there is of a request, or one of its alternatives, which has a name."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[TimedToleration, ...] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(View):
    name: str = ""
    exactly: AskedDevices | None = None
    first_available: tuple[AskedDevices, ...] | None = None


class DeviceConstraint(View):
    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimConfiguration(ClassConfiguration):
    requests: tuple[str, ...] | None = None


class ClaimedDevices(View):
    requests: tuple[DeviceRequest, ...] | None = None
    constraints: tuple[DeviceConstraint, ...] | None = None
    config: tuple[ClaimConfiguration, ...] | None = None


class ClaimSpec(View):
    devices: ClaimedDevices = ClaimedDevices()


# --- what was given -------------------------------------------------------------------------------------------------


class AllocatedDevice(View):
    """One device, or one share of it, for a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None
    tolerations: tuple[TimedToleration, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None

    @property
    def id(self) -> DeviceId:
        return self.driver, self.pool, self.device


class AllocatedDevices(View):
    results: tuple[AllocatedDevice, ...] | None = None


class Allocation(View):
    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    @property
    def results(self) -> tuple[AllocatedDevice, ...]:
        return self.devices.results or ()

    @property
    def devices_given(self) -> tuple[Any, ...]:
        """Which devices these are, for what and for which nodes."""
        return (self.node_selector, *((result.request, result.id, result.share_id) for result in self.results))


class ClaimConsumer(WrittenView):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        return not self.api_group and self.resource == "pods"


class DeviceStatus(View):
    """What a driver tells of a device that a claim has."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[Condition, ...] | None = None


class ClaimStatus(View):
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] | None = None
    devices: tuple[DeviceStatus, ...] | None = None


class ResourceClaim(Object):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def is_reserved_for(self, uid: str) -> bool:
        """Whether the pod with that uid may use the devices."""
        return any(consumer.uid == uid for consumer in self.consumers)

    @property
    def consumers(self) -> tuple[ClaimConsumer, ...]:
        return self.status.reserved_for or ()

    def foreign_owner(self, pod: str, uid: str) -> str:
        """What is wrong with a claim that was made for somebody else than the pod (`namespace/name`) with that uid."""
        owner = self.metadata.controller
        if owner is not None and owner.uid == uid:
            return ""
        return f"ResourceClaim {self.metadata.key} was not created for Pod {pod} (Pod is not owner)"

    @property
    def can_be_reserved(self) -> bool:
        return len(self.consumers) < MOST_CONSUMERS

    @property
    def wants_admin_access(self) -> bool:
        """Alternatives never do."""
        requests = self.spec.devices.requests or ()
        return any(request.exactly is not None and request.exactly.admin_access for request in requests)
