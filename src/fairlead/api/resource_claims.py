"""ResourceClaims as those see them who carry them out, and which of them are a pod's.

Source: k8s.io/dynamic-resource-allocation/resourceclaim (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.devices import ClaimConsumer
from fairlead.api.meta import Object, View
from fairlead.api.pods import ABSENT, Pod
from fairlead.api.taints import TimedTaint, TimedToleration

#: The entry of `spec.resourceClaims` of its pod for which a claim was made.
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"


class PodClaim(View):
    """An entry of `spec.resourceClaims` of a pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _MadeClaim(View):
    name: str = ""
    resource_claim_name: str | None = None


class _ExtendedClaim(View):
    resource_claim_name: str = ""


class NotMadeYet(Exception):
    """The claim of a template: the controller has not made it so far."""


_claims = msgspec.json.Decoder(tuple[PodClaim, ...]).decode
_made = msgspec.json.Decoder(tuple[_MadeClaim, ...]).decode
_extended = msgspec.json.Decoder(_ExtendedClaim).decode


def pod_claims(pod: Pod) -> tuple[PodClaim, ...]:
    return _claims(pod.spec.raw_resource_claims) if pod.spec.raw_resource_claims else ()


class PodClaimNames:
    """How the claims of a pod are called; they are looked up one by one, and may be many."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod.metadata.key
        raw = pod.status.raw_resource_claim_statuses
        self._made = {entry.name: entry.resource_claim_name for entry in _made(raw)} if raw else {}

    def of(self, claim: PodClaim) -> str | None:
        """None for one that is not needed; `NotMadeYet` for one that is to come."""
        if claim.resource_claim_name is not None:
            return claim.resource_claim_name
        if claim.name not in self._made:
            raise NotMadeYet(f'pod "{self._pod}": ResourceClaim not created yet')
        return self._made[claim.name]


def claim_keys(pod: Pod) -> Iterator[str]:
    """`namespace/name` of each claim of a pod that is known by name, but for the one of its extended resources."""
    if not pod.spec.raw_resource_claims:
        return
    names = PodClaimNames(pod)
    for claim in pod_claims(pod):
        try:
            name = names.of(claim)
        except NotMadeYet:
            continue
        if name:
            yield f"{pod.metadata.namespace}/{name}"


def extended_claim_name(pod: Pod) -> str:
    """The claim that the scheduler has made for the extended resources of a pod; "" if there is none."""
    raw = pod.status.raw_extended_resource_claim_status
    return _extended(raw).resource_claim_name if raw else ""


def all_claim_keys(pod: Pod) -> Iterator[str]:
    """The same with the claim of its extended resources."""
    yield from claim_keys(pod)
    if name := extended_claim_name(pod):
        yield f"{pod.metadata.namespace}/{name}"


class AllocatedDevice(View):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    tolerations: tuple[TimedToleration, ...] | None = None


class AllocatedDevices(View):
    results: tuple[AllocatedDevice, ...] | None = None


class Allocation(View):
    devices: AllocatedDevices = AllocatedDevices()

    @property
    def results(self) -> tuple[AllocatedDevice, ...]:
        return self.devices.results or ()


class _ExactRequest(View):
    admin_access: bool | None = None


class _Request(View):
    exactly: _ExactRequest | None = None


class _Requests(View):
    requests: tuple[_Request, ...] | None = None


class _ClaimSpec(View):
    devices: _Requests = _Requests()


class ClaimStatus(View):
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] | None = None


class ResourceClaim(Object):
    spec: _ClaimSpec = _ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def consumers(self) -> tuple[ClaimConsumer, ...]:
        return self.status.reserved_for or ()

    @property
    def wants_admin_access(self) -> bool:
        """Alternatives never do."""
        requests = self.spec.devices.requests or ()
        return any(request.exactly is not None and request.exactly.admin_access for request in requests)

    def is_reserved_for(self, pod: Pod) -> bool:
        return any(consumer.uid == pod.metadata.uid for consumer in self.consumers)


class ClaimTemplate(Object):
    spec: msgspec.Raw = ABSENT


def foreign_owner(pod: Pod, claim: ResourceClaim) -> str:
    """What is wrong with a claim that was made for somebody else than the pod, "" if it is the pod's."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return f"ResourceClaim {claim.metadata.key} was not created for Pod {pod.metadata.key} (Pod is not owner)"


class _Device(View):
    name: str = ""
    taints: tuple[TimedTaint, ...] | None = None


class _Pool(View):
    name: str = ""
    generation: int = 0


class _SliceSpec(View):
    driver: str = ""
    node_name: str | None = None
    pool: _Pool = _Pool()
    devices: tuple[_Device, ...] | None = None


class ResourceSlice(Object):
    spec: _SliceSpec = _SliceSpec()
