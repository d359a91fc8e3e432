"""What a claim wants its volume to begin with (`dataSourceRef`): another claim's, or what somebody else fills in.

Simulated volumes are empty; what can be seen is who waits for whom, and who is refused.
Source: getPVCSource of external-provisioner.
"""

from __future__ import annotations

from fairlead.api.attaching import belong_together
from fairlead.api.claims import PersistentVolumeClaim
from fairlead.controllers.base import World
from fairlead.controllers.kinds import CLAIMS, VOLUMES

_CLAIM = "PersistentVolumeClaim"
_SNAPSHOT = "VolumeSnapshot"


def is_filled_by_others(claim: PersistentVolumeClaim) -> bool:
    """Whether its volume is for a populator to make, a program that knows what it begins with."""
    source = claim.spec.data_source_ref
    return source is not None and source.kind not in (_CLAIM, _SNAPSHOT)


def clones_of(world: World, source: str) -> list[str]:
    """The claims without a volume that begin with the one of that `namespace/name`."""
    return [claim.metadata.key for claim in world.of(CLAIMS).index("clone of", _source_of)[source]]


def _source_of(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    source = claim.spec.data_source_ref
    if source is None or source.kind != _CLAIM or claim.spec.volume_name:
        return ()
    return (f"{source.namespace or claim.metadata.namespace}/{source.name}",)


def clone_problem(claim: PersistentVolumeClaim, driver: str, world: World) -> str:
    """Why a claim cannot begin with what another has, in the provisioner's words; empty if nothing is in the way."""
    source = claim.spec.data_source_ref
    if source is None or source.kind != _CLAIM:
        return ""
    if source.namespace and source.namespace != claim.metadata.namespace:
        return "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled"
    why = _problem(claim, source.name, driver, world)
    return why and f"error getting handle for DataSource Type {_CLAIM} by Name {source.name}: {why}"


def _problem(claim: PersistentVolumeClaim, name: str, driver: str, world: World) -> str:
    namespace = claim.metadata.namespace
    source = world.get(CLAIMS, f"{namespace}/{name}")
    if source is None:
        missing = f'persistentvolumeclaim "{name}" not found'
        return f'error getting PVC {name} (namespace "{namespace}") from api server: {missing}'
    if source.status.phase != "Bound":
        status = f"{{{source.status.phase} [] map[] [] map[] map[] <nil> <nil>}}"
        return f"the PVC DataSource {name} must have a status of Bound.  Got {status}"
    if source.metadata.is_terminating:
        return f"the PVC DataSource {name} is currently being deleted"
    if claim.requested < source.requested:
        sizes = f"requested {claim.requested.units} but source is {source.requested.units}"
        return "error, new PVC request must be greater than or equal in size to the specified PVC data source, " + sizes
    volume = world.get(VOLUMES, source.spec.volume_name)
    if (
        volume is None
        or volume.spec.csi is None
        or volume.spec.csi.driver != driver
        or not belong_together(source, volume)
    ):
        return "claim in dataSource not bound or invalid"
    modes = [each or "Filesystem" for each in (volume.spec.volume_mode, claim.spec.volume_mode)]
    if modes[0] != modes[1]:
        must = "the source PVC and destination PVCs must have the same volume mode for cloning."
        return f"{must}  Source is {modes[0]}, but new PVC requested {modes[1]}"
    return ""
