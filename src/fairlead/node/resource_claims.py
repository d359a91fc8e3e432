"""What a kubelet wants of the ResourceClaims of a pod before it starts, and what it says when it is not so.

Source: pkg/kubelet/cm/dra/manager.go, pkg/kubelet/kuberuntime/kuberuntime_manager.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fairlead.api.devices import ResourceClaim
from fairlead.api.pods import Pod
from fairlead.api.resource_claims import NotMadeYet, PodClaimNames, extended_claim_name, pod_claims

FAILED: Final = "FailedPrepareDynamicResources"


class NeededClaim(NamedTuple):
    """A claim of a pod, by its own name; one of a template has to have been made for the pod."""

    name: str
    is_from_template: bool = False


def needed_claims(pod: Pod) -> list[NeededClaim]:
    """NotMadeYet where one is to come."""
    needed = []
    if pod.spec.raw_resource_claims:
        names = PodClaimNames(pod)
        for claim in pod_claims(pod):
            if name := names.of(claim):
                needed.append(NeededClaim(name, claim.is_from_template))
    if name := extended_claim_name(pod):
        needed.append(NeededClaim(name))
    return needed


def claims_problem(pod: Pod, found: Mapping[str, ResourceClaim]) -> str:
    """Why the pod cannot have its claims, of which these are there; nothing if it can."""
    try:
        needed = needed_claims(pod)
    except NotMadeYet as not_yet:
        return str(not_yet)
    return next((problem for one in needed if (problem := _problem(pod, one, found.get(one.name)))), "")


def _problem(pod: Pod, needed: NeededClaim, claim: ResourceClaim | None) -> str:
    name = needed.name
    if claim is None:
        return f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
    if needed.is_from_template and (problem := claim.foreign_owner(pod.metadata.key, pod.metadata.uid)):
        return problem
    if not claim.is_reserved_for(pod.metadata.uid):
        who = f"pod {pod.metadata.name} ({pod.metadata.uid})"
        return f"{who} is not allowed to use ResourceClaim {name} ({claim.metadata.uid})"
    return "" if claim.status.allocation is not None else f"ResourceClaim {name}: not allocated"


def told(problem: str) -> str:
    """The message of the event."""
    return f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
