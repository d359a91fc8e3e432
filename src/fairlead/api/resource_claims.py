"""Which claims of devices are a pod's.

Source: k8s.io/dynamic-resource-allocation/resourceclaim (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.meta import Object, View
from fairlead.api.pods import ABSENT, Pod

#: The entry of `spec.resourceClaims` of its pod for which a claim was made.
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"


class PodClaim(View):
    """An entry of `spec.resourceClaims` of a pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None

    @property
    def is_from_template(self) -> bool:
        """The claim is made for this pod, and no other may be taken for it."""
        return self.resource_claim_name is None


class MadeClaim(View):
    """An entry of `status.resourceClaimStatuses`; without a name no claim is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class _ExtendedClaim(View):
    resource_claim_name: str = ""


class NotMadeYet(Exception):
    """The claim of a template: the controller has not made it so far."""


_claims = msgspec.json.Decoder(tuple[PodClaim, ...]).decode
_made = msgspec.json.Decoder(tuple[MadeClaim, ...]).decode
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


def keyed_claims(pod: Pod) -> Iterator[tuple[PodClaim, str]]:
    """The claims of a pod that are known by name, each with its `namespace/name`; those of extended resources apart."""
    if not pod.spec.raw_resource_claims:
        return
    names = PodClaimNames(pod)
    for claim in pod_claims(pod):
        try:
            name = names.of(claim)
        except NotMadeYet:
            continue
        if name:
            yield claim, f"{pod.metadata.namespace}/{name}"


def claim_keys(pod: Pod) -> Iterator[str]:
    """`namespace/name` of each claim of a pod that is known by name, but for the one of its extended resources."""
    return (key for _, key in keyed_claims(pod))


def extended_claim_name(pod: Pod) -> str:
    """The claim that the scheduler has made for the extended resources of a pod; "" if there is none."""
    raw = pod.status.raw_extended_resource_claim_status
    return _extended(raw).resource_claim_name if raw else ""


def all_claim_keys(pod: Pod) -> Iterator[str]:
    """The same with the claim of its extended resources."""
    yield from claim_keys(pod)
    if name := extended_claim_name(pod):
        yield f"{pod.metadata.namespace}/{name}"


class ClaimTemplate(Object):
    spec: msgspec.Raw = ABSENT
