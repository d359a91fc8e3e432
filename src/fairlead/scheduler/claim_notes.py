"""What the claims of a pod wait for, in words, for `fairlead why`."""

from __future__ import annotations

from fairlead.api.attaching import may_be_on_several_nodes
from fairlead.api.binding import NO_PROVISIONER, is_kept_for
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.scheduler.facts.attach_limits import AttachLimits
from fairlead.scheduler.facts.volumes import Volumes
from fairlead.scheduler.requirements import PodRequirements


def claim_waits(requirements: PodRequirements, volumes: Volumes) -> list[str]:
    """A line for each claim of the pod that has no volume yet."""
    notes = []
    for pod_claim in requirements.claims:
        name, claim = pod_claim.name, volumes.claims.get(pod_claim.key)
        if claim is None:
            if not pod_claim.owner_key:
                notes.append(f'claim "{name}" does not exist: create it')
        elif not claim.is_bound and claim.status.phase != "Lost":
            notes.append(f'claim "{name}" {_wait(claim, volumes)}')
    return notes


def attachment_waits(
    node: str, requirements: PodRequirements, volumes: Volumes, attachments: AttachLimits
) -> list[str]:
    """A line for each volume of a pod that has that node and has not started, if its attachment holds that up."""
    notes = []
    for pod_claim in requirements.claims:
        claim = volumes.claims.get(pod_claim.key)
        volume = volumes.volumes.get(claim.spec.volume_name) if claim is not None else None
        if volume is not None and (why := _attachment(node, volume, attachments)):
            notes.append(f'claim "{pod_claim.name}": {why}')
    return notes


def _attachment(node: str, volume: PersistentVolume, attachments: AttachLimits) -> str:
    found = {each.spec.node_name: each for each in attachments.of_volume(volume.metadata.name)}
    here = found.pop(node, None)
    if here is not None and not here.status.attached:
        error = here.status.attach_error
        said = f", which says: {error.message}" if error is not None else ""
        return f"the attacher of {here.spec.attacher} has not attached its volume to {node} yet{said}"
    if here is None and found and not may_be_on_several_nodes(volume):
        return f"its volume is attached to {', '.join(sorted(found))}, and only one node may have it"
    return ""


def _wait(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    if claim.metadata.is_terminating:
        return "is being deleted"
    if claim.spec.volume_name:
        return _named(claim, volumes)
    if not claim.class_name:
        modes = ", ".join(claim.spec.access_modes or ())
        asked = f"{claim.requested} and {modes}"
        return f"names no storage class, and no class is the default: it waits for a free volume of {asked}"
    found = volumes.classes.get(claim.class_name)
    if found is None:
        return f'waits for the storage class "{claim.class_name}", which does not exist'
    return _provisioned(claim, found, volumes)


def _named(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    name = claim.spec.volume_name
    volume = volumes.volumes.get(name)
    if volume is None:
        return f'asks for the volume "{name}", which does not exist'
    if volume.claimant and not is_kept_for(volume, claim):
        return f'asks for the volume "{name}", which is kept for {volume.claimant}'
    return f'waits for the PersistentVolume controller to give it the volume "{name}"'


def _provisioned(claim: PersistentVolumeClaim, found: StorageClass, volumes: Volumes) -> str:
    of_class = f'of storage class "{found.metadata.name}"'
    node = volumes.selected_node(claim)
    if found.waits_for_first_consumer and not node:
        return f"gets its volume, {of_class}, once the pod has a node"
    if found.provisioner in ("", NO_PROVISIONER):
        return f"waits for somebody to make a volume {of_class}: nothing makes them by itself"
    near = f" for {node}" if node else ""
    return f'waits for "{found.provisioner}" to make its volume{near}, {of_class}'
