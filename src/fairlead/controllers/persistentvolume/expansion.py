"""Who asks for a larger volume is told that somebody else makes it larger: the external-resizer of its driver.

Source: pkg/controller/volume/expand/expand_controller.go (1.36), of which nothing else is left for volumes of CSI
drivers, and for those that nobody can expand. Volumes of kinds that came before CSI are left alone.
"""

from __future__ import annotations

from fairlead.api.claims import PersistentVolumeClaim
from fairlead.controllers.actions import Actions, Emit
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CLAIMS, VOLUMES


class ClaimExpander(Controller[PersistentVolumeClaim]):
    """Tells of claims that ask for more than they have."""

    name = "volume_expand"
    account = "expand-controller"
    kind = CLAIMS
    watches = (Watch(VOLUMES),)

    def concerns(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None, world: World) -> bool:
        return old is not None and new is not None and new.requested > old.requested

    def reconcile(self, obj: PersistentVolumeClaim, world: World) -> Actions:
        volume = world.get(VOLUMES, obj.spec.volume_name)
        if volume is None or obj.status.phase != "Bound" or obj.requested <= obj.capacity:
            return
        spec = volume.spec
        is_of_claim = spec.claim_ref is not None and spec.claim_ref.uid == obj.metadata.uid
        if is_of_claim and (spec.csi or spec.host_path or spec.local or spec.nfs):
            yield Emit("ExternalExpanding", "waiting for an external controller to expand this PVC")
