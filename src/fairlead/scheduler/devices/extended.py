"""Devices that are had by requesting an extended resource: the claim that stands for them, node by node (KEP-5004).

Source: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go (1.36). On a node that has the
resource itself, from a device plugin, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
    for resource in sorted({amount.resource for amount in amounts}):
        found = class_of(resource)
        if found is not None and not parse(node.status.allocatable.get(resource, "0")):
            for name, count in _shared(resource, amounts).counts.items():
                asked = AskedDevices(device_class_name=found, allocation_mode="ExactCount", count=count)
                requests.append(DeviceRequest(name=name, exactly=asked))
    if not requests:
        return None
    requests.sort(key=lambda request: request.name)
    meta = ObjectMeta(name=_IN_MEMORY, uid=f"{_IN_MEMORY} of {pod}")
    return ResourceClaim(metadata=meta, spec=ClaimSpec(devices=ClaimedDevices(requests=tuple(requests))))


class _Shared(NamedTuple):
    """How the containers of a pod share the devices that stand for a resource."""

    #: By request, how many.
    counts: dict[str, int]
    #: By container, one after the other, a request of which it has devices.
    users: list[tuple[str, str]]


def _shared(resource: str, amounts: Sequence[DeviceAmount]) -> _Shared:
    """An init container that is over before others begin uses theirs; of what such ones need beyond that, the largest
    amount is claimed, once for all of them.
    """
    wanted = [amount for amount in amounts if amount.resource == resource]
    lasting = [amount for amount in wanted if not amount.is_passing]
    users = [(amount.container, amount.request) for amount in lasting]
    largest, most = "", 0
    beyond: list[int] = []
    for amount in (amount for amount in wanted if amount.is_passing):
        lacking = amount.count
        for later in lasting:
            if later.place >= amount.place and lacking > 0:
                users.append((amount.container, later.request))
                lacking -= later.count
        if lacking > 0:
            beyond.append(len(users))
            users.append((amount.container, ""))
            if lacking > most:
                largest, most = amount.request, lacking
    for index in beyond:
        users[index] = users[index][0], largest
    counts = {amount.request: amount.count for amount in lasting}
    return _Shared(counts | {largest: most} if largest else counts, users)


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
        {"containerName": container, "resourceName": resource, "requestName": request}
        for resource in sorted({amount.resource for amount in amounts if amount.request in made})
        for container, request in _shared(resource, amounts).users
    ]
    return {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
