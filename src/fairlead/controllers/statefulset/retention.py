"""Who a claim goes with: nobody, the stateful set, or the pod that was scaled away (KEP-1847).

The policy is written as owner references, and garbage collection does the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fairlead.api.meta import Object, OwnerReference
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.workloads import StatefulSet
from fairlead.controllers.actions import Action, Patch
from fairlead.controllers.base import World
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.kinds import CLAIMS, PODS, STATEFUL_SETS
from fairlead.controllers.statefulset.identity import claim_names, ordinals


def keep_claims(owner: StatefulSet, pod: Pod, ordinal: int, world: World) -> Generator[Action, Any, bool]:
    """Make the owner references of the pod's claims say what the policy wants; returns whether any did not."""
    is_mended = False
    policy = owner.spec.persistent_volume_claim_retention_policy
    is_condemned = ordinal not in ordinals(owner)
    goes_with_pod = policy.when_scaled == "Delete" and is_condemned
    goes_with_set = policy.when_deleted == "Delete" and not goes_with_pod
    for name in claim_names(owner, ordinal).values():
        claim = world.get(CLAIMS, f"{owner.metadata.namespace}/{name}")
        if claim is None:
            continue
        others = [reference for reference in claim.metadata.owner_references if reference.uid not in _uids(owner, pod)]
        wanted = [_encoded(reference) for reference in others]
        if goes_with_pod:
            wanted.append(controller_reference(PODS, pod))
        if goes_with_set:
            wanted.append(controller_reference(STATEFUL_SETS, owner))
        if {reference["uid"] for reference in wanted} != {
            reference.uid for reference in claim.metadata.owner_references
        }:
            yield Patch(CLAIMS, claim, {"metadata": {"ownerReferences": wanted}}, unchanged=True)
            is_mended = True
    return is_mended


def _uids(*objects: Object) -> set[str]:
    return {obj.metadata.uid for obj in objects}


def _encoded(owner: OwnerReference) -> Obj:
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    flags = {"controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion}
    return reference | {name: value for name, value in flags.items() if value is not None}
