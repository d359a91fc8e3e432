"""Devices that are had by requesting an extended resource: the claim that stands for them, node by node (KEP-5004).

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (1.36). On a node that has the
resource itself, from a device plugin, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fairlead.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    AskedDevices,
    ClaimedDevices,
    ClaimSpec,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.api.meta import ObjectMeta
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.requirements import DeviceAmount

#: How it is called before there is one.
_IN_MEMORY: Final = "<extended-resources>"


def claim_for(
    amounts: Sequence[DeviceAmount], node: Node, class_of: Callable[[str], str | None], pod: str = ""
) -> ResourceClaim | None:
    """What has to be claimed for a pod with that uid on the node; None if nothing has."""
    requests = []
    for amount in amounts:
        found = class_of(amount.resource)
        if found is not None and not parse(node.status.allocatable.get(amount.resource, "0")):
            asked = AskedDevices(device_class_name=found, allocation_mode="ExactCount", count=amount.count)
            requests.append(DeviceRequest(name=amount.request, exactly=asked))
    if not requests:
        return None
    meta = ObjectMeta(name=_IN_MEMORY, uid=f"{_IN_MEMORY} of {pod}")
    return ResourceClaim(metadata=meta, spec=ClaimSpec(devices=ClaimedDevices(requests=tuple(requests))))


def is_in_memory(claim: ResourceClaim) -> bool:
    """Whether it stands for one that is yet to be made."""
    return claim.metadata.name == _IN_MEMORY


def extended_owner(claim: ResourceClaim) -> str:
    """The uid of the pod for whose extended resources the claim was made; empty for all others."""
    owner = claim.metadata.controller
    is_one = claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true"
    return owner.uid if is_one and owner is not None else ""


def to_be_made(claim: ResourceClaim, pod: Pod) -> Obj:
    """The claim as it is created, of which the pod is the owner."""
    meta = pod.metadata
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.exactly.device_class_name,
                "allocationMode": request.exactly.allocation_mode,
                "count": request.exactly.count,
            },
        }
        for request in claim.spec.devices.requests or ()
        if request.exactly is not None
    ]
    return {
        "metadata": {
            "generateName": f"{meta.name}-extended-resources-",
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def status_of(claim: ResourceClaim, amounts: Sequence[DeviceAmount]) -> Obj:
    """`extendedResourceClaimStatus` of the pod: which request is for which resource of which container."""
    made = {request.name for request in claim.spec.devices.requests or ()}
    mappings = [
        {"containerName": amount.container, "resourceName": amount.resource, "requestName": amount.request}
        for amount in amounts
        if amount.request in made
    ]
    return {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
